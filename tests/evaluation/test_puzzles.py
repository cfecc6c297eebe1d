"""The puzzles, proved by exhaustive search, and how agents are scored by them."""

import json

import numpy as np
import pytest

from splendor_env import cli
from splendor_env.agents import make_agent
from splendor_env.core.actions import ACTION_NAMES, NUM_ACTIONS, PASS
from splendor_env.core.batch import write_action_masks
from splendor_env.core.state import SplendorError
from splendor_env.evaluation.puzzles import load_puzzles, solve
from tests.search.exhaustive import solve_root

MARGIN = 0.2
"""Of the victory: by how much every other move is worse. Less than 1/4, the smallest share."""

VERSION, PUZZLES = load_puzzles()
KINDS = sorted({puzzle.kind for puzzle in PUZZLES})
EACH_PUZZLE = pytest.mark.parametrize("puzzle", PUZZLES, ids=lambda puzzle: puzzle.name)


class Scripted:
    """Answers from a table by what `pick` makes of a position and its legal actions."""

    name = "scripted"

    def __init__(self, pick):
        self.pick = pick
        self.asked = []

    def act(self, games, rules, game_id):
        self.asked.append((games.copy(), rules, game_id.copy()))
        masks = np.zeros((len(games), NUM_ACTIONS), np.int8)
        write_action_masks(games, rules, masks)
        legal = [np.flatnonzero(mask) for mask in masks]
        return np.array([self.pick(*pair) for pair in zip(games, legal, strict=True)])


@EACH_PUZZLE
def test_best_moves_are_all_equally_good_and_the_others_worse(puzzle):
    game = puzzle.game()
    value = {
        ACTION_NAMES[action]: share for action, share in solve_root(game.games, game.rules).items()
    }
    assert len(set(puzzle.best)) == len(puzzle.best) and set(puzzle.best) < set(value)
    highest = max(value.values())
    for move, share in value.items():
        if move in puzzle.best:
            assert share > highest - 1e-9, move
        else:
            assert share < highest - MARGIN, move


@EACH_PUZZLE
def test_no_draw_matters(puzzle):
    """Either the decks are empty, or the seat to move is the last of the last round."""
    game = puzzle.game()
    record = game.games[0]
    is_last_round = (
        max(game.points) >= game.rules.target_points or game.rounds == game.rules.max_rounds
    )
    is_last_turn = is_last_round and game.player == game.rules.num_players - 1
    assert not record.deck_size.any() or is_last_turn
    assert not record.reserved_blind.any() or is_last_turn


def test_kinds_have_variants_so_that_luck_does_not_pay():
    assert set(KINDS) == {"win", "block", "noble", "return", "end of round", "plan"}
    assert len({puzzle.name for puzzle in PUZZLES}) == len(PUZZLES) >= 40
    for kind in KINDS:
        own = [puzzle for puzzle in PUZZLES if puzzle.kind == kind]
        assert len(own) >= 6
        assert {puzzle.game().rules.num_players for puzzle in own} == {2, 3, 4}
        assert len({puzzle.game().player for puzzle in own}) >= 3
        for move in ACTION_NAMES:  # who always prefers the same move solves half of them at most
            assert sum(move in puzzle.best for puzzle in own) <= len(own) / 2


def test_puzzles_are_played_by_the_standard_rules():
    """For which agents are trained: then a failure is not due to rules that they do not know."""
    for puzzle in PUZZLES:
        assert "rules" not in puzzle.position


def test_load_puzzles_takes_those_of_a_number_of_players():
    counts = [len(load_puzzles(number)[1]) for number in (2, 3, 4)]
    assert min(counts) > 0 and sum(counts) == len(PUZZLES)
    with pytest.raises(SplendorError, match="5"):
        load_puzzles(5)


def test_solve_agent_that_knows_the_answers_solves_all():
    best = {}
    for puzzle in PUZZLES:
        record = puzzle.game().games[0]
        best[record.tokens.tobytes() + record.market.tobytes()] = puzzle.best[-1]
    agent = Scripted(
        lambda game, legal: ACTION_NAMES.index(best[game.tokens.tobytes() + game.market.tobytes()])
    )
    result = solve(agent, repeats=2)
    assert result.solved == 1 and {one.solved for one in result.by_kind} == {1}
    assert [one.kind for one in result.by_kind] == list(dict.fromkeys(p.kind for p in PUZZLES))
    assert sum(one.puzzles for one in result.by_kind) == len(result.answers) == len(PUZZLES)
    assert result.version == VERSION
    assert json.loads(json.dumps(vars(result) | {"by_kind": [], "answers": []}))["repeats"] == 2


def test_solve_random_is_what_a_random_agent_scores():
    repeats = 400
    result = solve(make_agent("random", 3), repeats=repeats)
    for answer, puzzle in zip(result.answers, PUZZLES, strict=True):
        assert answer.random == len(puzzle.best) / len(puzzle.game().legal_moves)
    share = np.array([answer.random for answer in result.answers])
    deviation = np.sqrt((share * (1 - share)).sum() / repeats) / len(share)
    assert abs(result.solved - share.mean()) < 4 * deviation
    assert result.random == pytest.approx(share.mean())


def test_solve_averages_the_choices_and_says_what_was_chosen():
    turn = iter(range(10**6))
    agent = Scripted(lambda game, legal: legal[next(turn) % 2])
    result = solve(agent, repeats=4)
    for answer, puzzle in zip(result.answers, PUZZLES, strict=True):
        first, second = puzzle.game().legal_moves[:2]
        assert answer.chosen == {first: 2, second: 2}
        assert answer.solved == ((first in puzzle.best) + (second in puzzle.best)) / 2


def test_solve_counts_illegal_and_missing_actions_as_wrong():
    for action in (PASS, -1, NUM_ACTIONS):
        result = solve(Scripted(lambda game, legal, action=action: action), repeats=1)
        assert result.solved == 0
        assert all(answer.chosen == {"none": 1} for answer in result.answers)


def test_solve_asks_for_the_same_positions_with_hidden_cards_drawn_anew():
    agents = [Scripted(lambda game, legal: legal[0]) for _ in range(3)]
    for agent, seed in zip(agents, (0, 0, 1), strict=True):
        solve(agent, seed, repeats=3)
    first, same, other = (np.concatenate([one[0] for one in agent.asked]) for agent in agents)
    assert np.array_equal(first, same) and not np.array_equal(first["seed"], other["seed"])
    assert np.array_equal(first["market"], other["market"])
    assert len(set(first["seed"].tolist())) == len(first) == 3 * len(PUZZLES)
    true_seeds = {int(puzzle.game().games["seed"][0]) for puzzle in PUZZLES}
    assert not true_seeds & set(first["seed"].tolist())
    ids = np.concatenate([one[2] for one in agents[0].asked])
    assert len(set(ids.tolist())) == len(ids)
    assert len(agents[0].asked) == 3  # one call for each number of players


def test_solve_takes_those_of_a_number_of_players():
    result = solve(make_agent("greedy"), num_players=3)
    assert {answer.players for answer in result.answers} == {3}


def test_solve_refuses_what_is_no_answer():
    class Wrong:
        name = "wrong"

        def act(self, games, rules, game_id):
            return np.zeros(1)

    with pytest.raises(SplendorError, match="wrong"):
        solve(Wrong())
    for repeats in (0, 1001):
        with pytest.raises(SplendorError, match=f"repeats must be 1 to 1000, not {repeats}"):
            solve(make_agent("greedy"), repeats=repeats)


# The command


def test_command_prints_scores_by_kind_and_what_failed(capsys, tmp_path):
    path = tmp_path / "puzzles.json"
    assert cli.main(["puzzles", "greedy", "--players", "3", "--json", str(path)]) == 0
    shown = capsys.readouterr().out
    result = json.loads(path.read_text())
    assert result["agent"] == "greedy" and result["repeats"] == 8
    for one in result["by_kind"]:
        (row,) = [line for line in shown.splitlines() if line.startswith(f"│ {one['kind']} ")]
        for text in (str(one["puzzles"]), f"{one['solved']:.0%}", f"{one['random']:.0%}"):
            assert f" {text} " in row
    failed = [line for line in shown.splitlines() if line.startswith("failed: ")]
    wrong = [answer for answer in result["answers"] if answer["solved"] < 1]
    assert len(failed) == len(wrong) > 0
    for line, answer in zip(failed, wrong, strict=True):
        (move,) = answer["chosen"]
        assert answer["name"] in line and line.endswith(f": {move}; best: {answer['best'][0]}")
    assert "Nobles" not in shown


def test_command_show_prints_the_boards_as_their_movers_see_them(capsys):
    assert cli.main(["puzzles", "random", "--players", "4", "--repeats", "2", "--show"]) == 0
    shown = capsys.readouterr().out
    assert shown.count("(you)") == shown.count("failed: ") > 0
    assert "(1 of 2)" in shown
