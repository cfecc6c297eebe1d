import numpy as np
import pytest

from splendor_env.core.state import SplendorError, standard
from splendor_env.envs.vector import SplendorEnv

every_player_count = pytest.mark.parametrize("num_players", [2, 3, 4])


def margin(env):
    """Own points less the best other seat's, over the target."""
    points = env._env.games.games["points"][0, : env.rules.num_players].tolist()
    own = points.pop(env.seat)
    return (own - max(points)) / env.rules.target_points


def episodes(env, num_games, seed=0):
    """(P, reward, P', terminated, info) of each step of random learners, by game."""
    rng = np.random.default_rng(seed)
    for game in range(num_games):
        env.reset(seed=game)
        steps, is_over = [], False
        while not is_over:
            before = margin(env)
            action = rng.choice(np.flatnonzero(env.action_masks()))
            _, reward, terminated, truncated, info = env.step(action)
            steps.append((before, reward, margin(env), terminated, info))
            is_over = terminated or truncated
        yield steps


@every_player_count
def test_win_is_the_zero_sum_share_at_the_end(num_players):
    for steps in episodes(SplendorEnv(rules=standard(num_players, target_points=4)), 15):
        _, last, _, terminated, info = steps[-1]
        assert terminated
        share = (info["seat"] in info["winners"]) / len(info["winners"])
        assert last == pytest.approx((num_players * share - 1) / (num_players - 1))
        assert all(reward == 0 for _, reward, *_ in steps[:-1])


@every_player_count
def test_margin_is_paid_at_the_end_within_bounds(num_players):
    """B65: rewards at the end are bounded."""
    env = SplendorEnv(rules=standard(num_players, target_points=3), reward="margin")
    finals = []
    for steps in episodes(env, 20):
        _, last, after, *_ = steps[-1]
        assert last == pytest.approx(max(-1, min(1, after)))
        assert all(reward == 0 for _, reward, *_ in steps[:-1])
        finals.append(last)
    assert min(finals) < 0 < max(finals)


@pytest.mark.parametrize("gamma", [1.0, 0.9])
def test_shaped_follows_its_formula_step_by_step(gamma):
    rules = standard(3, target_points=5)
    shaped = episodes(SplendorEnv(rules=rules, reward="shaped", gamma=gamma), 8)
    win = episodes(SplendorEnv(rules=rules), 8)
    for shaped_steps, win_steps in zip(shaped, win, strict=True):
        for (before, reward, after, terminated, _), (_, base, *_) in zip(
            shaped_steps, win_steps, strict=True
        ):
            next_potential = 0 if terminated else after
            assert reward == pytest.approx(base + gamma * next_potential - before, abs=1e-6)
        if gamma == 1:
            total = sum(reward for _, reward, *_ in shaped_steps)
            assert total == pytest.approx(win_steps[-1][1] - shaped_steps[0][0], abs=1e-5)


def test_a_truncated_game_keeps_its_potential_and_pays_nothing_else():
    """B40."""
    rules = standard(2, max_rounds=12)
    env = SplendorEnv(rules=rules, reward="shaped")
    seen = 0
    for steps in episodes(env, 6):
        if steps[-1][4]["end_reason"] == "round_limit":
            seen += 1
            total = sum(reward for _, reward, *_ in steps)
            assert total == pytest.approx(steps[-1][2] - steps[0][0], abs=1e-5)
    assert seen
    for steps in episodes(SplendorEnv(rules=rules, reward="margin"), 3):
        assert steps[-1][1] == 0 or steps[-1][3]


@pytest.mark.parametrize("reward", ["win", "margin", "shaped"])
def test_a_forfeited_game_is_lost_even_when_leading(reward):
    env = SplendorEnv(rules=standard(2), reward=reward, illegal="lose", seat=0)
    env.reset(seed=0)
    env._env.games.games["points"][0, 0] = 9
    env._env.rewards.begin(np.zeros(1, np.int64))
    wrong = int(np.flatnonzero(env.action_masks() == 0)[0])
    _, paid, terminated, truncated, info = env.step(wrong)
    assert (terminated, truncated, info["end_reason"]) == (True, False, "illegal_action")
    assert paid == pytest.approx(-1 - 9 / 15 if reward == "shaped" else -1)


@pytest.mark.parametrize("gamma", [-0.1, 1.5, float("nan"), "1", None])
def test_gamma_out_of_range_is_named(gamma):
    with pytest.raises(SplendorError, match="gamma must be 0 to 1, not"):
        SplendorEnv(reward="shaped", gamma=gamma)


def test_an_unknown_scheme_is_named():
    with pytest.raises(SplendorError, match="reward must be one of win, margin, shaped, not 'x'"):
        SplendorEnv(reward="x")
