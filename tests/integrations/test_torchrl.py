import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

from splendor_env.core.actions import NUM_ACTIONS
from splendor_env.core.observation import OBSERVATION_SIZE
from splendor_env.envs.aec import env, raw_env

torch = pytest.importorskip("torch")
pytest.importorskip("torchrl")

from torchrl.envs import PettingZooWrapper, check_env_specs  # noqa: E402  where it is installed

EXAMPLE = Path(__file__).parents[2] / "examples" / "torchrl_pettingzoo.py"
GROUP = "seats"

pytestmark = pytest.mark.filterwarnings("ignore:PettingZoo in TorchRL is tested using version")
every_count = pytest.mark.parametrize("players", (2, 3, 4))


class Recorder(raw_env):
    """Keeps what was asked and played, and how games ended."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.decisions = []  # (seat, mask, action)
        self.results = []  # (N,) for each finished game

    def step(self, action):
        agent = self.agent_selection
        is_decision = not (self.terminations[agent] or self.truncations[agent])
        mask = self.observe(agent)["action_mask"]
        super().step(action)
        if is_decision:
            self.decisions.append((self.possible_agents.index(agent), mask, int(action)))
            if any(self.terminations.values()) or any(self.truncations.values()):
                self.results.append([self.rewards[agent] for agent in self.possible_agents])


def wrap(game, seed=0):
    wrapped = PettingZooWrapper(game, use_mask=True, group_map={GROUP: game.possible_agents})
    wrapped.set_seed(seed)
    torch.manual_seed(seed)
    return wrapped


@every_count
@pytest.mark.parametrize("make", (raw_env, env))
@pytest.mark.parametrize("mask_in", ("obs", "info"))
def test_specs_agree_with_what_the_environment_gives(players, make, mask_in):
    wrapped = wrap(make(num_players=players, mask_in=mask_in))
    check_env_specs(wrapped)
    key = (GROUP, "observation")
    spec = wrapped.observation_spec[key]
    shape = (spec["observation"] if mask_in == "obs" else spec).shape
    assert shape == (players, OBSERVATION_SIZE)
    assert wrapped.full_action_spec[GROUP, "action"].space.n == NUM_ACTIONS


def test_each_seat_is_a_group_of_its_own_by_default():
    wrapped = PettingZooWrapper(raw_env(num_players=3), use_mask=True)
    assert list(wrapped.group_map) == ["player_0", "player_1", "player_2"]
    check_env_specs(wrapped)


@every_count
def test_a_rollout_masks_the_seat_to_move_and_plays_its_legal_actions(players):
    game = Recorder(num_players=players)
    group = wrap(game).rollout(1000)[GROUP]
    assert len(group) == len(game.decisions)
    for step, (seat, mask, action) in enumerate(game.decisions):
        assert group["mask"][step].nonzero().flatten().tolist() == [seat]
        assert np.array_equal(group["action_mask"][step, seat], mask == 1)
        assert int(group["action"][step, seat]) == action
        assert mask[action] == 1


@every_count
def test_no_mask_that_is_acted_on_is_empty(players):
    rollout = wrap(raw_env(num_players=players)).rollout(1000)
    assert bool(rollout["next", "done"][-1].all())
    group = rollout[GROUP]
    assert bool(group["action_mask"].any(-1).all())
    assert bool(group["action_mask"][~group["mask"]].all())


@every_count
def test_only_the_seat_that_ended_the_game_has_an_empty_mask_and_only_then(players):
    game = Recorder(num_players=players)
    is_empty = ~wrap(game).rollout(1000)["next", GROUP, "action_mask"].any(-1)
    assert is_empty.nonzero().tolist() == [[len(is_empty) - 1, game.decisions[-1][0]]]


@every_count
def test_rewards_of_each_seat_sum_to_its_result(players):
    game = Recorder(num_players=players)
    rollout = wrap(game).rollout(1000)
    [result] = game.results
    reward = rollout["next", GROUP, "reward"].squeeze(-1)
    assert reward.sum(0).tolist() == pytest.approx(result)
    assert any(result)
    assert not reward[:-1].any()


def test_a_truncated_game_pays_nobody_and_says_so_for_all():
    rollout = wrap(raw_env(num_players=3, max_cycles=2)).rollout(1000)
    assert not rollout["next", GROUP, "reward"].any()
    assert bool(rollout["next", GROUP, "truncated"][-1].all())
    assert not rollout["next", GROUP, "terminated"].any()


@every_count
def test_seats_stay_valid_over_the_end_of_games(players):
    game = Recorder(num_players=players)
    rollout = wrap(game).rollout(800, break_when_any_done=False)
    assert len(rollout) == 800
    assert len(game.results) == int(rollout["next", "done"].sum()) >= 2
    ends = rollout["next", "done"].squeeze(-1)
    reward = rollout["next", GROUP, "reward"].squeeze(-1)
    assert reward[ends].numpy() == pytest.approx(np.array(game.results))
    assert not reward[~ends].any()
    assert bool((rollout[GROUP, "mask"].sum(-1) == 1).all())


def test_equal_seeds_give_equal_rollouts():
    first, second = (wrap(raw_env(num_players=2), seed=7).rollout(60) for _ in range(2))
    assert bool((first == second).all())


def test_the_example_runs(monkeypatch, capsys):
    spec = importlib.util.spec_from_file_location("torchrl_example", EXAMPLE)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    monkeypatch.setattr(sys, "argv", ["example", "--steps", "200"])
    example.main()
    assert "illegal actions: 0" in capsys.readouterr().out
