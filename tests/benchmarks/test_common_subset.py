"""Agents kept to the moves of the public networks' rules, on positions set up for it."""

import numpy as np
import pytest

from benchmarks.common_subset import CommonSubsetAgent, CommonSubsetEvaluator
from splendor_env import Game, standard
from splendor_env.agents import make_agent
from splendor_env.core.actions import ACTION_NAMES, NUM_ACTIONS
from splendor_env.core.state import Phase, SplendorError
from splendor_env.evaluation import play_match
from splendor_env.evaluation.arena import one_against_rest, play_games
from splendor_env.search.evaluators import NetworkEvaluator

pytest.importorskip("onnxruntime")

EMPTY = {f"{level}-{slot}": None for level in (1, 2, 3) for slot in (1, 2, 3, 4)}
HAND = ["W00007", "U70000", "G07000"]
SPECS = pytest.mark.parametrize(
    "spec",
    [
        "pretrained",
        "lookahead:eval=pretrained",
        "mcts:sims=32,eval=pretrained",
        "mcts:sims=32,eval=pretrained,root=puct",
        "mcts:sims=32,eval=pretrained,threads=2",
    ],
)


class Wishing:
    """A policy whose logits are those of a list of moves, the dearest first."""

    name = "wishing"

    def __init__(self, *moves):
        self.moves = moves

    def act(self, games, rules, game_id):
        raise AssertionError("it must be asked what it thinks of all actions")

    def evaluate(self, observation):
        logits = np.zeros((len(observation), NUM_ACTIONS), np.float32)
        for place, move in enumerate(self.moves):
            logits[:, ACTION_NAMES.index(move)] = 99 - place
        return logits, np.full((len(observation), 4), 0.25, np.float32)


def kept(spec):
    return make_agent(f"benchmarks.common_subset:{spec}", 1)


def ask(agent, game, game_id=0):
    return ACTION_NAMES[agent.act(game.games, game.rules, np.array([game_id]))[0]]


def holding(tokens, reserved=(), **fields):
    return Game.from_dict({"seats": [{"tokens": tokens, "reserved": reserved}, {}], **fields})


@pytest.mark.parametrize(
    ("held", "chosen"), [(7, "take W U G"), (8, "take R K"), (9, "take K"), (10, "reserve 1-1")]
)
def test_a_policy_plays_the_likeliest_move_that_leaves_ten(held, chosen):
    wishes = ("take W U G", "take W W", "take R K", "take K", "reserve 1-1")
    game = holding({"W": 2, "U": 2, "G": 2, "R": held - 6})
    if held == 8:
        game = holding({"W": 3, "U": 2, "G": 2, "R": 1})  # fewer than four white ones are left
    assert ask(CommonSubsetAgent(Wishing(*wishes)), game) == chosen


def test_a_reserve_at_ten_returns_the_gold():
    """Although it would rather return another token; afterwards it is free again."""
    agent = CommonSubsetAgent(Wishing("return W", "reserve 2-1", "take U"))
    game = holding({"W": 3, "U": 3, "G": 2, "R": 1, "gold": 1})
    for move in ("reserve 2-1", "return gold"):
        assert ask(agent, game, game_id=5) == move
        game.push(move)
    assert game.player == 1
    assert agent._to_return == {}


def test_a_reserve_with_room_or_without_gold_returns_nothing():
    agent = CommonSubsetAgent(Wishing("reserve 2-1"))
    for tokens in ({"W": 4, "U": 4, "G": 1}, {"W": 3, "U": 2, "gold": 5}):
        game = holding(tokens)
        assert ask(agent, game) == "reserve 2-1"
        game.push("reserve 2-1")
        assert game.player == 1
        assert agent._to_return == {}


def test_two_games_do_not_share_what_they_return():
    agent = CommonSubsetAgent(Wishing("reserve 2-1", "take W", "return K"))
    full = holding({"W": 3, "U": 3, "G": 3, "R": 1})
    ten = {"W": 2, "U": 2, "G": 2, "R": 2, "K": 2}
    stuck = holding(ten, HAND, market=EMPTY, decks=[[], [], []])
    games = np.concatenate((full.games, stuck.games))
    actions = agent.act(games, full.rules, np.array([3, 8]))
    assert [ACTION_NAMES[action] for action in actions] == ["reserve 2-1", "take W"]
    full.push("reserve 2-1")
    stuck.push("take W")
    games = np.concatenate((stuck.games, full.games))
    actions = agent.act(games, full.rules, np.array([8, 3]))
    assert [ACTION_NAMES[action] for action in actions] == ["return W", "return gold"]


def test_without_another_action_it_takes_one_and_returns_the_same():
    """Which is how the other rules pass; a pass of ours is left where no token is."""
    agent = CommonSubsetAgent(Wishing("take W U G", "take R", "take K", "return gold"))
    tokens = {"W": 3, "U": 2, "G": 2, "R": 2, "gold": 1}
    fields = {"market": EMPTY, "decks": [[], [], []]}
    game = holding(tokens, HAND, **fields, bank={"W": 1, "U": 1, "G": 1, "K": 1})
    for move in ("take K", "return K"):
        assert ask(agent, game) == move
        game.push(move)
    assert game.player == 1
    assert ask(agent, holding(tokens, HAND, **fields, bank={})) == "pass"


@SPECS
def test_every_kind_of_agent_is_kept(spec):
    """At ten tokens it reserves and returns the gold, as nothing can be bought."""
    agent = kept(spec)
    game = holding({"W": 2, "U": 2, "G": 2, "R": 2, "K": 2}, market={**EMPTY, "3-1": "W30007"})
    move = ask(agent, game)
    assert move.startswith("reserve")
    game.push(move)
    assert ask(agent, game) == "return gold"
    nine = holding({"W": 3, "U": 2, "G": 2, "R": 2}, HAND)
    assert len(ask(agent, nine).split()) == 2  # a single token


def test_a_search_expects_nobody_to_make_another_move_later():
    """Whichever seat it is; a game that is over keeps what was said of it."""
    nine = {"tokens": {"W": 3, "U": 2, "G": 2, "R": 2}}
    ten = {"tokens": {"W": 2, "U": 2, "G": 2, "R": 2, "K": 2}}
    wishes = Wishing("take U K", "take K", "return W", "return gold")
    playing = Game.from_dict({"seats": [nine, {}]})
    other = Game.from_dict({"seats": [{}, nine], "player": 1})
    resting = Game.from_dict({"seats": [ten, {}]})
    resting.push("reserve 1-1")
    over = playing.games.copy()
    over["end_reason"] = 1
    leaves = np.concatenate((playing.games, resting.games, over, other.games))
    observation = np.zeros((4, playing.observe(seat=0).size), np.float32)
    inner = NetworkEvaluator(lambda rules: wishes.evaluate, 4, 1.5)
    evaluator = CommonSubsetEvaluator(inner)
    logits, shares = evaluator.judge(leaves, standard(2), observation, wishes.evaluate)
    wished, _ = wishes.evaluate(observation)
    names = [
        {ACTION_NAMES[action] for action in np.flatnonzero(np.isfinite(row))} for row in logits
    ]
    assert "take K" in names[0]
    assert "reserve 1-1" in names[0]
    assert not names[0] & {"take U K", "take W U G", "take K K", "return W"}
    assert names[1] == {"return gold"}
    assert names[2] == set(ACTION_NAMES)
    assert names[3] == names[0]
    assert (logits[np.isfinite(logits)] == wished[np.isfinite(logits)]).all()
    assert (shares == 0.25).all()
    assert (evaluator.batch_size, evaluator.temperature) == (4, 1.5)


def test_a_kept_search_judges_by_the_common_rules():
    for spec in ("mcts:sims=8,eval=pretrained", "mcts:sims=8"):
        agent = kept(spec)
        is_kept = isinstance(agent._agent.search.evaluator, CommonSubsetEvaluator)
        assert is_kept == ("eval" in spec)


@SPECS
@pytest.mark.parametrize("num_players", [2, 4])
def test_no_turn_of_its_games_returns_anything_else(spec, num_players):
    rules = standard(num_players)
    agent, greedy = kept(spec), make_agent("greedy")
    num_deals = 40 if spec == "pretrained" else 8  # it hardly reserves at ten
    games = play_games((agent, greedy), one_against_rest(rules, num_deals), rules, seed=4)
    assert (games.results["offender"] == -1).all()
    num_returns = 0
    for seats, deal, actions in zip(
        games.results["agents"], games.deals, games.actions, strict=True
    ):
        game = Game(rules)
        game.games[:] = deal
        for action in actions:
            if seats[game.player] == 0 and game.phase == Phase.RETURN:
                num_returns += 1
                taken, returned = game.history[-1].split()[-1], ACTION_NAMES[action].split()[-1]
                is_reserve = game.history[-1].startswith("reserve")
                assert returned == ("gold" if is_reserve else taken)
            game.push(int(action))
    assert agent._to_return == {}
    if num_players == 2 and spec == "pretrained":
        assert num_returns > 0


def test_an_agent_with_room_plays_as_before():
    """In three turns nobody can come to more than nine tokens."""
    rules = standard(2)
    seating = one_against_rest(rules, 20)
    free = play_games((make_agent("pretrained"), make_agent("racer")), seating, rules)
    subset = play_games((kept("pretrained"), make_agent("racer")), seating, rules)
    for one, other in zip(free.actions, subset.actions, strict=True):
        assert (one[:6] == other[:6]).all()


def test_other_agents_and_other_rules_are_refused():
    with pytest.raises(SplendorError, match="those that can are pretrained, onnx:FILE"):
        kept("greedy")
    for changes in ({"take_fewer": 1}, {"payment": 1}, {"target_points": 21}):
        with pytest.raises(SplendorError, match="one of the standard rules, not of standard with"):
            ask(kept("pretrained"), Game(standard(2, **changes)))
    ask(kept("pretrained"), Game(standard(2, max_rounds=62, hide_reserves=1)))


def test_it_tells_its_agent_of_games_that_are_over():
    agent = kept("mcts:sims=8")
    play_match(agent, make_agent("greedy"), standard(2), 2)
    assert agent._agent.search._kept == {}
