import subprocess
import sys

import numpy as np
import pytest

from splendor_env.agents import agent_specs, make_agent
from splendor_env.core.batch import Batch, deal_games
from splendor_env.core.rules import is_legal
from splendor_env.core.state import GAME, SplendorError, standard


class FirstLegalAgent:
    def __init__(self, argument, seed):
        self.name = f"first of {argument}, seed {seed}"

    def act(self, games, rules, game_id):
        return np.zeros(len(games), np.int32)


def make_agent_of_this_module(argument, seed):
    return FirstLegalAgent(argument, seed)


@pytest.fixture
def own_module(monkeypatch):
    module = type(sys)("own.agents")
    module.make_agent = make_agent_of_this_module
    monkeypatch.setitem(sys.modules, "own", type(sys)("own"))
    monkeypatch.setitem(sys.modules, "own.agents", module)
    return module


@pytest.mark.parametrize("spec", ["random", "greedy", "builder", "racer"])
@pytest.mark.parametrize("num_players", [2, 3, 4])
def test_builtin_agents_answer_legally_for_many_games_at_once(spec, num_players):
    agent = make_agent(spec, seed=3)
    rules = standard(num_players)
    batch = Batch(rules, 64, check=True)
    assert agent.name == spec
    for _ in range(150):
        actions = agent.act(batch.games.copy(), rules, np.arange(64))
        assert actions.shape == (64,)
        assert actions.dtype == np.int32
        batch.step(actions)


def test_random_agents_repeat_by_seed_and_differ_between_seeds():
    rules = standard(2)
    games = np.zeros(200, GAME)
    deal_games(games, rules, np.uint64(1))

    def two_answers(seed):
        agent = make_agent("random", seed)
        return [agent.act(games, rules, np.arange(200)).tolist() for _ in range(2)]

    first, second = two_answers(5)
    assert [first, second] == two_answers(5)
    assert first != second
    assert first != two_answers(6)[0]
    assert all(is_legal(games[i], first[i], rules) for i in range(5))


def test_an_own_module_gets_the_argument_and_the_seed(own_module):
    assert make_agent("own.agents:some:thing", seed=9).name == "first of some:thing, seed 9"


def test_an_own_module_without_the_function_is_refused(own_module):
    del own_module.make_agent
    with pytest.raises(SplendorError, match=r"own\.agents has no function make_agent"):
        make_agent("own.agents:x")


class Nameless:
    def act(self, games, rules, game_id):
        return np.zeros(len(games), np.int32)


@pytest.mark.parametrize(
    "agent", [5, None, Nameless(), type("OddName", (Nameless,), {"name": 5})(), sys]
)
def test_an_own_module_that_returns_no_agent_is_refused(own_module, agent):
    own_module.make_agent = lambda argument, seed: agent
    with pytest.raises(
        SplendorError, match=r"agent 'own\.agents:x': make_agent must return"
    ) as error:
        make_agent("own.agents:x")
    assert repr(agent) in str(error.value)


@pytest.mark.parametrize("source", ["def", "import nothing_of_that_name", "int('x')", "len(5)"])
def test_an_own_module_that_cannot_be_imported_is_refused(source, tmp_path, monkeypatch):
    (tmp_path / "broken_package").mkdir()
    (tmp_path / "broken_package" / "agent.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(SplendorError, match=r"agent 'broken_package\.agent:x': "):
        make_agent("broken_package.agent:x")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("genius", "unknown agent 'genius'; agents are random, greedy"),
        ("random:5", "unknown agent 'random:5'"),
        ("", "unknown agent ''"),
        ("no.such.module:x", "agent 'no.such.module:x': No module named"),
        (".foo:x", "agent '.foo:x': "),
        ("..:x", "agent '..:x': "),
        (None, "unknown agent None"),
        (5, "unknown agent 5"),
        ("ppo:no/such/folder", "no policy in"),
    ],
)
def test_wrong_specs_are_refused_with_the_reason(spec, message):
    with pytest.raises(SplendorError, match=message):
        make_agent(spec)


def test_every_kind_of_spec_has_a_line_about_it():
    assert {"random", "greedy"} <= set(agent_specs())
    assert all(agent_specs().values())


def test_trained_agents_say_that_they_need_a_checkout_where_there_is_none(tmp_path):
    code = (
        "import sys; sys.modules['training'] = None\n"
        "from splendor_env.agents import make_agent\n"
        "try:\n    make_agent('ppo:x')\nexcept ValueError as error:\n    print(error)\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert "need a checkout of the project" in result.stdout
