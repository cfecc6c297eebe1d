import builtins

import numpy as np
import pytest

from splendor_env.core.state import SplendorError
from splendor_env.evaluation.arena import GAME_RESULT
from splendor_env.evaluation.ratings import (
    PairShares,
    bradley_terry,
    cycles_of_three,
    finishing_ranks,
    nash_average,
    pair_shares,
    plackett_luce,
    rate_pairs,
)


def results_of(agents, share, deal, points=0, num_cards=0, offender=-1):
    results = np.zeros(len(agents), GAME_RESULT)
    results["agents"] = -1
    num_players = np.shape(agents)[1]
    for name, values in (("agents", agents), ("share", share)):
        results[name][:, :num_players] = values
    for name, values in (("points", points), ("num_cards", num_cards)):
        results[name][:, :num_players] = values
    results["deal"], results["offender"] = deal, offender
    return results


def play_pairs(rng, ratings, num_deals, seat_effect=30, ties=0.02):
    """Results of all pairs, both seats of each deal, at what these ratings promise."""
    agents, share, deal = [], [], []
    for i in range(len(ratings)):
        for j in range(i + 1, len(ratings)):
            for first, second in ((i, j), (j, i)):
                difference = ratings[first] - ratings[second] + seat_effect
                promised = 1 / (1 + 10 ** (-difference / 400))
                uniform = rng.random(num_deals)
                won = np.where(rng.random(num_deals) < ties, 0.5, uniform < promised)
                agents += [(first, second)] * num_deals
                share.append(np.stack((won, 1 - won), 1))
                deal.append(np.arange(num_deals))
    return results_of(agents, np.concatenate(share), np.concatenate(deal))


def test_bradley_terry_of_two_agents_is_the_logarithm_of_the_odds():
    rating = bradley_terry([[0, 60_000], [40_000, 0]], [[0, 100_000], [100_000, 0]], anchor=1)
    assert rating == pytest.approx([400 * np.log10(1.5), 0], abs=0.01)


def test_bradley_terry_recovers_ratings_from_what_they_promise():
    truth = np.array([0.0, 150.0, -320.0, 611.0, 40.0])
    games = np.full((5, 5), 1e7)
    games[0, 3] = games[3, 0] = 0
    promised = 1 / (1 + 10 ** ((truth - truth[:, None]) / 400))
    rating = bradley_terry(games * promised, games, anchor=2, anchor_rating=1000.0)
    assert rating == pytest.approx(truth + 1320, abs=0.01)
    assert rating[2] == 1000


def test_bradley_terry_rates_shutouts_by_half_a_drawn_game():
    games = np.array([[0, 1000.0], [1000, 0]])
    rating = bradley_terry([[0, 0], [1000, 0]], games)
    assert rating == pytest.approx([0, 400 * np.log10(1000.25 / 0.25)], abs=1e-3)
    # One who lost all and one who won all, with others between them.
    games = np.full((4, 4), 100.0)
    wins = np.triu(games, 1)
    wins[1, 2] = wins[2, 1] = 50
    rating = bradley_terry(wins, games, anchor=3)
    assert np.isfinite(rating).all()
    assert rating[0] > rating[1] == pytest.approx(rating[2])
    assert rating[0] - rating[1] == pytest.approx(rating[2] - rating[3])


def test_ratings_refuse_agents_that_no_chain_of_games_links():
    games = np.zeros((4, 4))
    games[0, 1] = games[1, 0] = games[2, 3] = games[3, 2] = 10
    with pytest.raises(SplendorError, match=r"links agents \[2, 3\] with agents \[0, 1\]"):
        bradley_terry(games / 2, games)
    games[1, 2] = games[2, 1] = 1
    assert np.isfinite(bradley_terry(games / 2, games)).all()
    with pytest.raises(SplendorError, match="anchor must be 0 to 3, not 4"):
        bradley_terry(games / 2, games, anchor=4)
    results = results_of([(0, 1), (2, 3)], [(1, 0), (1, 0)], [0, 0])
    for rate in (rate_pairs, plackett_luce):
        with pytest.raises(SplendorError, match="no chain of games"):
            rate(results, 4)


def test_rate_pairs_does_not_depend_on_the_order_of_games_or_agents():
    results = play_pairs(np.random.default_rng(0), [0, 100, 300], 60)
    rated = rate_pairs(results, 3)
    order = np.random.default_rng(1).permutation(len(results))
    for one, other in zip(rated, rate_pairs(results[order], 3), strict=True):
        assert one == pytest.approx(other)
    renamed = results.copy()
    renamed["agents"][:, :2] = np.array([2, 0, 1])[results["agents"][:, :2]]
    other = rate_pairs(renamed, 3, anchor=2)
    assert other.rating[[2, 0, 1]] == pytest.approx(rated.rating)


def test_rate_pairs_is_the_fit_of_all_results_and_keeps_the_anchor():
    results = play_pairs(np.random.default_rng(2), [0, 100, 300, -200], 200)
    rated = rate_pairs(results, 4, anchor=1, anchor_rating=1500)
    shares = pair_shares(results, 4)
    wins = np.nan_to_num(shares.share) * shares.games
    assert rated.rating == pytest.approx(bradley_terry(wins, shares.games, 1, 1500))
    assert rated.low[1] == rated.rating[1] == rated.high[1] == 1500
    assert (rated.low <= rated.rating).all() and (rated.rating <= rated.high).all()
    # 1,200 games of each agent: about 10 points of standard error, and that of the anchor.
    width = np.delete(rated.high - rated.low, 1)
    assert (35 < width).all() and (width < 75).all()
    assert np.array([-100, 0, 200, -300]) + 1500 == pytest.approx(rated.rating, abs=40)


def test_rate_pairs_intervals_hold_the_truth_about_that_often():
    """Of 200 intervals 190 are expected, with a standard deviation of 3.1."""
    truth = np.array([0, 80, 250])
    held = np.zeros(3)
    for seed in range(200):
        results = play_pairs(np.random.default_rng(seed), truth, 60, seat_effect=0, ties=0)
        rated = rate_pairs(results, 3)
        held += (rated.low <= truth) & (truth <= rated.high)
    assert held[0] == 200
    assert (held[1:] >= 180).all() and (held[1:] <= 199).all()


def test_rate_pairs_is_not_certain_of_a_shutout():
    share = np.tile([[1.0, 0.0], [0.0, 1.0]], (50, 1))
    results = results_of([(0, 1), (1, 0)] * 50, share, np.arange(100) // 2)
    rated = rate_pairs(results, 2, anchor=1)
    assert rated.rating[0] == pytest.approx(400 * np.log10(100.25 / 0.25))
    assert 300 < rated.low[0] < 700 < rated.rating[0] < rated.high[0]


def test_pair_shares_are_those_of_the_agents_in_any_seat():
    agents = [(0, 1), (1, 0), (2, 2), (1, 0)]
    share = [(1, 0), (1, 0), (1, 0), (0.5, 0.5)]
    shares = pair_shares(results_of(agents, share, [0, 0, 1, 1]), 3)
    assert shares.share[0, 1] == shares.share[1, 0] == 0.5
    assert shares.games.tolist() == [[0, 3, 0], [3, 0, 0], [0, 0, 0]]
    assert np.isnan(shares.share[[0, 2, 1, 0], [2, 0, 2, 0]]).all()
    assert shares.low[0, 1] == 1 - shares.high[1, 0] < 0.5 < shares.high[0, 1]


def test_results_of_more_than_two_or_of_unknown_agents_are_refused():
    with pytest.raises(SplendorError, match="of two players"):
        rate_pairs(results_of([(0, 1, 2)], [(1, 0, 0)], [0]), 3)
    with pytest.raises(SplendorError, match="agent 2 in the results, but only 2"):
        pair_shares(results_of([(0, 2)], [(1, 0)], [0]), 2)
    with pytest.raises(SplendorError, match="at least two agents, not 1"):
        rate_pairs(results_of([(0, 0)], [(1, 0)], [0]), 1)
    with pytest.raises(SplendorError, match="no chain of games"):
        rate_pairs(results_of([(0, 0), (1, 1)], [(1, 0), (1, 0)], [0, 0]), 2)
    with pytest.raises(SplendorError, match="no games"):
        plackett_luce(results_of([(0, 1)], [(1, 0)], [0])[:0], 2)


def test_finishing_ranks_go_by_victory_points_and_cards():
    agents = [(0, 1, 2, 3)] * 4 + [(0, 1, -1, -1)]
    share = [(0, 0, 1, 0), (0.5, 0, 0.5, 0), (0.25,) * 4, (1 / 3, 1 / 3, 0, 1 / 3), (0, 1, 0, 0)]
    points = [(12, 9, 15, 12), (15, 15, 15, 3), (3, 9, 2, 0), (8, 3, 14, 3), (14, 15, 0, 0)]
    num_cards = [(9, 5, 12, 8), (10, 11, 10, 2), (1, 2, 3, 4), (5, 5, 5, 5), (8, 9, 0, 0)]
    offender = [-1, -1, -1, 2, -1]
    results = results_of(agents, share, range(5), points, num_cards, offender)
    ranks = finishing_ranks(results)
    assert ranks[:4].tolist() == [[3, 4, 1, 2], [1, 3, 1, 4], [1, 1, 1, 1], [1, 1, 4, 1]]
    assert ranks[4, :2].tolist() == [2, 1]


def play_tables(rng, strength, num_deals):
    """Tables of three different agents in all rotations, ranked by noisy strength."""
    agents, share, points = [], [], []
    for _ in range(num_deals):
        seated = rng.choice(len(strength), 3, replace=False)
        for turn in range(3):
            row = np.roll(seated, turn)
            score = np.array(strength)[row] + rng.gumbel(size=3)
            agents.append(row)
            share.append(np.arange(3) == score.argmax())
            points.append(np.clip(10 + 5 * (score - score.max()), 0, 15))
    return results_of(agents, share, np.arange(3 * num_deals) // 3, np.array(points))


def test_plackett_luce_orders_agents_and_its_intervals_hold_the_order_of_games():
    results = play_tables(np.random.default_rng(0), [0, 0, 1.5, 3.0], 120)
    rated = plackett_luce(results, 4, num_samples=10)
    assert rated.rating[3] > rated.rating[2] > rated.rating[:2].max()
    # Agents 0 and 1 are equally strong, 2 and 3 are not.
    assert rated.low[0] < rated.high[1] and rated.low[1] < rated.high[0]
    assert rated.high[:2].max() < rated.low[2] and rated.high[2] < rated.low[3]
    shuffled = results[np.random.default_rng(1).permutation(len(results))]
    again = plackett_luce(shuffled, 4, num_samples=10)
    spread = rated.high - rated.low
    assert (abs(again.rating - rated.rating) < spread / 3).all()


@pytest.mark.parametrize("num_deals", [1, 50])
def test_plackett_luce_is_not_certain_of_a_shutout(num_deals):
    """Every table ends alike, so that drawing the deals anew changes nothing."""
    agents = [(0, 1, 2), (1, 2, 0), (2, 0, 1)] * num_deals
    share = [(1, 0, 0), (0, 0, 1), (0, 1, 0)] * num_deals
    points = [(15, 10, 5), (10, 5, 15), (5, 15, 10)] * num_deals
    results = results_of(agents, share, np.arange(3 * num_deals) // 3, np.array(points))
    rated = plackett_luce(results, 3)
    assert (rated.high - rated.low > 1).all()
    assert (rated.high - rated.low)[[0, 2]].min() > 5  # the winner and the loser of all games


def test_plackett_luce_refuses_copies_of_an_agent_at_one_table():
    with pytest.raises(SplendorError, match=r"twice at a table: agents \[0, 1, 1\]"):
        plackett_luce(results_of([(0, 1, 1)], [(1, 0, 0)], [0]), 2)


def test_plackett_luce_names_the_extra_that_it_needs(monkeypatch):
    real_import = builtins.__import__

    def without_openskill(name, *args, **kwargs):
        if name.startswith("openskill"):
            raise ModuleNotFoundError("No module named 'openskill'", name="openskill")
        return real_import(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without_openskill)
    with pytest.raises(SplendorError, match="extra `train`"):
        plackett_luce(results_of([(0, 1, 2)], [(1, 0, 0)], [0]), 3)


def share_of(logits):
    return 1 / (1 + np.exp(-np.array(logits, float)))


def test_nash_average_of_rock_paper_scissors_is_even_whatever_the_stakes_of_a_copy():
    weight, skill = nash_average(share_of([[0, 1, -1], [-1, 0, 1], [1, -1, 0]]))
    assert weight == pytest.approx([1 / 3] * 3) and skill == pytest.approx([0] * 3, abs=1e-3)
    weight, _ = nash_average(share_of([[0, 1, -2], [-1, 0, 3], [2, -3, 0]]))
    assert weight == pytest.approx([1 / 2, 1 / 3, 1 / 6], abs=1e-5)
    # A copy of the first agent shares its third.
    payoff = [[0, 1, -1, 0], [-1, 0, 1, -1], [1, -1, 0, 1], [0, 1, -1, 0]]
    weight, skill = nash_average(share_of(payoff))
    assert weight == pytest.approx([1 / 6, 1 / 3, 1 / 3, 1 / 6], abs=1e-5)


def test_nash_average_gives_all_weight_to_the_best_and_the_others_their_log_odds():
    weight, skill = nash_average([[0.5, 0.6, 0.9], [0.4, 0.5, 0.99], [0.1, 0.01, np.nan]])
    assert weight.tolist() == [1, 0, 0]
    assert skill == pytest.approx([0, -400 * np.log10(1.5), -400 * np.log10(9)], abs=1e-3)


def test_nash_average_is_an_equilibrium_of_any_shares():
    rng = np.random.default_rng(0)
    for num_agents in (1, 2, 5, 9, 14):
        for scale in (0.05, 1, 5):
            payoff = rng.normal(size=(num_agents, num_agents)) * scale
            weight, skill = nash_average(share_of(payoff - payoff.T))
            assert weight.sum() == pytest.approx(1) and (weight >= 0).all()
            assert skill.max() < 0.05
            assert (skill[weight > 0.01] > -0.05).all()


def test_nash_average_names_a_pair_that_has_not_met():
    with pytest.raises(SplendorError, match=r"agents \[0, 2\] have not met"):
        nash_average([[0.5, 0.5, np.nan], [0.5, 0.5, 0.5], [np.nan, 0.5, 0.5]])


def test_cycles_of_three_lists_triples_that_beat_each_other_clearly():
    low = np.full((4, 4), 0.1)
    for winner, loser in ((2, 0), (0, 3), (3, 2), (0, 1), (1, 3)):
        low[winner, loser] = 0.55
    nothing = np.full((4, 4), np.nan)
    assert cycles_of_three(PairShares(nothing, low, nothing, nothing)) == [(0, 3, 2)]
    low[3, 2] = 0.5
    assert cycles_of_three(PairShares(nothing, low, nothing, nothing)) == []
