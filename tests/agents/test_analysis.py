"""What an agent is asked about one position, and what comes of its answer."""

import numpy as np
import pytest

from splendor_env import Game, SplendorError
from splendor_env.agents import analysis, make_agent
from splendor_env.agents.analysis import RefusedError, analyse, shown_to_mover, win_shares
from splendor_env.core.state import standard
from tests.web import agents


def test_each_analysis_is_a_game_of_its_own_that_is_ended():
    agent = agents.make_agent("telling", 0)
    agents.ended.clear()
    shown = shown_to_mover(Game(seed=3))
    for _ in range(2):
        assert analyse(agent, shown)["choice"] == shown.legal_moves[0]
    assert agent.asked[0] > agent.asked[1] and max(agent.asked) < 0
    assert [game_id for game_id, _ in agents.ended] == agent.asked
    result = {"end_reason": "round_limit", "rounds": 1, "points": [0, 0], "winners": []}
    assert [result for _, result in agents.ended] == [result] * 2


def test_analysis_ends_its_game_when_the_agent_has_failed():
    agent = agents.make_agent("telling", 0)
    agent.name = "illegal"
    agents.ended.clear()
    with pytest.raises(SplendorError, match="illegal action"):
        analyse(agent, shown_to_mover(Game(seed=3)))
    assert [game_id for game_id, _ in agents.ended] == agent.asked


def test_search_forgets_what_it_has_analysed():
    agent = make_agent("mcts:sims=20")
    assert analyse(agent, shown_to_mover(Game(seed=3)))["lines"]
    assert agent.search._kept == {}


def test_answers_that_are_no_numbers_are_failures():
    agent, shown = agents.make_agent("nan", 0), shown_to_mover(Game(seed=3))
    with pytest.raises(SplendorError, match="no number"):
        analyse(agent, shown)
    with pytest.raises(SplendorError, match="no number"):
        win_shares(agent, shown.games, shown.rules)


def test_shares_of_the_mover_go_to_its_seat():
    shares, player = np.array([[0.5, 0.3, 0.2, 0.0]] * 2), np.array([0, 1], np.int8)
    by_seat = analysis._by_seat(shares, player, standard(3))
    assert by_seat == pytest.approx(np.array([[0.5, 0.3, 0.2], [0.2, 0.5, 0.3]]))


def test_search_is_not_asked_for_the_chances_in_too_many_positions(monkeypatch):
    monkeypatch.setattr(analysis, "_MOST_SIMULATIONS", 39)
    game = Game(seed=3)
    agent = make_agent("mcts:sims=20")
    assert win_shares(agent, game.games, game.rules).shape == (1, 2)
    with pytest.raises(RefusedError, match="too long about 2 positions"):
        win_shares(agent, np.repeat(game.games, 2), game.rules)
