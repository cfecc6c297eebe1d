import copy
import pickle
import subprocess
import sys
import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

import splendor_env
from splendor_env import Game
from splendor_env.agents import make_agent
from splendor_env.core.actions import ACTION_NAMES, NUM_ACTIONS, PASS
from splendor_env.core.batch import observe_games
from splendor_env.core.rules import is_legal
from splendor_env.core.state import IllegalActionError, SplendorError, standard
from splendor_env.envs import register_gymnasium
from splendor_env.envs.vector import SplendorEnv, SplendorVectorEnv
from tests.envs.test_learner import Recorder

SHORT = standard(2, target_points=4, max_rounds=25)
MODES = ("SameStep", "NextStep", "Disabled")
every_player_count = pytest.mark.parametrize("num_players", [2, 3, 4])
every_mode = pytest.mark.parametrize("mode", MODES)
every_mask_place = pytest.mark.parametrize("mask_in", ["obs", "info"])


def choose(mask, salt):
    """A legal action for each row of masks, by the mask and a number."""
    rank = (np.arange(NUM_ACTIONS) * 31 + salt * 17) % 101
    return (mask * (rank + 1)).argmax(-1)


def illegal(mask):
    return int(np.flatnonzero(mask == 0)[0])


def assert_same(left, right):
    """Equal observations, infos or rewards, key by key."""
    assert type(left) is type(right)
    if isinstance(left, dict):
        assert left.keys() == right.keys()
        for key in left:
            assert_same(left[key], right[key])
    elif isinstance(left, np.ndarray) and left.dtype == object:
        for one, other in zip(left, right, strict=True):
            assert_same(one, other)
    elif isinstance(left, np.ndarray):
        assert left.dtype == right.dtype
        np.testing.assert_array_equal(left, right)
    else:
        assert left == right


def play(env, num_steps, seed=0):
    """What a single environment gives, game after game."""
    yield env.reset(seed=seed)
    for step in range(num_steps):
        given = env.step(choose(env.unwrapped.action_masks(), step))
        yield given
        if given[2] or given[3]:
            yield env.reset()


# The library's own checks and the registry


@every_mask_place
@pytest.mark.parametrize("reward", ["win", "shaped"])
def test_gymnasium_finds_nothing(mask_in, reward):
    env = gymnasium.make("Splendor-v0", illegal="random", mask_in=mask_in, reward=reward)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(env.unwrapped)


@every_mask_place
def test_sb3_finds_nothing(mask_in):
    checker = pytest.importorskip("stable_baselines3.common.env_checker")
    env = gymnasium.make("Splendor-v0", illegal="random", mask_in=mask_in)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        checker.check_env(env)


def test_maskable_ppo_finds_the_masks_and_learns_from_them():
    contrib = pytest.importorskip("sb3_contrib")
    env = gymnasium.make("Splendor-v0", mask_in="info")
    model = contrib.MaskablePPO("MlpPolicy", env, n_steps=64, batch_size=64, n_epochs=1)
    before = model.policy.state_dict()["action_net.weight"].clone()
    model.learn(64)
    assert not before.equal(model.policy.state_dict()["action_net.weight"])


def test_registering_again_does_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        register_gymnasium()
    assert gymnasium.spec("Splendor-v0").entry_point == "splendor_env.envs.vector:SplendorEnv"


def test_import_does_not_load_the_environment():
    code = "import sys, splendor_env; print('splendor_env.envs.vector' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_default_wrappers_pass_everything_on():
    env = gymnasium.make("Splendor-v0", num_players=3, opponents=["random", "greedy"], seat=2)
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(0)
    env.reset(seed=1, options={"position": Game(num_players=3, seed=3)})
    is_over, step = False, 0
    while not is_over:
        action = choose(env.get_wrapper_attr("action_masks")(), step)
        _, reward, terminated, truncated, info = env.step(np.int64(action))
        assert type(reward) is float
        is_over, step = terminated or truncated, step + 1
    assert info["seat"] == 2
    assert len(info["opponents"]) == 2


def test_make_vec_is_native_and_declares_its_mode():
    envs = gymnasium.make_vec("Splendor-v0", num_envs=3)
    assert isinstance(envs.unwrapped, SplendorVectorEnv)
    assert envs.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    for mode in AutoresetMode:
        envs = gymnasium.make_vec("Splendor-v0", num_envs=3, autoreset_mode=mode)
        assert envs.metadata["autoreset_mode"] is mode


@every_mask_place
def test_what_comes_out_is_in_the_declared_spaces(mask_in):
    envs = SplendorVectorEnv(5, rules=SHORT, mask_in=mask_in)
    observation, _ = envs.reset(seed=0)
    for step in range(30):
        assert observation in envs.observation_space
        actions = choose(envs.action_masks(), step)
        assert actions.astype(np.int64) in envs.action_space
        observation, reward, terminated, _, _ = envs.step(actions)
        assert (reward.dtype, terminated.dtype) == (np.float32, np.bool_)


# One and many


@every_player_count
@pytest.mark.parametrize("seat", [0, 1, "rotating", "random"])
def test_many_equal_single_ones_bit_for_bit(num_players, seat):
    options = {
        "rules": standard(num_players, target_points=4, max_rounds=30),
        "opponents": ["random", "greedy", Recorder()],
        "seat": seat,
        "reward": "shaped",
    }
    envs = SplendorVectorEnv(5, **options)
    singles = [play(SplendorEnv(**options), 150, seed=9 + row) for row in range(5)]
    seen, _ = envs.reset(seed=9)
    expected = [next(single)[0] for single in singles]
    num_over = 0
    for step in range(150):
        for row in range(5):
            assert_same({key: value[row] for key, value in seen.items()}, expected[row])
        seen, *flags, infos = envs.step(choose(seen["action_mask"], step))
        for row, single in enumerate(singles):
            expected[row], reward, terminated, truncated, info = next(single)
            assert [flag[row].item() for flag in flags] == [reward, terminated, truncated]
            if terminated or truncated:
                num_over += 1
                assert_same(infos["final_obs"][row], expected[row])
                final = infos["final_info"]
                assert {key: final[key][row] for key in info} == info
                expected[row] = next(single)[0]
    assert num_over > 5


@every_mask_place
@every_mode
def test_it_gives_what_sync_and_async_copies_give(mode, mask_in):
    """B38, B39: observations, rewards, flags and infos, with their batching."""
    options = {"rules": SHORT, "mask_in": mask_in}
    make = [lambda: SplendorEnv(**options)] * 3
    sides = [
        SplendorVectorEnv(3, autoreset_mode=mode, **options),
        SyncVectorEnv(make, autoreset_mode=mode),
    ]
    if mode == "SameStep":
        sides.append(AsyncVectorEnv(make, autoreset_mode=mode))
    try:
        native, *others = [side.reset(seed=4) for side in sides]
        for step in range(60):
            for other in others:
                assert_same(native[0], other[0])
                assert_same(native[-1], other[-1])
                for mine, theirs in zip(native[1:-1], other[1:-1], strict=True):
                    np.testing.assert_array_equal(mine, theirs)
            actions = choose(np.stack(sides[0].call("action_masks")), step)
            native, *others = [side.step(actions) for side in sides]
            over = native[2] | native[3]
            if mode == "Disabled" and over.any():
                native, *others = [side.reset(options={"reset_mask": over}) for side in sides]
                if mask_in == "info":
                    assert (native[1]["_action_mask"] == over).all()
    finally:
        for side in sides:
            side.close()


def episodes(mode, num_steps):
    """Each row's (observation, action, reward, flags) without reset steps; final views last."""
    envs = SplendorVectorEnv(4, rules=SHORT, autoreset_mode=mode)
    seen, _ = envs.reset(seed=2)
    rows = [[] for _ in range(4)]
    was_over = np.zeros(4, bool)
    for _ in range(num_steps):
        actions = choose(seen["action_mask"], 0)
        if mode == "NextStep":
            actions[was_over] = -7
        after, reward, terminated, truncated, infos = envs.step(actions)
        over = terminated | truncated
        for row in range(4):
            if mode == "NextStep" and was_over[row]:
                assert reward[row] == 0
                assert not over[row]
                continue
            view = after["observation"][row]
            if mode == "SameStep" and over[row]:
                view = infos["final_obs"][row]["observation"]
            about = infos["final_info"] if mode == "SameStep" and over[row] else infos
            reason = about["end_reason"][row] if over[row] else None
            flags = (actions[row], reward[row], terminated[row], truncated[row], reason)
            rows[row].append((seen["observation"][row].tobytes(), *flags, view.tobytes()))
        if mode == "Disabled" and over.any():
            after, _ = envs.reset(options={"reset_mask": over})
        seen, was_over = after, over & (mode == "NextStep")
    return rows


def test_the_autoreset_modes_play_the_same_games():
    """B34, B35."""
    same, following, disabled = (episodes(mode, 120) for mode in MODES)
    assert same == disabled
    for row in range(4):
        assert len(following[row]) < 120
        assert following[row] == same[row][: len(following[row])]


# Masks and secrets


@every_player_count
@pytest.mark.parametrize("preset", ["standard", "rulebook_2014"])
def test_masks_are_what_the_rules_allow_and_never_empty(num_players, preset):
    rules = splendor_env.PRESETS[preset](num_players, target_points=4)
    envs = SplendorVectorEnv(3, rules=rules, autoreset_mode="NextStep")
    seen, _ = envs.reset(seed=0)
    num_over = 0
    for step in range(80):
        games = envs._env.games.games
        over = games["end_reason"] != 0
        num_over += over.sum()
        allowed = [[is_legal(game, a, rules) for a in range(NUM_ACTIONS)] for game in games]
        for row in np.flatnonzero(over):
            assert not any(allowed[row])
            allowed[row][PASS] = True
        np.testing.assert_array_equal(seen["action_mask"], np.array(allowed, np.int8))
        assert (games["player"] == envs.seat)[~over].all()
        own = np.empty_like(seen["observation"])
        observe_games(games, rules, envs.seat, own)
        np.testing.assert_array_equal(seen["observation"], own)
        seen, *_ = envs.step(choose(seen["action_mask"], step))
    assert num_over


def test_what_it_returns_stays_and_may_be_changed():
    one, other = SplendorVectorEnv(3, rules=SHORT), SplendorVectorEnv(3, rules=SHORT)
    seen, _ = one.reset(seed=0)
    other.reset(seed=0)
    for step in range(30):
        actions = choose(one.action_masks(), step)
        kept = copy.deepcopy(seen)
        after, *rest = one.step(actions)
        assert_same(seen, kept)
        assert_same(after, other.step(actions)[0])
        for value in (*after.values(), *rest[:3], one.action_masks(), one.seat):
            value[:] = 0
        seen = one._env.observation()


@pytest.mark.parametrize("mode", ["SameStep", "Disabled"])
def test_masks_by_call(mode):
    envs = gymnasium.make_vec("Splendor-v0", num_envs=3, autoreset_mode=mode)
    seen, _ = envs.reset(seed=0)
    masks = envs.unwrapped.call("action_masks")
    assert len(masks) == 3
    np.testing.assert_array_equal(np.stack(masks), seen["action_mask"])
    assert envs.unwrapped.get_attr("rules") == (standard(2),) * 3
    assert envs.unwrapped.get_attr("seat") == (0, 1, 0)


# Illegal actions


def test_an_illegal_action_raises_and_changes_nothing():
    """B12."""
    envs, single = SplendorVectorEnv(3, seat=0), SplendorEnv(seat=0)
    seen, _ = envs.reset(seed=5)
    single.reset(seed=7)
    before = envs._env.games.games.copy()
    actions = choose(seen["action_mask"], 0)
    for wrong in (illegal(seen["action_mask"][2]), -1, NUM_ACTIONS):
        actions[2] = wrong
        with pytest.raises(IllegalActionError, match=rf"illegal action {wrong}.*legal: .*game 2"):
            envs.step(actions)
        with pytest.raises(IllegalActionError, match=rf"illegal action {wrong}.*legal: "):
            single.step(wrong)
        assert (envs._env.games.games == before).all()
        assert (single._env.games.games == before[2:]).all()
    assert_same(envs._env.observation(), seen)
    assert envs._env.games.length.tolist() == [0, 0, 0]


@pytest.mark.parametrize("mode", ["lose", "random"])
def test_illegal_actions_do_the_same_to_one_and_many(mode):
    """B12."""
    options = {"illegal": mode, "seat": 1, "autoreset_mode": "Disabled"}
    envs = SplendorVectorEnv(3, **options)
    del options["autoreset_mode"]
    single = SplendorEnv(**options)
    seen, _ = envs.reset(seed=5)
    single.reset(seed=6)
    actions = choose(seen["action_mask"], 0)
    actions[1] = illegal(seen["action_mask"][1])
    after, *flags, infos = envs.step(actions)
    mine, reward, terminated, truncated, info = single.step(int(actions[1]))
    assert_same({key: value[1] for key, value in after.items()}, mine)
    assert [flag[1].item() for flag in flags] == [reward, terminated, truncated]
    if mode == "lose":
        assert (reward, terminated, truncated) == (-1.0, True, False)
        assert info["end_reason"] == infos["end_reason"][1] == "illegal_action"
        assert flags[1].tolist() == [False, True, False]
        assert mine["action_mask"].tolist() == [0] * PASS + [1]
    else:
        assert (reward, terminated, truncated, info) == (0.0, False, False, {})


@pytest.mark.parametrize("action", ["take", 1.0, None, True, [1], np.array([1, 2])])
def test_what_is_not_an_action_is_refused(action):
    env = SplendorEnv(illegal="random")
    env.reset(seed=0)
    with pytest.raises(SplendorError, match=r"must be an integer 0 to 77, not "):
        env.step(action)
    envs = SplendorVectorEnv(3, illegal="random")
    envs.reset(seed=0)
    with pytest.raises(SplendorError, match=r"must be 3 integers 0 to 77, not "):
        envs.step(action)


@pytest.mark.parametrize("cast", [int, np.int32, np.int64, np.uint8, np.array])
def test_every_kind_of_integer_is_an_action(cast):
    env, plain = SplendorEnv(), SplendorEnv()
    env.reset(seed=0)
    plain.reset(seed=0)
    action = np.flatnonzero(env.action_masks())[0].item()
    observation = env.step(cast(action))[0]["observation"]
    assert observation.tolist() == plain.step(action)[0]["observation"].tolist()


def test_steps_out_of_turn_are_refused():
    for env, action in ((SplendorEnv(), 0), (SplendorVectorEnv(2), np.zeros(2, int))):
        with pytest.raises(SplendorError, match=r"call reset\(\) first"):
            env.step(action)
    env = SplendorEnv(illegal="lose")
    env.reset()
    env.step(-1)
    with pytest.raises(SplendorError, match="the game is over"):
        env.step(0)
    envs = SplendorVectorEnv(3, illegal="lose", autoreset_mode="Disabled")
    with pytest.raises(SplendorError, match="without reset_mask first"):
        envs.reset(options={"reset_mask": np.ones(3, bool)})
    envs.reset()
    envs.step(np.array([0, -1, 0]))
    with pytest.raises(SplendorError, match=r"games \[1\] are over: reset them by `reset_mask`"):
        envs.step(np.array([0, 0, 0]))


# Seeds, seats and positions


def run(env, seed, num_steps=60):
    return [copy.deepcopy(given) for given in play(env, num_steps, seed)]


def test_seeds_fix_everything():
    """B17, B19, B21: whatever was played before and whatever the global seed is."""
    env, other = SplendorEnv(rules=SHORT, seat="random"), SplendorEnv(rules=SHORT, seat="random")
    first = run(env, 3)
    np.random.seed(1)
    for again in (run(env, 3), run(other, 3)):
        for one, two in zip(first, again, strict=True):
            assert_same(one[0], two[0])
            assert one[1:] == two[1:]
    assert run(env, 4)[0][0]["observation"].tolist() != first[0][0]["observation"].tolist()


@pytest.mark.parametrize("make", [SplendorEnv, lambda: SplendorVectorEnv(3)])
def test_a_reset_without_seed_goes_on_reproducibly(make):
    """B19."""
    pairs = []
    for num_steps in (0, 5):
        env = make()
        first, _ = env.reset(seed=8)
        for step in range(num_steps):
            env.step(choose(env.action_masks(), step))
        pairs.append((first, env.reset()[0]))
    for one, two in zip(*pairs, strict=True):
        assert_same(one, two)
    assert (pairs[0][0]["observation"] != pairs[0][1]["observation"]).any()


def test_without_a_seed_games_differ():
    one, two = SplendorEnv(seat=0).reset()[0], SplendorEnv(seat=0).reset()[0]
    assert (one["observation"] != two["observation"]).any()
    seen, _ = SplendorVectorEnv(4, seat=0).reset()
    assert len({row.tobytes() for row in seen["observation"]}) == 4


def test_spaces_are_the_same_objects_and_keep_their_seed():
    """B20."""
    for env in (SplendorEnv(), SplendorVectorEnv(2)):
        assert env.action_space is env.action_space
        env.action_space.seed(3)
        first = env.action_space.sample()
        env.reset(seed=0)
        env.action_space.seed(3)
        assert np.array_equal(env.action_space.sample(), first)


def test_seeds_by_row():
    envs = SplendorVectorEnv(3)
    listed, _ = envs.reset(seed=[4, 5, 6])
    counted, _ = envs.reset(seed=4)
    assert_same(listed, counted)
    kept = counted["observation"].copy()
    partly, _ = envs.reset(
        seed=[None, 9, None], options={"reset_mask": np.array([False, True, False])}
    )
    assert (partly["observation"] == kept).all(1).tolist() == [True, False, True]


@pytest.mark.parametrize(
    ("seed", "match"),
    [
        (-1, "0 to 2\\*\\*64 - 1, not -1"),
        ([1, 2], "2 seeds do not fit 3 games"),
        ([1, None, 2], "not None"),
        ([1, 2**64, 2], "not 18446744073709551616"),
    ],
)
def test_seeds_out_of_range_are_named(seed, match):
    with pytest.raises(SplendorError, match=match):
        SplendorVectorEnv(3).reset(seed=seed)
    if seed == -1:
        with pytest.raises(SplendorError, match=match):
            SplendorEnv().reset(seed=seed)


def some_position(num_players=2, seed=1, num_moves=12):
    game = Game(num_players=num_players, seed=seed)
    rng = np.random.default_rng(seed)
    for _ in range(num_moves):
        game.push(int(rng.choice(game.legal_actions)))
    return game


@pytest.mark.parametrize("as_dict", [False, True])
def test_it_starts_from_any_position(as_dict):
    game = some_position()
    position = game.to_dict() if as_dict else game
    env = SplendorEnv(seat=game.player)
    seen, _ = env.reset(options={"position": position})
    np.testing.assert_array_equal(seen["observation"], game.observe())
    np.testing.assert_array_equal(seen["action_mask"], game.action_mask)
    assert (env._env.games.games == game.games).all()
    action = choose(seen["action_mask"], 0)
    env.step(action)
    assert game == some_position()  # untouched
    envs = SplendorVectorEnv(3, seat=game.player)
    many, _ = envs.reset(options={"position": position})
    assert (many["observation"] == game.observe()).all()
    assert len(set(envs._env.games.games["seed"].tolist())) == 3
    envs.step(np.full(3, action))
    assert (envs._env.games.games[:1] == env._env.games.games).all()


def test_a_seed_decides_the_future_of_a_position():
    env, game = SplendorEnv(), some_position()
    futures = []
    for seed in (1, 1, 2):
        env.reset(seed=seed, options={"position": game})
        futures.append((env.seat, env._env.games.games["seed"].item()))
    assert futures[0] == futures[1] != futures[2]


def test_opponents_move_first_where_it_is_their_turn():
    game = some_position(3)
    env = SplendorEnv(num_players=3, seat=(game.player + 2) % 3)
    env.reset(seed=0, options={"position": game})
    assert env._env.games.games["player"][0] == env.seat
    assert (env._env.games.games != game.games).all()


def test_a_position_that_ends_before_the_learner_decides_is_refused():
    over = some_position(num_moves=0)
    over.games["end_reason"] = 1
    env = SplendorEnv(seat=0)
    env.reset(seed=0)
    with pytest.raises(SplendorError, match="ends before the learner decides"):
        env.reset(options={"position": over})
    with pytest.raises(SplendorError, match=r"call reset\(\) first"):
        env.step(0)
    closing = some_position(num_moves=1)  # seat 1 completes the last round
    closing.games["points"][0, 0] = 15
    with pytest.raises(SplendorError, match="ends before the learner decides"):
        env.reset(options={"position": closing})
    env.reset(seed=0)
    env.step(choose(env.action_masks(), 0))


@pytest.mark.parametrize("position", [Game(num_players=3), {"rules": "rulebook_2014"}])
def test_a_position_of_other_rules_is_refused(position):
    env = SplendorEnv()
    env.reset(seed=0)
    with pytest.raises(SplendorError, match="the position is of Rules"):
        env.reset(options={"position": position})
    env.step(choose(env.action_masks(), 0))  # the game before goes on


@pytest.mark.parametrize("position", [{"nonsense": 1}, 3, "here", [1]])
def test_what_is_not_a_position_is_refused(position):
    with pytest.raises(SplendorError):
        SplendorEnv().reset(options={"position": position})


@pytest.mark.parametrize("mask", [[True, False, True], np.ones(2, bool), np.ones(3)])
def test_a_wrong_reset_mask_is_refused(mask):
    envs = SplendorVectorEnv(3)
    envs.reset(seed=0)
    with pytest.raises(SplendorError, match=r"reset_mask must be an array \(3,\) of bool"):
        envs.reset(options={"reset_mask": mask})


def test_options_unknown_to_it_are_ignored():
    for env in (SplendorEnv(), SplendorVectorEnv(2)):
        observation, _ = env.reset(seed=0, options={"options": 1})
        plain, _ = env.reset(seed=0)
        assert observation["observation"].tolist() == plain["observation"].tolist()


@pytest.mark.parametrize(
    ("kwargs", "match"),
    [
        ({"mask_in": "both"}, "'obs' or 'info', not 'both'"),
        ({"illegal": "ignore"}, "raise, lose, random, not 'ignore'"),
        ({"num_players": 5}, "2, 3 or 4, not 5"),
        ({"rules": "house"}, "unknown rules 'house'; presets are standard"),
        ({"seat": 2}, "0 to 1, not 2"),
        ({"opponents": "nobody"}, "unknown agent 'nobody'"),
        ({"opponents": 3}, "agents or their specs, not 3"),
    ],
)
@pytest.mark.parametrize("make", [SplendorEnv, SplendorVectorEnv])
def test_options_out_of_range_are_named(make, kwargs, match):
    with pytest.raises(SplendorError, match=match):
        make(**kwargs)


def test_one_agent_is_enough():
    env = SplendorEnv(opponents=Recorder("me"), illegal="lose")
    env.reset(seed=0)
    assert env.step(-1)[-1]["opponents"] == ("me",)


# Copies and pictures


@pytest.mark.parametrize("clone", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])
@pytest.mark.parametrize("wrapped", [False, True])
def test_copies_play_on_alike(clone, wrapped):
    """B16, and integrations.md rule 20."""
    make = gymnasium.make if wrapped else lambda _, **options: SplendorEnv(**options)
    env = make("Splendor-v0", rules=SHORT, reward="shaped", opponents=["random", "greedy"])
    clone(env).reset(seed=0)
    env.reset(seed=0)
    for step in range(80):
        if step == 3:
            twin = clone(env)
        action = choose(env.unwrapped.action_masks(), step)
        given = env.step(action)
        if step >= 3:
            other = twin.step(action)
            assert_same(given[0], other[0])
            assert given[1:] == other[1:]
        if given[2] or given[3]:
            env.reset()
            if step >= 3:
                twin.reset()


def test_render_modes(capsys):
    """B47."""
    env = gymnasium.make("Splendor-v0", render_mode="ansi")
    env.reset(seed=0)
    assert isinstance(env.render(), str)
    env = gymnasium.make("Splendor-v0", render_mode="rgb_array")
    env.reset(seed=0)
    picture = env.render()
    assert (picture.dtype, picture.shape[2]) == (np.uint8, 3)
    env = gymnasium.make("Splendor-v0", render_mode="human")
    env.reset(seed=0)
    env.step(choose(env.unwrapped.action_masks(), 0))
    assert capsys.readouterr().out.count("\n") > 20
    assert env.render() is None
    with pytest.warns(UserWarning, match="render_mode"):
        assert SplendorEnv().render() is None
    with pytest.raises(SplendorError, match=r"call reset\(\) first"):
        SplendorEnv(render_mode="ansi").render()
    with pytest.raises(SplendorError, match="'ansi', 'human', 'rgb_array', not 'svg'"):
        SplendorEnv(render_mode="svg")


def test_the_board_is_the_learners():
    game = some_position(num_moves=0)
    game.push("reserve deck 1")
    own, other = (game.board(seat) for seat in (0, 1))
    assert own != other
    game.push(game.legal_moves[0])
    env = SplendorEnv(seat=0, render_mode="ansi")
    env.reset(options={"position": game})
    assert env.render() == game.board(0)


@pytest.mark.parametrize("num_players", [2, 3, 4])
def test_a_game_played_through_it_is_the_same_game_by_notation(num_players):
    """B63: the environment and `Game` decode an action alike, seats and opponents included."""
    env = SplendorEnv(num_players=num_players, opponents="greedy", seat=1)
    observation, _ = env.reset(seed=5)
    game = Game(num_players=num_players, seed=5)
    greedy = make_agent("greedy")
    rng = np.random.default_rng(0)
    terminated = False
    while not terminated:
        while game.player != 1:
            game.push(int(greedy.act(game.games.copy(), game.rules, np.zeros(1, np.int64))[0]))
        assert observation["observation"].tolist() == game.observe(1).tolist()
        action = int(rng.choice(game.legal_actions))
        observation, reward, terminated, _, info = env.step(action)
        game.push(ACTION_NAMES[action])
    while not game.is_over:
        game.push(int(greedy.act(game.games.copy(), game.rules, np.zeros(1, np.int64))[0]))
    assert (info["winners"], info["points"], info["rounds"]) == (
        game.winners,
        game.points,
        game.rounds,
    )
    assert reward == pytest.approx(game.returns[1])
