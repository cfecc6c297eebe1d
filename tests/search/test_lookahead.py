"""One step ahead by a network: whose value, exact ends, no peeking."""

import numpy as np
import pytest

from splendor_env import Game
from splendor_env.core.actions import ACTION_NAMES, NUM_ACTIONS
from splendor_env.core.batch import Batch
from splendor_env.core.observation import view_observation
from splendor_env.core.state import standard
from splendor_env.search.lookahead import LookaheadAgent

from .puzzles import PUZZLES


def mover_is_sure_to_lose(observation):
    """Shares (B, 4): nothing for whoever is asked, which is bad after a turn of several parts."""
    shares = np.zeros((len(observation), 4), np.float32)
    shares[:, 1] = 1
    return np.zeros((len(observation), NUM_ACTIONS), np.float32), shares


@pytest.mark.parametrize(
    "name",
    ["four points win where three would lose the tie", "a shared victory is better than none"],
)
def test_ends_are_exact(name):
    game = Game.from_dict(PUZZLES[name])
    agent = LookaheadAgent("lookahead", lambda rules: mover_is_sure_to_lose)
    action = agent.act(game.games, game.rules, np.zeros(1))[0]
    best = {"four": "buy 3-1", "a sh": "buy 2-1"}[name[:4]]
    assert ACTION_NAMES[action] == best


def test_value_stays_with_the_mover_within_its_turn():
    """After a take that must be paid back the same seat is asked: then the network says 0."""
    game = Game.from_dict({"seats": [{"tokens": {"W": 4, "U": 4}}, {}]})
    agent = LookaheadAgent("lookahead", lambda rules: mover_is_sure_to_lose, c_q=1.0)
    scores = agent.scores(game.games, game.rules)[0]
    high = scores[ACTION_NAMES.index("take G R")]  # 10 tokens: the turn ends, seat 1 is to lose
    low = scores[ACTION_NAMES.index("take G R K")]
    assert high - low == pytest.approx(1)


def test_useless_answers_are_even():
    def useless(observation):
        shape = (len(observation), NUM_ACTIONS)
        return np.full(shape, np.nan, np.float32), np.full((len(observation), 4), np.nan)

    batch = Batch(standard(3), 4)
    scores = LookaheadAgent("lookahead", lambda rules: useless).scores(batch.games, batch.rules)
    assert scores[batch.action_mask == 1] == pytest.approx(
        np.repeat(np.log(1 / batch.action_mask.sum(1)) + 100 / 3, batch.action_mask.sum(1))
    )
    assert (scores[batch.action_mask == 0] == -np.inf).all()


def test_batch_gives_what_each_game_gives_alone_whatever_is_hidden():
    def judge(observation):
        points = np.stack([view_observation(row)["seats"][:, 13] for row in observation])
        shares = np.exp(points + observation.sum(1, keepdims=True) * np.arange(4) / 9)
        return observation[:, :NUM_ACTIONS], shares / shares.sum(1, keepdims=True)

    batch = Batch(standard(2), 5)
    agent = LookaheadAgent("lookahead", lambda rules: judge, seed=4)
    together = agent.scores(batch.games, batch.rules)
    twins = batch.games.copy()
    twins["seed"] += np.uint64(1)
    alone = [agent.scores(twins[i : i + 1], batch.rules) for i in range(5)]
    assert together == pytest.approx(np.concatenate(alone), abs=1e-6)
