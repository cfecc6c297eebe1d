"""The table of strength: a match is kept as soon as it is over, and found again."""

import json

import pytest

from benchmarks import strength

pytest.importorskip("onnxruntime")


@pytest.fixture
def heuristics(monkeypatch):
    """Two quick matches in place of those of the policy."""
    monkeypatch.setattr(strength, "POLICY", "racer")
    monkeypatch.setattr(strength, "BASELINES", ("greedy", "builder"))


def run(file, *arguments):
    strength.main([str(file), "--only", "baselines", "--players", "3", "--games", "7", *arguments])


def test_each_match_is_a_line_and_a_row(heuristics, tmp_path, capsys):
    run(tmp_path / "rows.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    assert [row["key"]["specs"] for row in rows] == [["racer", "greedy"], ["racer", "builder"]]
    result = rows[0]["value"]["result"]
    assert (result["games"], result["players"], result["seed"]) == (9, 3, strength.REPORT_SEED)
    assert rows[0]["value"]["machine"]["cores"] >= 1
    output = capsys.readouterr()
    cells = output.out.splitlines()[2].split(" | ")
    assert cells[:4] == ["| racer", "greedy", "3", "full"]
    assert cells[4].startswith(f"{result['win_share']:.1%}".replace("%", " % ["))
    assert cells[5] == f"{3 * result['win_share']:.2f}"
    assert "racer against builder, 3 players" in output.err


def test_what_the_file_has_is_not_played_again(heuristics, tmp_path, monkeypatch, capsys):
    """Not even after a kill in the middle of a line; another seed or another agent is."""
    file = tmp_path / "rows.jsonl"
    run(file)
    table = capsys.readouterr().out
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(lines[0] + lines[1][:99])
    played = []
    play = strength.play
    monkeypatch.setattr(
        strength, "play", lambda match, jobs: played.append(match.specs) or play(match, jobs)
    )
    run(file)
    assert played == [("racer", "builder")]
    assert capsys.readouterr().out.splitlines()[2] == table.splitlines()[2]
    run(file)
    assert len(played) == 1
    run(file, "--seed", "2")
    assert len(played) == 3
    monkeypatch.setattr(strength, "fingerprint", lambda spec: f"another {spec}")
    run(file)
    assert len(played) == 5


def test_without_the_networks_their_rows_are_skipped(tmp_path, capsys):
    matches = strength.plan(["policy", "search"], [2], None, 0, tmp_path)
    assert matches == []
    assert capsys.readouterr().err.count("skipped, no network in") == 2


def test_the_matches_with_the_networks(tmp_path):
    """Who is kept to the common subset, and what says that a network is another one."""
    (tmp_path / "any_2p.onnx").write_bytes(b"first")
    policy, policy_common, search, search_common = strength.plan(
        ["policy", "search"], [2], None, 0, tmp_path
    )
    network = f"benchmarks.yardstick:{tmp_path / 'any_2p.onnx'}"
    kept = "benchmarks.common_subset:"
    assert policy.specs == ("pretrained", network)
    assert policy_common.specs == (f"{kept}pretrained", network)
    assert search.specs == (strength.SEARCH, f"mcts:sims=800,eval={network}")
    assert search_common.specs == tuple(kept + spec for spec in search.specs)
    assert (policy.games, search.games) == (2400, 400)
    assert str(tmp_path) not in json.dumps([match.key for match in (policy, search_common)])
    before = [match.key for match in (policy, search_common)]
    (tmp_path / "any_2p.onnx").write_bytes(b"second")
    assert policy.key != before[0]
    assert search_common.key != before[1]
    assert search_common.key["made_from"][0].endswith(
        strength.fingerprint(f"onnx:{strength.PRETRAINED_FOLDER / '2p.onnx'}")
    )


def test_a_policy_is_known_by_the_network_for_the_number_of_players(tmp_path, monkeypatch):
    """A new one for two players leaves the games of three as they are."""
    monkeypatch.setattr(strength, "PRETRAINED_FOLDER", tmp_path)
    for players in (2, 3):
        (tmp_path / f"{players}p.onnx").write_bytes(b"first")
    matches = [
        strength.Match("search", spec, "greedy", players, 10, 0, is_common)
        for players in (2, 3)
        for spec in ("pretrained", "pretrained:ms=50")
        for is_common in (False, True)
    ]
    before = [match.key for match in matches]
    (tmp_path / "2p.onnx").write_bytes(b"second")
    assert [match.key == key for match, key in zip(matches, before, strict=True)] == (
        [False] * 4 + [True] * 4
    )
