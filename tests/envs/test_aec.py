import copy
import pickle
import random
import sys
import warnings

import gymnasium
import numpy as np
import pettingzoo
import pytest
from pettingzoo.test import api_test, parallel_api_test, render_test, seed_test, state_test

from splendor_env.core.actions import BUY, NOBLE, NUM_ACTIONS, PASS, PAY_GOLD, RESERVE_DECK, RETURN
from splendor_env.core.batch import Batch
from splendor_env.core.gems import pack
from splendor_env.core.observation import OBSERVATION_SIZE, view_observation
from splendor_env.core.rules import is_legal
from splendor_env.core.state import IllegalActionError, Phase, SplendorError, standard
from splendor_env.envs import register_pettingzoo
from splendor_env.envs.aec import env, parallel_env, raw_env

PLAYERS = (2, 3, 4)
MASK_PLACES = ("obs", "info")
NOT_A_BOX = {
    "Observation is not a NumPy array",
    "Observation space for each agent probably should be gymnasium.spaces.box or "
    "gymnasium.spaces.discrete",
}
"""What `api_test` says of every environment with a dictionary that it does not know by name."""

every_kind = pytest.mark.parametrize(
    ("num_players", "mask_in"), [(n, place) for n in PLAYERS for place in MASK_PLACES]
)


def is_over(game):
    agent = game.agent_selection
    return game.terminations[agent] or game.truncations[agent]


def mask_of(game, agent):
    if game.unwrapped.mask_in == "info":
        return game.infos[agent]["action_mask"]
    return game.observe(agent)["action_mask"]


def observation_of(game, agent):
    observation = game.observe(agent)
    return observation if game.unwrapped.mask_in == "info" else observation["observation"]


def legal_of(game):
    return np.flatnonzero(mask_of(game, game.agent_selection))


def illegal_of(game):
    return int(np.flatnonzero(mask_of(game, game.agent_selection) == 0)[0])


def play(game, seed=0, max_steps=10**6):
    """Play on with random legal actions until the end, and return the actions."""
    rng = random.Random(seed)
    actions = []
    while not is_over(game) and len(actions) < max_steps:
        actions.append(int(rng.choice(legal_of(game))))
        game.step(actions[-1])
    return actions


def started(seed=0, **kwargs):
    game = raw_env(**kwargs)
    game.reset(seed=seed)
    return game


def finished(**kwargs):
    game = started(**kwargs)
    play(game)
    return game


def edited(change, **kwargs):
    """A game whose record was changed by hand."""
    game = started(**kwargs)
    change(game._games[0])
    game._publish()
    return game


def snapshot(game):
    """All that a caller can see of a game, to be compared by `==`."""
    agents = game.agents
    return (
        game._games.tobytes(),
        list(agents),
        game.agent_selection,
        game.rewards.copy(),
        game._cumulative_rewards.copy(),
        game.terminations.copy(),
        game.truncations.copy(),
        [observation_of(game, agent).tolist() for agent in agents],
        [mask_of(game, agent).tolist() for agent in agents],
    )


# PettingZoo's own tests.


@every_kind
@pytest.mark.parametrize("make", [raw_env, env])
def test_pettingzoo_api(make, num_players, mask_in):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        api_test(make(num_players=num_players, mask_in=mask_in), num_cycles=1000)
    expected = NOT_A_BOX if mask_in == "obs" else set()
    assert {str(warning.message) for warning in caught} == expected


@every_kind
def test_pettingzoo_seeds(num_players, mask_in):
    instances = []

    def make():
        instances.append(env(num_players=num_players, mask_in=mask_in))
        return instances[-1]

    seed_test(make, num_cycles=500)
    first, second = instances
    assert snapshot(first.unwrapped) == snapshot(second.unwrapped)
    assert first.unwrapped._games["rounds"][0] > 5


@every_kind
def test_pettingzoo_rendering(num_players, mask_in, capsys):
    # It samples without a mask where the mask is not in the observation, hence `env`.
    render_test(lambda **kwargs: env(num_players=num_players, mask_in=mask_in, **kwargs))
    assert capsys.readouterr().out.strip()


@pytest.mark.parametrize("num_players", PLAYERS)
def test_pettingzoo_parallel_api(num_players):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parallel_api_test(parallel_env(num_players=num_players), num_cycles=1000)
    game = parallel_env(num_players=num_players)
    assert not game.metadata["is_parallelizable"], "aec_to_parallel must go on refusing us"


# Spaces, masks and observations.


@every_kind
def test_observations_of_every_seat_are_in_the_space_at_every_step(num_players, mask_in):
    """B29: finite, scaled, float32; the acting seat has a legal action until the end."""
    game = started(num_players=num_players, mask_in=mask_in)
    rng = random.Random(1)
    while True:
        for agent in game.possible_agents:
            assert game.observation_space(agent).contains(game.observe(agent))
            assert np.isfinite(observation_of(game, agent)).all()
        if is_over(game):
            break
        game.step(int(rng.choice(legal_of(game))))


@pytest.mark.parametrize("rules", ["standard", "rulebook_2014"])
@every_kind
def test_mask_is_the_rules_verdict_on_every_action(num_players, mask_in, rules):
    game = started(num_players=num_players, mask_in=mask_in, rules=rules)
    rng = random.Random(2)
    while not is_over(game):
        mask = mask_of(game, game.agent_selection)
        verdict = [is_legal(game._games[0], action, game.rules) for action in range(NUM_ACTIONS)]
        assert mask.tolist() == verdict
        assert mask.any()
        game.step(int(rng.choice(np.flatnonzero(mask))))


@every_kind
def test_idle_and_finished_seats_have_an_empty_mask(num_players, mask_in):
    """B09, B10: also after a seat has left the list of agents."""
    game = started(num_players=num_players, mask_in=mask_in)
    for _ in range(50):
        idle = [agent for agent in game.agents if agent != game.agent_selection]
        assert len(idle) == num_players - 1
        assert not any(mask_of(game, agent).any() for agent in idle)
        game.step(int(legal_of(game)[0]))
    play(game)
    assert not any(mask_of(game, agent).any() for agent in game.agents)
    game.step(None)
    gone = set(game.possible_agents) - set(game.agents)
    assert len(gone) == 1
    assert game.observation_space(*gone).contains(game.observe(*gone))
    if mask_in == "obs":
        assert not mask_of(game, *gone).any()


@every_kind
def test_masks_fit_discrete_sample(num_players, mask_in):
    """B22: int8 of shape (A,), values 0 and 1."""
    game = started(num_players=num_players, mask_in=mask_in)
    for agent in game.agents:
        mask = mask_of(game, agent)
        assert (mask.dtype, mask.shape) == (np.int8, (NUM_ACTIONS,))
        assert set(mask.tolist()) <= {0, 1}
    action = game.action_space("player_0").sample(mask_of(game, "player_0"))
    assert action in legal_of(game)


def test_action_sampled_from_an_empty_mask_is_refused():
    """B08: `Discrete.sample` answers 0 for it and says nothing."""

    def empty_the_bank(game):
        game.bank = pack([0, 0, 0, 0, 0, 0])

    game = edited(empty_the_bank)
    action = game.action_space("player_1").sample(mask_of(game, "player_1"))
    assert action == 0
    with pytest.raises(IllegalActionError, match="take W U G"):
        game.step(action)


def test_a_flat_box_observation_is_offered():
    """B23: the mask is then in the infos, of every seat."""
    boxed, nested = started(mask_in="info"), started(mask_in="obs")
    assert isinstance(boxed.observation_space("player_0"), gymnasium.spaces.Box)
    for agent in boxed.agents:
        assert np.array_equal(boxed.observe(agent), nested.observe(agent)["observation"])
        assert np.array_equal(mask_of(boxed, agent), mask_of(nested, agent))
        assert nested.infos[agent] == {}
    assert set(nested.observe("player_0")) == {"observation", "action_mask"}


def test_spaces_are_the_same_for_all_seats_and_numbers_of_players():
    """B64: one action has one index; one network can play them all."""
    games = [raw_env(num_players=n) for n in PLAYERS]
    pairs = [(game, agent) for game in games for agent in game.possible_agents]
    first = games[0]
    assert len(pairs) == 9
    for game, agent in pairs:
        assert game.action_space(agent) == first.action_space("player_0")
        assert game.observation_space(agent) == first.observation_space("player_0")
        assert game.observation_space(agent)["observation"].shape == (OBSERVATION_SIZE,)


def test_action_spaces_stay_the_same_objects_so_that_seeding_sticks():
    """B20: each seat has its own."""
    game = started()
    first = game.action_space("player_0")
    assert first is not game.action_space("player_1")
    samples = []
    for _ in range(2):
        game.action_space("player_0").seed(5)
        samples.append([int(game.action_space("player_0").sample()) for _ in range(20)])
    game.reset()
    assert game.action_space("player_0") is first
    assert samples[0] == samples[1]
    assert len(set(samples[0])) > 1


@pytest.mark.parametrize("num_players", PLAYERS)
def test_each_seat_sees_itself_first(num_players):
    """B57, B73: all that belongs to seats is rotated together; n rotations change nothing."""
    game = started(num_players=num_players)
    play(game, max_steps=60)
    seats = [view_observation(observation_of(game, a))["seats"] for a in game.possible_agents]
    for seat, seen in enumerate(seats):
        assert np.array_equal(seen[:num_players], np.roll(seats[0][:num_players], -seat, axis=0))
        assert not seen[num_players:].any()
    assert len({seen.tobytes() for seen in seats}) == num_players
    mover = game.possible_agents.index(game.agent_selection)
    for seat, agent in enumerate(game.possible_agents):
        flags = view_observation(observation_of(game, agent))["mover"]
        assert flags.argmax() == (mover - seat) % num_players


def test_a_blind_reserve_is_seen_by_its_owner_only():
    """B57: each seat gets its own view, not that of the seat to move."""
    game = started()
    game.step(RESERVE_DECK + 2)
    assert game._games["reserved_blind"][0, 0, 0] == 1
    own = view_observation(observation_of(game, "player_0"))["own_reserved"][0]
    seen = view_observation(observation_of(game, "player_1"))["opponents_reserved"][0, 0]
    assert own[:5].any()
    assert not seen[:5].any()
    assert seen.any(), "the level is public"


@every_kind
def test_changing_what_was_returned_changes_nothing(num_players, mask_in):
    """Convention 6: TorchRL and RLlib delete keys from what they are given."""
    game, untouched = (started(num_players=num_players, mask_in=mask_in) for _ in range(2))
    rng = random.Random(3)
    while not is_over(game):
        action = int(rng.choice(legal_of(game)))
        *_, info = game.last()
        assert info is game.infos[game.agent_selection]
        for agent in game.agents:
            observation, info = game.observe(agent), game.infos[agent]
            if mask_in == "obs":
                observation["observation"][:] = 7
                observation["action_mask"][:] = 1
                observation.clear()
            else:
                observation[:] = 7
                info["action_mask"][:] = 1
            info.clear()
        game.step(action)
        untouched.step(action)
        assert snapshot(game) == snapshot(untouched)


def test_what_was_returned_does_not_change_later():
    game = started(mask_in="info")
    observation, *_, info = game.last()
    kept = observation.copy(), info["action_mask"].copy()
    play(game, max_steps=20)
    assert np.array_equal(observation, kept[0])
    assert np.array_equal(info["action_mask"], kept[1])
    assert game.infos["player_0"] is not info


# Rewards and the end.


@every_kind
def test_rewards_of_last_add_up_to_the_return_of_each_seat(num_players, mask_in):
    """B01, B03, B04: once through last(), the same in total through env.rewards."""
    game = env(num_players=num_players, mask_in=mask_in)
    rng = random.Random(4)
    for seed in range(5):
        game.reset(seed=seed)
        by_last = dict.fromkeys(game.agents, 0.0)
        by_table = dict.fromkeys(game.agents, 0.0)
        num_ends = dict.fromkeys(game.agents, 0)
        for agent in game.agent_iter():
            _, reward, terminated, truncated, info = game.last()
            assert isinstance(reward, float)
            by_last[agent] += reward
            num_ends[agent] += terminated or truncated
            if terminated or truncated:
                game.step(None)
                winners = info["winners"]
                continue
            game.step(int(rng.choice(legal_of(game))))
            for other, amount in game.rewards.items():
                by_table[other] += amount
        share = 1 / len(winners)
        expected = {
            agent: (num_players * (share if agent in winners else 0) - 1) / (num_players - 1)
            for agent in game.possible_agents
        }
        assert by_last == by_table == pytest.approx(expected)
        assert sum(by_last.values()) == pytest.approx(0)
        assert set(num_ends.values()) == {1}


@pytest.mark.parametrize("num_players", PLAYERS)
def test_nothing_is_paid_before_the_end(num_players):
    """B05: nothing is counted twice in a turn of several decisions."""
    game = started(num_players=num_players)
    rng = random.Random(5)
    while not is_over(game):
        assert set(game.rewards.values()) == set(game._cumulative_rewards.values()) == {0}
        game.step(int(rng.choice(legal_of(game))))
    assert game.rewards == game._cumulative_rewards
    assert max(game.rewards.values()) > 0


def test_acting_clears_the_reward_that_was_handed_out():
    """B05: `last` gives what has come since the seat last acted."""
    game = started()
    game._cumulative_rewards = {"player_0": 3.0, "player_1": 4.0}
    game.rewards = {"player_0": 3.0, "player_1": 4.0}
    game.step(int(legal_of(game)[0]))
    assert game._cumulative_rewards == {"player_0": 0.0, "player_1": 4.0}


@every_kind
def test_all_seats_finish_together_and_step_once_more(num_players, mask_in):
    """B01, B06, B44: then None is taken, anything else refused, and the list runs empty."""
    game = finished(num_players=num_players, mask_in=mask_in)
    assert set(game.terminations.values()) == {True}
    assert set(game.truncations.values()) == {False}
    left = []
    while game.agents:
        assert game.agent_selection in game.agents
        with pytest.raises(ValueError, match="only valid action is None"):
            game.step(0)
        left.append(game.agent_selection)
        game.step(None)
    assert sorted(left) == game.possible_agents
    assert list(game.agent_iter()) == []
    with pytest.raises(SplendorError, match="call reset"):
        game.step(None)


@every_kind
def test_infos_tell_every_seat_the_result(num_players, mask_in):
    game = finished(num_players=num_players, mask_in=mask_in)
    for agent in game.agents:
        info = game.infos[agent]
        assert info["end_reason"] == "target"
        assert info["points"] == game._games["points"][0, :num_players].tolist()
        assert max(info["points"]) >= 15
        assert info["rounds"] == game._games["rounds"][0] > 10
        assert info["winners"] == [a for a in game.agents if game.rewards[a] > 0]
        assert isinstance(info["rounds"], int)
    first, second = (game.infos[agent]["winners"] for agent in game.agents[:2])
    assert first is not second


@pytest.mark.parametrize("num_players", PLAYERS)
def test_a_stalemate_in_mid_round_pays_every_seat(num_players):
    """B01: the game ends on another seat than the last one of the table."""

    def leave_only_passes(game):
        game.bank = pack([0, 0, 0, 0, 0, 0])
        game.player = 1
        game.points[num_players - 1] = 3

    game = edited(leave_only_passes, rules=standard(num_players, reserve_limit=0))
    for _ in range(num_players):
        assert legal_of(game).tolist() == [PASS]
        game.step(PASS)
    winner = game.possible_agents[-1]
    assert game._games["player"][0] == 0
    assert game.rewards[winner] == 1
    assert sum(game.rewards.values()) == pytest.approx(0)
    assert all(game.terminations.values())
    assert {info["end_reason"] for info in game.infos.values()} == {"stalemate"}
    assert all(info["winners"] == [winner] for info in game.infos.values())


def test_a_shared_victory_names_all_winners():
    def leave_only_passes(game):
        game.bank = pack([0, 0, 0, 0, 0, 0])
        game.points[1:3] = 3

    game = edited(leave_only_passes, rules=standard(3, reserve_limit=0))
    for _ in range(3):
        game.step(PASS)
    assert game.infos["player_0"]["winners"] == ["player_1", "player_2"]
    assert list(game.rewards.values()) == [-0.5, 0.25, 0.25]


@every_kind
def test_the_turn_cap_truncates_and_pays_nothing(num_players, mask_in):
    """B40: truncated only, so that learners bootstrap."""
    game = finished(num_players=num_players, mask_in=mask_in, max_cycles=2)
    assert set(game.truncations.values()) == {True}
    assert set(game.terminations.values()) == {False}
    assert set(game.rewards.values()) == set(game._cumulative_rewards.values()) == {0}
    for info in game.infos.values():
        assert info["end_reason"] == "round_limit"
        assert info["winners"] == []
        assert info["rounds"] == 2
    assert not any(mask_of(game, agent).any() for agent in game.agents)
    for _ in range(num_players):
        game.step(None)
    assert game.agents == []


def test_a_real_end_on_the_turn_cap_is_terminated_only():
    """B40."""

    def nearly_won(game):
        game.points[0] = 15

    game = edited(nearly_won, max_cycles=1)
    play(game)
    assert set(game.terminations.values()) == {True}
    assert set(game.truncations.values()) == {False}
    assert game.infos["player_1"]["end_reason"] == "target"
    assert game.rewards == {"player_0": 1, "player_1": -1}


# Turns of several decisions.


def test_returning_tokens_keeps_the_seat_and_opens_only_returns():
    """B46."""

    def hold_ten(game):
        game.tokens[0] = pack([2, 2, 2, 2, 2, 0])

    game = edited(hold_ten)
    game.step(0)  # take W U G
    for _ in range(3):
        assert game.agent_selection == "player_0"
        assert game._games["phase"][0] == Phase.RETURN
        assert legal_of(game).tolist() == list(range(RETURN, RETURN + 5))
        assert not mask_of(game, "player_1").any()
        game.step(RETURN)
    assert game.agent_selection == "player_1"


def test_choosing_a_noble_keeps_the_seat_and_opens_only_nobles():
    """B46."""

    def qualify_for_all(game):
        game.bonuses[0] = pack([4, 4, 4, 4, 4, 0])

    game = edited(qualify_for_all)
    game.step(0)
    assert game.agent_selection == "player_0"
    assert legal_of(game).tolist() == [NOBLE, NOBLE + 1, NOBLE + 2]
    game.step(NOBLE + 1)
    assert game.agent_selection == "player_1"
    assert game._games["points"][0].tolist() == [3, 0, 0, 0]


def test_choosing_a_payment_keeps_the_seat_and_opens_only_payments():
    """B46."""

    def be_rich(game):
        game.tokens[0] = pack([1, 1, 1, 1, 1, 5])
        game.bonuses[0] = pack([2, 2, 2, 2, 2, 0])

    game = edited(be_rich, rules="rulebook_2014")
    buys = [
        action
        for action in legal_of(game)
        if action >= BUY and played(game, action)._games["phase"][0] == Phase.PAY
    ]
    assert buys
    game.step(buys[0])
    assert game.agent_selection == "player_0"
    assert legal_of(game).min() >= PAY_GOLD
    while game.agent_selection == "player_0":
        assert legal_of(game).min() >= PAY_GOLD
        game.step(int(legal_of(game)[-1]))
    assert game._games["num_cards"][0, 0] == 1


def played(game, action):
    other = copy.deepcopy(game)
    other.step(action)
    return other


# Illegal actions and misuse.


@pytest.mark.parametrize(
    "action", [-1, NUM_ACTIONS, 2**70, 1.0, None, "take", np.float32(2), np.array([1]), [1]]
)
@pytest.mark.parametrize("mask_in", MASK_PLACES)
def test_what_is_not_an_action_is_refused_and_changes_nothing(action, mask_in):
    """B12."""
    game = started(mask_in=mask_in)
    play(game, max_steps=7)
    before = snapshot(game)
    with pytest.raises(IllegalActionError, match=r"illegal action .*; legal: take"):
        game.step(action)
    assert snapshot(game) == before


@every_kind
def test_an_illegal_action_is_refused_changes_nothing_and_the_game_goes_on(num_players, mask_in):
    """B12: at every decision of a game."""
    game, undisturbed = (started(num_players=num_players, mask_in=mask_in) for _ in range(2))
    rng = random.Random(6)
    while not is_over(game):
        illegal = int(rng.choice(np.flatnonzero(mask_of(game, game.agent_selection) == 0)))
        with pytest.raises(IllegalActionError, match=f"illegal action {illegal} "):
            game.step(illegal)
        action = int(rng.choice(legal_of(game)))
        game.step(action)
        undisturbed.step(action)
        assert game._games.tobytes() == undisturbed._games.tobytes()
    assert snapshot(game) == snapshot(undisturbed)


@every_kind
def test_an_illegal_action_loses_the_game_in_the_wrapped_environment(num_players, mask_in):
    """B12: -1 for the offender, 0 for the others, and nobody has an action left."""
    game = env(num_players=num_players, mask_in=mask_in)
    game.reset(seed=1)
    play(game, max_steps=7)
    offender = game.agent_selection
    game.step(illegal_of(game))
    expected = {agent: -1 if agent == offender else 0 for agent in game.agents}
    assert game.rewards == expected
    assert all(game.terminations.values())
    if mask_in == "obs":
        assert not any(mask_of(game, agent).any() for agent in game.agents)
    paid = {}
    for agent in game.agent_iter():
        _, paid[agent], *_ = game.last()
        game.step(None)
    assert paid == expected


@every_kind
def test_the_game_after_an_illegal_action_is_a_fresh_one(num_players, mask_in):
    """PettingZoo #1176: an illegal move once corrupted the order of turns after reset."""
    game, fresh = (env(num_players=num_players, mask_in=mask_in) for _ in range(2))
    game.reset(seed=1)
    game.step(int(legal_of(game)[0]))
    game.step(illegal_of(game))
    game.step(None)
    game.reset(seed=2)
    fresh.reset(seed=2)
    rng = random.Random(7)
    while not is_over(game):
        assert snapshot(game.unwrapped) == snapshot(fresh.unwrapped)
        action = int(rng.choice(legal_of(game)))
        game.step(action)
        fresh.step(action)
    assert game.infos["player_0"]["end_reason"] == "target"


@pytest.mark.parametrize("kind", [int, np.int32, np.int64, np.int8, np.array])
def test_numpy_integers_are_actions(kind):
    """Convention 19."""
    game, expected = started(), started()
    game.step(kind(12))
    expected.step(12)
    assert snapshot(game) == snapshot(expected)


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"num_players": 5}, r"num_players must be 2, 3 or 4, not 5"),
        ({"num_players": 1}, r"num_players must be 2, 3 or 4, not 1"),
        ({"num_players": "3"}, r"num_players must be 2, 3 or 4, not '3'"),
        ({"num_players": 3, "rules": standard(2)}, r"num_players=3 contradicts .* 2 players"),
        ({"rules": "house"}, r"unknown rules 'house'; presets are standard, "),
        ({"rules": standard(2)._replace(gold_tokens=9)}, r"gold_tokens .* 0 to 7, not 9"),
        ({"mask_in": "both"}, r"mask_in must be 'obs' or 'info', not 'both'"),
        ({"max_cycles": 0}, r"max_cycles: .* 1 to 10000, not 0"),
        ({"max_cycles": 1.5}, r"max_cycles: .* not 1.5"),
        ({"render_mode": "gif"}, r"render_mode must be None, 'ansi', .*, not 'gif'"),
    ],
)
@pytest.mark.parametrize("make", [raw_env, env, parallel_env])
def test_wrong_arguments_are_named(make, kwargs, message):
    with pytest.raises(SplendorError, match=message):
        make(**kwargs)


def test_rules_decide_the_number_of_players():
    assert raw_env().possible_agents == ["player_0", "player_1"]
    assert raw_env(num_players=3).rules == standard(3)
    assert raw_env(rules=standard(4)).possible_agents[-1] == "player_3"
    assert raw_env(rules=standard(3), max_cycles=7).rules == standard(3, max_rounds=7)


@pytest.mark.parametrize("seed", [-1, 2**64, 1.5, "one"])
def test_wrong_seeds_are_refused(seed):
    with pytest.raises(SplendorError, match="seed must be an integer"):
        raw_env().reset(seed=seed)


@pytest.mark.parametrize("call", ["step", "observe", "last", "render"])
def test_calls_before_reset_say_so(call):
    arguments = {"step": (0,), "observe": ("player_0",)}.get(call, ())
    with pytest.raises(SplendorError, match=r"call reset\(\) first"):
        getattr(raw_env(render_mode="ansi"), call)(*arguments)
    with pytest.raises((AssertionError, AttributeError), match="reset"):
        getattr(env(render_mode="ansi"), call)(*arguments)


# Seeds and copies.


@every_kind
def test_a_seed_fixes_the_whole_game(num_players, mask_in):
    """B17: whatever the global generators do."""
    game, other = (raw_env(num_players=num_players, mask_in=mask_in) for _ in range(2))
    game.reset(seed=11)
    other.reset(seed=99)
    play(other, max_steps=9)
    other.reset(seed=np.int64(11), options={"unknown": 1})
    rng = random.Random(8)
    while not is_over(game):
        assert snapshot(game) == snapshot(other)
        action = int(rng.choice(legal_of(game)))
        game.step(action)
        random.seed(1)
        np.random.seed(1)
        other.step(action)
    assert snapshot(game) == snapshot(other)
    assert game.infos["player_0"]["points"] == other.infos["player_0"]["points"]


def test_the_global_generators_are_left_alone():
    """B17."""
    random.seed(3)
    np.random.seed(3)
    before = random.getstate(), np.random.get_state()[1].tolist()
    game = raw_env()
    game.reset()
    game.step(int(legal_of(game)[0]))
    game.reset(seed=1)
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before


def test_reset_without_a_seed_goes_on_from_the_last_one():
    """B19: another game each time, the same sequence from the same seed, however they went."""
    deals = []
    for num_steps in (0, 30):
        game = raw_env()
        game.reset(seed=21)
        deals.append([])
        for _ in range(5):
            deals[-1].append(snapshot(game))
            play(game, max_steps=num_steps)
            game.reset()
    assert deals[0] == deals[1]
    assert len({deal[0] for deal in deals[0]}) == 5


def test_reset_without_any_seed_asks_the_operating_system():
    random.seed(0)
    np.random.seed(0)
    first = raw_env()
    first.reset()
    random.seed(0)
    np.random.seed(0)
    second = raw_env()
    second.reset()
    assert first._games["seed"][0] != second._games["seed"][0]


@every_kind
def test_it_plays_the_games_of_a_batch(num_players, mask_in):
    """The same seed deals the same sequence of games as one row of `Batch`."""
    game = started(seed=31, num_players=num_players, mask_in=mask_in, max_cycles=12)
    batch = Batch(game.rules, 1)
    batch.reset(31)
    rng = random.Random(9)
    num_games = 0
    while num_games < 3:
        assert game.possible_agents[batch.player[0]] == game.agent_selection
        assert np.array_equal(observation_of(game, game.agent_selection), batch.observation[0])
        assert np.array_equal(mask_of(game, game.agent_selection), batch.action_mask[0])
        action = int(rng.choice(legal_of(game)))
        game.step(action)
        batch.step(np.array([action], np.int32))
        assert list(game.rewards.values()) == pytest.approx(batch.reward[0].tolist())
        assert is_over(game) == (batch.terminated[0] or batch.truncated[0])
        if is_over(game):
            game.reset()
            num_games += 1


def test_two_games_in_one_process_do_not_touch_each_other():
    """A40, here for instances that take turns and for one game after another."""
    alone = started(seed=41)
    actions = play(alone, seed=1)
    first, second = started(seed=41), started(seed=42)
    for action in actions:
        first.step(action)
        if not is_over(second):
            second.step(int(legal_of(second)[0]))
    assert snapshot(first) == snapshot(alone)
    second.reset(seed=41)
    for action in actions:
        second.step(action)
    assert snapshot(second) == snapshot(alone)


def through_pickle(game):
    return pickle.loads(pickle.dumps(game))


@every_kind
@pytest.mark.parametrize("clone", [copy.deepcopy, through_pickle])
@pytest.mark.parametrize("make", [raw_env, env])
def test_a_copy_of_a_running_game_goes_on_like_it(make, clone, num_players, mask_in):
    """B15: and leaves the first alone."""
    game = make(num_players=num_players, mask_in=mask_in)
    game.reset(seed=51)
    play(game, max_steps=25)
    other = clone(game)
    before = snapshot(game.unwrapped)
    assert snapshot(other.unwrapped) == before
    actions = play(other)
    assert snapshot(game.unwrapped) == before
    for action in actions:
        game.step(action)
    assert snapshot(game.unwrapped) == snapshot(other.unwrapped)
    assert game.infos["player_0"]["winners"] == other.infos["player_0"]["winners"]
    game.reset()
    other.reset()
    assert snapshot(game.unwrapped) == snapshot(other.unwrapped)


@pytest.mark.parametrize("clone", [copy.deepcopy, through_pickle])
@pytest.mark.parametrize("make", [raw_env, env])
def test_a_copy_before_reset_works(make, clone):
    """B16."""
    game = make(num_players=3, mask_in="info")
    other = clone(game)
    game.reset(seed=1)
    other.reset(seed=1)
    assert snapshot(game.unwrapped) == snapshot(other.unwrapped)


# Rendering.


def test_rendering_without_a_mode_warns_and_returns_none(monkeypatch):
    """B47."""
    monkeypatch.setattr(gymnasium.logger, "min_level", gymnasium.logger.WARN)
    game = started()
    with pytest.warns(UserWarning, match="render_mode"):
        assert game.render() is None


def test_rendering_needs_no_display(monkeypatch, capsys):
    """B47: ansi is text, rgb_array an array, and human prints text after each step."""
    monkeypatch.delenv("DISPLAY", raising=False)
    # PettingZoo's own tests import it where it is installed.
    monkeypatch.setitem(sys.modules, "pygame", None)
    text = started(render_mode="ansi").render()
    image = started(render_mode="rgb_array").render()
    assert isinstance(text, str)
    assert (image.dtype, image.ndim, image.shape[2]) == (np.uint8, 3, 3)
    assert image.std() > 0
    assert capsys.readouterr().out == ""
    game = started(render_mode="human")
    assert capsys.readouterr().out == text + "\n"
    game.step(0)
    after_step = capsys.readouterr().out
    assert game.render() is None
    assert capsys.readouterr().out == after_step != text + "\n"
    game.close()


# The parallel form.


@every_kind
def test_parallel_masks_are_never_empty(num_players, mask_in):
    """B09: a seat that cannot move has the pass alone, also at the end."""
    game = parallel_env(num_players=num_players, mask_in=mask_in)
    observations, infos = game.reset(seed=61)
    reference = started(seed=61, num_players=num_players)
    rng = random.Random(10)
    total = dict.fromkeys(game.agents, 0.0)
    while game.agents:
        active = reference.agent_selection
        masks = {
            agent: infos[agent]["action_mask"] if mask_in == "info" else seen["action_mask"]
            for agent, seen in observations.items()
        }
        assert np.array_equal(masks[active], mask_of(reference, active))
        for agent in game.agents:
            assert agent == active or np.flatnonzero(masks[agent]).tolist() == [PASS]
        actions = {agent: int(rng.choice(np.flatnonzero(mask))) for agent, mask in masks.items()}
        observations, rewards, terminations, truncations, infos = game.step(actions)
        reference.step(actions[active])
        for agent in game.agents:
            assert infos[agent]["active_agent"] == reference.agent_selection
        for agent, reward in rewards.items():
            total[agent] += reward
    assert total == reference.rewards
    assert set(terminations.values()) == {True}
    assert set(truncations.values()) == {False}
    for agent in reference.agents:
        assert infos[agent]["winners"] == reference.infos[agent]["winners"]
        mask = infos[agent] if mask_in == "info" else observations[agent]
        assert np.flatnonzero(mask["action_mask"]).tolist() == [PASS]


def test_parallel_infos_of_one_step_are_not_those_of_the_next():
    game = parallel_env()
    observations, _ = game.reset(seed=1)
    history = []
    for step in range(3):
        active = f"player_{step % 2}"
        action = int(np.flatnonzero(observations[active]["action_mask"])[0])
        observations, *_, infos = game.step(dict.fromkeys(game.agents, action))
        history.append(infos["player_0"])
    assert [info["active_agent"] for info in history] == ["player_1", "player_0", "player_1"]


@pytest.mark.parametrize("mask_in", MASK_PLACES)
def test_parallel_truncation_leaves_the_pass(mask_in):
    game = parallel_env(num_players=2, mask_in=mask_in, max_cycles=1)
    game.reset(seed=1)
    game.step({"player_0": 0, "player_1": PASS})
    observations, rewards, terminations, truncations, infos = game.step(
        {"player_0": PASS, "player_1": 1}
    )
    assert set(truncations.values()) == {True}
    assert set(terminations.values()) == {False}
    assert set(rewards.values()) == {0}
    for agent in game.possible_agents:
        mask = infos[agent] if mask_in == "info" else observations[agent]
        assert np.flatnonzero(mask["action_mask"]).tolist() == [PASS]
    assert game.agents == []


def test_parallel_idle_actions_are_ignored_but_the_illegal_one_of_the_mover_loses():
    game = parallel_env()
    game.reset(seed=1)
    _, rewards, *_ = game.step({"player_0": 0, "player_1": 0})
    assert game.agents
    assert set(rewards.values()) == {0}
    _, rewards, terminations, *_ = game.step({"player_0": 0, "player_1": PASS})
    assert rewards == {"player_0": 0, "player_1": -1}
    assert all(terminations.values())
    assert game.agents == []


# The registry.


@pytest.mark.skipif(
    not hasattr(pettingzoo, "register"), reason="PettingZoo before 1.27 has no registry"
)
def test_pettingzoo_makes_it_by_name():
    """Convention 17: `max_cycles` is forwarded to the constructor."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        register_pettingzoo()
        register_pettingzoo()
        game = pettingzoo.make("aec", "splendor_v0", num_players=3, max_cycles=5)
        both = pettingzoo.make("parallel", "splendor_v0", num_players=4, mask_in="info")
    assert game.unwrapped.rules == standard(3, max_rounds=5)
    assert str(game) == game.metadata["name"] == "splendor_v0"
    assert len(both.possible_agents) == 4


# The state for centralised critics.


@pytest.mark.parametrize("num_players", PLAYERS)
def test_pettingzoo_state(num_players):
    kwargs = {"num_players": num_players}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        state_test(env(**kwargs), parallel_env(**kwargs), num_cycles=100)


@pytest.mark.parametrize("rules", ["standard", "rulebook_2014"])
@pytest.mark.parametrize("num_players", PLAYERS)
def test_the_state_is_in_its_space_new_and_in_seat_order(num_players, rules):
    game = started(num_players=num_players, rules=rules)
    assert game.state_space is game.state_space
    rng = random.Random(9)
    while True:
        state = game.state()
        assert game.state_space.contains(state)
        assert state.dtype == np.float32
        view = view_observation(state)
        record = game.game
        assert view["mover"].argmax() == record.player
        points = view["seats"][:num_players, 13] * 50
        assert np.rint(points).tolist() == record.points[:num_players].tolist()
        in_deck = state[OBSERVATION_SIZE : OBSERVATION_SIZE + 90]
        assert sorted(record.deck[record.deck >= 0]) == np.flatnonzero(in_deck).tolist()
        state[:] = 7
        assert game.state_space.contains(game.state())
        if is_over(game):
            break
        game.step(int(rng.choice(legal_of(game))))


@pytest.mark.parametrize("hide_reserves", [0, 1])
def test_the_state_shows_the_reserves_of_all_seats(hide_reserves):
    game = started(rules=standard(2, hide_reserves=hide_reserves))
    before = game.state()
    for action in (RESERVE_DECK, RESERVE_DECK + 2, RESERVE_DECK - 1, 0):
        game.step(action)
    state = game.state()
    own = view_observation(observation_of(game, "player_0"))["own_reserved"]
    other = view_observation(observation_of(game, "player_1"))["own_reserved"]
    view = view_observation(state)
    assert np.array_equal(view["own_reserved"][:, :14], own[:, :14])
    assert np.array_equal(view["opponents_reserved"][0, :, :14], other[:, :14])
    assert view["opponents_reserved"][0, 0, :5].any()
    is_closed = state[-12:].reshape(4, 3)
    assert is_closed.tolist() == [[1, hide_reserves, 0], [1, 0, 0], [0, 0, 0], [0, 0, 0]]
    in_deck = slice(OBSERVATION_SIZE, OBSERVATION_SIZE + 90)
    assert before[in_deck].sum() - state[in_deck].sum() == 3, "two blind and one refill"


def test_the_state_does_not_tell_what_will_be_drawn():
    """No record holds it: another seed of the same position gives the same state."""
    game = started()
    play(game, max_steps=40)
    before = game.state()
    game.game.seed = 123
    assert np.array_equal(game.state(), before)


def test_the_state_before_reset_says_so():
    with pytest.raises(SplendorError, match=r"call reset\(\) first"):
        raw_env().state()
    with pytest.raises(AssertionError, match="reset"):
        env().state()


@pytest.mark.parametrize("action", [100, -1, 2.5, "x", None])
@pytest.mark.parametrize("make", [raw_env, env])
def test_what_is_no_action_is_refused_by_name_and_the_game_goes_on(make, action):
    game = make()
    game.reset(seed=1)
    with pytest.raises(IllegalActionError, match=r"illegal action .*; legal: take W U G"):
        game.step(action)
    game.step(np.int32(0))
    assert game.agent_selection == "player_1"


@every_kind
def test_after_an_illegal_action_the_infos_say_how_the_game_ended(num_players, mask_in):
    """B12: the wrapped environment ends it for the offender."""
    game = env(num_players=num_players, mask_in=mask_in)
    game.reset(seed=1)
    game.step(legal_of(game)[0])
    game.step(illegal_of(game))
    assert game.unwrapped.rewards == {
        agent: -1.0 if agent == "player_1" else 0 for agent in game.possible_agents
    }
    for agent in game.possible_agents:
        info = game.infos[agent]
        assert info["end_reason"] == "illegal_action"
        assert (info["winners"], info["points"], info["rounds"]) == ([], [0] * num_players, 1)
        assert not mask_of(game, agent).any()
