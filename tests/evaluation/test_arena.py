import numpy as np
import pytest

from splendor_env import Game
from splendor_env.agents import make_agent
from splendor_env.core.batch import deal_games, deal_numbered
from splendor_env.core.random import HIDDEN_STREAM, SEED_STREAM, hash_seed, secret_key
from splendor_env.core.state import GAME, EndReason, SplendorError, standard
from splendor_env.evaluation.arena import (
    GAME_RESULT,
    Seating,
    mixed_tables,
    num_deals_of,
    one_against_rest,
    play_games,
)
from tests.evaluation.agents import Broken, Cheat, Fainting, FirstLegal, without_time

AGENTS = "tests.evaluation.agents"


# Seatings.


def test_one_against_rest_seats_agent_0_once_in_every_seat_of_each_deal():
    seating = one_against_rest(standard(3), 5)
    assert seating.seats.tolist() == [[0, 1, 1], [1, 0, 1], [1, 1, 0]] * 2
    assert seating.deal.tolist() == [0, 0, 0, 1, 1, 1]


def test_mixed_tables_have_different_agents_in_all_rotations_and_equal_counts():
    rules = standard(3)
    seats, deal = mixed_tables(5, rules, 3 * 101, seed=4)
    assert seats.shape == (303, 3) and deal.tolist() == np.repeat(np.arange(101), 3).tolist()
    for table in seats.reshape(-1, 3, 3).tolist():
        assert len(set(table[0])) == 3
        assert [sorted(column) for column in zip(*table, strict=True)] == [sorted(table[0])] * 3
        assert len({tuple(row) for row in table}) == 3
    by_seat = [np.bincount(seats[:, seat], minlength=5) for seat in range(3)]
    assert (by_seat[0] == by_seat[1]).all() and (by_seat[0] == by_seat[2]).all()
    assert by_seat[0].max() - by_seat[0].min() == 1 and by_seat[0].sum() == 303


def test_mixed_tables_let_all_agents_meet_and_begin_alike_whatever_their_number():
    seats, _ = mixed_tables(6, standard(4), 4 * 300, seed=0)
    tables = seats[::4]
    pairs = np.zeros((6, 6), int)
    for table in tables:
        pairs[np.ix_(table, table)] += 1
    meetings = pairs[~np.eye(6, dtype=bool)]
    # 300 tables of 6 pairs, 15 pairs: 120 meetings each.
    assert 90 < meetings.min() and meetings.max() < 150
    assert (mixed_tables(6, standard(4), 40, seed=0).seats == seats[:40]).all()
    assert (mixed_tables(6, standard(4), 40, seed=1).seats != seats[:40]).any()


def test_a_mixed_table_needs_as_many_agents_as_seats():
    with pytest.raises(SplendorError, match="a mixed table of 4 needs as many different agents, n"):
        mixed_tables(3, standard(4), 8, 0)


@pytest.mark.parametrize(
    ("seats", "deal", "message"),
    [
        (np.zeros((0, 2), int), np.zeros(0, int), "must have 1 to 1000000 games, not 0"),
        ([[0, 1, 1]], [0], r"must be \(G, 2\) integers"),
        ([[0, 1], [1, 0]], [0], r"must be \(G, 2\) integers"),
        ([[0.0, 1.0]], [0], r"must be \(G, 2\) integers"),
        ([[0, 2]], [0], "seats must hold 0 to 1"),
        ([[0, -1]], [0], "seats must hold 0 to 1"),
        ([[0, 1]], [-1], "deals count from 0"),
    ],
)
def test_a_seating_that_is_none_is_refused(seats, deal, message):
    with pytest.raises(SplendorError, match=message):
        play_games([FirstLegal(), FirstLegal()], Seating(seats, deal), standard(2))


# Games.


def test_all_games_that_wait_for_an_agent_are_answered_in_one_call():
    rules = standard(3, max_rounds=2)
    agents = [FirstLegal() for _ in range(4)]
    seating = mixed_tables(4, rules, 60, seed=1)
    play_games(agents, seating, rules, seed=1)
    waiting_for = seating.seats[:, 0].copy()
    num_moved = np.zeros(len(waiting_for), int)
    for agent in range(4):
        games, game_id = agents[agent].asked[0]
        assert sorted(game_id // 3) == np.flatnonzero(waiting_for == agent).tolist()
        # None of them has a second decision in the first round: its turn is over.
        moved = game_id // 3
        num_moved[moved] += 1
        waiting_for[moved] = seating.seats[moved, num_moved[moved] % 3]
        assert (games["player"] == game_id % 3).all()
    assert max(len(agent.asked) for agent in agents) <= 2 * 3


@pytest.mark.parametrize("num_players", [2, 3, 4])
def test_an_agent_is_asked_for_its_own_seats_only_and_its_answers_are_played_there(num_players):
    rules = standard(num_players, target_points=3)
    agents = [FirstLegal() for _ in range(num_players + 1)]
    seating = mixed_tables(len(agents), rules, 6 * num_players, seed=3)
    games = play_games(agents, seating, rules, seed=3)
    for index, agent in enumerate(agents):
        game, seat = agent.game_id // num_players, agent.game_id % num_players
        assert (agent.games["player"] == seat).all()
        assert (seating.seats[game, seat] == index).all()
        is_his = games.results["agents"] == index
        assert games.results["decisions"][is_his].sum() == len(game)


def test_every_result_follows_from_deal_and_actions():
    rules = standard(3, target_points=6)
    agents = [make_agent(name) for name in ("greedy", "builder", "racer")]
    seating = mixed_tables(3, rules, 12, seed=2)
    games = play_games(agents, seating, rules, seed=2)
    for index, (result, actions) in enumerate(zip(games.results, games.actions, strict=True)):
        assert actions.dtype == np.int8
        game = Game(rules, seed=0)
        game.games[:] = games.deals[index]
        decisions = [0] * 4
        for action in actions.tolist():
            decisions[game.player] += 1
            game.push(action)
        assert game.is_over
        nobles = [np.sum(game.games["noble_owner"] == seat) for seat in range(4)]
        expected = np.zeros((), GAME_RESULT)
        expected["deal"] = index // 3
        expected["agents"] = [*seating.seats[index], -1]
        expected["share"][game.winners] = 1 / len(game.winners)
        expected["points"][:3] = game.points
        expected["num_cards"] = game.games["num_cards"][0]
        expected["nobles"] = nobles
        expected["rounds"], expected["end_reason"] = game.rounds, EndReason.TARGET
        expected["offender"], expected["decisions"] = -1, decisions
        assert without_time(result) == expected


def test_a_deal_depends_on_the_seed_and_its_number_alone():
    rules = standard(2, max_rounds=1)
    deals = np.zeros(30, GAME)
    deal_games(deals, rules, np.uint64(7))
    seating = Seating(np.array([[0, 1], [1, 1], [1, 0]]), np.array([29, 3, 29]))
    games = play_games([FirstLegal(), FirstLegal()], seating, rules, seed=7)
    assert (games.deals == deals[[29, 3, 29]]).all()
    assert games.results["deal"].tolist() == [29, 3, 29]


@pytest.mark.parametrize("name", ["greedy", "pretrained"])
def test_equal_agents_at_mixed_tables_score_exactly_one_nth_each(name):
    if name == "pretrained":
        pytest.importorskip("onnxruntime")
    rules = standard(3)
    seating = mixed_tables(3, rules, 30, seed=5)
    results = play_games([make_agent(name) for _ in range(3)], seating, rules, seed=5).results
    shares = np.rint(12 * results["share"]).astype(int)
    for agent in range(3):
        assert shares[results["agents"] == agent].sum() == 12 * 10


def test_shares_of_truncated_and_forfeited_games():
    rules = standard(3, max_rounds=3)
    seating = one_against_rest(rules, 3)
    truncated = play_games([FirstLegal(), FirstLegal()], seating, rules).results
    assert truncated["share"].tolist() == [[1 / 3, 1 / 3, 1 / 3, 0]] * 3
    assert (truncated["end_reason"] == EndReason.ROUND_LIMIT).all()

    games = play_games([Cheat(77), FirstLegal()], seating, rules)
    assert games.results["share"].tolist() == [[0, 0.5, 0.5, 0], [0.5, 0, 0.5, 0], [0.5, 0.5, 0, 0]]
    assert games.results["offender"].tolist() == [0, 1, 2]
    assert games.results["end_reason"].tolist() == [EndReason.RUNNING] * 3
    assert not games.results["has_failed"].any()
    assert list(games.notes) == [0, 1, 2]
    assert games.notes[0].startswith("illegal action 77 ('pass'); legal: take")
    # The illegal decision was asked for but is not among the actions.
    assert [len(one) for one in games.actions] == [6, 7, 8]
    assert games.results["decisions"].sum(1).tolist() == [7, 8, 9]

    games = play_games([Fainting(), FirstLegal()], one_against_rest(standard(2), 3), standard(2))
    assert games.results["has_failed"].tolist() == [True, False, True, False]
    assert games.notes[2] == "fell asleep" and "illegal action -1" in games.notes[3]


def test_the_time_of_a_call_is_split_evenly_among_its_games(tmp_path):
    rules = standard(2, max_rounds=2)
    slow = make_agent(f"{AGENTS}:slow 0.05 {tmp_path}")
    results = play_games([slow, FirstLegal()], one_against_rest(rules, 4), rules).results
    is_slow = results["agents"] == 0
    # Both seats come up in one call or two, each for two to four games.
    seconds = results["seconds"][is_slow]
    assert 0.05 * len(slow.asked) <= seconds.sum() < 0.1 * len(slow.asked)
    assert seconds.max() < 0.1 * 2 and seconds.min() > 0.05 * 2 / 4
    assert results["seconds"][~is_slow].sum() < 0.05


@pytest.mark.parametrize("num_players", [2, 3, 4])
def test_games_are_up_to_a_million_in_whole_deals(num_players):
    most = {2: 1_000_000, 3: 999_999, 4: 1_000_000}[num_players]
    assert num_deals_of(most, num_players) == most // num_players
    assert num_deals_of(1, num_players) == 1
    for number in (0, most + 1, "3", None, True, 2.5):
        with pytest.raises(SplendorError, match=f"an integer 1 to {most}, not {number!r}"):
            num_deals_of(number, num_players)


def test_an_exception_in_an_agent_names_it_and_the_games_that_it_was_asked_about():
    rules = standard(2)
    seating = one_against_rest(rules, 16)
    message = (
        r"agent 'broken' has raised KeyError: 'no such key' \(agents.py, line \d+\), asked about "
        "game_id 0, 3, 4, 7, 8 and 11 more$"
    )
    with pytest.raises(SplendorError, match=message) as caught:
        play_games([Broken(), FirstLegal()], seating, rules)
    assert isinstance(caught.value.__cause__, KeyError)


# What agents could find out.

MASK, GOLDEN = 2**64 - 1, 0x9E3779B97F4A7C15


def undo_shift(bits, shift):
    value = bits
    for _ in range(64 // shift + 1):
        value = bits ^ (value >> shift)
    return value


def undo_mix(bits):
    """SplitMix64 backwards."""
    bits = undo_shift(bits, 31) * pow(0x94D049BB133111EB, -1, 2**64) & MASK
    bits = undo_shift(bits, 27) * pow(0xBF58476D1CE4E5B9, -1, 2**64) & MASK
    return undo_shift(bits, 30) - GOLDEN & MASK


def undo_hash(bits, stream, position):
    """The seed from which `hash_seed` has made these bits."""
    return undo_mix(undo_mix(bits) ^ position) - GOLDEN * (stream + 1) & MASK


def test_the_hash_is_inverted_right():
    for seed, stream, position in ((0, 0, 0), (2**63 + 11, 5, 192), (MASK, 4, 2**40)):
        bits = hash_seed(np.uint64(seed), stream, position)
        assert undo_hash(int(bits), stream, position) == seed


def test_from_the_games_shown_no_way_leads_back_to_the_seed_and_the_true_deals():
    class Thief(FirstLegal):
        """Goes back from the seeds of the copies, by all that is drawn on the way to them."""

        def __init__(self):
            super().__init__()
            self.found = {}

        def act(self, games, rules, game_id):
            for game, number in zip(games, game_id.tolist(), strict=True):
                if game["rounds"] == 1 and number % 2 == 0:
                    deal = number // 4
                    imagined = undo_hash(int(game["seed"]), HIDDEN_STREAM, 3 * 64)
                    of_deal = undo_hash(imagined, HIDDEN_STREAM, 0)
                    self.found[deal] = undo_hash(of_deal, HIDDEN_STREAM, deal)
            return super().act(games, rules, game_id)

    rules, seed = standard(2, max_rounds=2), 0x1234567890ABCDEF
    thief = Thief()
    games = play_games([thief, FirstLegal()], one_against_rest(rules, 40), rules, seed)
    found = np.uint64(thief.found[3])
    # It comes as far as the key, the same from every deal, and no further.
    assert len(thief.found) == 20 and set(thief.found.values()) == {int(found)}
    assert found == secret_key(np.uint64(seed)) != seed
    true_deals, deals = games.deals[::2], np.zeros(20, GAME)
    deal_numbered(deals, rules, found, np.arange(20))
    assert not np.isin(deals["seed"], true_deals["seed"]).any()
    assert (deals["market"] != true_deals["market"]).any((1, 2)).all()
    assert hash_seed(np.uint64(seed), SEED_STREAM, 3) == true_deals["seed"][3]
