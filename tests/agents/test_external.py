"""Programs of others as agents: whatever they do, a match ends by itself with a right result."""

import gc
import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest

from splendor_env import PRESETS, Game, SplendorError, standard
from splendor_env.agents import external, make_agent
from splendor_env.agents.external import MAX_FAILURES, MAX_FAILURES_IN_A_ROW, ExternalAgent
from splendor_env.core.batch import deal_games, determinize_games, step_games
from splendor_env.core.state import GAME
from splendor_env.envs.vector import SplendorEnv
from splendor_env.evaluation import play_match
from splendor_env.heuristics import choose_random_in

ENGINE = """\
import json, os, signal, sys, time
FOLDER = {folder!r}
open(os.path.join(FOLDER, "pids"), "a").write(str(os.getpid()) + "\\n")
log = open(os.path.join(FOLDER, "received." + str(os.getpid())), "wb", buffering=0)
def say(message):
    sys.stdout.write(json.dumps(message) + "\\n")
    sys.stdout.flush()
hello = {{"type": "hello", "protocol": 1, "name": "test"}}
number = 0
{start}
for line in sys.stdin:
    log.write(line.encode())
    message = json.loads(line)
    if message["type"] == "hello":
        say(hello)
    elif message["type"] == "position":
        number += 1
        answer = {{"type": "answer", "id": message["id"], "move": message["legal_moves"][0]}}
{asked}
        say(answer)
{end}
"""
"""Plays the first legal move, but for what a test adds."""

SHORT = standard(2, max_rounds=4)

pytestmark = pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")


@pytest.fixture
def engine(tmp_path):
    """Writes such an engine and makes the command that runs it, quickly and without our package."""

    def write(start="", asked="", end=""):
        parts = {
            "start": start,
            "asked": textwrap.indent(textwrap.dedent(asked), 8 * " "),
            "end": end,
        }
        script = tmp_path / "engine.py"
        script.write_text(ENGINE.format(folder=str(tmp_path), **parts))
        return [sys.executable, "-I", "-S", str(script)]

    return write


@pytest.fixture
def pids(tmp_path):
    """The processes of the engines that were started."""
    return lambda: [int(line) for line in (tmp_path / "pids").read_text().split()]


def is_gone(pid):
    """Not even a zombie."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def wait_until(condition, seconds=10):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


FAILURES = {
    "ends at the start": ("sys.exit(3)", "", r"ended with exit code 3"),
    "crashes at the start": ("raise OSError('no book')", "", r"exit code 1, .*OSError: no book"),
    "crashes when asked": ("", "raise RuntimeError('lost')", r"code 1, .*RuntimeError: lost"),
    "is killed": ("", "os.kill(os.getpid(), signal.SIGKILL)", r"exit code -9"),
    "sleeps": ("", "time.sleep(60)", r"nothing received within 0.5 s"),
    "sleeps at the start": ("time.sleep(60)", "", r"nothing received within 0.5 s"),
    "sleeps and ignores SIGTERM": (
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)",
        "time.sleep(60)",
        r"nothing received",
    ),
    "does not read on": ("say(hello); time.sleep(60)", "", r"nothing received within 0.5 s"),
    "floods without a line feed": ("", "while True: print(end='x' * 1000)", r"more than 65536 b"),
    "floods with lines": ("", "while True: print('{}')", r"no object with a `type`: b'{}"),
    "floods before the hello": ("while True: print(end='x' * 1000)", "", r"more than 65536 bytes"),
    "floods the errors and sleeps": (
        "",
        "while True: print(end='x' * 1000, file=sys.stderr)",
        r"nothing received",
    ),
    "sends no JSON": ("", "print('{oops')", r"not JSON: b'{oops"),
    "sends deep JSON": ("", "print('[' * 60_000)", r"not JSON: b'\[\[+\.\.\.$"),
    "sends a long integer": ("", "print('1' * 10_000)", r"not JSON: b'1+\.\.\.$"),
    "sends no object": ("", "print('[1]')", r"no object with a `type`: b'\[1\]"),
    "sends bytes": ("", r"os.write(1, b'\xff\x00\n')", r"not JSON: b'\\xff\\x00\\n'"),
    "sends half a line": ("", "os.write(1, b'{'); os._exit(0)", r"half a line: b'{'"),
    "sends half a line and sleeps": ("", "os.write(1, b'{'); time.sleep(60)", r"nothing received"),
    "says hello again": ("", "answer = hello", r"no answer with a `move`: b'{.*hello"),
    "speaks another version": ("hello['protocol'] = 2", "", r"protocol 2, this program speaks 1"),
    "speaks no version": ("hello['protocol'] = True", "", r"protocol True, this program speaks 1"),
    "has an odd name": (r"hello['name'] = '\x1b[2J'", "", r"`name` must be .* not '\\x1b\[2J'"),
    "answers before the hello": ("hello = {'type': 'answer', 'id': 1}", "", r"no hello: {'type"),
    "answers another question": ("", "answer['id'] += 1", r"answer without the `id` \d+: b'{"),
    "answers no question": ("", "del answer['id']", r"answer without the `id` \d+: b'{"),
    "answers true": ("", "answer['id'] = True", r"answer without the `id` \d+: b'{"),
    "flies": ("", "answer['move'] = 'fly'", r"cannot be read: 'fly'"),
    "answers a number": ("", "answer['move'] = 5", r"no answer with a `move`: b'{"),
    "gives an error": ("", "answer = {'type': 'error', 'message': 'no'}", r"its own error: 'no'"),
    "closes its output": ("", "os.close(1); time.sleep(60)", r"it has closed its output"),
}


@pytest.mark.parametrize("what", FAILURES)
def test_a_match_against_an_engine_that_fails_ends_by_itself(what, engine, pids):
    """Every game is forfeited, the record says why, and no process is left."""
    start, asked, reason = FAILURES[what]
    seconds = 0.5 if "nothing received" in reason else 20
    agent = ExternalAgent(
        engine(start, asked), name="bad", move_seconds=seconds, start_seconds=seconds
    )
    started = time.monotonic()
    result = play_match(agent, make_agent("random"), SHORT, 6)
    assert time.monotonic() - started < 30
    assert (result.games, result.failed, result.illegal, result.win_share) == (6, 6, 0, 0)
    assert (result.failed_against, result.illegal_against, result.truncated) == (0, 0, 0)
    assert result.first_illegal is None
    assert re.match(r"bad in game \d, seat [01], round 1: .*" + reason, result.first_failure)
    assert len(agent.failures) == 6
    assert max(map(len, agent.failures.values())) < 500
    again = r"not asked any more after 3 failures in a row, the last one: .*" + reason
    assert sum(re.match(again, failure) is not None for failure in agent.failures.values()) >= 3
    assert len(pids()) <= MAX_FAILURES_IN_A_ROW
    wait_until(lambda: all(map(is_gone, pids())))


def test_an_engine_that_crashes_now_and_then_loses_those_games_only(engine, pids, tmp_path):
    """It is started anew, and told again of games that go on."""
    agent = ExternalAgent(engine(asked="if number == 6: os._exit(1)"), name="bad")
    result = play_match(agent, make_agent("random"), SHORT, 6)
    agent.close()
    assert 0 < result.failed < 6
    assert result.failed + result.truncated == 6
    assert result.win_share == pytest.approx(result.truncated / 12)
    assert result.failed <= len(pids()) <= result.failed + 1
    assert all(map(is_gone, pids()))
    for pid in pids():
        received = (tmp_path / f"received.{pid}").read_text().splitlines()
        messages = [json.loads(line) for line in received]
        assert [message["type"] for message in messages[:3]] == ["hello", "rules", "new_game"]
        announced = set()
        for message in messages[2:]:
            if message["type"] == "new_game":
                announced.add(message["game"])
            elif message["type"] == "position":
                assert message["game"] in announced


def test_answers_that_nobody_has_asked_for_fail_at_the_next_question(engine, pids):
    agent = ExternalAgent(engine(asked="for _ in range(10**5): say(answer)"), name="bad")
    result = play_match(agent, make_agent("random"), SHORT, 6)
    assert result.failed == 6
    assert re.search(r": an answer without the `id` \d+: b'{", result.first_failure)
    assert all(map(is_gone, pids()[:-1]))


def test_failures_without_end_are_not_waited_for_one_by_one(engine, pids):
    agent = ExternalAgent(engine(asked="if number == 2: os._exit(1)"), name="bad")
    result = play_match(agent, make_agent("random"), SHORT, 2 * MAX_FAILURES)
    assert result.failed == 2 * MAX_FAILURES
    assert len(pids()) == MAX_FAILURES
    last = list(agent.failures.values())[-1]
    assert last.startswith(f"not asked any more after {MAX_FAILURES} failures, the last one: ")


def test_an_engine_that_dies_while_nobody_asks_it_is_noticed_at_the_next_question(engine, pids):
    agent = ExternalAgent(engine())
    game = Game(seed=1)
    answers = []
    for number in range(3):
        answers += agent.act(game.games, game.rules, np.array([number])).tolist()
        if number == 0:
            os.kill(pids()[0], signal.SIGKILL)
            time.sleep(0.2)  # the pipe breaks before the question, or the test shows less
    assert answers == [0, -1, 0]
    assert agent.failures == {1: "it has ended with exit code -9"}
    assert len(pids()) == 2


def test_an_interrupted_question_is_not_mixed_up_with_the_next(engine, pids, monkeypatch):
    def interrupt(seconds):
        raise KeyboardInterrupt

    agent = ExternalAgent(engine())
    game = Game(seed=1)
    assert agent.act(game.games, game.rules, np.array([0])).tolist() == [0]
    monkeypatch.setattr(agent._program, "receive", interrupt)
    with pytest.raises(KeyboardInterrupt):
        agent.act(game.games, game.rules, np.array([0]))
    assert is_gone(pids()[0])
    assert agent.act(game.games, game.rules, np.array([0])).tolist() == [0]
    assert agent.failures == {}


def test_lies_about_what_is_legal_are_illegal_and_no_failure(engine, pids):
    agent = ExternalAgent(engine(asked="answer['move'] = ' BUY  reserved 3 '"), name="liar")
    result = play_match(agent, make_agent("random"), SHORT, 6)
    assert (result.illegal, result.failed, result.win_share) == (6, 0, 0)
    assert result.first_failure is None
    said = r"liar in game 0, seat 0, round 1: illegal action \d+ \('buy reserved 3'\); legal: "
    assert re.match(said, result.first_illegal)
    assert len(pids()) == 1


def test_failures_of_an_opponent_leave_the_victory_to_the_others(engine):
    opponent = ExternalAgent(engine("sys.exit(1)"), name="bad")
    result = play_match(make_agent("random"), opponent, standard(3), 9)
    assert (result.failed, result.failed_against, result.illegal_against) == (0, 9, 0)
    assert result.win_share == pytest.approx(1 / 2)


def test_an_honest_engine_plays_the_match_of_the_same_agent_here(engine):
    """The first legal move of the list is the first of the mask; reading is tolerant."""

    class FirstLegal:
        name = "first"

        def act(self, games, rules, game_id):
            game = Game(rules)
            actions = []
            for i in range(len(games)):
                game.games[:] = games[i : i + 1]
                actions.append(game.legal_actions[0])
            return np.array(actions)

    untidy = "print(end=' '*1000, file=sys.stderr); answer['extra'] = [{}]"
    untidy += "; answer['move'] = answer['move'].upper().replace(' ', '  ')"
    rules = standard(3, max_rounds=12)
    agent = ExternalAgent(engine(asked=untidy))
    results = [play_match(one, make_agent("random"), rules, 9) for one in (agent, FirstLegal())]
    assert agent.engine_name == "test" and agent.failures == {}
    same = {"agent": "", "seconds": 0, "seconds_per_decision": 0, "seconds_per_decision_against": 0}
    ours, theirs = (vars(result) | same for result in results)
    assert ours == theirs


def test_games_are_announced_and_ended_once(engine, tmp_path, pids):
    agent = ExternalAgent(engine())
    play_match(agent, make_agent("random"), SHORT, 6)
    agent.close()
    [pid] = pids()
    received = (tmp_path / f"received.{pid}").read_text()
    kinds = re.findall(r'^{"type":"(\w+)"', received, re.MULTILINE)
    assert kinds[:4] == ["hello", "rules", "new_game", "position"]
    assert kinds[-1] == "goodbye"
    assert [kinds.count(kind) for kind in ("hello", "rules", "new_game", "end")] == [1, 1, 6, 6]
    assert received.count('"end_reason":"round_limit","rounds":4,') == 6
    assert {len(line) < 65_536 for line in received.splitlines()} == {True}


def test_what_is_sent_holds_no_secret(engine, tmp_path, pids):
    """The same bytes whatever is hidden from the seat to move; its own secrets are there."""
    sent = []
    for seed in (1, 2):
        agent = ExternalAgent(engine())
        hidden = []
        for preset, num_players in (("standard", 2), ("from_four_left", 3), ("rulebook_2014", 4)):
            rules = PRESETS[preset](num_players)
            games = np.zeros(12, GAME)
            deal_games(games, rules, np.uint64(7))
            actions = np.empty(len(games), np.int32)
            for ply in range(30):
                choose_random_in(games, rules, np.uint64(7), ply * len(games), actions)
                step_games(games, actions, rules, -1)
            mover = games["player"].copy()
            seeds = np.arange(len(games), dtype=np.uint64) + np.uint64(100 * seed)
            determinize_games(games, rules, mover, seeds)
            hidden.append(games)
            agent.act(games, rules, np.arange(len(games)))
        agent.close()
        own = hidden[0]["reserved"][np.arange(12), hidden[0]["player"]]
        assert (own >= 0).any()
        sent.append((hidden, (tmp_path / f"received.{pids()[-1]}").read_bytes()))
    (one, first), (other, second) = sent
    for games, others in zip(one, other, strict=True):
        assert (games["seed"] != others["seed"]).all()
        assert (games["reserved"] != others["reserved"]).any()
    assert first == second
    assert first.count(b'"type":"position"') == 36
    assert b"seed" not in first and b"deck" not in first.replace(b"reserve deck ", b"")


def test_an_engine_that_stays_after_the_goodbye_is_killed_with_its_children(engine, pids, tmp_path):
    child = "import subprocess; child = subprocess.Popen(['sleep', '600'], stdin=-3, stdout=-3)\n"
    child += "open(os.path.join(FOLDER, 'pids'), 'a').write(str(child.pid) + '\\n')\n"
    child += "signal.signal(signal.SIGTERM, signal.SIG_IGN)"
    agent = ExternalAgent(engine(child, end="time.sleep(600)"))
    play_match(agent, make_agent("random"), SHORT, 2)
    assert len(pids()) == 2 and not any(map(is_gone, pids()))
    started = time.monotonic()
    del agent
    gc.collect()
    assert time.monotonic() - started < 10
    assert is_gone(pids()[0])
    # The child is not ours: whoever adopts it reaps it.
    state = Path(f"/proc/{pids()[1]}/stat")
    wait_until(lambda: not state.exists() or state.read_text().split()[2] in "ZX")


@pytest.mark.parametrize("how", ["exit", "kill"])
def test_no_engine_outlives_the_program_that_asks_it(how, engine, pids):
    if how == "kill" and not external.shutil.which("setpriv"):
        pytest.skip("needs setpriv of util-linux")
    command = engine("signal.signal(signal.SIGTERM, signal.SIG_IGN)", end="time.sleep(600)")
    end = "sys.exit()" if how == "exit" else "os.kill(os.getpid(), 9)"
    code = (
        "import os, sys\n"
        "from splendor_env import Game\n"
        "from splendor_env.agents.external import ExternalAgent\n"
        f"agent = ExternalAgent({command!r})\n"
        "game = Game(seed=1)\n"
        "print(agent.act(game.games, game.rules, [0]), flush=True)\n"
        f"{end}\n"
    )
    root = str(Path(external.__file__).parents[2])
    process = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": root},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert process.stdout == "[0]\n", process.stderr
    assert process.returncode == (0 if how == "exit" else -signal.SIGKILL)
    wait_until(lambda: is_gone(pids()[0]))


def test_a_forked_process_has_an_engine_of_its_own(engine, pids):
    agent = ExternalAgent(engine())
    game = Game(seed=1)
    assert agent.act(game.games, game.rules, np.array([0])).tolist() == [0]
    child = os.fork()
    if not child:
        is_same = agent.act(game.games, game.rules, np.array([0])).tolist() == [0]
        agent.close()
        os._exit(0 if is_same else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert agent.act(game.games, game.rules, np.array([0])).tolist() == [0]
    first, second = pids()
    assert is_gone(second) and not is_gone(first)
    agent.close()
    assert is_gone(first)


def test_an_environment_says_why_its_opponent_has_no_move(engine):
    env = SplendorEnv(opponents=ExternalAgent(engine("sys.exit(4)"), name="bad"), seat=1)
    with pytest.raises(SplendorError, match=r"agent 'bad': it has ended with exit code 4"):
        env.reset(seed=1)


def test_the_spec_names_limits_and_command(engine):
    command = engine()
    spec = f"external:time=2.5 start=30 {external.shlex.join(command)}"
    agent = make_agent(spec)
    assert agent.name == spec
    game = Game(seed=1)
    assert agent.act(game.games, game.rules, np.array([0])).tolist() == [0]
    assert (agent._move_seconds, agent._start_seconds) == (2.5, 30)


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("", "there is no program to run"),
        ("time=2", "there is no program to run"),
        ("no/such/program", r"there is no program to run in \['no/such/program'\]"),
        ("python 'engine.py", "No closing quotation"),
        ("time=soon python", "options before the command are time=SECONDS .*not time=soon"),
        ("time=-1 python", "not time=-1"),
        ("time=0 python", "time must be above 0 and at most 3600 seconds, not 0.0"),
        ("start=9999 python", "start must be above 0 and at most 3600 seconds, not 9999.0"),
        ("threads=2 python", "not threads=2"),
    ],
)
def test_wrong_specs_are_refused(argument, message):
    with pytest.raises(SplendorError, match=message):
        make_agent(f"external:{argument}")


def test_a_program_that_cannot_be_run_is_a_failure(tmp_path):
    program = tmp_path / "program"
    program.write_bytes(b"\x7fELF nonsense")
    program.chmod(0o755)
    agent = ExternalAgent([str(program)], name="bad", start_seconds=5)
    result = play_match(agent, make_agent("random"), SHORT, 4)
    assert result.failed == 4
    assert re.search(r"it cannot be started: |it has ended with exit code", result.first_failure)
