import json
import shutil
import sys
from pathlib import Path

import pytest

from splendor_env import __version__
from splendor_env.cli import main
from splendor_env.core.state import SplendorError
from splendor_env.evaluation.league import (
    LeagueConfig,
    load_league,
    play_league,
    read_ladder,
    write_ladder,
)

pytest.importorskip("matplotlib")
pytest.importorskip("openskill")

AGENTS = {"greedy": "greedy", "racer": "racer", "the <b>uilder": "builder"}
"""Their choices depend on the position alone."""
GAMES = {2: 4, 3: 6, 4: 8}


def config(folder, **changes):
    settings = {
        "name": "tiny",
        "agents": AGENTS,
        "players": (2, 3),
        "games_per_pair": GAMES,
        "mixed_games": GAMES,
        "anchor": "greedy",
        "folder": str(folder),
    }
    return LeagueConfig(**settings | changes)


def timeless(report):
    """The tables without the time that the agents took."""
    tables = json.loads(json.dumps(report["tables"]))
    for table in tables.values():
        for row in table["agents"]:
            assert row.pop("seconds_per_decision") > 0
    return tables


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """A league played without interruption."""
    league = config(tmp_path_factory.mktemp("leagues"))
    steps = []
    report = play_league(league, {"command": "a test"}, progress=lambda *step: steps.append(step))
    return league, report, steps


@pytest.fixture
def undrawn(monkeypatch):
    """Leaves the pictures out, which take most of the time of a tiny league."""
    monkeypatch.setattr("splendor_env.evaluation.league.write_report", lambda *report: None)


def test_every_pair_meets_and_the_report_says_so(played):
    league, report, steps = played
    assert [len(report["tables"][count]["pairs"]) for count in ("2", "3")] == [3, 6]
    assert [report["tables"][count]["games"] for count in ("2", "3")] == [3 * 4, 6 * 6 + 6]
    assert steps == sorted(steps) and steps[-1] == (54, 54) and (1, 54) in steps
    assert report["written_by"]["command"] == "a test" and report["about"]["league"] == "tiny"
    assert report["config"]["seed"] == 0 and report["agents"] == AGENTS
    records = {path.name for path in (league.path / "records").iterdir()}
    assert len(records) == 10
    assert {"2p_greedy_racer.jsonl.gz", "3p_the-b-uilder_greedy.jsonl.gz"} <= records
    assert "3p_mixed.jsonl.gz" in records
    assert (
        json.loads((league.path / "report.json").read_text("utf-8"))["tables"] == report["tables"]
    )


def test_report_is_the_same_when_it_is_made_from_the_records(played, undrawn):
    league, report, _ = played
    before = {path: path.stat().st_mtime_ns for path in (league.path / "records").iterdir()}
    again = play_league(league, {"command": "a test"}, report_only=True)
    assert again["tables"] == report["tables"]
    assert again["played_by"] == report["played_by"]
    after = {path: path.stat().st_mtime_ns for path in (league.path / "records").iterdir()}
    assert after == before


def test_interrupted_league_goes_on_and_ends_as_if_it_had_not_been(played, tmp_path, undrawn):
    league = config(tmp_path)

    def interrupt(done, total):
        if done > total // 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        play_league(league, {"command": "the first"}, progress=interrupt)
    files = sorted((league.path / "records").iterdir(), key=lambda path: path.stat().st_mtime_ns)
    assert 0 < len(files) < 10
    with pytest.raises(SplendorError, match="is missing: run the league without --report-only"):
        play_league(league, {}, report_only=True)
    content = files[-1].read_bytes()
    files[-1].write_bytes(content[:-20])  # as a kill in the middle of writing leaves it
    first = files[0].read_bytes()
    report = play_league(league, {"command": "the second"})
    assert timeless(report) == timeless(played[1])
    assert files[0].read_bytes() == first
    assert [call.get("command") for call in report["played_by"]] == ["the first", "the second"]


def test_calls_that_play_are_told_apart_from_the_one_that_writes_the_report(
    played, tmp_path, undrawn
):
    [call] = played[1]["played_by"]
    assert call["command"] == "a test" and call["processes"] == "1"
    assert set(call) >= {"began", "python", "numba", "commit"}
    league = config(tmp_path)
    shutil.copytree(played[0].path, league.path)
    for report_only in (True, False):  # the second finds nothing left to play
        report = play_league(league, {"command": "later"}, report_only=report_only)
        assert report["written_by"]["command"] == "later" and report["played_by"] == [call]
    (league.path / "played.json").unlink()
    assert play_league(league, {}, report_only=True)["played_by"] == []
    for text in ("[", "{}", '[{"commit": 3}]'):
        (league.path / "played.json").write_text(text)
        with pytest.raises(SplendorError, match=r"played\.json"):
            play_league(league, {}, report_only=True)


def test_an_agent_that_joins_needs_new_mixed_tables_and_keeps_the_rest(played, tmp_path, undrawn):
    league = config(tmp_path, agents=AGENTS | {"random": "random"})
    shutil.copytree(played[0].path, league.path)
    before = {path: path.read_bytes() for path in (league.path / "records").iterdir()}
    with pytest.raises(SplendorError, match=r"if these have changed, remove .*\*_mixed\.jsonl\.gz"):
        play_league(league, {})
    assert before == {path: path.read_bytes() for path in (league.path / "records").iterdir()}
    mixed = league.path / "records" / "3p_mixed.jsonl.gz"
    mixed.unlink()
    assert len(play_league(league, {})["tables"]["3"]["ladder"]) == 4
    del before[mixed]
    assert before == {path: path.read_bytes() for path in before}


def test_several_processes_play_the_same_games(played, tmp_path, undrawn):
    report = play_league(config(tmp_path, jobs=2, players=(2,)), {})
    assert timeless(report)["2"] == timeless(played[1])["2"]


def test_slow_agents_play_fewer_games(tmp_path, undrawn):
    league = config(tmp_path, players=(2,), slow=("racer",), slow_games_per_pair={2: 2})
    pairs = play_league(league, {})["tables"]["2"]["pairs"]
    assert [(pair["one"], pair["games"]) for pair in pairs] == [
        ("greedy", 2),
        ("greedy", 4),
        ("racer", 2),
    ]


def test_network_is_asked_what_it_expects(tmp_path, undrawn):
    pytest.importorskip("onnxruntime")
    agents = {"greedy": "greedy", "net": "pretrained"}
    league = config(tmp_path, agents=agents, players=(2,))
    table = play_league(league, {})["tables"]["2"]
    assert list(table["calibration"]) == ["net"]
    bins = table["calibration"]["net"]
    [decisions] = [row["decisions"] for row in table["agents"] if row["agent"] == "net"]
    assert sum(bins["decisions"]) == decisions  # of 4 games, all of which are looked at
    assert all(0 <= share <= 1 for key in ("expected", "observed") for share in bins[key])


def test_records_of_another_league_are_refused(played, tmp_path):
    league = played[0]
    other = config(league.folder, seed=1)
    with pytest.raises(SplendorError, match="seed"):
        play_league(other, {})
    with pytest.raises(SplendorError, match="which are not the 6 of the config"):
        play_league(other, {}, report_only=True)
    more = config(league.folder, games_per_pair={2: 6, 3: 6})
    with pytest.raises(SplendorError, match="has 4 games, which are not the 6"):
        play_league(more, {}, report_only=True)


def test_an_unknown_agent_is_told_before_any_game(tmp_path):
    league = config(tmp_path, agents=AGENTS | {"z": "nobody"})
    with pytest.raises(SplendorError, match="unknown agent 'nobody'"):
        play_league(league, {})
    assert not league.path.exists()


def test_a_missing_library_is_told_before_any_game(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "openskill", None)
    league = config(tmp_path)
    with pytest.raises(SplendorError, match="needs openskill: install the extra `train`"):
        play_league(league, {})
    assert not league.path.exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("games = 3", "unknown setting 'games'; settings are name, agents, players"),
        ("agents = ", "is not TOML"),
        ("seed = 1", "names no agents"),
        ("agents = ['greedy']", "agents must be at least two"),
        ("agents = 'greedy'", "agents must be a list of specs, or a table"),
        ("agents = ['greedy', 'greedy']", "agents must differ"),
        ("agents = ['greedy', 3]", "the spec of agent '3' must be a string, not 3"),
        ("agents = {a = 'greedy', b = 'greedy'}", "different specs, not 'greedy' twice"),
        ("agents = {a-b = 'greedy', a_B = 'racer'}", "'a-b' and 'a_B' need names that differ"),
        ("agents = {a = 'greedy', '' = 'random'}", "agents must have printable names"),
        ("players = [2, 5]", "each of players must be 2, 3 or 4, not 5"),
        ("players = [2.0]", "each of players must be 2, 3 or 4, not 2.0"),
        ("players = [2, 2]", "players must be some of 2, 3 and 4, each once, not [2, 2]"),
        ("players = []", "players must be some of 2, 3 and 4, each once, not []"),
        ("players = 2", "players must be a list, not 2"),
        ("rules = 'official'", "rules must be one of standard, rulebook_2014"),
        ("rules = []", "rules must be one of standard, rulebook_2014"),
        ("seed = -1", "seed must be an integer 0 to 2**64 - 1"),
        ("jobs = 0", "jobs must be 1 to 256, not 0"),
        ("jobs = true", "jobs must be 1 to 256, not True"),
        ("anchor = 'nobody'", "anchor must name agents of the league (random, greedy, racer"),
        ("anchor = ['a']", "anchor must name agents of the league"),
        ("anchor = {a = 1}", "{'a': 1}"),
        ("slow = [['a']]", "slow must name agents of the league (random, greedy, racer"),
        ("slow = ['nobody']", "slow must name agents of the league (random, greedy, racer"),
        ("games_per_pair = 0", "games_per_pair for 2 players must be 1 to 1000000, not 0"),
        (
            "games_per_pair = {2 = 10}",
            "games_per_pair for 3 players must be 1 to 1000000, not None",
        ),
        ("games_per_pair = {5 = 10}", "games_per_pair must be by 2, 3 or 4 players, not '5'"),
        ("mixed_games = 1.5", "mixed_games for 3 players must be 1 to 1000000, not 1.5"),
        ("agents = ['random', 'greedy', 'racer']", "mixed tables of 4 players need as many agents"),
        ("name = '../x'", "name must be the name of a folder, not '../x'"),
        ("name = '..'", "name must be the name of a folder, not '..'"),
        ('name = "a\\u0000"', r"name must be the name of a folder, not 'a\x00'"),
        ("name = 3", "name must be a string, not 3"),
        ("folder = ''", "folder must be the name of a folder, not ''"),
        ("folder = 'league.toml'", "cannot make the folder league.toml"),
    ],
)
def test_a_mistake_in_the_config_is_named(text, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    path = Path("league.toml")
    if not text.startswith(("agents", "seed = 1", "games = 3")):
        text += "\nagents = ['random', 'greedy', 'racer', 'builder']"
    path.write_text(text)
    assert main(["league", str(path)]) == 2
    err = capsys.readouterr().err
    assert message in err and err.count("\n") == 1


def test_a_config_that_is_not_there_is_named(capsys):
    assert main(["league", "no/such.toml"]) == 2
    assert "cannot read the config no/such.toml" in capsys.readouterr().err


def test_agents_with_long_names_have_files(tmp_path, undrawn):
    long = "x" * 300
    agents = {f"{long} 1": "greedy", f"{long} 2": "racer"}
    league = config(tmp_path, agents=agents, players=(2,), anchor=f"{long} 1")
    assert play_league(league, {})["tables"]["2"]["games"] == 4
    [path] = (league.path / "records").iterdir()
    assert len(path.name) < 200


def test_list_of_agents_and_one_number_of_games_suffice(tmp_path):
    path = tmp_path / "three.toml"
    path.write_text("agents = ['random', 'greedy']\nplayers = [2]\ngames_per_pair = 10")
    league = load_league(path)
    assert league.name == "three" and league.agents == {"random": "random", "greedy": "greedy"}
    assert league.games_per_pair == {2: 10, 3: 10, 4: 10} and league.path.name == "three"


@pytest.mark.parametrize("name", ["league", "league_smoke"])
def test_configs_of_the_project_can_be_read(name):
    league = load_league(Path(__file__).parents[2] / "configs" / f"{name}.toml")
    assert league.players == (2, 3, 4) and league.name == name


def test_ladder_that_is_written_is_the_one_that_agents_shows(played, tmp_path, monkeypatch, capsys):
    file = tmp_path / "ladder.json"
    monkeypatch.setattr("splendor_env.evaluation.league.LADDER_FILE", file)
    assert read_ladder() is None
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["agents"]) == 0
    assert "rating" not in capsys.readouterr().out

    write_ladder(played[1], file)
    ladder = read_ladder()
    assert ladder["games"] == 54 and ladder["rules"] == "standard"
    top = played[1]["tables"]["2"]["ladder"][0]
    spec = AGENTS[top["agent"]]
    assert ladder["tables"]["2"]["agents"][spec][0] == round(top["rating"], 1)
    assert main(["agents"]) == 0
    out = capsys.readouterr().out
    assert f" {top['rating']:.0f} " in out and f"({top['low']:.0f} to {top['high']:.0f})" in out
    assert "54 games" in out and max(map(len, out.splitlines())) <= 80
    assert main(["agents", "--json", str(tmp_path / "agents.json")]) == 0
    written = json.loads((tmp_path / "agents.json").read_text())
    assert written["ladder"] == ladder and "mcts:OPTIONS" in written["agents"]
    capsys.readouterr()
    assert main(["presets"]) == 0
    assert "are for standard" in capsys.readouterr().out


def test_a_ladder_that_cannot_be_written_is_told_before_any_game(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "small.toml"
    path.write_text("agents = ['random', 'greedy']\nplayers = [2]\ngames_per_pair = 4")
    assert main(["league", str(path), "--write-ladder", "no/such/ladder.json"]) == 2
    assert "--write-ladder must be a file in a writable folder" in capsys.readouterr().err
    assert not (tmp_path / "leagues").exists()


def test_command_plays_the_small_config_and_prints_its_ladders(tmp_path, monkeypatch, capsys):
    pytest.importorskip("onnxruntime")
    monkeypatch.chdir(tmp_path)
    path = Path(__file__).parents[2] / "configs" / "league_smoke.toml"
    assert main(["league", str(path), "--write-ladder", "ladder.json"]) == 0
    out = capsys.readouterr().out
    assert all(f"{players} players" in out for players in (2, 3, 4)) and "pretrained" in out
    assert f"report: {Path('leagues/league_smoke/report.html')}" in out
    report = json.loads((tmp_path / "leagues/league_smoke/report.json").read_text("utf-8"))
    assert set(report["about"]) == {"league", "rules", "seed", "rating 0"}
    for call in (report["written_by"], *report["played_by"]):
        assert call["command"] == f"splendor league {path}"
        assert set(call) >= {"cpu", "python", "numpy", "numba", "commit"}
        assert call["splendor_env"] == __version__
    for table in report["tables"].values():
        assert table["illegal"] == table["failed"] == table["truncated"] == 0
        assert [row["agent"] for row in table["ladder"]][-1] == "random"
    assert (tmp_path / "ladder.json").stat().st_size < 2000


def test_help_teaches_with_an_example(capsys):
    assert main(["league", "--help"]) == 0
    assert "  splendor league configs/league.toml" in capsys.readouterr().out
