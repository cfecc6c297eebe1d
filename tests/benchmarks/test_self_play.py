"""What is counted in games of an agent against itself, by a slow count with `Game` alone."""

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("matplotlib")
pytest.importorskip("onnxruntime")

from benchmarks import self_play
from benchmarks.self_play import ELSEWHERE, SOURCES, count, markdown, play, rows, tabulate
from splendor_env import Game, standard
from splendor_env.core.actions import ACTION_NAMES

NUM_GAMES = 4


@pytest.fixture(scope="module", params=[2, 4])
def played(request):
    rules = standard(request.param)
    games = play("pretrained", rules, NUM_GAMES, seed=5, jobs=1)
    counts = count(games, rules)
    return games, counts, tabulate(games.results, counts, request.param), rules


def levels():
    """Level of each card, 0 to 2, by name."""
    game = Game(seed=0).to_dict()
    level = {name: index for index, deck in enumerate(game["decks"]) for name in deck}
    return level | {name: int(slot[0]) - 1 for slot, name in game["market"].items()}


def slow_count(deal, actions, rules):
    """Of one game, by seat: what `COUNTS` has, and its last position."""
    game = Game(rules)
    game.games[:] = deal
    level = levels()
    seats = [
        {"turns": 0, "cards": [0, 0, 0], "worthless": 0, "reserves": 0, "blind": 0}
        | {"gold_taken": 0, "gold_spent": 0}
        for _ in range(rules.num_players)
    ]
    for action in actions:
        move, before, mover = ACTION_NAMES[action], game.to_dict(), game.player
        game.push(int(action))
        after, seat = game.to_dict(), seats[mover]
        seat["turns"] += not move.startswith(("return", "noble"))
        gold = before["bank"].get("gold", 0) - after["bank"].get("gold", 0)
        if move.startswith("reserve"):
            seat["reserves"] += 1
            seat["blind"] += "deck" in move
            seat["gold_taken"] += gold
        if move.startswith("buy"):
            place = move.split()[-1]
            if "reserved" in move:
                card = before["seats"][mover]["reserved"][int(place) - 1]
                card = card if isinstance(card, str) else card["card"]
            else:
                card = before["market"][place]
            seat["cards"][level[card]] += 1
            nobles = [
                sum(noble["owner"] == mover for noble in position["nobles"])
                for position in (before, after)
            ]
            gained = after["seats"][mover]["points"] - before["seats"][mover]["points"]
            seat["worthless"] += gained == 3 * (nobles[1] - nobles[0])
            seat["gold_spent"] -= gold
    return seats, game


def test_counts_are_those_of_a_slow_count(played):
    games, counts, _, rules = played
    for row in range(NUM_GAMES):
        seats, game = slow_count(games.deals[row], games.actions[row], rules)
        assert game.is_over
        for seat, expected in enumerate(seats):
            found = {name: counts[row][name][seat].tolist() for name in expected}
            assert found == expected
        assert not counts["turns"][row, rules.num_players :].any()
    assert counts["blind"].sum() > 0
    assert counts["gold_spent"].sum() > 0


def test_the_table_is_of_winners_and_the_others(played):
    """By hand, from the last positions."""
    games, counts, table, rules = played
    players = range(rules.num_players)
    ends = [slow_count(games.deals[row], games.actions[row], rules)[1] for row in range(NUM_GAMES)]
    winners = [(row, seat) for row in range(NUM_GAMES) for seat in ends[row].winners]
    assert len(winners) == NUM_GAMES  # none is shared
    others = {(row, seat) for row in range(NUM_GAMES) for seat in players} - set(winners)
    points = np.array([end.points for end in ends])
    assert table["winner"]["points"] == np.mean([points[place] for place in winners])
    assert table["other"]["points"] == pytest.approx(np.mean([points[place] for place in others]))
    assert table["runner_up"] == np.sort(points, 1)[:, -2].mean()
    reserves = [counts["reserves"][place] for place in winners]
    assert table["winner"]["reserves"] == np.mean(reserves)
    assert table["seat"]["cards"].sum() == pytest.approx(table["seat"]["num_cards"])
    assert table["rounds"].tolist() == [end.rounds for end in ends]
    share = [seat["win_share"] for seat in table["seats"]]
    assert share == [sum(seat == one for _, one in winners) / NUM_GAMES for seat in players]
    shown = rows(table)
    assert shown["Games"] == str(NUM_GAMES)
    assert shown["Reserves in a game"] == f"{counts['reserves'].sum() / NUM_GAMES:.1f}"
    turns, blind = counts["turns"].sum(), counts["blind"].sum() / counts["reserves"].sum()
    assert shown["Reserves, of all turns"] == f"{100 * counts['reserves'].sum() / turns:.1f} %"
    assert shown["Blind, of all reserves"] == f"{100 * blind:.1f} %"


def test_a_shared_victory_counts_by_shares_and_a_truncated_game_has_no_winner(played):
    games, counts, _, rules = played
    results = games.results[:2].copy()
    results["share"][0] = [0.5, 0.5, 0, 0]
    results["points"][0, :2] = 17, 15
    results["end_reason"][1] = 3
    table = tabulate(results, counts[:2], rules.num_players)
    assert table["winner"]["points"] == 16
    assert (table["ends"]["ties"], table["ends"]["truncated"]) == (1, 1)


def test_every_figure_from_elsewhere_has_its_row_and_its_source(played):
    table = played[2]
    assert set(ELSEWHERE) <= set(rows(table))
    text = markdown([table, table])
    lines = text.splitlines()
    assert {line.count(" | ") for line in lines if line.startswith("| ")} == {3}
    cited = {int(part[0]) for figures in ELSEWHERE.values() for part in figures.split("[")[1:]}
    assert cited == set(range(1, len(SOURCES) + 1))


def test_the_command_prints_and_draws(tmp_path, monkeypatch, capsys):
    file = tmp_path / "figure.png"
    command = f"self_play --agent racer --players 2 3 --games 5 --figure {file}"
    monkeypatch.setattr("sys.argv", command.split())
    self_play.main()
    assert "| Games | 5 | 5 |" in capsys.readouterr().out
    assert file.read_bytes().startswith(b"\x89PNG")
