"""The hash behind every draw: golden values, uniformity, and seeds that are refused."""

import random

import numpy as np
import pytest

from splendor_env import Game, SplendorError, standard
from splendor_env.core.batch import deal_games
from splendor_env.core.random import CHOICE_STREAM, check_seed, draw_below, hash_seed
from splendor_env.core.state import GAME


def test_golden_values():
    """The same on every machine and in every release: saved seeds keep their games."""
    golden = {
        (0, 0, 0): 5095610196844313600,
        (1, 0, 0): 8614008028692990056,
        (0, 1, 0): 17160774760686499100,
        (0, 0, 1): 6728581669027343264,
        (2**64 - 1, 6, 123456): 16199698916946262619,
    }
    for (seed, stream, position), bits in golden.items():
        assert int(hash_seed(np.uint64(seed), stream, position)) == bits
    draws = [draw_below(np.uint64(7), 2, position, 20) for position in range(8)]
    assert draws == [13, 6, 14, 13, 5, 10, 0, 6]


def test_golden_deal():
    """What seed 7 deals to two players, in every release."""
    dealt = Game(seed=7).to_dict()
    assert list(dealt["market"].values()) == [
        *("G02020", "W01111", "W02002", "G00030"),
        *("G42001", "R00060", "K00006", "K00530"),
        *("G07300", "W30007", "U63003", "R00700"),
    ]
    assert [entry["noble"] for entry in dealt["nobles"]] == ["00333", "40004", "44000"]


@pytest.mark.parametrize("bound", [2, 3, 7, 40])
def test_draws_are_uniform(bound):
    """A fixed seed; each count lies within five standard deviations of its mean."""
    num_draws = 20_000
    counts = np.bincount(
        [draw_below(np.uint64(3), CHOICE_STREAM, position, bound) for position in range(num_draws)],
        minlength=bound,
    )
    assert len(counts) == bound
    mean = num_draws / bound
    assert np.abs(counts - mean).max() < 5 * np.sqrt(mean)


def test_streams_positions_and_seeds_are_unrelated():
    """No value comes twice among thousands of neighbouring places."""
    values = {
        int(hash_seed(np.uint64(seed), stream, position))
        for seed in range(20)
        for stream in range(7)
        for position in range(20)
    }
    assert len(values) == 20 * 7 * 20


@pytest.mark.parametrize("seed", [0, 1, 2**63, 2**64 - 1, np.uint64(7), np.int8(7)])
def test_seed_of_64_bits_is_taken(seed):
    assert check_seed(seed) == np.uint64(int(seed))
    assert Game(seed=seed) == Game(seed=int(seed))


@pytest.mark.parametrize("seed", [-1, 2**64, 1.0, "7", True, np.int8(-1)])
def test_other_seed_is_refused(seed):
    with pytest.raises(SplendorError, match="seed must be an integer 0 to"):
        check_seed(seed)
    with pytest.raises(SplendorError, match="seed must be an integer 0 to"):
        Game(seed=seed)


def test_global_seeds_are_neither_read_nor_changed():
    """Same seed, same game, whatever `random` and NumPy were seeded with. B17."""
    random.seed(1)
    np.random.seed(1)
    states = random.getstate(), np.random.get_state()[1].tolist()
    first = Game(seed=9)
    assert (random.getstate(), np.random.get_state()[1].tolist()) == states
    random.seed(2)
    np.random.seed(2)
    assert Game(seed=9) == first


def test_games_without_a_seed_differ():
    """64 bits from the operating system."""
    assert len({int(Game().games["seed"][0]) for _ in range(5)}) == 5


def cards_of_level(game, level, plies, chooser):
    """The cards of a level in the order in which they turn up in a game played by `chooser`."""
    drawn = []
    for _ in range(plies):
        if game.is_over:
            break
        before = set(game.to_dict()["decks"][level])
        game.push(chooser(game))
        drawn += before - set(game.to_dict()["decks"][level])
    return drawn


@pytest.mark.parametrize("level", [0, 1, 2])
def test_agents_meet_the_cards_of_a_level_in_the_same_order(level):
    """Whatever else happens: one agent reserves all it can, two others choose at random."""
    first, second = random.Random(1), random.Random(2)
    orders = [
        cards_of_level(Game(seed=11, num_players=4), level, 300, chooser)
        for chooser in (
            lambda game: first.choice(game.legal_moves),
            lambda game: second.choice(game.legal_moves),
            lambda game: (
                [m for m in game.legal_moves if m.startswith((f"reserve deck {level + 1}", "buy"))]
                or game.legal_moves
            )[-1],
        )
    ]
    shortest = min(map(len, orders))
    assert shortest >= 5
    assert orders[0][:shortest] == orders[1][:shortest] == orders[2][:shortest]


def test_batches_of_neighbouring_seeds_share_no_game():
    """Two runs with seeds 0 and 1 meet different deals, not the same ones in another order. B21."""
    games = np.zeros((3, 1_024), GAME)
    for seed, batch in enumerate(games):
        deal_games(batch, standard(2), np.uint64(seed))
    assert len(set(games["seed"].ravel().tolist())) == games.size


def test_different_seeds_deal_different_markets():
    """Fifty seeds, fifty deals."""
    markets = [tuple(Game(seed=seed).to_dict()["market"].values()) for seed in range(50)]
    assert len(set(markets)) == 50


def test_deals_are_uniform():
    """Each card of a level is equally often face up, each noble equally often in the row."""
    num_games = 3_000
    games = np.zeros(num_games, GAME)
    deal_games(games, standard(2), np.uint64(4))
    for level, size in enumerate((40, 30, 20)):
        share = 4 / size
        counts = np.bincount(games["market"][:, level].ravel() - (0, 40, 70)[level])
        assert len(counts) == size
        deviation = np.sqrt(num_games * share * (1 - share))
        assert np.abs(counts - num_games * share).max() < 5 * deviation
    counts = np.bincount(games["nobles"][:, :3].ravel())
    assert len(counts) == 10
    assert np.abs(counts - num_games * 0.3).max() < 5 * np.sqrt(num_games * 0.3 * 0.7)
