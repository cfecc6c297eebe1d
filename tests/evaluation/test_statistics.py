import time

import numpy as np
import pytest

from benchmarks.coverage import SEAT_EFFECT, coverage_of_shares, simulate_deals, sprt_errors
from splendor_env.core.state import SplendorError
from splendor_env.evaluation.statistics import (
    Sprt,
    cluster_bootstrap_interval,
    cluster_sums,
    resampled_sums,
    wilson_interval,
)


@pytest.mark.parametrize(
    ("share", "num_games", "low", "high"),
    [
        (0.8, 10, 0.4902, 0.9433),
        (0.5, 100, 0.4038, 0.5962),
        (0.0, 10, 0.0, 0.2775),
        (1.0, 10, 0.7225, 1.0),
        (0.5, 2401, 0.4800, 0.5200),
    ],
)
def test_wilson_interval_has_the_published_values(share, num_games, low, high):
    assert wilson_interval(share, num_games) == pytest.approx((low, high), abs=5e-5)


def test_wilson_interval_stays_within_0_and_1():
    for num_games in (1, 7, 1000):
        for share in (0.0, 1.0):
            low, high = wilson_interval(share, num_games)
            assert 0 <= low <= share <= high <= 1


def test_cluster_sums_add_up_each_cluster_in_ascending_order():
    values = np.array([[1.0, 1], [2, 1], [4, 1], [8, 1]])
    cluster = np.array([7, -3, 7, 7])
    assert cluster_sums(values, cluster).tolist() == [[2, 1], [13, 3]]
    assert cluster_sums(values[:, 0], cluster).tolist() == [2, 13]


def test_resampled_sums_draw_as_many_clusters_as_there_are():
    sums = np.array([[0.0, 2], [1, 2], [1, 2], [2, 2]])
    totals = resampled_sums(sums, 20_000, seed=3)
    assert totals.shape == (20_000, 2)
    assert (totals[:, 1] == 8).all()
    assert totals[:, 0].mean() == pytest.approx(4, abs=0.03)
    assert totals[:, 0].var() == pytest.approx(4 * sums[:, 0].var(), rel=0.03)


def test_bootstrap_interval_is_that_of_the_mean_over_deals():
    rng = np.random.default_rng(1)
    share = (rng.random(4000) < 0.6).astype(np.float64)
    low, high = cluster_bootstrap_interval(share, np.arange(4000))
    assert (low, high) == pytest.approx(wilson_interval(share.mean(), 4000), abs=1.5e-3)


def test_bootstrap_interval_knows_that_games_of_a_deal_belong_together():
    rng = np.random.default_rng(2)
    won = (rng.random(500) < 0.5).astype(np.float64)
    deal = np.repeat(np.arange(500), 4)
    as_games = cluster_bootstrap_interval(np.repeat(won, 4), np.arange(2000))
    alike = cluster_bootstrap_interval(np.repeat(won, 4), deal)
    assert np.diff(alike) == pytest.approx(2 * np.diff(as_games), rel=0.07)


def test_bootstrap_interval_of_identical_agents_shrinks_with_the_deals_only():
    """Each deal is won once and lost once: no variance at all, but three deals prove little."""
    width = {}
    for num_deals in (3, 30, 3000):
        share = np.tile([0.0, 1.0], num_deals)
        low, high = cluster_bootstrap_interval(share, np.repeat(np.arange(num_deals), 2))
        assert low < 0.5 < high
        width[num_deals] = high - low
    assert width[3] > 0.3 and 0.03 < width[30] < 0.12 and width[3000] < 0.001


def test_bootstrap_interval_of_a_shutout_leaves_room_for_a_defeat():
    low, high = cluster_bootstrap_interval(np.ones(40), np.arange(40) // 2)
    assert high == 1 and 0.8 < low < 0.92  # Wilson's for 40 games: 0.912, for 20: 0.839
    low, high = cluster_bootstrap_interval(np.zeros(2), np.zeros(2))
    assert low == 0 and high > 0.5


def test_bootstrap_interval_depends_on_its_seed_alone():
    rng = np.random.default_rng(3)
    share, deal = rng.random(300), np.arange(300) // 3
    first = cluster_bootstrap_interval(share, deal)
    order = rng.permutation(300)
    assert cluster_bootstrap_interval(share, deal) == first
    assert cluster_bootstrap_interval(share[order], deal[order]) == pytest.approx(first)
    assert cluster_bootstrap_interval(share, deal, seed=1) != first
    narrow = cluster_bootstrap_interval(share, deal, confidence=0.5)
    assert first[0] < narrow[0] < share.mean() < narrow[1] < first[1]


@pytest.mark.parametrize("num_deals", [15, 150])
@pytest.mark.parametrize("num_players", [2, 3, 4])
def test_95_percent_intervals_hold_the_truth_about_that_often(num_players, num_deals):
    """Of 500 matches 475 are expected, with a standard deviation of 4.9."""
    mean_by_seat = 0.6 + SEAT_EFFECT[num_players]
    rng = np.random.default_rng(num_players)
    shares = simulate_deals(rng, 500 * num_deals, mean_by_seat)
    shares = shares.reshape(500, num_deals, num_players)
    assert shares.mean() == pytest.approx(0.6, abs=0.015)
    held = coverage_of_shares(shares, 0.6, num_samples=500)
    assert 465 <= 500 * held["Wilson"] <= 494
    assert 465 <= 500 * held["bootstrap over deals"] <= 485


def test_bootstrap_interval_adds_as_many_games_whatever_the_games_of_a_deal():
    """Every deal is half won: only the games that are added vary, and weigh by all games played."""
    of_two = cluster_bootstrap_interval(np.tile([0.0, 1.0], 200), np.repeat(np.arange(200), 2))
    of_four = cluster_bootstrap_interval(np.tile([0.0, 1.0], 200), np.repeat(np.arange(100), 4))
    assert 0 < np.diff(of_two) == pytest.approx(np.diff(of_four), rel=0.1)


def test_bootstrap_of_5000_deals_takes_well_under_a_second():
    rng = np.random.default_rng(4)
    share = (rng.random(10_000) < 0.6).astype(np.float64)
    start = time.process_time()
    cluster_bootstrap_interval(share, np.arange(10_000) // 2)
    assert time.process_time() - start < 0.5


def test_bootstrap_refuses_what_has_no_interval():
    with pytest.raises(SplendorError, match="for each game, not"):
        cluster_bootstrap_interval(np.zeros(0), np.zeros(0))
    with pytest.raises(SplendorError, match=r"\(3,\) shares and \(2,\) clusters"):
        cluster_bootstrap_interval(np.zeros(3), np.zeros(2))
    with pytest.raises(SplendorError, match="between 0 and 1, not 95"):
        cluster_bootstrap_interval(np.zeros(3), np.zeros(3), confidence=95)


@pytest.mark.parametrize("num_players", [2, 3])
def test_sprt_errs_as_rarely_as_stated(num_players):
    """Of 1,000 tests 100 may err at each hypothesis, with a standard deviation of 9.5."""
    rng = np.random.default_rng(5)
    errors = sprt_errors(
        rng, num_players, h1=0.6, alpha=0.1, beta=0.1, num_tests=1000, num_deals=1500
    )
    assert errors.undecided == 0
    # Not far below either: a test that never errs would need more games than it should.
    assert 40 <= 1000 * errors.accepted_wrongly <= 125
    assert 40 <= 1000 * errors.rejected_wrongly <= 125


def test_sprt_does_not_depend_on_how_its_deals_are_split():
    rng = np.random.default_rng(6)
    share = rng.integers(0, 3, 4000) / 2 + 0.02
    whole = Sprt()
    decision = whole.update(share)
    piecewise = Sprt()
    answers = [piecewise.update(share[start : start + 7]) for start in range(0, 4000, 7)]
    assert decision == answers[-1] is not None
    assert whole.num_deals == piecewise.num_deals < 4000
    assert whole.llr == pytest.approx(piecewise.llr)
    assert answers[whole.num_deals // 7 - 1] is None


def test_sprt_stays_decided_and_a_decision_is_at_its_bound():
    test = Sprt(alpha=0.05, beta=0.1)
    assert (test.lower, test.upper) == pytest.approx((np.log(0.1 / 0.95), np.log(0.9 / 0.05)))
    assert test.update(np.full(2, 0.5)) is None and test.num_deals == 2
    assert test.update(np.full(1000, 1.0)) == "accept"
    assert test.llr >= test.upper
    num_deals = test.num_deals
    assert test.update(np.zeros(1000)) == "accept" and test.num_deals == num_deals


def test_sprt_rejects_identical_agents_but_not_after_a_few_deals():
    test = Sprt()
    assert test.update(np.full(20, 0.5)) is None
    assert test.update(np.full(200, 0.5)) == "reject"


def test_sprt_refuses_numbers_that_make_no_test():
    with pytest.raises(SplendorError, match=r"h0=0\.6 and h1=0\.5"):
        Sprt(h0=0.6, h1=0.5)
    with pytest.raises(SplendorError, match=r"not 0 and 0\.05"):
        Sprt(alpha=0)
