"""Search agents from their specs: every option reaches the search, every mistake is named."""

import sys

import numpy as np
import pytest

from splendor_env.agents import make_agent
from splendor_env.core.actions import NUM_ACTIONS
from splendor_env.core.batch import Batch, write_action_masks
from splendor_env.core.state import SplendorError, standard
from splendor_env.search.evaluators import NetworkEvaluator, RolloutEvaluator


class Judge:
    """Likes the first actions best; sees every game even, one way or the other."""

    def __init__(self):
        self.name = "judge"
        self.num_positions = 0

    def act(self, games, rules, game_id):
        return np.zeros(len(games), np.int32)

    def answer(self, number):
        self.num_positions += number
        logits = np.tile(-np.arange(NUM_ACTIONS, dtype=np.float32), (number, 1))
        return logits, np.full((number, 4), 0.25, np.float32)


class NetworkJudge(Judge):
    def evaluate(self, observation):
        assert observation.dtype == np.float32
        return self.answer(len(observation))


class PositionJudge(Judge):
    def evaluate_games(self, games, rules):
        assert rules == standard(2)
        assert "bank" in games.dtype.names
        return self.answer(len(games))


@pytest.fixture
def judges(monkeypatch):
    """Specs `own.judges:network`, `own.judges:positions` and `own.judges:none`."""
    made = {"network": NetworkJudge(), "positions": PositionJudge(), "none": Judge()}
    module = type(sys)("own.judges")
    module.make_agent = lambda argument, seed: made[argument]
    monkeypatch.setitem(sys.modules, "own", type(sys)("own"))
    monkeypatch.setitem(sys.modules, "own.judges", module)
    return made


def test_every_option_of_mcts_reaches_the_search():
    spec = "mcts:sims=77,threads=2,root=gumbel,c_puct=1.25,outcomes=3,depth=9,reuse=0"
    agent = make_agent(spec, 5)
    settings = agent.search.settings
    assert agent.name == spec
    assert (settings.num_simulations, settings.milliseconds) == (77, 0)
    assert (settings.threads, settings.gumbel, settings.reuse) == (2, True, False)
    assert (settings.selection.c_puct, settings.selection.num_outcomes) == (1.25, 3)
    assert isinstance(agent.search.evaluator, RolloutEvaluator)
    assert agent.search.evaluator.num_decisions == 9


def test_mcts_without_options_is_200_simulations_of_rollouts():
    for spec in ("mcts", "mcts:", "mcts:eval=rollouts"):
        search = make_agent(spec).search
        assert (search.settings.num_simulations, search.is_gumbel) == (200, False)


def test_mcts_halves_its_candidates_with_a_network_or_up_to_64_simulations():
    assert make_agent("mcts:sims=64").search.is_gumbel
    assert not make_agent("mcts:sims=65").search.is_gumbel
    assert not make_agent("mcts:sims=64,root=puct").search.is_gumbel
    assert not make_agent("mcts:ms=5").search.is_gumbel
    assert make_agent("mcts:sims=800,eval=pretrained").search.is_gumbel
    assert make_agent("mcts:ms=5,eval=pretrained").search.is_gumbel
    assert not make_agent("mcts:sims=8,root=puct,eval=pretrained").search.is_gumbel


def test_milliseconds_take_the_place_of_simulations():
    assert make_agent("mcts:ms=12.5").search.settings.milliseconds == 12.5


@pytest.mark.parametrize("spec", ["mcts:sims=32,eval=pretrained", "lookahead:eval=pretrained"])
@pytest.mark.parametrize("num_players", [2, 3, 4])
def test_pretrained_policies_serve_as_evaluators(spec, num_players):
    rules = standard(num_players)
    games = Batch(rules, 3).games
    mask = np.zeros((3, NUM_ACTIONS), np.int8)
    write_action_masks(games, rules, mask)
    actions = make_agent(spec, 1).act(games, rules, np.arange(3))
    assert (mask[np.arange(3), actions] == 1).all()


@pytest.mark.parametrize("options", ["sims=24", "sims=24,threads=2,root=puct,reuse=0"])
@pytest.mark.parametrize("num_players", [2, 3])
def test_pretrained_with_options_chooses_as_mcts_by_pretrained_does(options, num_players):
    rules, ids = standard(num_players), np.array([5])
    short = make_agent(f"pretrained:{options}", 3)
    long = make_agent(f"mcts:{options},eval=pretrained", 3)
    assert short.name == f"pretrained:{options}"
    assert short.search.settings == long.search.settings
    batch = Batch(rules, 1)
    for _ in range(6):
        results = [agent.search.run(batch.games, rules, ids) for agent in (short, long)]
        assert all(map(np.array_equal, *results))
        assert results[0].visits.sum() >= 24
        batch.step(results[0].action)


def test_pretrained_in_milliseconds_searches_by_the_clock():
    settings = make_agent("pretrained:ms=12.5,threads=2").search.settings
    assert (settings.milliseconds, settings.threads) == (12.5, 2)


@pytest.mark.parametrize(
    ("spec", "temperature"),
    [
        ("pretrained:sims=5", 2.0),
        ("pretrained:sims=5,temperature=0.5", 0.5),
        ("mcts:eval=pretrained", 2.0),
        ("mcts:eval=pretrained,temperature=1", 1.0),
        ("mcts:eval=own.judges:network", 2.0),
        ("mcts:eval=own.judges:positions", 1.0),
        ("mcts:eval=own.judges:positions,temperature=3", 3.0),
    ],
)
def test_the_policy_of_a_network_is_softened_unless_told_otherwise(judges, spec, temperature):
    assert make_agent(spec).search.evaluator.temperature == temperature


@pytest.mark.parametrize("name", ["network", "positions"])
def test_own_agents_judge_by_observations_or_by_positions(judges, name):
    """With nothing to tell the actions apart but the prior, the likeliest is played."""
    agent = make_agent(f"mcts:sims=20,root=puct,eval=own.judges:{name}")
    assert isinstance(agent.search.evaluator, NetworkEvaluator)
    actions = agent.act(Batch(standard(2), 4).games, standard(2), np.arange(4))
    assert actions.tolist() == [0, 0, 0, 0]
    assert judges[name].num_positions >= 4 * 20


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("mcts:sims=0", ["sims", "1 to 1000000", "'0'"]),
        ("mcts:sims=ten", ["sims", "'ten'"]),
        ("mcts:sims=-3", ["sims", "'-3'"]),
        ("mcts:sims=5,ms=5", ["either sims or ms"]),
        ("mcts:sims=5,sims=6", ["sims is given twice"]),
        ("mcts:ms=0", ["ms", "0.1", "'0'"]),
        ("mcts:ms=nan", ["ms", "'nan'"]),
        ("mcts:simulations=5", ["'simulations=5'", "sims=", "threads="]),
        ("mcts:sims", ["'sims'", "options are"]),
        ("mcts:sims=5,", ["''", "options are"]),
        ("mcts:root=ucb", ["root must be puct or gumbel, not 'ucb'"]),
        ("mcts:threads=0", ["threads", "1 to 256"]),
        ("mcts:reuse=2", ["reuse", "0 to 1"]),
        ("mcts:outcomes=0", ["outcomes", "1 to 100"]),
        ("mcts:c_puct=-1", ["c_puct", "0 to 100"]),
        ("mcts:depth=3,eval=pretrained", ["depth is for eval=rollouts"]),
        ("mcts:sims=5,temperature=2", ["temperature is for networks, not eval=rollouts"]),
        ("mcts:eval=pretrained,temperature=0", ["temperature must be a number 0.01 to 100"]),
        ("mcts:eval=nobody", ["unknown agent 'nobody'"]),
        ("mcts:eval=greedy", ["'greedy' cannot evaluate positions"]),
        ("mcts:eval=own.judges:none", ["'own.judges:none' cannot evaluate positions"]),
        ("pretrained:", ["'pretrained:' needs sims= (", "or ms= ("]),
        ("pretrained:threads=2", ["'pretrained:threads=2' needs sims= (", "or ms= ("]),
        ("pretrained:sims=5,ms=5", ["'pretrained:sims=5,ms=5': either sims or ms"]),
        ("pretrained:ms=0", ["ms must be a number 0.1 to 3.6e+06, not '0'"]),
        ("pretrained:sims=ten", ["sims must be an integer 1 to 1000000, not 'ten'"]),
        ("pretrained:100", ["unknown '100'; options are sims= (", "ms= (", "reuse= ("]),
        ("pretrained:ms=5,eval=rollouts", ["unknown 'eval=rollouts'; options are sims= ("]),
        ("pretrained:ms=5,depth=2", ["unknown 'depth=2'; options are sims= ("]),
        ("lookahead", ["needs eval="]),
        ("lookahead:samples=2", ["needs eval="]),
        ("lookahead:eval=random", ["'random' cannot evaluate positions"]),
        ("lookahead:eval=pretrained,samples=0", ["samples", "1 to 1000"]),
        ("lookahead:eval=pretrained,c=x", ["c must be a number", "'x'"]),
        ("lookahead:eval=pretrained,sims=3", ["'sims=3'", "samples="]),
    ],
)
def test_mistakes_in_specs_are_named(judges, spec, words):
    with pytest.raises(SplendorError) as error:
        make_agent(spec)
    for word in words:
        assert word in str(error.value)
