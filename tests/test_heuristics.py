"""Random, greedy and the planners: legal, blind to what is hidden, each above the one below."""

from itertools import product

import numpy as np
import pytest

from splendor_env import PRESETS, Game, standard
from splendor_env.agents import make_agent
from splendor_env.core.actions import ACTION_NAMES, NUM_ACTIONS
from splendor_env.core.batch import Batch, determinize_games
from splendor_env.evaluation import play_match
from splendor_env.heuristics import (
    choose_builder_in,
    choose_greedy_in,
    choose_racer_in,
    choose_random_in,
)

EMPTY_MARKET = {f"{level}-{slot}": None for level in (1, 2, 3) for slot in (1, 2, 3, 4)}
CHOOSERS = {"greedy": choose_greedy_in, "builder": choose_builder_in, "racer": choose_racer_in}
PLANNERS = ("builder", "racer")
every_chooser = pytest.mark.parametrize("name", CHOOSERS)
every_planner = pytest.mark.parametrize("name", PLANNERS)


def choice(name, game):
    out = np.zeros(1, np.int32)
    CHOOSERS[name](game.games, game.rules, out)
    return ACTION_NAMES[out[0]]


def greedy(game):
    return choice("greedy", game)


def greedy_actions(batch):
    out = np.zeros(batch.num_games, np.int32)
    choose_greedy_in(batch.games, batch.rules, out)
    return out


def random_actions(batch, seed, position):
    out = np.zeros(batch.num_games, np.int32)
    choose_random_in(batch.games, batch.rules, np.uint64(seed), position, out)
    return out


def position(*seats, **fields):
    return Game.from_dict({"nobles": [], "seats": [*seats, {}, {}][: max(2, len(seats))], **fields})


@pytest.mark.parametrize("plies", [0, 3, 25])
def test_random_choice_is_uniform_over_the_legal_actions(plies):
    """Each count within five standard deviations, no other action ever."""
    game = Game(seed=3)
    for ply in range(plies):
        game.push(game.legal_actions[ply % len(game.legal_actions)])
    legal = game.legal_actions
    num_draws = 20_000
    games = np.repeat(game.games, num_draws)
    out = np.zeros(num_draws, np.int32)
    choose_random_in(games, game.rules, np.uint64(8), 0, out)
    counts = np.bincount(out, minlength=NUM_ACTIONS)
    assert np.flatnonzero(counts).tolist() == legal
    mean = num_draws / len(legal)
    assert np.abs(counts[legal] - mean).max() < 5 * np.sqrt(mean)


def test_random_choice_reaches_actions_of_both_words():
    """Actions from 64 up lie in the second word of the legal set."""
    seat = {"bonuses": {"G": 4, "R": 4, "K": 4}}
    game = position(seat, nobles=["00044", "00440"])
    game.push("take W")
    games = np.repeat(game.games, 500)
    out = np.zeros(500, np.int32)
    choose_random_in(games, game.rules, np.uint64(8), 0, out)
    assert {ACTION_NAMES[action] for action in out} == {"noble 1", "noble 2"}


def test_random_choice_follows_from_seed_and_position():
    """Reproducible; another seed or position gives another choice."""
    batch = Batch(standard(2), 200)
    first = random_actions(batch, 1, 0)
    assert (first == random_actions(batch, 1, 0)).all()
    assert (first != random_actions(batch, 10_000_019, 0)).any()
    assert (first != random_actions(batch, 1, 10**6)).any()


@every_chooser
@pytest.mark.parametrize(("preset", "num_players"), list(product(PRESETS, (2, 3, 4))))
def test_choice_is_legal_and_reads_nothing_hidden(name, preset, num_players):
    """At every decision, against random seats too: the same action after redrawing secrets. B66."""
    choose_in = CHOOSERS[name]
    batch = Batch(PRESETS[preset](num_players), 32, check=True)
    batch.reset(4)
    phases = set()
    for ply in range(150):
        actions = np.zeros(32, np.int32)
        choose_in(batch.games, batch.rules, actions)
        redrawn = batch.games.copy()
        seeds = np.arange(32, dtype=np.uint64) + np.uint64(1_000 * ply)
        determinize_games(redrawn, batch.rules, batch.player, seeds)
        assert (redrawn["seed"] != batch.games["seed"]).any()
        again = np.zeros(32, np.int32)
        choose_in(redrawn, batch.rules, again)
        assert (actions == again).all()
        # A third of the moves is random, so that positions of all kinds come up.
        is_random = (np.arange(32) + ply) % 3 == 0
        batch.step(np.where(is_random, random_actions(batch, 2, 32 * ply), actions))
        phases |= set(batch.games["phase"].tolist())
    assert {0, 2} <= phases
    assert (1 in phases) == bool(batch.rules.payment)


@every_chooser
def test_choice_takes_the_winning_buy(name):
    """One point wins now; a dearer card or more tokens would not."""
    seat = {"points": 14, "tokens": {"R": 4, "K": 3}, "bonuses": {"K": 3}}
    market = {**EMPTY_MARKET, "1-1": "R40000", "1-2": "G00004", "2-1": "K50000"}
    game = position({}, seat, player=1, market=market)
    assert choice(name, game) == "buy 1-2"


@every_chooser
def test_choice_takes_the_winning_reserve(name):
    """The card that wins may be in the hand."""
    seat = {"points": 12, "reserved": ["K00363"], "bonuses": {"G": 3, "R": 6, "K": 3}}
    assert choice(name, position({}, seat, player=1)) == "buy reserved 1"


@every_chooser
@pytest.mark.parametrize(
    ("reserved", "kept"), [("K50000", "W"), ("U05000", "U"), ("G00500", "G"), ("K00530", "G")]
)
def test_choice_keeps_what_its_reserved_card_needs(name, reserved, kept):
    """At the return step it does not give the first listed token, if its own plan needs it. A76."""
    tokens = {"W": 3, "U": 3, "G": 3, "R": 2}
    game = position(
        {"reserved": [reserved], "tokens": tokens},
        market=EMPTY_MARKET,
        decks=[[], [], []],
        phase="return",
    )
    assert game.legal_moves[0] == "return W"
    returned = choice(name, game)
    assert returned.startswith("return")
    assert returned != f"return {kept}"


@every_chooser
def test_choice_does_not_return_gold_when_a_useless_colour_will_do(name):
    """Gold stands for any colour. A76."""
    tokens = {"W": 3, "U": 3, "G": 3, "gold": 2}
    game = position({"reserved": ["K50000"], "tokens": tokens}, phase="return")
    assert choice(name, game) != "return gold"


@every_chooser
def test_choice_takes_the_noble_that_an_opponent_is_near(name):
    """Not the first listed. A76."""
    mover = {"bonuses": {"U": 4, "G": 4, "R": 4}}
    rival = {"bonuses": {"G": 3, "R": 4}}
    game = position(mover, rival, nobles=["04400", "00440"], phase="noble")
    assert game.legal_moves == ["noble 1", "noble 2"]
    assert choice(name, game) == "noble 2"


@every_chooser
def test_choice_keeps_gold_when_it_pays(name):
    """By choice of payment, a coloured token is worth less than gold with nothing to collect."""
    seat = {"tokens": {"U": 2, "G": 2, "K": 1, "gold": 2}}
    market = {**EMPTY_MARKET, "1-1": "W02201", "2-1": "K50000"}
    game = position(seat, market=market, rules={"payment": 1})
    game.push("buy 1-1")
    assert choice(name, game) == "done"


def play_greedy_against_random(num_players, num_games, seed):
    """Share of the victories of one greedy seat, which rotates, among random ones."""
    batch = Batch(standard(num_players), num_games, auto_reset=False)
    batch.reset(seed)
    greedy_seat = np.arange(num_games) % num_players
    share = np.zeros(num_games)
    ply = 0
    while True:
        is_over = batch.terminated | batch.truncated
        if is_over.all():
            return share
        actions = np.full(num_games, -1, np.int32)
        rows = np.flatnonzero(~is_over)
        games = batch.games[rows]
        chosen, drawn = np.zeros(len(rows), np.int32), np.zeros(len(rows), np.int32)
        choose_greedy_in(games, batch.rules, chosen)
        choose_random_in(games, batch.rules, np.uint64(seed), ply * num_games, drawn)
        ply += 1
        is_greedy = batch.player[rows] == greedy_seat[rows]
        actions[rows] = np.where(is_greedy, chosen, drawn)
        batch.step(actions)
        ended = (batch.terminated | batch.truncated) & ~is_over
        reward = batch.reward[np.arange(num_games), greedy_seat]
        share[ended] = (reward[ended] * (num_players - 1) + 1) / num_players


@pytest.mark.parametrize("num_players", [2, 3, 4])
def test_greedy_beats_random(num_players):
    """One greedy seat, rotating, against random ones.

    Measured over 20,000 games each with seed 777: 99.8 %, 99.9 % and 99.6 % of the victories for
    2, 3 and 4 players.
    """
    share = play_greedy_against_random(num_players, 1_000, seed=31)
    assert share.mean() >= 0.99


def test_greedy_games_are_as_short_as_people_play():
    """Greedy against itself: 27.8 rounds on average over 5,000 games with seed 777."""
    batch = Batch(standard(2), 300, auto_reset=False)
    batch.reset(31)
    while True:
        is_over = batch.terminated | batch.truncated
        if is_over.all():
            break
        batch.step(np.where(is_over, -1, greedy_actions(batch)))
    assert batch.truncated.mean() < 0.01
    assert 20 <= batch.games["rounds"].mean() <= 30


@every_chooser
def test_choice_takes_the_purchase_whose_noble_wins(name):
    """The last seat needs a level 1 card for a noble, not the card with more points."""
    game = Game.from_dict(
        {
            "seats": [
                {"points": 10},
                {
                    "points": 12,
                    "bonuses": {"W": 0, "U": 3, "G": 4, "R": 5, "K": 5},
                    "tokens": {"W": 1},
                },
            ],
            "player": 1,
            "nobles": ["04400"],
            "market": {**EMPTY_MARKET, "1-1": "U00202", "2-1": "W00142"},
        }
    )
    assert {"buy 1-1", "buy 2-1"} <= set(game.legal_moves)
    assert choice(name, game) == "buy 1-1"
    game.push("buy 1-1")
    assert game.winners == [1]


def end_game(mover, rival, seat=0, **fields):
    """Two players late in the game; `seat` is the mover's, and has the move."""
    seats = [mover, rival] if seat == 0 else [rival, mover]
    return Game.from_dict(
        {"seats": seats, "player": seat, "round": 25, "nobles": [], "decks": [[], [], []], **fields}
    )


@every_planner
def test_planners_reserve_the_card_that_would_win_for_the_opponent(name):
    """It can be bought next turn, nothing else can, and the mover cannot buy it."""
    rival = {"points": 14, "tokens": {"W": 4}}
    market = {**EMPTY_MARKET, "1-3": "R40000", "1-1": "U00003", "2-2": "K50000"}
    game = end_game({"points": 8, "tokens": {"G": 1}}, rival, market=market)
    assert choice(name, game) == "reserve 1-3"


@every_planner
def test_planners_buy_the_card_that_would_win_for_the_opponent(name):
    """Rather than the dearer one that the opponent cannot pay."""
    rival = {"points": 14, "tokens": {"W": 4}}
    mover = {"points": 8, "bonuses": {"W": 4, "R": 5, "U": 2}}
    market = {**EMPTY_MARKET, "1-3": "R40000", "2-1": "K00530", "2-2": "W00050"}
    game = end_game(mover, rival, market=market)
    assert {"buy 1-3", "buy 2-2"} <= set(game.legal_moves)
    assert choice(name, game) == "buy 1-3"


@every_planner
def test_planners_win_rather_than_deny(name):
    """The last seat: its own purchase ends the game."""
    rival = {"points": 14, "tokens": {"W": 4}}
    mover = {"points": 13, "bonuses": {"R": 5}}
    market = {**EMPTY_MARKET, "1-3": "R40000", "2-2": "W00050"}
    assert choice(name, end_game(mover, rival, seat=1, market=market)) == "buy 2-2"


@every_planner
def test_planners_reckon_with_the_reply_in_the_last_round(name):
    """Seat 0 can reach 15 or 16 points; seat 1 will have 15 with fewer cards."""
    rival = {"points": 12, "bonuses": {"K": 2}, "tokens": {"K": 4}, "reserved": ["K00006"]}
    mover = {"points": 14, "bonuses": {"W": 4, "R": 5, "U": 2}}
    market = {**EMPTY_MARKET, "1-1": "R40000", "2-1": "W00050"}
    game = end_game(mover, rival, market=market)
    assert {"buy 1-1", "buy 2-1"} <= set(game.legal_moves)
    assert choice(name, game) == "buy 2-1"


@every_planner
def test_planners_break_ties_by_fewer_cards_in_the_last_turn(name):
    """Seat 0 is done with 16 points and 10 cards; seat 1 has 14 and 9: one card may be bought."""
    rival = {"points": 16, "num_cards": 10}
    mover = {"points": 14, "num_cards": 8, "bonuses": {"W": 4, "R": 5, "U": 2}}
    market = {**EMPTY_MARKET, "1-1": "R40000", "2-1": "W00050"}
    game = end_game(mover, rival, seat=1, market=market)
    assert choice(name, game) == "buy 2-1"
    game.push("buy 2-1")
    assert game.winners == [1]


@every_planner
def test_planners_buy_the_bonus_that_the_cards_in_reach_need(name):
    """Two cards of the same price; only one colour is of use for the others."""
    market = {**EMPTY_MARKET, "1-1": "G00030", "1-2": "K00300"}
    market |= {"2-1": "G00500", "2-2": "K00530", "3-1": "R00700"}
    seat = {"tokens": {"G": 3, "R": 3}}
    game = position(seat, market=market, decks=[[], [], []])
    assert {"buy 1-1", "buy 1-2"} <= set(game.legal_moves)
    assert choice(name, game) == "buy 1-1"


@every_planner
def test_planners_take_what_their_card_needs(name):
    """Four points for seven black, of which five are there."""
    seat = {"tokens": {"K": 5}, "bonuses": {"K": 0}, "reserved": ["W00007"]}
    rules = {"num_players": 4}
    game = Game.from_dict(
        {
            "rules": rules,
            "seats": [seat, {}, {}, {}],
            "nobles": [],
            "market": EMPTY_MARKET,
            "decks": [[], [], []],
        }
    )
    assert "K" in choice(name, game).split()[1:]


@every_planner
def test_planners_reserve_for_the_gold_that_a_card_needs(name):
    """The bank has no black token left: gold stands for it, and the last turn of a card is won."""
    seat = {"tokens": {"K": 2}, "bonuses": {"K": 4}, "reserved": ["W00007"], "points": 11}
    rival = {"tokens": {"K": 2}}
    market = {**EMPTY_MARKET, "1-1": "U00003"}
    game = position(seat, rival, market=market, decks=[[], [], []])
    assert choice(name, game) == "reserve 1-1"


@every_planner
def test_planners_see_the_open_reserves_of_opponents_and_no_others(name):
    """A card that an opponent has reserved from the market wins for it; from a deck, who knows."""
    open_card = {"points": 11, "bonuses": {"K": 7}, "reserved": ["W00007"]}
    closed = {**open_card, "reserved": [{"card": "W00007", "blind": True}]}
    other = {**open_card, "reserved": [{"card": "U70000", "blind": True}]}
    market = {**EMPTY_MARKET, "1-3": "R40000", "2-2": "W00050"}
    fields = {"market": market, "decks": [[], [], ["W30007", "G07000"]]}
    mover = {"points": 9, "bonuses": {"R": 4}, "tokens": {"R": 1}}
    games = [end_game(mover, rival, **fields) for rival in (closed, other)]
    assert choice(name, games[0]) == choice(name, games[1])
    assert choice(name, end_game(mover, open_card, **fields)) in games[0].legal_moves


@pytest.mark.parametrize(
    ("name", "below", "num_players", "low"),
    [
        ("builder", "greedy", 2, 0.6),
        ("builder", "greedy", 3, 0.4),
        ("builder", "greedy", 4, 0.3),
        ("racer", "builder", 2, 0.55),
        ("racer", "builder", 3, 0.37),
        ("racer", "builder", 4, 0.28),
    ],
)
def test_each_planner_beats_the_rung_below(name, below, num_players, low):
    """One seat, rotating, among others of the rung below."""
    rules = standard(num_players)
    result = play_match(make_agent(name), make_agent(below), rules, 400, seed=31)
    assert result.illegal == result.illegal_against == 0
    assert result.truncated <= 4
    assert result.win_share > low
