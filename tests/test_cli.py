import io
import json
import os
import re
import subprocess
import sys
import types
from pathlib import Path

import pytest

from splendor_env import Game, __version__
from splendor_env.agents import make_agent
from splendor_env.cli import main
from splendor_env.core.state import no_gold_small_table, rulebook_2014, standard
from splendor_env.record import read_records

CHECKOUT = Path(__file__).parents[1]


def run(*arguments):
    return main([str(argument) for argument in arguments])


@pytest.fixture(autouse=True)
def state_folder(monkeypatch, tmp_path):
    """Games that `play` keeps are not those of whoever runs the tests."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def typed(monkeypatch):
    """Lets a test type lines, after which comes the end of the input."""
    return lambda *lines: monkeypatch.setattr("sys.stdin", io.StringIO("".join(lines)))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("evaluate nobody --against random", "unknown agent 'nobody'; agents are random, greedy"),
        ("evaluate greedy --against random --against nobody", "unknown agent 'nobody'"),
        ("evaluate greedy --against random --players 5", "must be 2, 3 or 4, not 5"),
        ("evaluate greedy --against random --rules official", "unknown rules 'official'; presets"),
        ("evaluate greedy --against random --games 0", "games must be an integer 1 to 1000000,"),
        ("evaluate greedy --against random --games 1000000000000", "not 1000000000000"),
        ("evaluate greedy --against random --games many", "'many' is not an integer"),
        ("evaluate greedy --against random --seed -1", "seed must be an integer 0 to 2**64 - 1"),
        ("evaluate greedy --against random --json no/such/folder/x", "not 'no/such/folder/x'"),
        ("evaluate greedy --against random --json .", "--json must be a file in a writable folder"),
        (
            "evaluate greedy --against random --jobs 0",
            "jobs must be an integer 1 to 256, not 0",
        ),
        ("evaluate greedy --against random --seats all", "seats must be one or rest, not 'all'"),
        (
            "evaluate greedy --against random --record no/such/folder/x",
            "--record must be a file in",
        ),
        (
            "evaluate greedy --against random --against greedy --record x.jsonl",
            "--record is for one match, not for 2 opponents",
        ),
        (
            "evaluate greedy --against random --sprt 0.5",
            "--sprt must be two win shares as 0.50:0.53",
        ),
        ("evaluate greedy --against random --sprt 0.6:0.5", "not h0=0.6 and h1=0.5"),
        ("evaluate greedy", "Missing option '--against'"),
        ("evaluate --against random", "Missing argument"),
        ("evaluate ppo:no/such/run --against random", "no/such/run"),
        ("evaluate no.such.module:x --against random", "agent 'no.such.module:x'"),
        ("evaluate .foo:x --against random", "agent '.foo:x'"),
        ("evaluate external: --against random", "agent 'external:': there is no program to run"),
        ("evaluate external:no/such --against random", "there is no program to run in ['no/such']"),
        ("engine --agent nobody", "unknown agent 'nobody'"),
        ("engine", "Missing option '--agent'"),
        ("evaluate greedy --agianst random", "--agianst"),
        ("train no/such/config.toml", "no/such/config.toml"),
        ("play --seat 2", "seat must be 0 to 1, not 2"),
        ("play --players 1", "must be 2, 3 or 4, not 1"),
        ("play --against nobody", "unknown agent 'nobody'"),
        ("play --seed 1.5", "'1.5' is not an integer"),
        ("play --rules official", "unknown rules 'official'"),
        ("bench --players 5", "--players must be 2, 3 or 4, or several as 2,3,4, not '5'"),
        ("bench --players 2,", "not '2,'"),
        ("bench --json no/such/folder/x", "not 'no/such/folder/x'"),
        ("learn", "No such command 'learn'"),
    ],
)
def test_a_users_mistake_is_told_in_one_line_with_exit_code_2(arguments, message, capsys):
    assert run(*arguments.split()) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ") and err.count("\n") == 1
    assert message in err


@pytest.mark.parametrize(
    "command", ["train", "evaluate", "play", "replay", "engine", "bench", "agents", "presets"]
)
def test_help_teaches_with_an_example(command, capsys):
    assert run(command, "--help") == 0
    out = capsys.readouterr().out
    assert f"  splendor {command}" in out.partition("Examples:")[2]


def test_without_a_command_help_is_shown(capsys):
    assert run() == 0
    assert "Commands:" in capsys.readouterr().out


def test_version(capsys):
    assert run("--version") == 0
    assert capsys.readouterr().out == f"splendor_env {__version__}\n"


def test_the_command_is_quick_to_say_what_it_can_do_and_exits_with_its_code():
    script = (
        "import sys; from splendor_env.cli import main; code = main(sys.argv[1:]); "
        "assert not {'torch', 'stable_baselines3', 'PIL'} & set(sys.modules); sys.exit(code)"
    )
    for arguments, code in (["--help"], 0), (["nonsense"], 2):
        process = subprocess.run(
            [sys.executable, "-c", script, *arguments],
            env=os.environ | {"PYTHONPATH": str(CHECKOUT)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert process.returncode == code, process.stderr


def test_ctrl_c_exits_with_130_and_without_a_traceback(monkeypatch, capsys):
    def interrupt(*arguments, **settings):
        raise KeyboardInterrupt

    monkeypatch.setattr("splendor_env.evaluation.play_specs", interrupt)
    assert run("evaluate", "greedy", "--against", "random") == 130
    assert "Traceback" not in capsys.readouterr().err


def test_agents_and_presets_are_listed(capsys):
    assert run("agents") == 0
    assert run("presets") == 0
    out = capsys.readouterr().out
    assert all(name in out for name in ("random", "greedy", "ppo:DIRECTORY", "rulebook_2014"))


def test_evaluate_prints_and_writes_the_same_figures(tmp_path, capsys):
    file = tmp_path / "result.json"
    arguments = ["evaluate", "greedy", "--against", "random", "--against", "greedy"]
    arguments += ["--games", 40, "--players", 3, "--seed", 5, "--json", file]
    assert run(*arguments) == 0
    out = capsys.readouterr().out
    first, second = json.loads(file.read_text())["results"]
    assert set(first) >= {
        *("agent", "against", "players", "rules", "seed", "games", "win_share", "low", "high"),
        *("ties", "rounds", "points", "points_against", "truncated", "illegal", "by_seat"),
        *("seats", "bootstrap_low", "bootstrap_high", "cards", "cards_against", "nobles"),
        *("nobles_against", "seconds_per_decision", "seconds_per_decision_against", "seconds"),
    }
    assert (first["agent"], first["against"], first["players"]) == ("greedy", "random", 3)
    assert (first["rules"], first["seed"], first["games"]) == ("standard", 5, 42)
    assert second["against"] == "greedy" and second["win_share"] == 1 / 3
    assert 0 <= first["low"] <= first["win_share"] <= first["high"] <= 1
    assert first["illegal"] == first["truncated"] == 0
    seats = first["by_seat"]
    assert [set(seat) for seat in seats] == [{"seat", "games", "win_share", "low", "high"}] * 3
    assert sum(seat["win_share"] for seat in seats) / 3 == pytest.approx(first["win_share"])
    assert f"{first['win_share']:.1%}" in out and "33.3%" in out
    assert "42 games for 40" in out
    for name in ("cards", "cards_against", "nobles", "nobles_against"):
        digits = 1 if "cards" in name else 2
        assert f"{first[name]:.{digits}f}" in out
    assert f"{first['bootstrap_low']:.1%} to {first['bootstrap_high']:.1%}" in out
    assert f"{1e3 * first['seconds_per_decision']:.3g}" in out


def test_evaluate_records_every_game_and_goes_on_from_the_file(tmp_path, capsys):
    file = tmp_path / "games.jsonl"
    arguments = ["evaluate", "greedy", "--against", "racer", "--players", 3, "--seats", "rest"]
    assert run(*arguments, "--games", 24, "--record", file) == 0
    assert "greedy in all seats but one: 3 players" in capsys.readouterr().out
    first = file.read_bytes()
    assert run(*arguments, "--games", 30, "--record", file, "--json", tmp_path / "figures") == 0
    assert file.read_bytes().startswith(first)
    records = list(read_records(file))
    assert [record["about"]["game"] for record in records] == list(range(30))
    assert records[0]["seats"] == ["racer", "greedy", "greedy"]
    [result] = json.loads((tmp_path / "figures").read_text())["results"]
    shares = [
        share
        for record in records
        for spec, share in zip(record["seats"], record["result"]["share"], strict=True)
        if spec == "greedy"
    ]
    assert result["win_share"] == pytest.approx(sum(shares) / 60)
    assert run(*arguments, "--games", 30, "--record", file, "--seed", 1) == 2
    assert "has another match: seed of game 0 is 0, in this" in capsys.readouterr().err


def test_evaluate_stops_when_a_sequential_test_has_decided(tmp_path, capsys):
    file = tmp_path / "figures"
    arguments = ["evaluate", "racer", "--against", "random", "--games", 1000]
    assert run(*arguments, "--sprt", "0.50:0.60", "--json", file) == 0
    [result] = json.loads(file.read_text())["results"]
    assert result["sprt"]["decision"] == "accept" and result["games"] < 1000
    out = capsys.readouterr().out
    deals = result["games"] // 2
    assert f"50.0% or 60.0%, wrong in 5%: decided for 60.0% after {deals} deals" in out
    assert run(*arguments[:-1], 2, "--sprt", "0.50:0.60") == 0
    assert "not decided after 1 deals" in capsys.readouterr().out


def test_evaluate_gives_the_same_in_two_processes(tmp_path):
    figures = []
    for jobs in (1, 2):
        file = tmp_path / str(jobs)
        arguments = ["evaluate", "random", "--against", "racer", "--games", 40, "--json", file]
        assert run(*arguments, "--jobs", jobs) == 0
        [result] = json.loads(file.read_text())["results"]
        figures.append({key: value for key, value in result.items() if "seconds" not in key})
    assert figures[0] == figures[1]


def test_evaluate_twice_gives_the_same(tmp_path):
    results = []
    for name in ("one", "two"):
        file = tmp_path / name
        arguments = ["evaluate", "random", "--against", "random", "--games", 20, "--json", file]
        assert run(*arguments, "--rules", "rulebook_2014", "--seed", 3) == 0
        [result] = json.loads(file.read_text())["results"]
        results.append({key: value for key, value in result.items() if "seconds" not in key})
    assert results[0] == results[1]
    assert results[0]["rules"] == "rulebook_2014"


def test_an_illegal_action_of_an_agent_is_named(monkeypatch, capsys):
    class Cheat:
        name = "cheat"

        def act(self, games, rules, game_id):
            return [77] * len(games)

    module = types.ModuleType("cheating.agent")
    monkeypatch.setattr(module, "make_agent", lambda argument, seed: Cheat(), raising=False)
    monkeypatch.setitem(sys.modules, "cheating", types.ModuleType("cheating"))
    monkeypatch.setitem(sys.modules, "cheating.agent", module)
    assert run("evaluate", "cheating.agent:x", "--against", "random", "--games", 2) == 0
    out = capsys.readouterr().out
    where = r"cheating\.agent:x in game \d, seat \d, round 1: "
    assert re.search(where + r"illegal action 77 \('pass'\); legal: take", out)


def test_a_failure_of_an_engine_is_named_and_ends_no_more_than_its_games(capsys):
    spec = f"external:{sys.executable} -c 'import sys; sys.exit(9)'"
    assert run("evaluate", spec, "--against", "random", "--games", 2) == 0
    out = capsys.readouterr().out
    assert re.search(r"│ failed +│ +2 │", out) and re.search(r"│ failed by others +│ +0 │", out)
    where = r"first failure against random: external:.* in game \d, seat \d, round 1: "
    assert re.search(where + "it has ended with exit code 9", out)

    assert run("play", "--against", spec, "--seat", 1) == 2
    err = capsys.readouterr().err
    assert "has failed: it has ended with exit code 9" in err and err.count("\n") == 1


def test_an_agent_in_the_working_folder_is_found(tmp_path, monkeypatch):
    (tmp_path / "my_agents").mkdir()
    (tmp_path / "my_agents" / "greedy.py").write_text(
        "from splendor_env.agents import make_agent as make\n"
        "def make_agent(argument, seed):\n    return make('greedy', seed)\n"
    )
    monkeypatch.chdir(tmp_path)
    path = list(sys.path)
    monkeypatch.setattr(sys, "path", path)
    for _ in range(2):
        assert run("evaluate", "my_agents.greedy:x", "--against", "random", "--games", 2) == 0
    assert path.count(str(tmp_path)) == 1


def test_a_whole_game_can_be_played_by_number_and_by_notation(typed, capsys):
    game = Game(num_players=3, seed=11)
    greedy = make_agent("greedy")
    lines = []
    while not game.is_over:
        action = int(greedy.act(game.games, game.rules, None)[0])
        if game.player == 1:
            number = game.legal_actions.index(action) + 1
            by_number = len(lines) % 2
            lines.append(f"{number}\n" if by_number else f"{game.legal_moves[number - 1]}\n")
        game.push(action)
    typed(*lines)
    assert run("play", "--players", 3, "--seat", 1, "--seed", 11, "--no-confirm") == 0
    out = capsys.readouterr().out
    # Greedy reads nothing hidden, hence the game is the same one.
    assert game.board(1) in out
    assert "Seat 1 (you)" in out
    assert ("You have won." if game.winners == [1] else "You have not won.") in out
    by_agents = out.count("Seat 0 (greedy) ") + out.count("Seat 2 (greedy) ")
    assert by_agents == len(game.history) - len(lines)


def test_bad_input_is_explained_and_the_same_turn_goes_on(typed, capsys):
    typed("fly\n", "0\n", "46\n", "buy 3-1\n", "undo\n", "\n", "help\n", "quit\n")
    assert run("play", "--seed", 3) == 0
    out = capsys.readouterr().out
    assert "cannot read move 'fly'" in out
    assert "moves are numbered 1 to 45, not 0" in out
    assert "moves are numbered 1 to 45, not 46" in out
    assert "Not possible now: buy 3-1" in out
    assert "There is nothing to undo" in out
    assert "reserve deck 1" in out and "help, quit" in out
    assert out.count("Round 1: seat 0 plays.") == 1 and "Seat 1 (greedy)" not in out


def test_the_end_of_the_input_leaves_the_game(typed, capsys):
    typed()
    assert run("play", "--seat", 1) == 0
    out, err = capsys.readouterr()
    assert "Seat 0 (greedy) takes " in out and err == ""


def test_the_board_shows_ones_own_secrets_only(typed, capsys):
    typed("reserve deck 3\n", "\n")
    assert run("play", "--seed", 3, "--against", "random") == 0
    out = capsys.readouterr().out
    game = Game(seed=3)
    game.push("reserve deck 3")
    own = [line for line in game.board(0).splitlines() if line not in game.board(1).splitlines()]
    assert any(line in out for line in own)


@pytest.fixture
def fake_training(monkeypatch, tmp_path):
    """A trainer that notes what it is asked for and writes a greedy policy."""
    calls = []

    def load_config(path, overrides):
        calls.append((path, overrides))
        return types.SimpleNamespace(
            algorithm="sb3_ppo", rules_in_turn=lambda: [standard(3), standard(4)]
        )

    def load_run_config(path, overrides, *, resume):
        calls.append(("run", resume))
        return load_config(path, overrides)

    def train(config, resume=False):
        calls.append(resume)
        return tmp_path

    modules = {
        "training": {},
        "training.config": {"load_config": load_config, "load_run_config": load_run_config},
        "training.sb3_ppo": {"train": train},
        "training.policy_agent": {"make_agent": lambda argument, seed: make_agent("greedy")},
    }
    for name, content in modules.items():
        module = types.ModuleType(name)
        module.__dict__.update(content)
        monkeypatch.setitem(sys.modules, name, module)
    return calls


def test_train_trains_then_evaluates_and_keeps_the_figures(
    fake_training, tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr("splendor_env.cli._REPORT_GAMES", 6)
    arguments = ["train", "run.toml", "--set", "seed=1", "--set", "num_games=8", "--resume"]
    assert run(*arguments) == 0
    assert fake_training == [(Path("run.toml"), ["seed=1", "num_games=8"]), True]
    results = json.loads((tmp_path / "evaluation.json").read_text())["results"]
    assert [result["against"] for result in results] == ["random", "greedy"] * 2
    assert {result["agent"] for result in results} == {f"ppo:{tmp_path}"}
    assert [(result["players"], result["games"]) for result in results] == [(3, 6)] * 2 + [
        (4, 8)
    ] * 2
    out = capsys.readouterr().out
    assert str(tmp_path) in out
    assert "3 players" in out and "4 players" in out

    fake_training.clear()
    assert run("train", tmp_path, "--resume") == 0
    assert fake_training == [("run", True), (tmp_path, []), True]
    assert "a new run" not in capsys.readouterr().out


def test_the_folder_of_a_run_without_resume_starts_a_new_one_and_says_so(
    fake_training, tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr("splendor_env.cli._REPORT_GAMES", 6)
    assert run("train", tmp_path, "--set", "run_name=b") == 0
    assert fake_training == [("run", False), (tmp_path, ["run_name=b"]), False]
    line = f"a new run with the settings of {tmp_path}; to go on with that one: --resume"
    assert capsys.readouterr().out.splitlines()[0] == line


def test_the_help_of_train_says_what_a_folder_and_resume_mean(capsys):
    assert run("train", "--help") == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "the folder of a run: without --resume, a new run is made" in text
    assert "CONFIG is its folder, or a file whose run is in runs/NAME" in text


def test_without_a_checkout_training_says_what_it_needs(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "training.config", None)
    assert run("train", "configs/smoke.toml") == 2
    assert "needs a checkout of the project" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("rules", "num_players", "options"),
    [
        (standard(2), [2], ""),
        (standard(4), [4], " --players 4"),
        (rulebook_2014(3), [3], " --players 3 --rules rulebook_2014"),
        (standard(2, target_points=9), [2], ""),
        (no_gold_small_table(2), [2, 3, 4], " --rules no_gold_small_table"),
    ],
)
def test_export_says_what_it_wrote_and_how_to_play_it(
    monkeypatch, capsys, rules, num_players, options
):
    calls = []

    def export_policy(checkpoint, path):
        calls.append((checkpoint, path))
        fields = rules._asdict()
        if len(num_players) > 1:
            fields = {key: fields[key] for key in fields if not key.startswith("num_")}
        parity = {"positions": 1152, "logits": 2.5e-7, "win_shares": 6e-8}
        return {"size": 1234567, "parity": parity, "rules": fields, "num_players": num_players}

    module = types.ModuleType("training.export")
    module.__dict__["export_policy"] = export_policy
    monkeypatch.setitem(sys.modules, "training", types.ModuleType("training"))
    monkeypatch.setitem(sys.modules, "training.export", module)
    assert run("export", "runs/one", "my files/one.onnx") == 0
    assert calls == [(Path("runs/one"), Path("my files/one.onnx"))]
    assert capsys.readouterr().out.splitlines() == [
        "wrote my files/one.onnx (1,234,567 bytes) and one.json",
        "largest difference from torch in 1,152 positions: logits 2.5e-07, win shares 6.0e-08",
        f"play it: splendor evaluate 'onnx:my files/one.onnx' --against greedy{options}",
    ]


def test_export_teaches_with_an_example_and_says_what_it_needs(monkeypatch, capsys):
    assert run("export", "--help") == 0
    assert "  splendor export" in capsys.readouterr().out.partition("Examples:")[2]
    monkeypatch.setitem(sys.modules, "training.export", None)
    assert run("export", "runs/one", "one.onnx") == 2
    assert "needs a checkout of the project" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("no/such/run one.onnx", "no policy in no/such/run"),
        ("no/such/run one.json", "must end in .onnx, not be 'one.json'"),
        ("no/such/run", "Missing argument"),
    ],
)
def test_a_mistake_in_export_is_told_in_one_line(arguments, message, capsys):
    pytest.importorskip("safetensors.torch")
    pytest.importorskip("onnxscript")
    assert run("export", *arguments.split()) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ") and err.count("\n") == 1
    assert message in err


@pytest.mark.parametrize("spec", ["onnx:no/such/file.onnx", "onnx:policy", "onnx:"])
def test_an_onnx_file_that_is_none_is_told_in_one_line(spec, capsys):
    pytest.importorskip("onnxruntime")
    assert run("evaluate", spec, "--against", "random") == 2
    err = capsys.readouterr().err
    assert err.startswith("error: ") and err.count("\n") == 1
    assert "no/such/file.onnx" in err or "must end in .onnx" in err
