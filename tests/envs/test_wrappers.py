import copy
import pickle
import random
import warnings

import numpy as np
import pytest
from pettingzoo import AECEnv
from pettingzoo.test import api_test, seed_test

from splendor_env.core.actions import ACTION_NAMES, NUM_ACTIONS, RESERVE_DECK
from splendor_env.core.batch import determinize_games
from splendor_env.core.cards import CARD_NAMES
from splendor_env.core.observation import OBSERVATION_SIZE, view_observation
from splendor_env.core.state import SplendorError, standard
from splendor_env.envs.aec import env, raw_env
from splendor_env.envs.wrappers import (
    ENTITY_SHAPES,
    MAX_TEXT_LENGTH,
    EntityObservation,
    TextObservation,
    entities,
    parse_answer,
)
from splendor_env.game import NotationError

WRAPPERS = (EntityObservation, TextObservation)
every_kind = pytest.mark.parametrize(
    ("num_players", "mask_in"), [(n, place) for n in (2, 3, 4) for place in ("obs", "info")]
)
every_wrapper = pytest.mark.parametrize("wrapper", WRAPPERS)


def mask_of(game, agent):
    if game.unwrapped.mask_in == "info":
        return game.infos[agent]["action_mask"]
    return game.observe(agent)["action_mask"]


def is_over(game):
    agent = game.agent_selection
    return game.terminations[agent] or game.truncations[agent]


def positions(game, seed=0):
    """The game at each decision of a random play, and at the end."""
    rng = random.Random(seed)
    game.reset(seed=seed)
    while not is_over(game):
        yield game
        game.step(int(rng.choice(np.flatnonzero(mask_of(game, game.agent_selection)))))
    yield game


def rows_of(observation):
    return observation.get("observation", observation)


@every_wrapper
@every_kind
def test_pettingzoo_api(wrapper, num_players, mask_in):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        game = wrapper(env(num_players=num_players, mask_in=mask_in))
        api_test(game, num_cycles=100)
    known = (
        "Observation is not a NumPy array",
        "Observation space for each agent probably should",
        "Action mask numpy array is all zeros",  # of a finished seat, as everywhere in AEC
    )
    unknown = {str(warning.message) for warning in caught}
    assert not {message for message in unknown if not message.startswith(known)}


@every_wrapper
@every_kind
def test_pettingzoo_seeds(wrapper, num_players, mask_in):
    seed_test(lambda: wrapper(env(num_players=num_players, mask_in=mask_in)), num_cycles=100)


@every_wrapper
@every_kind
def test_every_seat_is_in_its_space_at_any_time(wrapper, num_players, mask_in):
    game = wrapper(raw_env(num_players=num_players, mask_in=mask_in))
    assert game.observation_space("player_0") is game.observation_space("player_0")
    for _ in positions(game):
        for agent in game.possible_agents:
            assert game.observation_space(agent).contains(game.observe(agent))
    game.step(None)  # the seat that has left the list too
    for agent in game.possible_agents:
        assert game.observation_space(agent).contains(game.observe(agent))


@every_wrapper
def test_the_mask_is_that_of_the_environment_inside(wrapper):
    plain = raw_env(num_players=3)
    for game in positions(wrapper(plain)):
        for agent in game.possible_agents:
            mask = game.observe(agent)["action_mask"]
            assert mask.dtype == np.int8
            assert np.array_equal(mask, plain.observe(agent)["action_mask"])


@every_wrapper
@pytest.mark.parametrize("mask_in", ["obs", "info"])
def test_secrets_of_others_change_nothing(wrapper, mask_in):
    """Whatever a seat cannot see may be redrawn: it reads the same."""
    plain = raw_env(num_players=3, rules=standard(3, hide_reserves=1), mask_in=mask_in)
    num_changed = 0
    for step, game in enumerate(positions(wrapper(plain))):
        for seat, agent in enumerate(game.possible_agents):
            before, true_game = game.observe(agent), plain._games.copy()
            determinize_games(
                plain._games, plain.rules, np.array([seat], np.int8), np.array([step], np.uint64)
            )
            num_changed += not np.array_equal(plain._games["reserved"], true_game["reserved"])
            after = game.observe(agent)
            plain._games[:] = true_game
            if wrapper is TextObservation:
                assert before["text"] == after["text"]
            else:
                before, after = rows_of(before), rows_of(after)
                assert all(np.array_equal(before[name], after[name]) for name in ENTITY_SHAPES)
    assert num_changed > 20


@every_wrapper
def test_wrapped_environments_can_be_copied_at_any_time(wrapper):
    game = wrapper(env(num_players=2))
    game.reset(seed=3)
    game.step(0)
    for twin in (copy.deepcopy(game), pickle.loads(pickle.dumps(game))):
        twin.step(int(np.flatnonzero(mask_of(twin, twin.agent_selection))[-1]))
        assert twin.unwrapped.game != game.unwrapped.game


@every_wrapper
def test_an_illegal_action_ends_the_game_here_too(wrapper):
    game = wrapper(env())
    game.reset(seed=0)
    game.step(NUM_ACTIONS - 1)
    assert game.last()[1:3] == (-1, True)
    assert not game.observe("player_0")["action_mask"].any()


@every_wrapper
def test_other_environments_are_refused(wrapper):
    with pytest.raises(SplendorError, match="needs an AEC environment of Splendor"):
        wrapper(AECEnv())


# Entities.


def rebuilt(rows):
    """The flat observation from its rows."""
    observation = np.full(OBSERVATION_SIZE, np.nan, np.float32)
    view = view_observation(observation)
    start = 0
    for name in ("bank", "deck_size", "round", "is_last_round", "num_players", "phase", "passes"):
        view[name][:] = rows["global"][start : start + view[name].size]
        start += view[name].size
    for name in ("pending_card", "payment"):
        view[name][:] = rows["global"][start : start + view[name].size]
        start += view[name].size
    assert start == rows["global"].size
    view["nobles"][:] = rows["nobles"]
    view["seats"][:] = rows["seats"][:, :-2]
    view["mover"][:], view["first_seat"][:] = rows["seats"][:, -2], rows["seats"][:, -1]
    view["market"][:] = rows["cards"][:12, :27]
    view["own_reserved"][:] = rows["cards"][12:15, :27]
    view["own_reserved_blind"][:] = rows["cards"][12:15, 32]
    for opponent in range(3):
        cards = rows["cards"][15 + 3 * opponent : 18 + 3 * opponent]
        columns = [*range(14), 19 + opponent + 1, 23 + opponent + 1]
        view["opponents_reserved"][opponent] = cards[:, columns]
    return observation


@pytest.mark.parametrize("rules", ["standard", "rulebook_2014"])
@pytest.mark.parametrize("num_players", [2, 3, 4])
def test_rows_hold_the_whole_observation(num_players, rules):
    plain = raw_env(num_players=num_players, rules=rules, mask_in="info")
    for game in positions(EntityObservation(plain)):
        for agent in game.possible_agents:
            rows = game.observe(agent)
            assert {name: part.shape for name, part in rows.items()} == ENTITY_SHAPES
            assert np.array_equal(rebuilt(rows), plain.observe(agent))


def test_rows_say_where_a_card_is_and_who_has_seen_it():
    game = EntityObservation(raw_env(num_players=3, mask_in="info"))
    game.reset(seed=1)
    for action in (RESERVE_DECK + 2, 0, RESERVE_DECK - 1):  # blind, take, the last face-up card
        game.step(action)
    own, seen = game.observe("player_0")["cards"], game.observe("player_1")["cards"]
    assert own[:12, 27].all() and not own[12:, 27].any()
    assert own[12, 28:33].tolist() == [1, 0, 0, 0, 1], "own, and closed"
    assert own[12, :5].any()
    assert seen[21, 28:33].tolist() == [0, 0, 1, 0, 1] or seen[18, 28:33].tolist() == [
        0,
        0,
        1,
        0,
        1,
    ]
    assert not seen[18, :10].any(), "of the closed card only the level"
    assert seen[18, 13] == 1
    assert own[18, 28:33].tolist() == [0, 0, 1, 0, 0], "player_2's was face up"
    assert seen[15, 28:33].tolist() == [0, 1, 0, 0, 0]
    assert not own[[13, 14, 15, 16, 17, 19, 20]].any(), "an empty place is a row of zeros"


def test_rows_keep_leading_axes():
    rng = np.random.default_rng(0)
    flat = rng.random((5, 2, OBSERVATION_SIZE), np.float32)
    batched = entities(flat)
    for name, shape in ENTITY_SHAPES.items():
        assert batched[name].shape == (5, 2, *shape)
        assert np.array_equal(batched[name][3, 1], entities(flat[3, 1])[name])


def test_rows_are_new_arrays():
    flat = np.ones(OBSERVATION_SIZE, np.float32)
    for part in entities(flat).values():
        part[:] = 7
    assert (flat == 1).all()


# Text.


@every_kind
def test_the_text_lists_the_legal_moves_of_the_seat_to_move_only(num_players, mask_in):
    longest = 0
    for game in positions(TextObservation(raw_env(num_players=num_players, mask_in=mask_in))):
        for agent in game.possible_agents:
            text = game.observe(agent)["text"]
            longest = max(longest, len(text))
            board, _, moves = text.partition("Your legal moves:\n")
            assert f"Seat {agent[-1]} (you)" in board
            assert max(map(len, text.splitlines())) <= 80
            mask = mask_of(game, agent)
            listed = [line.split(maxsplit=1) for line in moves.splitlines()]
            assert [int(number) for number, _ in listed] == np.flatnonzero(mask).tolist()
            assert [parse_answer(move) for _, move in listed] == np.flatnonzero(mask).tolist()
            if not mask.any():
                assert text.endswith("The game is over." if is_over(game) else "not to move.")
    assert longest < MAX_TEXT_LENGTH / 2


def test_the_text_shows_a_blind_reserve_to_its_owner_only():
    game = TextObservation(raw_env())
    game.reset(seed=0)
    game.step(RESERVE_DECK + 2)
    own, seen = (game.observe(agent)["text"] for agent in game.possible_agents)
    assert "(seen by you alone)" in own
    assert "level 3 card, face down" in seen
    assert "(seen by you alone)" not in seen
    assert not any(name in own + seen for name in CARD_NAMES)


def test_answers_are_moves_or_their_numbers():
    for action, name in enumerate(ACTION_NAMES):
        assert parse_answer(name) == parse_answer(f" {name.upper()}\n") == action
        assert parse_answer(str(action)) == action
    assert parse_answer("take G W U") == parse_answer("take W U G")


@pytest.mark.parametrize("text", ["", "78", "-1", "I take W U G", "buy 4-1"])
def test_other_answers_are_refused(text):
    with pytest.raises(NotationError):
        parse_answer(text)
