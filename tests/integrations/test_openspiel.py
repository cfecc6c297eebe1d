import importlib
import pickle
import random
import sys

import numpy as np
import pytest

from splendor_env.core.actions import (
    ACTION_NAMES,
    BUY_RESERVED,
    NUM_ACTIONS,
    PASS,
    RESERVE,
    RESERVE_DECK,
    TAKE_ALIKE,
)
from splendor_env.core.cards import CARD_LEVEL, CARD_NAMES, NOBLE_NAMES, NUM_CARDS
from splendor_env.core.gems import pack
from splendor_env.core.observation import view_observation
from splendor_env.core.state import (
    GAME,
    PRESETS,
    EndReason,
    IllegalActionError,
    SplendorError,
    standard,
)
from splendor_env.game import Game

pyspiel = pytest.importorskip("pyspiel")

from open_spiel.python import rl_environment  # noqa: E402  only where OpenSpiel is installed
from open_spiel.python.algorithms import ismcts, mcts  # noqa: E402
from open_spiel.python.observation import INFO_STATE_OBS_TYPE, make_observation  # noqa: E402

from splendor_env.envs.openspiel import (  # noqa: E402
    NUM_EVENTS,
    OUTCOME_NAMES,
    check_bot,
    make_mcts_bot,
)

PLAYERS = (2, 3, 4)
BUT_SEED = [name for name in GAME.names if name != "seed"]
RICH = pack([7, 7, 7, 7, 7])

every_count = pytest.mark.parametrize("players", PLAYERS)


def load(players=2, rules="standard"):
    return pyspiel.load_game("python_splendor", {"players": players, "rules": rules})


def dealt(players=2, rules="standard", seed=0):
    """A state at the first decision, its set-up chosen by `seed`."""
    state = load(players, rules).new_initial_state()
    answer_chance(state, random.Random(seed))
    return state


def answer_chance(state, rng):
    while state.is_chance_node():
        state.apply_action(rng.choice(state.legal_actions()))


def play(state, seed=0, max_decisions=10**6):
    """Play on at random until the end; yields before every decision and chance node."""
    rng = random.Random(seed)
    while not state.is_terminal() and max_decisions > 0:
        yield state
        max_decisions -= not state.is_chance_node()
        state.apply_action(rng.choice(state.legal_actions()))


def play_on(state, seed=0, max_decisions=10**6):
    for _ in play(state, seed, max_decisions):
        pass
    answer_chance(state, random.Random(seed))
    return state


def knowledge(state, seat):
    return (
        state.information_state_string(seat),
        state.observation_string(seat),
        state.observation_tensor(seat),
    )


def chance_outcomes_of_set_up(games):
    market = games["market"][0].ravel().tolist()
    return market + [NUM_CARDS + noble for noble in games["nobles"][0].tolist() if noble >= 0]


def card_drawn(before, after):
    drawn = set(before["deck"].ravel().tolist()) - set(after["deck"].ravel().tolist()) - {-1}
    return drawn.pop() if drawn else None


def assert_same_table(state, game):
    for name in BUT_SEED:
        assert (state.games[name] == game.games[name]).all(), name
    assert state.is_terminal() == game.is_over
    assert state.returns() == game.returns
    if not game.is_over:
        assert state.current_player() == game.player
        assert state.legal_actions() == game.legal_actions
    for seat in range(game.rules.num_players):
        assert np.array_equal(np.float32(state.observation_tensor(seat)), game.observe(seat))


# OpenSpiel's own test: sorted legal actions, masks, unique action names, clones, serialisation,
# observers, declared bounds.


@every_count
def test_openspiels_random_simulations_pass(players):
    pyspiel.random_sim_test(load(players), num_sims=3, serialize=True, verbose=False)


@pytest.mark.parametrize("rules", sorted(PRESETS))
def test_every_preset_passes_them_too(rules):
    pyspiel.random_sim_test(load(2, rules), num_sims=2, serialize=True, verbose=False)


# The declaration.


@every_count
def test_declared_sizes(players):
    game = load(players)
    rules = standard(players)
    assert game.num_players() == players
    assert game.num_distinct_actions() == NUM_ACTIONS
    assert game.max_chance_outcomes() == len(OUTCOME_NAMES) == 100
    assert game.max_chance_nodes_in_history() == 90 + players + 1
    assert game.max_game_length() == 100 * players * 4 + players + 1
    assert game.min_utility() == -1 / (players - 1)
    assert game.max_utility() == 1
    assert game.utility_sum() == 0
    assert game.rules == rules
    assert game.get_type().utility == pyspiel.GameType.Utility.ZERO_SUM


def test_a_game_string_sets_players_and_rules():
    game = pyspiel.load_game("python_splendor(players=3,rules=rulebook_2014)")
    assert game.rules == PRESETS["rulebook_2014"](3)
    assert pyspiel.load_game(str(game)).rules == game.rules
    # Gold may take the place of a colour five times.
    assert game.max_game_length() == 100 * 3 * 6 + 4


def test_default_parameters():
    assert pyspiel.load_game("python_splendor").rules == standard(2)


@pytest.mark.parametrize("parameters", ["players=5", "players=1", "rules=chess"])
def test_nonsense_parameters_are_refused(parameters):
    with pytest.raises(SplendorError, match=r"num_players|unknown rules"):
        pyspiel.load_game(f"python_splendor({parameters})")


# Chance.


@every_count
def test_set_up_turns_up_cards_by_level_and_slot_and_then_nobles(players):
    state = load(players).new_initial_state()
    for place in range(12):
        level = place // 4
        outcomes = [outcome for outcome, _ in state.chance_outcomes()]
        assert len(outcomes) == (40, 30, 20)[level] - place % 4
        assert {int(CARD_LEVEL[outcome]) for outcome in outcomes} == {level}
        card = outcomes[-1 - place]
        assert state.action_to_string(pyspiel.PlayerId.CHANCE, card) == CARD_NAMES[card]
        state.apply_action(card)
        assert state.games["market"][0, level, place % 4] == card
    for slot in range(players + 1):
        outcomes = [outcome for outcome, _ in state.chance_outcomes()]
        assert len(outcomes) == 10 - slot
        noble = outcomes[slot] - NUM_CARDS
        assert state.action_to_string(pyspiel.PlayerId.CHANCE, outcomes[slot]) == NOBLE_NAMES[noble]
        state.apply_action(outcomes[slot])
        assert state.games["nobles"][0, slot] == noble
    assert state.current_player() == 0


@every_count
def test_chance_is_uniform_over_the_deck(players):
    for state in play(dealt(players), seed=players):
        if not state.is_chance_node():
            continue
        outcomes, probabilities = zip(*state.chance_outcomes(), strict=True)
        assert sum(probabilities) == pytest.approx(1)
        assert len(set(probabilities)) == 1
        level = CARD_LEVEL[outcomes[0]]
        deck = state.games["deck"][0, level]
        assert list(outcomes) == sorted(card for card in deck if card >= 0)
        assert state.legal_actions() == list(outcomes)


def test_no_chance_node_for_a_move_that_draws_no_card():
    state = dealt()
    state.apply_action(0)
    assert state.current_player() == 1


def test_an_empty_deck_needs_no_chance_node():
    state = dealt()
    state.games["deck"][0, 0] = -1
    state.games["deck_size"][0, 0] = 0
    state.apply_action(RESERVE)
    assert state.current_player() == 1
    assert state.games["market"][0, 0, 0] == -1


def test_a_card_that_is_not_in_the_deck_cannot_be_turned_up():
    state = dealt()
    face_up = int(state.games["market"][0, 0, 0])
    state.apply_action(RESERVE)
    with pytest.raises(IllegalActionError, match="chance cannot turn up"):
        state.apply_action(face_up)
    assert state.is_chance_node()


# The same game as the core's.


@pytest.mark.parametrize("rules", ["standard", "rulebook_2014", "from_four_left"])
@every_count
def test_the_same_draws_give_the_positions_of_a_game(players, rules):
    game = Game(rules, players, seed=players)
    state = load(players, rules).new_initial_state()
    for outcome in chance_outcomes_of_set_up(game.games):
        assert state.is_chance_node()
        state.apply_action(outcome)
    rng = random.Random(players)
    assert_same_table(state, game)
    while not game.is_over:
        before = game.games.copy()
        action = rng.choice(game.legal_actions)
        game.push(action)
        card = card_drawn(before, game.games)
        state.apply_action(action)
        assert state.is_chance_node() == (card is not None)
        if card is not None:
            state.apply_action(card)
        assert_same_table(state, game)
    assert state.current_player() == pyspiel.PlayerId.TERMINAL
    assert state.rewards() == state.returns()
    assert sum(state.returns()) == pytest.approx(0)


def test_legal_actions_ascend_and_have_names():
    for state in play(dealt(3), seed=4):
        legal = state.legal_actions()
        assert legal == sorted(set(legal))
        if not state.is_chance_node():
            assert [state.action_to_string(action) for action in legal] == [
                ACTION_NAMES[action] for action in legal
            ]


@pytest.mark.parametrize("action", [BUY_RESERVED, NUM_ACTIONS])
def test_an_illegal_action_is_refused_and_changes_nothing(action):
    state = dealt()
    before = str(state), state.games.copy(), state.history()
    with pytest.raises(IllegalActionError, match="legal: take W U G"):
        state.apply_action(action)
    assert (str(state), state.history()) == (before[0], before[2])
    assert (state.games == before[1]).all()


def test_the_round_limit_ends_the_game_with_nothing_for_anyone():
    state = dealt(3)
    state.games["rounds"] = 100
    state.games["player"] = 2
    state.apply_action(TAKE_ALIKE)
    assert state.is_terminal()
    assert state.games["end_reason"][0] == EndReason.ROUND_LIMIT
    assert state.returns() == [0, 0, 0]


# Who knows what.


@pytest.mark.parametrize("rules", ["standard", "from_four_left"])
@every_count
def test_a_blind_reserve_is_known_to_its_owner_alone(players, rules):
    state = dealt(players, rules)
    state.apply_action(RESERVE_DECK + 1)
    twin = state.clone()
    state.apply_action(state.legal_actions()[0])
    twin.apply_action(twin.legal_actions()[-1])
    for _ in range(2):
        for mine, other in zip(knowledge(state, 0), knowledge(twin, 0), strict=True):
            assert mine != other
        for seat in range(1, players):
            assert knowledge(state, seat) == knowledge(twin, seat)
        state.apply_action(0)
        twin.apply_action(0)
    assert str(state) != str(twin)


def test_a_blind_reserve_becomes_known_when_it_is_bought():
    state = dealt(3)
    state.apply_action(RESERVE_DECK)
    card = state.legal_actions()[7]
    state.apply_action(card)
    state.apply_action(0)
    state.apply_action(1)
    assert all(CARD_NAMES[card] not in state.information_state_string(seat) for seat in (1, 2))
    state.games["bonuses"][0, 0] = RICH
    state.apply_action(BUY_RESERVED)
    for seat in range(3):
        assert f"buy reserved 1 {CARD_NAMES[card]}" in state.information_state_string(seat)


def test_a_card_reserved_from_the_market_is_remembered_where_reserves_are_hidden():
    state = dealt(rules="from_four_left")
    twin = state.clone()
    first, second = state.games["market"][0, 0, :2].tolist()
    unseen = next(card for card in range(40) if card not in state.games["market"])
    for table, action in ((state, RESERVE), (twin, RESERVE + 1)):
        table.apply_action(action)
        table.apply_action(unseen)
    # The same cards lie face up, elsewhere, and one is in hand: the history says which.
    assert state.games["reserved"][0, 0, 0] == first
    assert twin.games["reserved"][0, 0, 0] == second
    assert state.information_state_string(1) != twin.information_state_string(1)


def test_the_information_state_tells_every_seat_all_that_is_public():
    state = dealt(2, seed=3)
    market = state.games["market"][0].copy()
    state.apply_action(RESERVE)
    drawn = state.legal_actions()[0]
    state.apply_action(drawn)
    state.apply_action(TAKE_ALIKE)
    for seat in range(2):
        told = state.information_state_string(seat).split("\n")
        assert told[0].startswith(f"{seat}: {CARD_NAMES[market[0, 0]]} ")
        assert told[1:] == [f"reserve 1-1 {CARD_NAMES[drawn]}", "take W W"]


@pytest.mark.parametrize("rules", ["standard", "rulebook_2014", "from_four_left"])
def test_resampling_keeps_all_that_a_seat_knows(rules):
    rng = random.Random(5)
    num_changed = 0
    start = dealt(3, rules)
    for level in range(3):
        start.apply_action(RESERVE_DECK + level)
        answer_chance(start, rng)
    for state in play(start, seed=6, max_decisions=60):
        for seat in range(3):
            twin = state.resample_from_infostate(seat, rng.random)
            assert knowledge(twin, seat) == knowledge(state, seat)
            assert twin.current_player() == state.current_player()
            assert len(twin.history()) == len(state.history())
            num_changed += str(twin) != str(state)
            if state.current_player() == seat:
                assert twin.legal_actions() == state.legal_actions()
    assert num_changed > 0


def test_resampling_finds_cards_that_agree_with_a_pass():
    state = next(
        state
        for seed in range(100)
        for state in play(dealt(3, "rulebook_2014"), seed)
        if state.legal_actions() == [PASS] and state._secrets(0) and state.current_player() > 0
    )
    state.apply_action(PASS)
    rng = random.Random(0)
    for _ in range(10):
        twin = state.resample_from_infostate(0, rng.random)
        assert knowledge(twin, 0) == knowledge(state, 0)


def test_resampling_gives_up_where_the_draws_never_agree():
    state = dealt()
    state.apply_action(RESERVE_DECK)
    state.apply_action(state.legal_actions()[0])
    state._replay = refuse
    with pytest.raises(SplendorError, match="what seat 1 knows"):
        state.resample_from_infostate(1, random.Random(0).random)


def refuse(other):
    raise IllegalActionError("not that one")


# Observers.


def test_the_observer_names_the_parts_of_its_tensor():
    state = play_on(dealt(3), max_decisions=20)
    observer = make_observation(state.get_game())
    observer.set_from(state, 1)
    assert observer.tensor.tolist() == state.observation_tensor(1)
    for name, part in view_observation(observer.tensor).items():
        assert np.shares_memory(observer.dict[name], observer.tensor)
        assert (observer.dict[name] == part).all()
    assert observer.string_from(state, 1) == state.observation_string(1)


def test_the_information_state_tensor_holds_seat_observation_and_history():
    state = play_on(dealt(), max_decisions=20)
    observer = make_observation(state.get_game(), INFO_STATE_OBS_TYPE)
    for seat in range(2):
        observer.set_from(state, seat)
        assert observer.tensor.tolist() == state.information_state_tensor(seat)
        assert observer.tensor.min() >= 0 and observer.tensor.max() <= 1
        assert observer.dict["player"].tolist() == [seat == 0, seat == 1, 0, 0]
        assert observer.dict["observation"].tolist() == state.observation_tensor(seat)
        codes = np.rint(observer.dict["history"] * NUM_EVENTS).astype(int)
        told = codes[codes > 0]
        assert (codes[len(told) :] == 0).all()
        decisions = [step.action for step in state.full_history() if step.player >= 0]
        assert [code - 1 for code in told if code <= NUM_ACTIONS] == decisions
        assert observer.string_from(state, seat) == state.information_state_string(seat)


def test_a_blind_card_is_in_the_history_of_its_owner_only():
    states = []
    for which in (0, 1):
        state = dealt(2, seed=3)
        state.apply_action(RESERVE_DECK)
        state.apply_action(state.legal_actions()[which])
        states.append(state)
    own, others = ([s.information_state_tensor(seat) for s in states] for seat in (0, 1))
    assert own[0] != own[1]
    assert others[0] == others[1]


def test_other_kinds_of_observer_are_refused():
    game = load()
    public = pyspiel.IIGObservationType(
        perfect_recall=False, private_info=pyspiel.PrivateInfoType.NONE
    )
    with pytest.raises(SplendorError, match="private to one player"):
        game.make_py_observer(public)
    with pytest.raises(SplendorError, match="no parameters"):
        game.make_py_observer(None, {"colour": 1})


# Copies.


@every_count
def test_serialisation_keeps_everything(players):
    state = dealt(players)
    state.apply_action(RESERVE_DECK)  # leaves a chance node behind
    texts = pyspiel.serialize_game_and_state(state.get_game(), state)
    game, same = pyspiel.deserialize_game_and_state(texts)
    assert game.rules == state.get_game().rules
    for twin in (same, pickle.loads(pickle.dumps(state))):
        assert twin.history() == state.history()
        for each in (state.clone(), twin):
            play_on(each, seed=9)
        again = play_on(state.clone(), seed=9)
        assert str(again) == str(twin)
        assert again.information_state_string(0) == twin.information_state_string(0)


def test_a_clone_is_independent():
    state = dealt()
    twin = state.clone()
    before = str(state), knowledge(state, 0)
    play_on(twin)
    assert twin.is_terminal()
    assert (str(state), knowledge(state, 0)) == before


def test_the_set_up_has_a_text():
    state = load().new_initial_state()
    state.apply_action(3)
    assert str(state) == f"Set-up: {CARD_NAMES[3]}\nChance turns up a card of level 1."
    assert state.observation_string(0) == f"Set-up: {CARD_NAMES[3]}"


# OpenSpiel's algorithms.


@every_count
def test_python_mcts_makes_a_move(players):
    state = dealt(players)
    moves = {
        make_mcts_bot(state.get_game(), max_simulations=8, seed=1).step(state) for _ in range(2)
    }
    assert len(moves) == 1
    assert moves < set(state.legal_actions())


def test_python_ismcts_makes_a_move():
    state = dealt(3)
    state.apply_action(RESERVE_DECK)
    state.apply_action(state.legal_actions()[0])
    rng = np.random.RandomState(2)
    bot = ismcts.ISMCTSBot(
        state.get_game(), mcts.RandomRolloutEvaluator(1, rng), 1.4, 8, random_state=rng
    )
    assert bot.step(state) in state.legal_actions()


def test_openspiels_learning_environment_plays_a_game():
    environment = rl_environment.Environment(load(3))
    rng = random.Random(0)
    step = environment.reset()
    while not step.last():
        seat = step.observations["current_player"]
        step = environment.step([rng.choice(step.observations["legal_actions"][seat])])
    assert sum(step.rewards) == pytest.approx(0)


def test_bots_that_would_crash_are_refused():
    game = load()
    evaluator = pyspiel.RandomRolloutEvaluator(1, 1)
    bot = pyspiel.MCTSBot(game, evaluator, 1.4, 10, 10, True, 1, False)
    with pytest.raises(SplendorError, match=r"pyspiel.MCTSBot .*open_spiel.python.algorithms.mcts"):
        check_bot(bot)
    with pytest.raises(SplendorError, match=r"pyspiel.ISMCTSBot "):
        check_bot(pyspiel.ISMCTSBot(1, evaluator, 1.4, 10))
    fine = make_mcts_bot(game)
    assert check_bot(fine) is fine


def test_without_openspiel_the_error_names_the_extra(monkeypatch):
    monkeypatch.delitem(sys.modules, "splendor_env.envs.openspiel")
    monkeypatch.setitem(sys.modules, "pyspiel", None)
    with pytest.raises(ImportError, match="needs the extra `openspiel`"):
        importlib.import_module("splendor_env.envs.openspiel")
