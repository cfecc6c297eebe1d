import pytest

from splendor_env.evaluation.statistics import wilson_interval


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
