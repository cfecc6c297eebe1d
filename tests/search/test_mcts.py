"""The search of many games: fair, legal, repeatable, and right about whose value is whose."""

import time

import numpy as np
import pytest

from splendor_env import PRESETS, Game
from splendor_env.agents import make_agent
from splendor_env.core.actions import NUM_ACTIONS
from splendor_env.core.batch import Batch, determinize_games, write_action_masks
from splendor_env.core.observation import OBSERVATION_SIZE
from splendor_env.core.state import EndReason, Phase, SplendorError, standard
from splendor_env.search.evaluators import NetworkEvaluator, RolloutEvaluator
from splendor_env.search.mcts import Search, SearchAgent, Settings
from splendor_env.search.tree import find_root, hash_roots, write_root_edges

ROLLOUTS = RolloutEvaluator()
BLIND = {"card": "K33530", "blind": True}
OTHER_BLIND = {"card": "W00007", "blind": True}


def linear(observation):
    """A network whose rows do not depend on each other, not even in the last bit."""
    weights = np.sin(np.arange(OBSERVATION_SIZE * NUM_ACTIONS)).reshape(OBSERVATION_SIZE, -1)
    logits = np.stack([row @ weights for row in observation.astype(np.float64)])
    shares = np.exp(logits[:, :4] / 10)
    return logits.astype(np.float32), (shares / shares.sum(1, keepdims=True)).astype(np.float32)


NETWORK = NetworkEvaluator(lambda rules: linear)
EVALUATORS = pytest.mark.parametrize("evaluator", [ROLLOUTS, NETWORK], ids=["rollouts", "network"])
ROOTS = pytest.mark.parametrize("gumbel", [False, True], ids=["puct", "gumbel"])


def positions(rules, number=12, plies=30, seed=0):
    """(B,) GAME from games of greedy, at different times."""
    batch = Batch(rules, number, auto_reset=False)
    batch.reset(seed)
    greedy = make_agent("greedy")
    rows = np.arange(number)
    for ply in range(plies):
        actions = greedy.act(batch.games, rules, rows)
        is_waiting = (rows * plies < ply * number) | batch.terminated | batch.truncated
        batch.step(np.where(is_waiting, -1, actions).astype(np.int32))
    return batch.games[batch.games["end_reason"] == EndReason.RUNNING]


def legal_of(games, rules):
    mask = np.zeros((len(games), NUM_ACTIONS), np.int8)
    write_action_masks(games, rules, mask)
    return mask == 1


def is_same(one, other):
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


@ROOTS
def test_temperature_divides_the_logits_of_the_prior(gumbel):
    rules = standard(2)
    games, settings = positions(rules), Settings(num_simulations=24, gumbel=gumbel)

    def twice(observation):
        logits, shares = linear(observation)
        return 2 * logits, shares

    softened = NetworkEvaluator(lambda rules: twice, temperature=2.0)
    expected = Search(NETWORK, settings).run(games, rules)
    assert is_same(Search(softened, settings).run(games, rules), expected)
    sharp = NetworkEvaluator(lambda rules: twice)
    assert not is_same(Search(sharp, settings).run(games, rules), expected)


@EVALUATORS
@ROOTS
@pytest.mark.parametrize("num_players", [2, 3, 4])
def test_result_is_consistent(evaluator, gumbel, num_players):
    """Visits add up; shares are of all seats and sum to 1, with nothing negated."""
    rules = standard(num_players)
    games = positions(rules)
    legal = legal_of(games, rules)
    result = Search(evaluator, Settings(num_simulations=40, gumbel=gumbel)).run(games, rules)
    rows = np.arange(len(games))
    assert (result.visits.sum(1) == 40).all()
    assert (result.visits[~legal] == 0).all()
    assert legal[rows, result.action].all()
    assert result.value.shape == (len(games), num_players)
    assert result.value.sum(1) == pytest.approx(1)
    assert (result.value >= 0).all()
    assert ((result.q >= 0) & (result.q <= 1)).all()
    assert result.policy.sum(1) == pytest.approx(1)
    assert (result.policy[~legal] == 0).all()
    own = (result.visits * result.q).sum(1) / 40
    assert own == pytest.approx(result.value[rows, games["player"]], abs=0.03)


@EVALUATORS
@ROOTS
def test_the_choice_is_among_the_allowed_actions(evaluator, gumbel):
    """By halving, no simulation begins with another one; all legal ones are as good as no limit."""
    rules = standard(2)
    games = positions(rules)
    legal = legal_of(games, rules)
    rows = np.arange(len(games))
    search = Search(evaluator, Settings(num_simulations=40, gumbel=gumbel, threads=2))
    free = search.run(games, rules)
    assert is_same(free, search.run(games, rules, allowed=legal))
    allowed = np.ones_like(legal)
    allowed[rows, free.action] = legal.sum(1) == 1
    for some in (slice(None), slice(1)):  # one game is searched by both threads
        result = search.run(games[some], rules, allowed=allowed[some])
        assert (legal & allowed)[rows[some], result.action].all()
        if gumbel:
            assert (result.visits[~allowed[some]] == 0).all()
            assert (result.visits.sum(1) == 40 * (2 if some.stop else 1)).all()
    with pytest.raises(SplendorError, match="no legal action among those allowed"):
        search.run(games, rules, allowed=~legal)


@EVALUATORS
@ROOTS
@pytest.mark.parametrize("hide_reserves", [0, 1])
def test_hidden_cards_have_no_influence(evaluator, gumbel, hide_reserves):
    """B66: blind reserves and decks permuted, and another seed, give the very same answer."""
    rules = standard(3, hide_reserves=hide_reserves)
    games = positions(rules, plies=40)
    games["reserved"][:, :, 0] = -1  # hands of one blind card each, from the decks
    games["reserved"][:, :, 1:] = -1
    for game in games:
        for seat in range(3):
            size = game["deck_size"][1]
            game["reserved"][seat, 0] = game["deck"][1, size - 1]
            game["reserved_blind"][seat, 0] = 1
            game["deck"][1, size - 1] = -1
            game["deck_size"][1] -= 1
    twins = games.copy()
    seeds = np.arange(len(games), dtype=np.uint64) + 77
    determinize_games(twins, rules, twins["player"].copy(), seeds)
    assert (twins["reserved"] != games["reserved"]).any()
    settings = Settings(num_simulations=60, gumbel=gumbel)
    first, second = (Search(evaluator, settings, 5).run(some, rules) for some in (games, twins))
    assert is_same(first, second)


@EVALUATORS
@ROOTS
def test_batch_and_threads_give_what_each_game_gives_alone(evaluator, gumbel):
    rules = standard(2)
    games = positions(rules, number=8)
    # One leaf at a time, as in a batch this large.
    evaluator = NetworkEvaluator(lambda _: linear, 1) if evaluator is NETWORK else evaluator
    settings = {"num_simulations": 50, "gumbel": gumbel}
    together = Search(evaluator, Settings(**settings), 3).run(games, rules)
    threaded = Search(evaluator, Settings(**settings, threads=2), 3).run(games, rules)
    alone = [
        Search(evaluator, Settings(**settings), 3).run(games[i : i + 1], rules)
        for i in range(len(games))
    ]
    assert is_same(together, threaded)
    assert is_same(together, map(np.concatenate, zip(*alone, strict=True)))


def test_equal_seeds_repeat_and_others_do_not():
    rules = standard(2)
    games = positions(rules)
    settings = Settings(num_simulations=50, gumbel=False)
    runs = [Search(ROLLOUTS, settings, seed).run(games, rules) for seed in (1, 1, 2)]
    assert is_same(runs[0], runs[1])
    assert (runs[0].visits != runs[2].visits).any()


@EVALUATORS
@ROOTS
@pytest.mark.parametrize("num_simulations", [1, 2, 3])
def test_few_simulations_are_enough_for_an_answer(evaluator, gumbel, num_simulations):
    rules = standard(4)
    games = positions(rules)
    settings = Settings(num_simulations=num_simulations, gumbel=gumbel)
    result = Search(evaluator, settings).run(games, rules)
    assert legal_of(games, rules)[np.arange(len(games)), result.action].all()
    assert (result.visits.sum(1) == num_simulations).all()


@EVALUATORS
@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("num_players", [2, 3, 4])
def test_whole_games_are_legal_under_all_presets(evaluator, preset, num_players):
    """The batch refuses an illegal action."""
    rules = PRESETS[preset](num_players)
    batch = Batch(rules, 6, check=True)
    agent = SearchAgent("search", Search(evaluator, Settings(num_simulations=6)))
    phases = set()
    for _ in range(120):
        phases.update(batch.games["phase"].tolist())
        batch.step(agent.act(batch.games.copy(), rules, np.arange(6)))
    assert Phase.PLAY in phases


@pytest.mark.parametrize("logits", [-np.inf, np.nan, np.inf])
@ROOTS
def test_useless_prior_is_uniform(logits, gumbel):
    """B69: no NaN, no action -1, and every legal action has the same chance."""

    def useless(observation):
        shape = (len(observation), NUM_ACTIONS)
        return np.full(shape, logits, np.float32), np.full((len(observation), 4), 0.25, np.float32)

    rules = standard(2)
    games = positions(rules)
    legal = legal_of(games, rules)
    settings = Settings(num_simulations=200, gumbel=gumbel, num_candidates=78)
    result = Search(NetworkEvaluator(lambda _: useless), settings).run(games, rules)
    assert legal[np.arange(len(games)), result.action].all()
    assert np.isfinite(result.policy).all()
    if not gumbel:
        assert (result.visits[legal] > 0).all()


def test_useless_values_are_even():
    def useless(observation):
        return (
            np.zeros((len(observation), NUM_ACTIONS), np.float32),
            np.full((len(observation), 4), np.nan, np.float32),
        )

    rules = standard(3)
    games = Batch(rules, 4).games
    result = Search(NetworkEvaluator(lambda _: useless), Settings(num_simulations=20)).run(
        games, rules
    )
    assert result.value == pytest.approx(np.full((4, 3), 1 / 3))


@pytest.mark.parametrize("num_players", [2, 3, 4])
def test_value_belongs_to_absolute_seats(num_players):
    """A network that is sure of one seat, whoever looks: that seat has the root's value."""
    rules = standard(num_players)
    favourite = num_players - 1

    def sure(observation):
        # Who begins each round is seat 0: its offset tells which seat looks.
        first = find_first_seat(observation)
        shares = np.zeros((len(observation), 4), np.float32)
        shares[np.arange(len(observation)), (first + favourite) % num_players] = 1
        return np.zeros((len(observation), NUM_ACTIONS), np.float32), shares

    games = Batch(rules, 3).games
    for _ in range(num_players):
        settings = Settings(num_simulations=60)
        result = Search(NetworkEvaluator(lambda _: sure), settings).run(games, rules)
        expected = np.zeros((3, num_players))
        expected[:, favourite] = 1
        assert result.value == pytest.approx(expected)
        games = games.copy()
        games["player"] = (games["player"] + 1) % num_players


def find_first_seat(observation):
    from splendor_env.core.observation import view_observation

    return np.array([view_observation(row)["first_seat"].argmax() for row in observation])


def test_blind_reserve_does_not_peek():
    """B68: whichever card lies on top of the deck, its reserve is worth the same."""
    position = {"seats": [{"points": 10}, {"points": 9}], "player": 0}
    answers = []
    for seed in range(4):
        game = Game.from_dict(position)
        game.games["seed"] = seed
        answers.append(Search(ROLLOUTS, Settings(num_simulations=100)).run(game.games, game.rules))
    assert all(is_same(answers[0], answer) for answer in answers[1:])


@EVALUATORS
def test_kept_tree_has_the_statistics_of_the_descendant(evaluator):
    """Then the new simulations come on top of those below the move that was made."""
    rules = standard(2)
    games = positions(rules, number=6, plies=20)
    search = Search(evaluator, Settings(num_simulations=300, gumbel=False), 4)
    ids = np.arange(len(games))
    first = search.run(games, rules, ids)
    batch = Batch(rules, len(games), auto_reset=False)
    batch.games[:] = games
    batch.step(first.action)
    is_same_seat = batch.games["player"] == games["player"]
    greedy = make_agent("greedy").act(batch.games, rules, ids)
    batch.step(np.where(is_same_seat, -1, greedy).astype(np.int32))
    is_usable = (batch.games["player"] == games["player"]) & (batch.games["end_reason"] == 0)
    trees = {key: trees[0] for key, trees in search._kept.items()}
    hashes = np.empty(len(games), np.uint64)
    hash_roots(batch.games, rules, hashes)
    second = search.run(batch.games[is_usable], rules, ids[is_usable])
    found = 0
    for row, key in enumerate(ids[is_usable]):
        start = find_root(trees[key].nodes, hashes[key])
        kept = np.zeros((1, NUM_ACTIONS), np.int64)
        if start >= 0:
            found += 1
            # Of the edges of any node, as if it were the first.
            from_there = trees[key].nodes.copy()
            from_there[0] = from_there[start]
            write_root_edges(from_there[None], kept, np.empty((1, NUM_ACTIONS)))
            assert (second.visits[row] >= kept[0]).all()
        assert second.visits[row].sum() == kept.sum() + 300
    assert found > 0


def test_trees_are_forgotten_with_their_games():
    rules = standard(2)
    agent = make_agent("mcts:sims=20")
    games = Batch(rules, 5).games
    agent.act(games, rules, np.arange(5))
    assert len(agent.search._kept) == 5
    agent.end_games(np.array([1, 3, 9]), [{}, {}, {}])
    assert set(agent.search._kept) == {0, 2, 4}
    agent.act(Batch(standard(3), 2).games, standard(3), np.arange(2))
    assert set(agent.search._kept) == {0, 1}


@ROOTS
def test_best_lines_follow_the_most_visited_edges(gumbel):
    rules = standard(2)
    games = positions(rules)[:1]
    search = Search(ROLLOUTS, Settings(num_simulations=400, gumbel=gumbel), 1)
    visits = search.run(games, rules, np.array([7])).visits[0]
    lines = search.best_lines(7, 3, 4)
    assert [visits[line[0]] for line in lines] == sorted(visits)[:-4:-1]
    assert len(lines[0]) > 1 and all(1 <= len(line) <= 4 for line in lines)
    game = Game(rules)
    game.games[:] = games
    for line in lines:
        after = game.copy()
        after.push(line[0])
        assert len(line) == 1 or line[1] in after.legal_actions
    assert search.best_lines(8, 3, 4) == []
    search.forget([7])
    assert search.best_lines(7, 3, 4) == []


@ROOTS
@pytest.mark.parametrize("num_games", [1, 3])
def test_time_is_kept(num_games, gumbel):
    rules = standard(2)
    games = positions(rules)[:num_games]
    search = Search(ROLLOUTS, Settings(milliseconds=100, gumbel=gumbel), 1)
    search.run(games, rules)  # compiles
    start = time.perf_counter()
    result = search.run(games, rules)
    seconds = time.perf_counter() - start
    assert 0.05 * num_games < seconds < 0.3 * num_games + 0.3
    assert (result.visits.sum(1) > 100).all()


def test_halving_in_time_ends_with_two_candidates_visited_equally_often():
    rules = standard(2)
    games = positions(rules)[:4]
    result = Search(ROLLOUTS, Settings(milliseconds=30, gumbel=True), 1).run(games, rules)
    most = np.sort(result.visits, 1)[:, ::-1]
    assert (most[:, 0] == most[:, 1]).all()
    assert (most[:, 1] > most[:, 2]).all()
    assert ((most > 0).sum(1) <= 16).all()
    assert (result.visits[np.arange(4), result.action] == most[:, 0]).all()


def test_several_threads_search_one_game_in_trees_of_their_own():
    rules = standard(2)
    games = positions(rules)[:1]
    search = Search(ROLLOUTS, Settings(num_simulations=100, threads=3, gumbel=False), 2)
    result = search.run(games, rules, np.array([7]))
    assert result.visits.sum() == 300
    assert len(search._kept[7]) == 3
    again = Search(ROLLOUTS, Settings(num_simulations=100, threads=3, gumbel=False), 2)
    assert is_same(result, again.run(games, rules))


def test_full_tree_is_used_on():
    rules = standard(2)
    games = positions(rules)[:2]
    search = Search(ROLLOUTS, Settings(num_simulations=500, max_nodes=50, gumbel=False), 2)
    result = search.run(games, rules)
    assert (result.visits.sum(1) == 500).all()


def test_finished_games_are_refused():
    games = Batch(standard(2), 2).games
    games["end_reason"] = EndReason.TARGET
    with pytest.raises(SplendorError, match="over"):
        Search(ROLLOUTS, Settings()).run(games, standard(2))


def test_noise_explores_with_gumbel():
    """Equal positions are given equal noise: other seeds are other games."""
    rules = standard(2)
    games = positions(rules)[:1]
    settings = Settings(num_simulations=8, gumbel_scale=1.0)
    actions = {int(Search(ROLLOUTS, settings, s).run(games, rules).action[0]) for s in range(20)}
    assert len(actions) > 1
