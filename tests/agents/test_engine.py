"""Our agents behind the protocol: the moves they make anywhere, and errors told in lines."""

import io
import json
import os
import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from splendor_env import PRESETS, Game, standard
from splendor_env.agents import make_agent
from splendor_env.agents.engine import Engine
from splendor_env.agents.external import ExternalAgent
from splendor_env.agents.protocol import MAX_LINE, encode, rules_line
from splendor_env.evaluation import play_match

ROOT = Path(__file__).parents[2]
HELLO = encode("hello", protocol=1, name="arena")


def position_line(of, **changes):
    position = of.seen_by(of.player)
    del position["rules"]
    fields = {"id": 5, "game": 2, "position": position, "legal_moves": of.legal_moves}
    return encode("position", **fields | changes)


def talk(*lines, agent="greedy"):
    """What the engine answers to these lines."""
    sink = io.BytesIO()
    Engine(agent).serve(io.BytesIO(b"".join(lines)), sink)
    return [json.loads(line) for line in sink.getvalue().splitlines()]


@pytest.mark.parametrize("num_players", [2, 3])
def test_greedy_behind_the_protocol_plays_the_same_match(num_players, monkeypatch):
    """The command `splendor engine`, over real pipes."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    command = [sys.executable, "-m", "splendor_env.cli", "engine", "--agent", "greedy"]
    rules = PRESETS["rulebook_2014"](num_players)
    agent = ExternalAgent(command, move_seconds=60, start_seconds=300)
    same = {"agent": "", "seconds": 0, "seconds_per_decision": 0, "seconds_per_decision_against": 0}
    results = [
        replace(play_match(one, make_agent("random", 3), rules, 12, seed=4), **same)
        for one in (agent, make_agent("greedy"))
    ]
    agent.close()
    assert agent.engine_name == "greedy" and agent.failures == {}
    assert results[0] == results[1]
    assert results[0].win_share > 0.5


@pytest.mark.parametrize("preset", PRESETS)
def test_every_position_of_a_game_is_answered(preset):
    game = Game(preset, 3, seed=8)
    engine = Engine("greedy")
    greedy = make_agent("greedy")
    assert engine.answer(HELLO)[0]
    assert engine.answer(rules_line(game.rules)) == (b"", False)
    chooser = random.Random(8)
    while not game.is_over:
        answer = json.loads(engine.answer(position_line(game))[0])
        [action] = greedy.act(game.games, game.rules, None)
        assert answer == {"type": "answer", "id": 5, "move": game.legal_moves[0]} | {
            "move": game.legal_moves[game.legal_actions.index(action)]
        }
        game.push(chooser.choice(game.legal_moves))


def test_a_seed_gives_the_moves_of_the_agent_anywhere():
    game = Game(seed=3)
    lines = [HELLO, rules_line(game.rules), *[position_line(game)] * 5]
    moves = [answer["move"] for answer in talk(*lines, agent="random")[1:]]
    here = make_agent("random", 0)
    actions = [int(here.act(game.games, game.rules, None)[0]) for _ in range(5)]
    assert moves == [game.legal_moves[game.legal_actions.index(action)] for action in actions]


def test_what_is_hidden_is_imagined_anew_for_each_question(monkeypatch):
    shown, greedy = [], make_agent("greedy")

    class Spy:
        name = "spy"

        def act(self, games, rules, game_id):
            shown.append(games.copy())
            return greedy.act(games, rules, game_id)

    monkeypatch.setattr("splendor_env.agents.engine.make_agent", lambda spec, seed: Spy())
    game = Game(seed=3)
    game.push("reserve deck 1")
    talk(HELLO, rules_line(game.rules), *[position_line(game)] * 30)
    del shown[0]  # of the first move before the hello
    assert len(shown) == 30
    assert len({int(games["reserved"][0, 0, 0]) for games in shown}) > 10
    assert len({int(games["seed"][0]) for games in shown}) == 30
    assert int(game.games["seed"][0]) not in {int(games["seed"][0]) for games in shown}


GAME = Game(seed=3)
RULES = rules_line(GAME.rules)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([b"hello\n"], "a line that is not JSON: b'hello\\n'"),
        ([b"{}\n"], "no object with a `type`: b'{}\\n'"),
        ([b"[" * 50_000 + b"\n"], "not JSON"),
        ([b"x" * 3 * MAX_LINE + b"\n"], "a line of more than 65536 bytes: b'xxx"),
        ([encode("hello", protocol=2, name="a")], "protocol 2, this program speaks 1"),
        ([encode("hello", protocol=1, name="")], "`name` must be 1 to 80 characters, not ''"),
        ([position_line(GAME)], "a position before hello and rules"),
        ([HELLO, position_line(GAME)], "a position before hello and rules"),
        ([HELLO, encode("rules", rules={"num_players": 5})], "num_players must be 2, 3 or 4"),
        ([HELLO, encode("rules", rules={"luck": 5})], "unknown key 'luck'"),
        ([HELLO, encode("rules")], "rules"),
        (
            [HELLO, encode("rules", rules={}), encode("rules", rules=7), position_line(GAME)],
            "rules",
        ),
        ([HELLO, RULES, position_line(GAME, id="x")], "`id` must be an integer from 0, not 'x'"),
        ([HELLO, RULES, position_line(GAME, id=1.5)], "`id` must be an integer from 0, not 1.5"),
        ([HELLO, RULES, position_line(GAME, game=-1)], "`game` must be an integer from 0, not -1"),
        ([HELLO, RULES, position_line(GAME, game=2**63)], "`game` must be an integer from 0, not"),
        ([HELLO, RULES, position_line(GAME, position=[])], "`position` must be an object, not []"),
        ([HELLO, RULES, position_line(GAME, position={"moon": 1})], "unknown key 'moon'"),
        ([HELLO, RULES, position_line(GAME, position={"player": 2})], "player must be an integer"),
        ([HELLO, RULES, position_line(GAME, position={"seats": 1})], "seats must be a list"),
        ([HELLO, RULES, position_line(GAME, position={"market": {"1-1": []}})], "no card []"),
        ([HELLO, RULES, position_line(GAME, position={"end_reason": "target"})], "after the end"),
        ([HELLO, RULES, position_line(GAME, legal_moves=["pass"])], "not ['pass']"),
        ([HELLO, RULES, position_line(GAME, legal_moves=5)], "`legal_moves` must be ['take"),
        ([HELLO, RULES, position_line(GAME, legal_moves=[[], 1])], "`legal_moves` must be ['take"),
    ],
)
def test_errors_are_told_in_a_line_and_the_engine_lives_on(lines, message):
    answers = talk(*lines, HELLO, RULES, position_line(GAME, id=9))
    errors = [answer for answer in answers if answer["type"] == "error"]
    assert message in errors[0]["message"]
    assert "Traceback" not in errors[0]["message"]
    assert answers[-1]["type"] == "answer" and answers[-1]["id"] == 9


def test_an_error_in_answer_to_a_question_has_its_id():
    [_, error] = talk(HELLO, RULES, position_line(GAME, position={"moon": 1}))
    assert (error["type"], error["id"]) == ("error", 5)


class Odd:
    name = "odd"

    def __init__(self, action):
        self.action = action
        self.failures = {2: "out of ideas"}

    def act(self, games, rules, game_id):
        return [self.action / 1 if self.action else 1 // 0]


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (0, "ZeroDivisionError"),
        (77, "agent odd: illegal action 77"),
        (-1, "agent odd: out of ideas"),
    ],
)
def test_an_agent_that_fails_is_an_error_in_a_line(action, message, monkeypatch):
    monkeypatch.setattr("splendor_env.agents.engine.make_agent", lambda spec, seed: Odd(action))
    [_, error] = talk(HELLO, RULES, position_line(GAME))
    assert error["type"] == "error" and message in error["message"]


def test_unknown_messages_and_fields_are_ignored_and_legal_moves_may_be_left_out():
    question = json.loads(position_line(GAME)) | {"weather": "fine"}
    del question["legal_moves"]
    lines = [encode("weather"), encode("new_game"), encode("end", game="x"), HELLO, RULES]
    answers = talk(*lines, json.dumps(question).encode() + b"\n", encode("goodbye"), HELLO)
    assert [answer["type"] for answer in answers] == ["hello", "answer"]


def test_an_agent_that_wants_to_is_told_of_the_end_of_a_game(monkeypatch):
    told = []
    agent = make_agent("greedy")
    agent.end_games = lambda game_id, results: told.append((game_id.tolist(), results))
    monkeypatch.setattr("splendor_env.agents.engine.make_agent", lambda spec, seed: agent)
    assert talk(encode("end", game=7, result={"winners": [0]})) == []
    assert told == [([7], [{"winners": [0]}])]


def test_nothing_but_answers_comes_on_standard_output(tmp_path):
    """What an agent prints, in Python or below, goes to standard error."""
    (tmp_path / "my_agents").mkdir()
    (tmp_path / "my_agents" / "noisy.py").write_text(
        "import os\n"
        "from splendor_env.agents import make_agent as make\n"
        "def make_agent(argument, seed):\n"
        "    print('loading')\n"
        "    os.write(1, b'from below\\n')\n"
        "    return make('greedy', seed)\n"
    )
    process = subprocess.run(
        [sys.executable, "-m", "splendor_env.cli", "engine", "--agent", "my_agents.noisy:x"],
        input=HELLO + RULES + position_line(GAME) + encode("goodbye"),
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        capture_output=True,
        timeout=300,
    )
    assert process.returncode == 0, process.stderr
    kinds = [json.loads(line)["type"] for line in process.stdout.splitlines()]
    assert kinds == ["hello", "answer"]
    assert b"loading" in process.stderr and b"from below" in process.stderr


def test_a_match_by_other_rules_is_announced_anew():
    lines = []
    for rules in (standard(2), PRESETS["from_four_left"](4)):
        game = Game(rules, seed=5)
        lines += [rules_line(rules), position_line(game)]
    answers = talk(HELLO, *lines)
    assert [answer["type"] for answer in answers] == ["hello", "answer", "answer"]
