import textwrap

import numpy as np
import pytest

from splendor_env.agents import make_agent
from splendor_env.core._jit import jit
from splendor_env.core.actions import ACTION_NAMES
from splendor_env.core.batch import deal_games, step_games, write_action_masks, write_victory_shares
from splendor_env.core.state import GAME, EndReason, SplendorError, rulebook_2014, standard
from splendor_env.evaluation import arena
from splendor_env.evaluation import luck as luck_module
from splendor_env.evaluation.luck import controlled_mean, luck_of
from splendor_env.search.evaluators import NUM_FEATURES, write_shares


@jit
def write_guesses(games, rules, features, out):
    for i in range(games.shape[0]):
        write_shares(games[i], rules, features, out[i])


def guesses_of(games, rules):
    out = np.zeros((len(games), rules.num_players))
    write_guesses(games, rules, np.empty(NUM_FEATURES), out)
    return out


def play(rules, num_games, seed, specs, stop_at=None):
    """Play all games at once, seat s by spec s; deals, actions, and the shares (G, N)."""
    games = np.zeros(num_games, GAME)
    deal_games(games, rules, np.uint64(seed))
    deals = games.copy()
    agents = [make_agent(spec, seed) for spec in specs]
    actions = [[] for _ in range(num_games)]
    while stop_at is None or len(actions[0]) < stop_at:
        is_running = games["end_reason"] == EndReason.RUNNING
        if not is_running.any():
            break
        chosen = np.full(num_games, -1, np.int32)
        for seat, agent in enumerate(agents):
            rows = np.flatnonzero(is_running & (games["player"] == seat))
            chosen[rows] = agent.act(games[rows], rules, rows)
        for row in np.flatnonzero(is_running):
            actions[row].append(chosen[row])
        step_games(games, chosen, rules, -1)
    share = np.zeros((num_games, rules.num_players))
    write_victory_shares(games, rules, share)
    return deals, [np.array(one, np.int8) for one in actions], share, games


@pytest.mark.parametrize("kind", ["buy 1-", "reserve 2-", "reserve deck 3"])
@pytest.mark.parametrize("num_players", [2, 3])
def test_luck_of_all_possible_draws_has_the_mean_zero(kind, num_players):
    rules = standard(num_players)
    _, _, _, games = play(rules, 30, 3, ["greedy"] * num_players, stop_at=24)
    mask = np.zeros((len(games), len(ACTION_NAMES)), np.int8)
    write_action_masks(games, rules, mask)
    is_wanted = [name.startswith(kind) for name in ACTION_NAMES]
    row, index = np.argwhere(mask & is_wanted)[0]
    games, action = games[row : row + 1], np.array([index], np.int32)
    level = int(kind.strip("-")[-1]) - 1
    deck = games["deck"][0, level, : games["deck_size"][0, level]]
    after = np.repeat(games, len(deck))
    for row, card in enumerate(deck):
        step_games(after[row : row + 1], action, rules, card)
    guesses = guesses_of(after, rules)

    luck = luck_of(np.repeat(games, len(deck)), [action] * len(deck), deck[:, None], rules)
    assert luck == pytest.approx(guesses - guesses.mean(0), abs=1e-12)
    assert luck.mean(0) == pytest.approx(0, abs=1e-12)
    assert luck.std(0).max() > 1e-3


def test_actions_that_draw_nothing_bring_no_luck():
    rules = standard(2)
    games = np.zeros(2, GAME)
    deal_games(games, rules, np.uint64(1))
    take = np.array([ACTION_NAMES.index("take W U G")])
    assert luck_of(games, [take, np.empty(0)], None, rules).tolist() == [[0, 0], [0, 0]]
    assert games["rounds"].tolist() == [1, 1] and games["player"].tolist() == [0, 0]


@pytest.mark.parametrize(
    "rules", [standard(2), standard(3), standard(4), rulebook_2014(2)], ids=lambda rules: rules[:2]
)
def test_luck_has_the_mean_zero_over_many_games(rules):
    specs = ["greedy", "random", "greedy", "greedy"][: rules.num_players]
    deals, actions, _, _ = play(rules, 500, 5, specs)
    luck = luck_of(deals, actions, None, rules)
    assert abs(luck.sum(1)).max() < 1e-9
    z_score = luck.mean(0) / (luck.std(0) / np.sqrt(len(luck)))
    assert (abs(z_score) < 4).all(), z_score
    assert luck.std(0).min() > 0.01


def test_luck_of_imposed_draws_is_that_of_the_game_that_had_them():
    rules = standard(2)
    deals, actions, _, _ = play(rules, 20, 7, ["greedy", "random"])
    draws = []
    for deal, own_actions in zip(deals, actions, strict=True):
        game = np.array([deal], GAME)
        drawn = []
        for action in own_actions:
            decks = [set(deck.tolist()) for deck in game["deck"][0]]
            step_games(game, np.array([action], np.int32), rules, -1)
            gone = [decks[level] - set(deck.tolist()) for level, deck in enumerate(game["deck"][0])]
            cards = set().union(*gone)
            drawn.append(max(cards, default=-1))
        draws.append(np.array(drawn, np.int8))
    elsewhere = deals.copy()
    elsewhere["seed"] = 0
    expected = luck_of(deals, actions, None, rules)
    assert luck_of(elsewhere, actions, draws, rules) == pytest.approx(expected, abs=1e-12)
    assert abs(expected).max() > 0.05


def test_luck_refuses_illegal_actions_and_arrays_that_do_not_fit():
    rules = standard(2)
    games = np.zeros(2, GAME)
    deal_games(games, rules, np.uint64(1))
    take = ACTION_NAMES.index("take W U G")
    with pytest.raises(SplendorError, match="action 77 is illegal as number 1 of game 1"):
        luck_of(games, [[take], [take, 77]], None, rules)
    with pytest.raises(SplendorError, match="2 deals do not go with the actions of 1"):
        luck_of(games, [[take]], None, rules)
    with pytest.raises(SplendorError, match="draws must be as many"):
        luck_of(games, [[take], [take]], [[-1], []], rules)


def test_controlled_mean_is_unbiased_and_saves_variance():
    """The share is 0.6 and half of its variance is luck; the fit costs a tenth of what is left."""
    rng = np.random.default_rng(0)
    plain, controlled, coefficient, held = [], [], [], 0
    for _ in range(600):
        luck = rng.normal(size=40) * 0.2
        share = 0.6 + 1.5 * luck + rng.normal(size=40) * 0.3
        result = controlled_mean(share, luck, np.arange(40) // 2)
        plain.append(share.mean())
        controlled.append(result.mean)
        coefficient.append(result.coefficient)
        held += result.low <= 0.6 <= result.high
    assert np.var(controlled) / np.var(plain) == pytest.approx(0.55, abs=0.12)
    assert np.mean(controlled) == pytest.approx(0.6, abs=4 * 0.3 / np.sqrt(40 * 600))
    assert np.mean(coefficient) == pytest.approx(1.5, abs=0.06)
    assert 550 <= held <= 590  # 570 are expected, with a standard deviation of 5.3


def test_controlled_mean_takes_each_coefficient_from_the_other_deals():
    """A luck that happens to explain everything in a handful of games is not believed there."""
    share = np.array([1.0, 0.0, 0.0, 1.0, 1.0, 1.0, 0.0, 0.0])
    luck = np.array([0.3, -0.3, -0.3, 0.3, 0.0, 0.0, 0.0, 0.0])
    deal = np.array([2, 2, 4, 4, 3, 3, 5, 5])
    # Deals 2 and 4 sum to no luck each, so nothing is learnt for 3 and 5, nor the other way.
    assert controlled_mean(share, luck, deal).coefficient == 0
    one_by_one = controlled_mean(share, luck, np.array([0, 2, 4, 6, 1, 3, 5, 7]))
    assert one_by_one.mean == pytest.approx(0.5)


def test_controlled_mean_without_luck_is_the_plain_mean():
    share = np.array([1.0, 0.5, 0.0, 1.0])
    result = controlled_mean(share, np.zeros(4), np.arange(4) // 2)
    assert (result.mean, result.coefficient, result.variance_ratio) == (0.625, 0, 1)
    assert controlled_mean(share[:1], np.ones(1), np.zeros(1)).mean == 1
    with pytest.raises(SplendorError, match="one value for each game"):
        controlled_mean(share, np.zeros(3), np.zeros(4))


def test_controlled_mean_of_real_games_agrees_with_the_plain_one_and_saves_some_variance():
    deals, actions, share, _ = play(standard(2), 1500, 11, ["greedy", "greedy"])
    luck = luck_of(deals, actions, None, standard(2))
    result = controlled_mean(share[:, 0], luck[:, 0], np.arange(1500))
    assert 0.85 < result.variance_ratio < 0.98 and 0.5 < result.coefficient < 2
    # The difference of the two is luck: a fifth of the plain standard error of 0.013.
    assert result.mean == pytest.approx(share[:, 0].mean(), abs=0.013)
    assert result.low < result.mean < result.high


def test_the_example_of_the_module_runs():
    *lines, last = textwrap.dedent(luck_module.__doc__.partition("here:\n\n")[2]).splitlines()
    names = vars(arena) | vars(luck_module) | {"rules": standard(2, target_points=4)}
    names["agents"] = [make_agent("racer"), make_agent("random")]
    exec("\n".join(lines).replace("1000", "40"), names)
    result = eval(last, names)
    results = names["games"].results
    plain = results["share"][results["agents"] == 0].mean()
    assert len(results) == 40 and result.low < result.mean <= result.high
    assert result.mean == pytest.approx(plain, abs=0.1)
