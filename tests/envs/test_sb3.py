import numpy as np
import pytest

from splendor_env.agents.builtin import GreedyAgent, RandomAgent
from splendor_env.core.actions import NUM_ACTIONS
from splendor_env.core.batch import (
    Batch,
    observe_games,
    write_action_masks,
)
from splendor_env.core.observation import OBSERVATION_SIZE, view_observation
from splendor_env.core.random import SEED_STREAM, hash_seed
from splendor_env.core.state import IllegalActionError, SplendorError, standard

pytest.importorskip("stable_baselines3")

from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import DummyVecEnv

from splendor_env.envs.sb3 import SplendorVecEnv
from splendor_env.envs.vector import SplendorEnv, SplendorVectorEnv
from splendor_env.game import Game

every_player_count = pytest.mark.parametrize("num_players", [2, 3, 4])


class Recorder:
    """Plays the first or last legal action, by what its seat sees, and keeps what it was asked."""

    def __init__(self, name="recorder"):
        self.name = name
        self.games = []
        self.actions = []

    def act(self, games, rules, game_id):
        seat = np.ascontiguousarray(games["player"])
        observation = np.empty((len(games), OBSERVATION_SIZE), np.float32)
        mask = np.empty((len(games), NUM_ACTIONS), np.int8)
        observe_games(games, rules, seat, observation)
        write_action_masks(games, rules, mask)
        actions = choose_by_view(observation, mask)
        self.games += [games[i : i + 1].copy() for i in range(len(games))]
        self.actions += actions.tolist()
        return actions


def choose_by_view(observation, mask):
    """A deterministic legal action that depends on the whole observation."""
    rank = (observation.sum(1) * 1000).astype(np.int64) % mask.sum(1)
    return (np.cumsum(mask, axis=1) > rank[:, None]).argmax(1).astype(np.int32)


def random_actions(env, rng):
    return (rng.random((env.num_envs, NUM_ACTIONS)) * env.action_masks()).argmax(1)


def play(env, num_steps, seed=0):
    """Observation, reward, done, infos and masks of a random learner's steps."""
    rng = np.random.default_rng(seed)
    env.seed(seed)
    env.reset()
    for _ in range(num_steps):
        mask = env.action_masks()
        yield *env.step(random_actions(env, rng)), mask


def test_spaces_and_types_are_those_of_stable_baselines():
    env = SplendorVecEnv(standard(2), 5, [RandomAgent()])
    observation = env.reset()
    assert observation.shape == (5, OBSERVATION_SIZE)
    assert observation.dtype == np.float32
    assert env.observation_space.contains(observation[0])
    assert env.has_attr("action_masks")
    assert not env.has_attr("no_such_thing")
    assert env.get_attr("render_mode", [1, 2]) == [None, None]
    masks = env.env_method("action_masks", indices=[3, 0])
    assert np.array_equal(masks, env.action_masks()[[3, 0]])
    assert masks[0].shape == (NUM_ACTIONS,)
    observation, reward, done, infos = env.step(env.action_masks().argmax(1))
    assert (observation.dtype, reward.dtype, done.dtype) == (np.float32, np.float32, np.bool_)
    assert len(infos) == 5
    assert env.env_is_wrapped(object) == [False] * 5
    with pytest.raises(AttributeError):
        env.set_attr("render_mode", "human")
    with pytest.raises(AttributeError):
        env.env_method("explode")


@every_player_count
def test_the_learner_always_has_a_legal_action_and_is_the_one_to_move(num_players):
    env = SplendorVecEnv(standard(num_players), 16, [RandomAgent(), GreedyAgent()])
    for observation, _, _, _, mask in play(env, 150):
        assert mask.any(1).all()
        assert env.action_masks().any(1).all()
        assert np.isfinite(observation).all()
        assert (view_observation(observation)["mover"][:, 0] == 1).all()


def test_an_illegal_action_is_refused_and_changes_nothing():
    env = SplendorVecEnv(standard(2), 3, [RandomAgent()])
    before = env.reset()
    actions = env.action_masks().argmax(1)
    actions[1] = env.action_masks()[1].argmin()
    with pytest.raises(IllegalActionError, match="game 1"):
        env.step(actions)
    actions[1] = -1
    with pytest.raises(IllegalActionError, match="game 1"):
        env.step(actions)
    for wrong in (actions[:2], actions.astype(np.float64)):
        with pytest.raises(SplendorError, match="the action must be 3 integers"):
            env.step(wrong)
    observation, *_ = env.step(env.action_masks().argmax(1))
    assert not np.array_equal(observation, before)


@every_player_count
def test_the_learners_seat_moves_on_from_game_to_game(num_players):
    env = SplendorVecEnv(standard(num_players), num_players, [RandomAgent()])
    seats = [[] for _ in range(num_players)]
    for *_, infos, _ in play(env, 400):
        for row, info in enumerate(infos):
            if "seat" in info:
                seats[row].append(info["seat"])
    for seen in seats:
        assert len(seen) > num_players
        assert seen == [(seen[0] + game) % num_players for game in range(len(seen))]


@every_player_count
def test_it_is_the_gymnasium_vector_environment_step_by_step(num_players):
    """Observations, masks, rewards and ends are the same; the seeds are derived from one."""
    rules = standard(num_players, max_rounds=25)
    env = SplendorVecEnv(rules, 8, ["greedy", "random"], seed=4)
    seeds = [int(hash_seed(np.uint64(4), SEED_STREAM, row)) for row in range(8)]
    vector = SplendorVectorEnv(8, rules=rules, opponents=["greedy", "random"])
    expected, _ = vector.reset(seed=seeds)
    observation = env.reset()
    rng = np.random.default_rng(0)
    num_ends = 0
    for _ in range(150):
        assert np.array_equal(observation, expected["observation"])
        assert np.array_equal(env.action_masks(), expected["action_mask"] == 1)
        actions = random_actions(env, rng)
        observation, reward, done, infos = env.step(actions)
        expected, its_reward, terminated, truncated, its_infos = vector.step(actions)
        assert np.array_equal(reward, its_reward)
        assert np.array_equal(done, terminated | truncated)
        for row, info in enumerate(infos):
            if not done[row]:
                assert info == {}
                continue
            num_ends += 1
            final = its_infos["final_obs"][row]["observation"]
            assert np.array_equal(info["terminal_observation"], final)
            assert info["TimeLimit.truncated"] is bool(truncated[row])
            assert info["episode"]["r"] == reward[row]
            for key in ("seat", "opponents", "points", "winners", "rounds", "end_reason"):
                assert info[key] == its_infos["final_info"][key][row]
    assert num_ends > 8


def test_rewards_of_a_win_and_a_loss_are_one():
    env = SplendorVecEnv(standard(2), 16, [GreedyAgent()])
    rewards = [
        info["episode"]["r"]
        for *_, infos, _ in play(env, 150)
        for info in infos
        if "episode" in info
    ]
    assert rewards
    assert set(rewards) <= {-1.0, 0.0, 1.0}
    assert np.mean(rewards) < -0.9  # random against greedy


def test_the_round_limit_is_a_truncation():
    env = SplendorVecEnv(standard(3, max_rounds=4), 6, [RandomAgent()])
    num_truncated = 0
    for _, reward, done, infos, _ in play(env, 30):
        for row in np.flatnonzero(done):
            assert infos[row]["TimeLimit.truncated"] is True
            assert reward[row] == 0
            assert infos[row]["episode"]["l"] >= 4
            num_truncated += 1
    assert num_truncated > 0
    env = SplendorVecEnv(standard(2), 8, [GreedyAgent()])
    ends = [info for *_, infos, _ in play(env, 120) for info in infos if info]
    assert ends
    assert not any(info["TimeLimit.truncated"] for info in ends)


def test_the_same_seed_gives_the_same_trajectories():
    def trajectory(seed):
        env = SplendorVecEnv(standard(3), 8, [RandomAgent(1), GreedyAgent()], [2, 1])
        return [
            (o, r, d, [i.get("opponents") for i in infos])
            for o, r, d, infos, _ in play(env, 80, seed)
        ]

    first, second, other = trajectory(5), trajectory(5), trajectory(6)
    for one, two in zip(first, second, strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(one[:3], two[:3], strict=True))
        assert one[3] == two[3]
    assert not np.array_equal(first[0][0], other[0][0])


def test_reset_without_a_seed_deals_other_games():
    env = SplendorVecEnv(standard(2), 4, [RandomAgent()], seed=3)
    assert not np.array_equal(env.reset(), env.reset())


def test_an_opponents_move_depends_on_the_state_and_comes_from_its_own_seat():
    env = SplendorVecEnv(standard(3), 8, [opponent := Recorder()])
    for _ in play(env, 40):
        pass
    assert len(set(opponent.actions)) > 15
    # The seats of the learner are never asked of an opponent.
    seats = np.array([game["player"][0] for game in opponent.games])
    assert set(seats.tolist()) == {0, 1, 2}


@every_player_count
def test_many_games_equal_one_game_at_a_time(num_players):
    """Step by step, with opponents that choose by what they see."""
    rules = standard(num_players, max_rounds=30)
    num_games = 5
    env = SplendorVecEnv(rules, num_games, [Recorder()], seed=11)
    observation = env.reset()
    seeds = [int(hash_seed(np.uint64(11), SEED_STREAM, row)) for row in range(num_games)]
    singles = [OneGame(rules, Game(rules, seed=seed).games, seed % num_players) for seed in seeds]
    rng = np.random.default_rng(0)
    num_ends = 0
    for _ in range(120):
        assert np.array_equal(observation, [single.observe(single.seat) for single in singles])
        assert np.array_equal(env.action_masks(), [single.mask() for single in singles])
        actions = random_actions(env, rng)
        observation, reward, done, infos = env.step(actions)
        for single, action, its_reward, its_done, info in zip(
            singles, actions, reward, done, infos, strict=True
        ):
            expected_reward, final = single.step(int(action))
            assert its_reward == expected_reward
            assert its_done == (final is not None)
            if final is not None:
                assert np.array_equal(info["terminal_observation"], final)
                num_ends += 1
    assert num_ends >= num_games


class OneGame:
    """The plain way: one game, one decision at a time."""

    def __init__(self, rules, game, seat):
        self.rules = rules
        self.batch = Batch(rules, 1, auto_reset=False)
        self.batch.games[:] = game
        self.batch.refresh()
        self.seat = seat
        self.play_others()

    def observe(self, seat):
        return self.batch.observe(seat)[0]

    def mask(self):
        return self.batch.action_mask[0].astype(bool)

    def is_over(self):
        return bool(self.batch.terminated[0] or self.batch.truncated[0])

    def play_others(self):
        while not self.is_over() and self.batch.player[0] != self.seat:
            self.batch.step(choose_by_view(self.batch.observation, self.batch.action_mask))

    def step(self, action):
        self.batch.step(np.array([action]))
        self.play_others()
        if not self.is_over():
            return 0, None
        reward, final = self.batch.reward[0, self.seat], self.observe(self.seat)
        self.batch.reset_where(np.array([0]))
        self.seat = (self.seat + 1) % self.rules.num_players
        self.play_others()
        return reward, final


def test_new_opponents_come_with_new_games_only():
    env = SplendorVecEnv(standard(2), 8, [Recorder("old")], seed=0)
    env.reset()
    env.set_opponents([Recorder("new"), Recorder("never")], [1, 0])
    rng = np.random.default_rng(0)
    names = [[] for _ in range(8)]
    for _ in range(200):
        for row, info in enumerate(env.step(random_actions(env, rng))[3]):
            names[row] += info.get("opponents", ())
    for seen in names:
        assert len(seen) > 1
        assert seen == ["old"] + ["new"] * (len(seen) - 1)


def test_opponents_are_drawn_by_their_weights():
    env = SplendorVecEnv(
        standard(4), 64, [Recorder("a"), Recorder("b"), Recorder("c")], [3, 1, 0], seed=0
    )
    names = [
        name for *_, infos, _ in play(env, 100) for i in infos for name in i.get("opponents", ())
    ]
    assert len(names) > 100
    assert 0.65 < names.count("a") / len(names) < 0.85
    assert names.count("c") == 0


@pytest.mark.parametrize(
    ("opponents", "weights"),
    [([], None), ([RandomAgent()], [1, 1]), ([RandomAgent()], [0]), ([RandomAgent()], [-1])],
)
def test_opponents_and_weights_must_fit(opponents, weights):
    with pytest.raises(SplendorError):
        SplendorVecEnv(standard(2), 2, opponents, weights)


def test_maskable_ppo_finds_the_masks():
    """B24."""
    utils = pytest.importorskip("sb3_contrib.common.maskable.utils")
    env = SplendorVecEnv(standard(2), 3, [RandomAgent()])
    env.reset()
    assert utils.is_masking_supported(env)
    assert np.array_equal(utils.get_action_masks(env), env.action_masks())


def test_arrays_of_a_step_stay_as_they_were():
    env = SplendorVecEnv(standard(2), 3, [RandomAgent()])
    first = env.reset()
    kept = first.copy()
    env.step(env.action_masks().argmax(1))
    assert np.array_equal(first, kept)


def test_masks_of_copies_in_a_dummy_vec_env_have_a_row_for_each():
    """B26: the masks are a method of each environment; nothing is wrapped around the copies."""
    utils = pytest.importorskip("sb3_contrib.common.maskable.utils")
    copies = DummyVecEnv([lambda: SplendorEnv(mask_in="info", seat=0)] * 3)
    copies.seed(1)
    copies.reset()
    masks = utils.get_action_masks(copies)
    assert masks.shape == (3, NUM_ACTIONS)
    copies.step(masks.argmax(1))


def test_an_evaluation_that_ignores_the_masks_fails_loudly():
    """B31: the plain `evaluate_policy` plays illegal actions; the maskable one does not."""
    maskable = pytest.importorskip("sb3_contrib.common.maskable.evaluation")
    env = SplendorVecEnv(standard(2), 4, ["random"])
    model = pytest.importorskip("sb3_contrib").MaskablePPO("MlpPolicy", env, n_steps=8, seed=0)
    with pytest.raises(IllegalActionError):
        evaluate_policy(model, env, n_eval_episodes=4, warn=False)
    mean, _ = maskable.evaluate_policy(model, env, n_eval_episodes=4, warn=False)
    assert -1 <= mean <= 1
