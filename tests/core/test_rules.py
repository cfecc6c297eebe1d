"""The rules, situation by situation: worked examples, rulings, and what others got wrong.

Also runs unjitted and with bounds checks, so every test plays a few moves only.
"""

from itertools import product

import numpy as np
import pytest

from splendor_env import PRESETS, Game, IllegalActionError, SplendorError
from splendor_env.core.actions import ACTION_NAMES, NUM_ACTIONS
from splendor_env.core.batch import Batch, write_victory_shares
from splendor_env.core.cards import CARD_BONUS, CARD_LEVEL, CARD_NAMES, CARD_POINTS, NOBLE_NAMES
from splendor_env.core.gems import COLOR_LETTERS, gold_of, pack, unpack
from splendor_env.core.observation import view_observation
from splendor_env.core.rules import cheapest_payment
from splendor_env.core.state import EndReason, Payment, Phase, TakeFewer
from splendor_env.heuristics import choose_random_in

FOUR_EACH = {"W": 4, "U": 4, "G": 4, "R": 4, "K": 4}
TEN_OF_TWO_PLAYERS = {"W": 2, "U": 2, "G": 2, "R": 2, "K": 2}
NO_CARDS = {
    "market": {f"{level}-{slot}": None for level in (1, 2, 3) for slot in (1, 2, 3, 4)},
    "decks": [[], [], []],
}
NOTHING_TO_DO = {**NO_CARDS, "bank": {}}
BY_CHOICE = {"payment": Payment.CHOICE}


def position(*seats, **fields):
    """These seats and empty-handed ones up to two; no nobles unless named."""
    seats = [*seats, {}, {}][: max(2, len(seats))]
    return Game.from_dict({"nobles": [], "seats": seats, **fields})


def held(counts):
    return {kind: number for kind, number in counts.items() if number}


def tokens(game, seat):
    return held(game.to_dict()["seats"][seat]["tokens"])


def bonuses(game, seat):
    return held(game.to_dict()["seats"][seat]["bonuses"])


def hand(game, seat):
    return [entry["card"] for entry in game.to_dict()["seats"][seat]["reserved"]]


def bank(game):
    return held(game.to_dict()["bank"])


def market(game):
    return game.to_dict()["market"]


def owners(game):
    return {entry["noble"]: entry["owner"] for entry in game.to_dict()["nobles"]}


def moves(game, *starts):
    """Legal moves that start with one of the given words."""
    return [move for move in game.legal_moves if move.startswith(starts)]


def play(game, *line):
    for move in line:
        game.push(move)
    return game


# Setup


@pytest.mark.parametrize(("num_players", "pile", "nobles"), [(2, 4, 3), (3, 5, 4), (4, 7, 5)])
def test_setup_follows_the_number_of_players(num_players, pile, nobles):
    """Piles of 4, 5 or 7, five gold, players + 1 nobles, four cards of each level. A01."""
    dealt = Game(num_players=num_players, seed=3).to_dict()
    assert dealt["bank"] == {**dict.fromkeys("WUGRK", pile), "gold": 5}
    assert len({entry["noble"] for entry in dealt["nobles"]}) == nobles
    assert [entry["owner"] for entry in dealt["nobles"]] == [None] * nobles
    assert [len(deck) for deck in dealt["decks"]] == [36, 26, 16]
    for slot, name in dealt["market"].items():
        assert CARD_LEVEL[CARD_NAMES.index(name)] == int(slot[0]) - 1
    assert (dealt["player"], dealt["phase"], dealt["round"]) == (0, "play", 1)


@pytest.mark.parametrize("num_players", [0, 1, 5, -2, True, 2.5, "2"])
def test_only_two_to_four_players_sit_down(num_players):
    """Any other number is refused by name. A03."""
    with pytest.raises(SplendorError, match=f"num_players must be 2, 3 or 4, not {num_players!r}"):
        Game(num_players=num_players)


def test_second_game_in_one_process_starts_full():
    """Gold and tokens of the first game do not leak into the second. A40."""
    first = position(
        {"tokens": {"U": 2, "gold": 1}}, {}, market={"1-1": "W03000"}, rules={"gold_tokens": 5}
    )
    play(first, "buy 1-1", "reserve 2-1", "reserve deck 1")
    second = Game(seed=8)
    assert bank(second) == {**FOUR_EACH, "gold": 5}
    assert Game(seed=8) == second


# Taking tokens


def test_two_alike_from_a_pile_of_four():
    """The pile counts before taking: four is enough and two are left. A04, worked example 2."""
    game = play(position(bank={"U": 4}), "take U U")
    assert bank(game) == {"U": 2}
    assert tokens(game, 0) == {"U": 2}


def test_two_alike_from_a_pile_of_three_is_illegal():
    """A05, worked example 2."""
    game = position(bank={"G": 3, "R": 4})
    assert "take G G" not in game.legal_moves
    with pytest.raises(IllegalActionError, match="take G G"):
        game.push("take G G")
    assert bank(play(game, "take R R")) == {"G": 3, "R": 2}


def test_two_alike_and_another_is_no_action():
    """It is three different or two equal. A07."""
    for text in ("take W W U", "take W U U", "take W W W", "take W W U U", "take W U G R"):
        with pytest.raises(SplendorError, match="cannot read move"):
            position().push(text)


def test_gold_cannot_be_taken():
    """Gold comes from reserving only. A08, worked example 9."""
    game = position()
    assert bank(game)["gold"] == 5
    for text in ("take gold", "take gold gold", "take W U gold"):
        with pytest.raises(SplendorError, match="cannot read move"):
            game.push(text)
    assert not [name for name in ACTION_NAMES if name.startswith("take") and "gold" in name]


@pytest.mark.parametrize(
    ("take_fewer", "sizes"),
    [
        (TakeFewer.ALWAYS, {1, 2, 3}),
        (TakeFewer.WHEN_SHORT, {3}),
        (TakeFewer.NEVER, {3}),
    ],
)
def test_how_many_different_tokens_from_a_full_bank(take_fewer, sizes):
    """`take_fewer` with five piles: any number up to three, or just three."""
    game = position(rules={"take_fewer": take_fewer})
    different = [move.split()[1:] for move in moves(game, "take")]
    different = [colors for colors in different if len(set(colors)) == len(colors)]
    assert {len(colors) for colors in different} == sizes
    assert len(different) == 10 * (3 in sizes) + 10 * (2 in sizes) + 5 * (1 in sizes)


@pytest.mark.parametrize(
    ("take_fewer", "piles", "legal"),
    [
        (TakeFewer.ALWAYS, {"W": 3, "K": 1}, {"take W K", "take W", "take K"}),
        (TakeFewer.WHEN_SHORT, {"W": 3, "K": 1}, {"take W K"}),
        (TakeFewer.NEVER, {"W": 3, "K": 1}, set()),
        (TakeFewer.ALWAYS, {"G": 2}, {"take G"}),
        (TakeFewer.WHEN_SHORT, {"G": 2}, {"take G"}),
        (TakeFewer.NEVER, {"G": 2}, set()),
        (TakeFewer.WHEN_SHORT, {"G": 4}, {"take G", "take G G"}),
        (TakeFewer.NEVER, {"G": 4}, {"take G G"}),
        (TakeFewer.ALWAYS, {}, set()),
        (TakeFewer.WHEN_SHORT, {}, set()),
    ],
)
def test_taking_from_a_short_bank(take_fewer, piles, legal):
    """One of each of the colours that are left, as `take_fewer` allows. A09."""
    game = position(bank=piles, rules={"take_fewer": take_fewer})
    assert set(moves(game, "take")) == legal


@pytest.mark.parametrize("minimum", [2, 4, 5, 7])
def test_pile_needed_for_two_alike(minimum):
    """`take_two_minimum` tokens before taking: one fewer is too few."""
    game = position(
        {}, {}, {}, {}, bank={"W": minimum, "U": minimum - 1}, rules={"take_two_minimum": minimum}
    )
    assert "take W W" in game.legal_moves
    assert "take U U" not in game.legal_moves


def test_take_two_minimum_above_the_pile_of_a_small_table():
    """With 2 players the piles hold four, so that a minimum of five forbids two alike."""
    game = position(rules={"take_two_minimum": 5})
    assert "take W W" not in game.legal_moves
    assert "take W U G" in game.legal_moves


# The token limit


def test_ten_tokens_do_not_forbid_taking():
    """With ten in hand three are taken, then three returned. A12."""
    game = position({"tokens": TEN_OF_TWO_PLAYERS})
    assert {move for move in moves(game, "take") if len(move.split()) == 4} != set()
    play(game, "take W U G")
    assert sum(tokens(game, 0).values()) == 13
    play(game, "return K", "return K")
    assert (game.phase, game.player) == (Phase.RETURN, 0)
    play(game, "return R")
    assert (game.phase, game.player) == (Phase.PLAY, 1)
    assert tokens(game, 0) == {"W": 3, "U": 3, "G": 3, "R": 1}


def test_returning_what_was_just_taken_changes_only_the_turn():
    """Legal, which is why a game needs a round limit. A11."""
    game = position({"tokens": TEN_OF_TWO_PLAYERS}, {})
    before = game.to_dict()
    play(game, "take W U G", "return W", "return U", "return G")
    assert game.to_dict() == {**before, "player": 1}


def test_just_taken_token_goes_back():
    """Eight and three make eleven: one of the three may be returned. A14."""
    game = position({"tokens": {"W": 4, "U": 4}})
    play(game, "take G R K", "return G")
    assert tokens(game, 0) == {"W": 4, "U": 4, "R": 1, "K": 1}
    assert game.player == 1


def test_nine_and_three_return_two_of_any_kind():
    """Any colours, gold too. Worked example 3."""
    game = position({"tokens": {"W": 4, "U": 3, "gold": 2}})
    play(game, "take G R K")
    assert game.legal_moves == [f"return {kind}" for kind in ("W", "U", "G", "R", "K", "gold")]
    play(game, "return gold", "return gold")
    assert game.player == 1
    assert bank(game)["gold"] == 5
    assert sum(tokens(game, 0).values()) == 10


def test_return_stops_at_ten():
    """At eleven exactly one goes back: nobody returns more than the excess. A15."""
    game = position({"tokens": {"W": 4, "U": 4}})
    play(game, "take G R K", "return W")
    assert sum(tokens(game, 0).values()) == 10
    assert (game.phase, game.player) == (Phase.PLAY, 1)
    assert not moves(game, "return")


def test_one_colour_is_returned_twice():
    """At twelve with three red, two red may go. A17."""
    game = position({"tokens": {"R": 2, "W": 4, "U": 3}})
    play(game, "take G R K", "return R", "return R")
    assert tokens(game, 0) == {"W": 4, "U": 3, "G": 1, "R": 1, "K": 1}


def test_returning_belongs_to_the_same_turn():
    """Same seat, only returns legal, and neither turn nor round goes on until done. A18."""
    game = position({}, {"tokens": {"W": 4, "U": 4, "G": 2}}, player=1, round=6)
    play(game, "take G R K")
    for _ in range(3):
        assert (game.player, game.phase, game.rounds) == (1, Phase.RETURN, 6)
        assert game.legal_moves == moves(game, "return")
        play(game, game.legal_moves[0])
    assert (game.player, game.phase, game.rounds) == (0, Phase.PLAY, 7)


def test_bonuses_are_not_tokens():
    """Eight tokens, three bonuses, two alike: ten tokens, no return. A19."""
    game = position({"tokens": {"W": 4, "U": 4}, "bonuses": {"G": 2, "R": 1}})
    play(game, "take K K")
    assert (game.phase, game.player) == (Phase.PLAY, 1)
    assert tokens(game, 0) == {"W": 4, "U": 4, "K": 2}


@pytest.mark.parametrize("limit", [5, 12])
def test_other_token_limit(limit):
    """`token_limit` is the number up to which tokens stay."""
    start = pack([limit - 2, 0, 0, 0, 0]) if limit == 5 else pack([4, 4, 2])
    counts = dict(zip("WUG", unpack(start)[:3], strict=True))
    game = position({"tokens": counts}, {}, rules={"token_limit": limit})
    play(game, "take R R" if limit == 12 else "take R K")
    assert game.player == 1
    game = position({"tokens": counts}, {}, rules={"token_limit": limit})
    play(game, "take G R K")
    assert game.phase == Phase.RETURN
    play(game, "return W")
    assert game.player == 1
    assert sum(tokens(game, 0).values()) == limit


# Reserving


def test_reserving_gains_one_gold_and_refills_the_slot():
    """The card goes to the hand, a card of the level takes its slot at once."""
    game = position(market={"2-2": "U05000"})
    before = market(game)
    game.push("reserve 2-2", draw="K00006")
    assert hand(game, 0) == ["U05000"]
    assert tokens(game, 0) == {"gold": 1}
    assert bank(game)["gold"] == 4
    assert market(game) == {**before, "2-2": "K00006"}


def test_reserving_blind_takes_from_the_deck():
    """The market stays; the card is marked as unseen by others."""
    game = position()
    before = game.to_dict()
    game.push("reserve deck 3", draw=before["decks"][2][5])
    after = game.to_dict()
    assert after["market"] == before["market"]
    assert after["seats"][0]["reserved"] == [{"card": before["decks"][2][5], "blind": True}]
    assert len(after["decks"][2]) == len(before["decks"][2]) - 1


@pytest.mark.parametrize("num_reserved", [0, 1, 2])
def test_reserving_without_gold_in_the_bank(num_reserved):
    """Legal, with no gold gained. A20, worked example 5 (two reserved)."""
    cards = ["W00021", "U00003", "G00030"][:num_reserved]
    game = position({"reserved": cards}, {}, bank=FOUR_EACH, market={"1-1": "K00300"})
    play(game, "reserve 1-1")
    assert hand(game, 0) == [*cards, "K00300"]
    assert tokens(game, 0) == {}


def test_reserving_with_ten_tokens():
    """The gold is an eleventh token, and itself may go back."""
    game = position({"tokens": TEN_OF_TWO_PLAYERS})
    play(game, "reserve 1-1")
    assert game.phase == Phase.RETURN
    assert "return gold" in game.legal_moves
    play(game, "return gold")
    assert tokens(game, 0) == TEN_OF_TWO_PLAYERS
    assert len(hand(game, 0)) == 1


def test_reserving_with_ten_tokens_and_no_gold_returns_nothing():
    """A22."""
    bank_left = {"W": 2, "U": 2, "G": 2, "R": 2, "K": 2}
    game = position({"tokens": TEN_OF_TWO_PLAYERS}, {}, bank=bank_left)
    play(game, "reserve 1-1")
    assert (game.phase, game.player) == (Phase.PLAY, 1)
    assert tokens(game, 0) == TEN_OF_TWO_PLAYERS


def test_fourth_reserve_is_illegal():
    """Face-up and blind alike. A23, worked example 4."""
    game = position({"reserved": ["W00021", "U00003", "G00030"]})
    assert moves(game, "reserve") == []
    for move in ("reserve 1-1", "reserve deck 1"):
        with pytest.raises(IllegalActionError):
            game.push(move)


@pytest.mark.parametrize("limit", [0, 1, 2])
def test_other_reserve_limit(limit):
    """`reserve_limit` cards in hand forbid another; none at all with zero."""
    cards = ["W00021", "U00003"][:limit]
    rules = {"reserve_limit": limit}
    assert moves(position({"reserved": cards}, {}, rules=rules), "reserve") == []
    if limit:
        assert len(moves(position({"reserved": cards[1:]}, {}, rules=rules), "reserve")) == 15


def test_reserve_limit_counts_cards_now_in_hand():
    """Buying one of three makes room; the hand stays packed, oldest first."""
    seat = {"reserved": ["W00021", "U00003", "G00030"], "bonuses": {"K": 3}}
    game = play(position(seat, {}), "buy reserved 2")
    assert hand(game, 0) == ["W00021", "G00030"]
    play(game, "take W U G")
    assert "reserve 1-1" in game.legal_moves
    play(game, "reserve deck 1")
    assert hand(game, 0)[:2] == ["W00021", "G00030"]


def test_reserved_card_cannot_be_bought_in_the_same_turn():
    """One action a turn: it is the next seat's turn, and later the own. A25."""
    game = position({"bonuses": {"K": 3}}, {}, market={"1-1": "U00003"})
    play(game, "reserve 1-1")
    assert game.player == 1
    assert "buy reserved 1" not in game.legal_moves
    play(game, "take W U G")
    assert "buy reserved 1" in game.legal_moves


def test_affordable_card_may_be_reserved():
    """A26."""
    game = position({"bonuses": {"K": 3}}, {}, market={"1-1": "U00003"})
    assert {"buy 1-1", "reserve 1-1"} <= set(game.legal_moves)


def test_reserved_card_counts_for_nothing():
    """No bonus, no points, no noble, no part in the tie-break. A27."""
    seats = [
        {"reserved": ["K33530", "R00700"], "points": 15, "bonuses": {"R": 4, "K": 3}},
        {"points": 15, "num_cards": 7},
    ]
    game = position(*seats, player=0, nobles=["00044"])
    assert bonuses(game, 0) == {"R": 4, "K": 3}
    play(game, "take W")
    assert owners(game) == {"00044": None}
    assert game.points == [15, 15]
    play(game, "take W")
    assert game.winners == [0, 1]


def test_reserved_card_gives_no_discount():
    """A reserved black card does not pay for a card that costs black. A27."""
    game = position(
        {"reserved": ["K00300"], "tokens": {"R": 2}}, {}, market={"1-1": "W00021"}, bank={}
    )
    assert "buy 1-1" not in game.legal_moves


def test_reserved_card_cannot_be_discarded():
    """There is no such action in any phase. A28."""
    kinds = {name.split()[0] for name in ACTION_NAMES}
    assert kinds == {"take", "reserve", "buy", "return", "noble", "pay", "done", "pass"}
    assert {name.split()[1] for name in ACTION_NAMES if name.startswith("return")} == {
        *COLOR_LETTERS,
        "gold",
    }


def test_empty_deck_cannot_be_reserved_from():
    """Other levels are unaffected. A29."""
    game = position(decks=[[], ["U05000"], ["K00073"]], market=NO_CARDS["market"])
    assert moves(game, "reserve") == ["reserve deck 2", "reserve deck 3"]


def test_empty_deck_behind_a_full_row():
    """The deck alone says so; a slot that cannot refill stays empty in its place. A31."""
    row = {"1-1": "W00021", "1-2": "U00003", "1-3": "G00030", "1-4": "K00300"}
    game = position(market={**NO_CARDS["market"], **row}, decks=[[], [], []])
    assert "reserve deck 1" not in game.legal_moves
    assert view_observation(game.observe())["deck_size"].tolist() == [0, 0, 0]
    play(game, "reserve 1-2")
    assert market(game) == {**NO_CARDS["market"], **row, "1-2": None}
    assert "reserve 1-2" not in game.legal_moves
    assert "reserve 1-3" in game.legal_moves


def test_everything_reservable_is_listed_in_a_bare_position():
    """Bank and decks empty, cheap cards face up: each can be reserved. A67."""
    row = {"1-1": "W00021", "1-2": "U00003", "1-3": "G00030", "1-4": "K00300"}
    game = position(market={**NO_CARDS["market"], **row}, decks=[[], [], []], bank={})
    assert game.legal_moves == ["reserve 1-1", "reserve 1-2", "reserve 1-3", "reserve 1-4"]


# Buying


def test_bought_slot_refills_in_its_place():
    """Same level, same slot; the others keep theirs. A33."""
    game = position({"bonuses": {"K": 3}}, {}, market={"1-3": "U00003"})
    before = market(game)
    game.push("buy 1-3", draw="R40000")
    assert market(game) == {**before, "1-3": "R40000"}
    assert bonuses(game, 0) == {"U": 1, "K": 3}
    assert game.to_dict()["seats"][0]["num_cards"] == 4


@pytest.mark.parametrize("number", [2, 3, 9])
def test_discount_is_never_below_zero(number):
    """More bonuses than the price: nothing is paid and nothing given back. A34."""
    game = position(
        {"bonuses": {"R": number}, "tokens": {"K": 1, "R": 1}}, {}, market={"1-1": "W00021"}
    )
    play(game, "buy 1-1")
    assert tokens(game, 0) == {"R": 1}
    assert bank(game) == {**FOUR_EACH, "R": 3, "gold": 5}


def test_bonuses_alone_pay():
    """No tokens in hand, bank unchanged. A35, worked example 11."""
    game = position({"bonuses": {"R": 2, "K": 1}}, {}, market={"1-1": "W00021"})
    before = bank(game)
    play(game, "buy 1-1")
    assert bank(game) == before
    assert bonuses(game, 0) == {"W": 1, "R": 2, "K": 1}


@pytest.mark.parametrize(("gold", "is_legal"), [(2, True), (1, False)])
def test_gold_and_bonuses_count_together(gold, is_legal):
    """Price 5 U, one bonus, two tokens: short by two, so two gold pay and one does not. A36."""
    seat = {"tokens": {"U": 2, "gold": gold}, "bonuses": {"U": 1}}
    game = position(seat, {}, market={"2-1": "U05000"})
    assert ("buy 2-1" in game.legal_moves) == is_legal


def test_paid_gold_returns_to_the_bank():
    """And can be gained again. A39."""
    game = position(
        {"tokens": {"gold": 3}}, {"tokens": {"gold": 2}}, market={"1-1": "U00003"}, bank={"W": 1}
    )
    play(game, "buy 1-1")
    assert bank(game) == {"W": 1, "gold": 3}
    assert tokens(game, 0) == {}
    play(game, "reserve deck 2")
    assert tokens(game, 1) == {"gold": 3}


def test_gold_only_for_what_is_missing_by_default():
    """`COLORS_FIRST`: coloured tokens go before gold, with no choice."""
    game = position(
        {"tokens": {"U": 2, "K": 1, "gold": 3}}, {}, market={"1-1": "W02201"}, rules="standard"
    )
    play(game, "buy 1-1")
    assert tokens(game, 0) == {"gold": 1}
    assert game.player == 1


@pytest.mark.parametrize(
    ("price", "bonus", "hand_", "paid"),
    [
        # Worked examples 1, 6, 10 and 11; columns W U G R K gold; None: not affordable.
        ([3, 2, 0, 0, 0], [1, 0, 0, 0, 0], [1, 2, 0, 0, 0, 1], [1, 2, 0, 0, 0, 1]),
        ([3, 2, 0, 0, 0], [1, 0, 0, 0, 0], [1, 2, 0, 0, 0, 0], None),
        ([0, 0, 3, 0, 0], [0, 0, 0, 0, 0], [0, 0, 2, 0, 0, 0], None),
        ([1, 0, 0, 1, 1], [0, 0, 0, 0, 1], [1, 0, 0, 1, 1, 1], [1, 0, 0, 1, 0, 0]),
        ([1, 0, 0, 1, 1], [2, 0, 0, 1, 1], [0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0]),
    ],
)
def test_payment_of_the_worked_examples(price, bonus, hand_, paid):
    """What the payment function pledges, and whether the gold in hand covers it."""
    payment = cheapest_payment(pack(price), pack(bonus), pack(hand_))
    if paid is None:
        assert gold_of(payment) > hand_[5]
    else:
        assert list(unpack(payment)) == paid


def test_card_does_not_pay_for_itself():
    """Price 6 G for a green card with 5 G in hand: no. Worked example 6."""
    seat = {"tokens": {"G": 4}, "bonuses": {"G": 1}}
    assert "buy 2-1" not in position(seat, {}, market={"2-1": "G00600"}).legal_moves
    seat["bonuses"] = {"G": 2}
    assert "buy 2-1" in position(seat, {}, market={"2-1": "G00600"}).legal_moves


def test_card_of_worked_example_13():
    """Price 2 W 2 R 3 K: a red bonus and one point."""
    card = CARD_NAMES.index("R20023")
    assert COLOR_LETTERS[CARD_BONUS[card]] == "R"
    assert CARD_POINTS[card] == 1
    game = position({"tokens": {"W": 2, "R": 2, "K": 3}}, {}, market={"2-4": "R20023"})
    play(game, "buy 2-4")
    assert (game.points, bonuses(game, 0), tokens(game, 0)) == ([1, 0], {"R": 1}, {})


def test_own_blind_reserve_can_be_bought():
    """Its owner knows it, from own view too. A71."""
    seat = {"reserved": [{"card": "K33530", "blind": True}], "bonuses": {"W": 3, "U": 3, "G": 5}}
    game = position(seat, {}, rules={"hide_reserves": 1})
    own = view_observation(game.observe(0))["own_reserved"][0]
    assert own[:5] == pytest.approx([3 / 7, 3 / 7, 5 / 7, 3 / 7, 0])
    assert "buy reserved 1" not in game.legal_moves
    play(game, "take R", "take W", "take R", "take W", "take R", "take W")
    play(game, "buy reserved 1")
    assert game.points == [3, 0]
    assert hand(game, 0) == []


# Payment by choice


def paying(**seat):
    """Seat 0 before the card 2 U 2 G 1 K, by choice."""
    return position(seat, {}, market={"1-1": "W02201"}, rules=BY_CHOICE)


def test_choice_pledges_colours_first_and_moves_nothing():
    """Tokens, bonus and slot stay until the payment is complete."""
    game = paying(tokens={"U": 2, "G": 2, "K": 1, "gold": 2})
    before = game.to_dict()
    play(game, "buy 1-1")
    assert game.to_dict() == {
        **before,
        "phase": "pay",
        "pending": "buy 1-1",
        "payment": {"W": 0, "U": 2, "G": 2, "R": 0, "K": 1, "gold": 0},
    }
    assert game.legal_moves == ["pay gold for U", "pay gold for G", "pay gold for K", "done"]


def test_choice_done_pays_the_pledge():
    """Done at once pays colours only; then the slot refills and the turn ends."""
    game = play(paying(tokens={"U": 2, "G": 2, "K": 1, "gold": 2}), "buy 1-1")
    game.push("done", draw="R40000")
    assert tokens(game, 0) == {"gold": 2}
    assert bonuses(game, 0) == {"W": 1}
    assert market(game)["1-1"] == "R40000"
    assert (game.player, game.phase, game.to_dict()["pending"]) == (1, Phase.PLAY, None)


def test_choice_goes_through_the_colours_in_ascending_order():
    """After green no blue: one payment has one path. The same colour may come twice."""
    game = play(paying(tokens={"U": 2, "G": 2, "K": 1, "gold": 4}), "buy 1-1", "pay gold for G")
    assert game.legal_moves == ["pay gold for G", "pay gold for K", "done"]
    play(game, "pay gold for G")
    assert game.legal_moves == ["pay gold for K", "done"]
    with pytest.raises(IllegalActionError):
        game.push("pay gold for U")


def test_choice_completes_itself_when_the_gold_is_gone():
    """The last gold pledged ends the phase."""
    game = play(paying(tokens={"U": 2, "G": 2, "K": 1, "gold": 2}), "buy 1-1", "pay gold for U")
    assert game.phase == Phase.PAY
    play(game, "pay gold for K")
    assert (game.player, game.phase) == (1, Phase.PLAY)
    assert tokens(game, 0) == {"U": 1, "K": 1}
    assert bank(game) == {**FOUR_EACH, "U": 3, "K": 3, "gold": 5}


def test_choice_completes_itself_when_no_later_colour_is_pledged():
    """After black, the highest colour, nothing can follow although gold is left."""
    game = play(paying(tokens={"U": 2, "G": 2, "K": 1, "gold": 4}), "buy 1-1", "pay gold for K")
    assert game.player == 1
    assert tokens(game, 0) == {"K": 1, "gold": 3}


@pytest.mark.parametrize(
    ("seat", "left"),
    [
        ({"tokens": {"U": 2, "G": 2, "K": 1}}, {}),  # no gold
        ({"tokens": {"U": 2, "G": 2, "gold": 1}}, {}),  # the gold is needed
        ({"tokens": {"gold": 5}}, {}),  # no coloured token pledged
        ({"bonuses": {"U": 2, "G": 2, "K": 1}, "tokens": {"gold": 3}}, {"gold": 3}),  # no price
        ({"bonuses": {"U": 2, "G": 2}, "tokens": {"U": 1, "gold": 2}}, {"U": 1, "gold": 1}),
    ],
)
def test_choice_without_alternatives_is_no_choice(seat, left):
    """No gold left over or no coloured token pledged: the purchase completes at once."""
    game = play(paying(**seat), "buy 1-1")
    assert (game.player, game.phase) == (1, Phase.PLAY)
    assert tokens(game, 0) == left


def test_choice_keeps_needed_gold_and_offers_the_rest():
    """One gold stands in for the missing black, the other may replace blue or green."""
    game = play(paying(tokens={"U": 2, "G": 2, "gold": 2}), "buy 1-1")
    payment = held(game.to_dict()["payment"])
    assert payment == {"U": 2, "G": 2, "gold": 1}
    assert game.legal_moves == ["pay gold for U", "pay gold for G", "done"]
    play(game, "pay gold for U")
    assert tokens(game, 0) == {"U": 1}


def test_choice_needed_gold_is_no_swap():
    """Gold for missing green does not forbid the lower colour blue."""
    game = play(paying(tokens={"U": 2, "K": 1, "gold": 4}), "buy 1-1")
    assert game.legal_moves == ["pay gold for U", "pay gold for K", "done"]


def test_choice_for_a_reserved_card_packs_the_hand():
    """The card leaves the hand only when it is paid."""
    seat = {"reserved": ["K00300", "W02201", "G00030"]}
    seat["tokens"] = {"U": 2, "G": 2, "K": 1, "gold": 1}
    game = play(position(seat, {}, rules=BY_CHOICE), "buy reserved 2")
    assert (game.phase, hand(game, 0)) == (Phase.PAY, ["K00300", "W02201", "G00030"])
    play(game, "pay gold for U")
    assert hand(game, 0) == ["K00300", "G00030"]
    assert tokens(game, 0) == {"U": 1}


def test_choice_is_followed_by_the_noble():
    """The end of the turn comes after the payment."""
    seat = {"bonuses": {"R": 4, "K": 3}, "tokens": {"G": 3, "gold": 1}}
    game = position(seat, {}, market={"1-1": "K00300"}, nobles=["00044"], rules=BY_CHOICE)
    play(game, "buy 1-1")
    assert owners(game) == {"00044": None}
    play(game, "done")
    assert owners(game) == {"00044": 0}
    assert game.points == [3, 0]


def test_pay_phase_is_part_of_the_observation():
    """Every seat sees the pending card and the pledge."""
    game = play(paying(tokens={"U": 2, "G": 2, "K": 1, "gold": 2}), "buy 1-1", "pay gold for U")
    for seat in (0, 1):
        seen = view_observation(game.observe(seat))
        assert seen["phase"].tolist() == [0, 1, 0, 0]
        assert seen["payment"] * 7 == pytest.approx([0, 1, 2, 0, 1, 1])
        assert seen["pending_card"][:5] * 7 == pytest.approx([0, 2, 2, 0, 1])


# Nobles


@pytest.mark.parametrize("extra", [0, 1])
def test_noble_comes_at_least(extra):
    """Exactly the bonuses asked for are enough, more are too. A44, worked example 12."""
    game = position({"bonuses": {"U": 4, "G": 4 + extra}}, {}, nobles=["04400"])
    play(game, "take W")
    assert owners(game) == {"04400": 0}
    assert game.points == [3, 0]


def test_noble_does_not_come_for_tokens_or_too_few_bonuses():
    """Bonuses only."""
    game = position({"bonuses": {"U": 4, "G": 3}, "tokens": {"G": 3}}, {}, nobles=["04400"])
    play(game, "take W")
    assert owners(game) == {"04400": None}
    assert game.points == [0, 0]


@pytest.mark.parametrize("move", ["take W U G", "take R R", "reserve 1-1", "buy 1-2"])
def test_single_noble_comes_by_itself_after_any_action(move):
    """No choice, no action spent, none to decline. A46."""
    game = position(
        {"bonuses": {"U": 4, "G": 4}}, {}, nobles=["04400", "00044"], market={"1-2": "K00300"}
    )
    play(game, move)
    assert (game.player, game.phase) == (1, Phase.PLAY)
    assert owners(game) == {"04400": 0, "00044": None}


def test_noble_comes_after_the_return_of_tokens():
    """First the token limit, then the noble."""
    seat = {"bonuses": {"U": 4, "G": 4}, "tokens": TEN_OF_TWO_PLAYERS}
    game = play(position(seat, {}, nobles=["04400"]), "take W")
    assert (game.phase, game.points) == (Phase.RETURN, [0, 0])
    play(game, "return W")
    assert (game.player, game.points) == (1, [3, 0])


def test_one_of_two_nobles_is_chosen():
    """Same seat, only these two legal, one comes, then the turn passes. A47, worked example 7."""
    seat = {"bonuses": {"U": 4, "G": 4, "R": 4}}
    game = position(seat, {}, nobles=["04400", "44000", "00440"])
    play(game, "take W")
    assert (game.player, game.phase) == (0, Phase.NOBLE)
    assert game.legal_moves == ["noble 1", "noble 3"]
    play(game, "noble 3")
    assert (game.player, game.phase, game.points) == (1, Phase.PLAY, [3, 0])
    assert owners(game) == {"04400": None, "44000": None, "00440": 0}


@pytest.mark.parametrize("move", ["take W", "reserve deck 2", "buy 1-2"])
def test_second_noble_comes_a_turn_later(move):
    """If nobody took it, whatever the action. Worked example 7."""
    seats = [{"bonuses": {"U": 4, "G": 4, "R": 4}}, {}]
    game = position(*seats, nobles=["04400", "00440"], market={"1-2": "K00300"})
    play(game, "take W", "noble 1", "take U", move)
    assert owners(game) == {"04400": 0, "00440": 0}
    assert game.points == [6, 0]


def test_second_noble_is_gone_if_another_took_it():
    """Worked example 7, the other way."""
    seats = [{"bonuses": {"U": 4, "G": 4, "R": 4}}, {"bonuses": {"G": 4, "R": 4}}]
    game = position(*seats, nobles=["04400", "00440"])
    play(game, "take W", "noble 1", "take U", "take W")
    assert owners(game) == {"04400": 0, "00440": 1}
    assert game.points == [3, 3]


def test_claimed_noble_leaves_the_row():
    """Nobody else gets it, it is not awarded again, none is dealt. A49."""
    both = {"bonuses": {"U": 4, "G": 4}}
    game = position(both, both, nobles=["04400", "00044"])
    play(game, "take W", "take W", "take U", "take U")
    assert owners(game) == {"04400": 0, "00044": None}
    assert game.points == [3, 0]
    assert (view_observation(game.observe(0))["nobles"][0] == 0).all()


def test_noble_comes_in_a_replayed_position():
    """A position saved before the move brings the noble again. A52."""
    seat = {"bonuses": {"R": 4, "K": 3, "G": 3}}
    game = position(seat, nobles=["33300", "00044"], market={"1-1": "K00300"})
    play(game, "take W")
    again = Game.from_dict(game.to_dict())
    play(again, "take U", "buy 1-1")
    play(game, "take U", "buy 1-1")
    assert again == game
    assert owners(again) == {"33300": None, "00044": 0}


@pytest.mark.parametrize("noble_points", [0, 3, 5])
def test_points_of_a_noble(noble_points):
    """`noble_points` for each."""
    game = position(
        {"bonuses": {"U": 4, "G": 4}},
        {},
        nobles=["04400"],
        rules={"noble_points": noble_points},
    )
    assert play(game, "take W").points == [noble_points, 0]


# End of the game


def test_round_is_finished_after_the_target_is_reached():
    """Fifteen points in mid-round do not stop the game: equal turns. A54."""
    game = play(position({"points": 15}, {}, {}), "take W")
    assert (game.is_over, game.player) == (False, 1)
    play(game, "take W")
    assert (game.is_over, game.player) == (False, 2)
    play(game, "take W")
    assert (game.end_reason, game.winners) == (EndReason.TARGET, [0])
    assert game.legal_moves == []
    assert game.rounds == 1


def test_game_ends_at_once_when_the_last_seat_reaches_the_target():
    """Its own turn completes the round."""
    seat = {"points": 14, "tokens": {"U": 4}}
    game = play(position({}, {}, seat, player=2, market={"1-1": "K04000"}), "buy 1-1")
    assert (game.end_reason, game.winners, game.player) == (EndReason.TARGET, [2], 2)


def test_last_round_begins_for_points_below_the_target_only_later():
    """Fourteen points do nothing; the round counter goes on."""
    game = play(position({"points": 14}, {}), "take W", "take W")
    assert (game.is_over, game.rounds, game.player) == (False, 2, 0)


def test_most_points_win_not_the_first_to_the_target():
    """Seat 0 has 15, seat 1 buys to 17 in the same round. A55."""
    seats = [{"points": 15}, {"points": 12, "bonuses": {"R": 7, "K": 3}}]
    game = play(position(*seats, market={"3-1": "K00073"}), "take W", "buy 3-1")
    assert (game.points, game.winners) == ([15, 17], [1])
    assert game.returns == [-1, 1]


def test_noble_of_the_closing_round_counts():
    """The visit happens although another seat has 15, and decides. A57."""
    seats = [{"points": 15}, {"points": 13, "bonuses": {"R": 4, "K": 4}}]
    game = play(position(*seats, nobles=["00044"]), "take W", "take U")
    assert (game.points, game.winners) == ([15, 16], [1])


def test_noble_can_bring_the_target():
    """Step 3 looks at the points after step 2."""
    seat = {"points": 12, "bonuses": {"R": 4, "K": 4}}
    game = play(position({}, seat, player=1, nobles=["00044"]), "take U")
    assert (game.end_reason, game.winners) == (EndReason.TARGET, [1])


def test_noble_choice_delays_the_end():
    """The last seat still chooses, then the game is over."""
    seat = {"points": 15, "bonuses": {"G": 4, "R": 4, "K": 4}}
    game = play(position({}, seat, player=1, nobles=["00044", "00440"]), "take U")
    assert (game.is_over, game.phase) == (False, Phase.NOBLE)
    play(game, "noble 2")
    assert (game.end_reason, game.points) == (EndReason.TARGET, [0, 18])


@pytest.mark.parametrize(
    ("points", "cards", "winners"),
    [
        ([15, 16, 13], [8, 8, 8], [1]),  # worked example 8
        ([17, 17, 2], [7, 9, 1], [0]),
        ([17, 17, 2], [9, 9, 1], [0, 1]),
        ([16, 16], [12, 14], [0]),  # A58
        ([16, 16], [14, 12], [1]),
        ([15, 15, 15], [8, 8, 8], [0, 1, 2]),
        ([15, 12, 15], [8, 1, 8], [0, 2]),  # A61
        ([15, 15, 15, 15], [9, 8, 8, 10], [1, 2]),
    ],
)
def test_winner_by_points_then_fewer_cards(points, cards, winners):
    """Nobles and reserves do not count as cards; what is tied is shared. A58, A61."""
    seats = [{"points": p, "num_cards": n} for p, n in zip(points, cards, strict=True)]
    seats[0]["reserved"] = ["W00021", "U00003"]
    game = play(position(*seats, player=len(points) - 1), "take W")
    assert game.end_reason == EndReason.TARGET
    assert game.winners == winners


@pytest.mark.parametrize(
    ("points", "returns"),
    [
        ([15, 9], [1, -1]),
        ([15, 15], [0, 0]),
        ([9, 15, 3], [-1 / 2, 1, -1 / 2]),
        ([15, 15, 3], [1 / 4, 1 / 4, -1 / 2]),
        ([15, 15, 15], [0, 0, 0]),
        ([9, 9, 9, 15], [-1 / 3, -1 / 3, -1 / 3, 1]),
        ([15, 9, 9, 15], [1 / 3, -1 / 3, -1 / 3, 1 / 3]),
        ([15, 15, 15, 9], [1 / 9, 1 / 9, 1 / 9, -1 / 3]),
        ([15, 15, 15, 15], [0, 0, 0, 0]),
    ],
)
def test_reward_is_a_linear_function_of_the_share(points, returns):
    """(N s - 1) / (N - 1) for a share s of the victory: it sums to zero."""
    seats = [{"points": p} for p in points]
    game = position(*seats, player=len(points) - 1)
    assert game.returns == [0] * len(points)
    play(game, "take W")
    assert game.returns == pytest.approx(returns)
    assert sum(game.returns) == pytest.approx(0)


def test_default_target_is_fifteen_and_saved():
    """Changing it is explicit and recorded with the position. A62."""
    assert Game().rules.target_points == 15
    game = play(position({"points": 15}, {"points": 2}, player=1), "take W")
    assert game.is_over
    game = play(position({"points": 15}, {}, player=1, rules={"target_points": 16}), "take W")
    assert not game.is_over
    assert game.to_dict()["rules"]["target_points"] == 16
    assert Game.from_dict(game.to_dict()).rules.target_points == 16


# Passing and games that do not end by points


@pytest.mark.parametrize(
    "open_",
    [
        {"bank": {"W": 1}},
        {"decks": [["W00021"], [], []]},
        {"market": {**NO_CARDS["market"], "1-1": "W00021"}},
        {"seats": [{"reserved": ["W00021"], "bonuses": {"R": 2, "K": 1}}, {}]},
    ],
    ids=["a token", "a deck", "a card to reserve", "a card to buy"],
)
def test_pass_is_illegal_when_anything_else_is_legal(open_):
    """One thing to do is enough. A64."""
    game = Game.from_dict({"nobles": [], "seats": [{}, {}], **NOTHING_TO_DO, **open_})
    assert game.legal_moves != []
    assert "pass" not in game.legal_moves


def test_pass_is_the_only_move_when_nothing_else_is_legal():
    """Gold in the bank is no action."""
    game = position(**{**NOTHING_TO_DO, "bank": {"gold": 5}})
    assert game.legal_moves == ["pass"]
    play(game, "pass")
    assert (game.player, game.is_over) == (1, False)


def test_pass_where_three_tokens_are_asked_for():
    """`NEVER` with two piles left, a full hand and nothing affordable."""
    seat = {"reserved": ["K33530", "R00700", "W00007"]}
    game = position(seat, {}, bank={"W": 3, "U": 3}, rules={"take_fewer": TakeFewer.NEVER})
    assert game.legal_moves == ["pass"]


@pytest.mark.parametrize("num_players", [2, 3, 4])
def test_passes_all_round_are_a_stalemate(num_players):
    """The game terminates, ranked as it stands; it does not loop. A65."""
    seats = [{"points": seat} for seat in range(num_players)]
    game = position(*seats, player=1, **NOTHING_TO_DO)
    for _ in range(num_players):
        assert not game.is_over
        play(game, "pass")
    assert game.end_reason == EndReason.STALEMATE
    assert game.winners == [num_players - 1]
    assert game.returns[-1] == 1
    assert game.legal_moves == []


def test_an_action_between_passes_resets_them():
    """Two seats pass, the third reserves: nobody is stuck yet."""
    hand_full = {"reserved": ["K33530", "R00700", "W00007"]}
    others = {"reserved": ["W30036", "U30335", "G53033"]}
    game = position(hand_full, others, {}, bank={}, player=0)
    play(game, "pass", "pass")
    assert game.to_dict()["passes"] == 2
    play(game, "reserve 1-1")
    assert (game.to_dict()["passes"], game.is_over) == (0, False)


def test_noble_gained_on_a_pass_resets_the_passes():
    """It is a change, so the round of passes starts again."""
    seats = [{"bonuses": {"R": 4, "K": 4}}, {}]
    game = position(*seats, nobles=["00044"], passes=1, **NOTHING_TO_DO)
    play(game, "pass")
    assert (game.is_over, game.points, game.to_dict()["passes"]) == (False, [3, 0], 0)
    play(game, "pass", "pass")
    assert game.end_reason == EndReason.STALEMATE


def test_noble_chosen_on_a_pass_resets_the_passes():
    """Also among several."""
    seats = [{"bonuses": {"G": 4, "R": 4, "K": 4}}, {}]
    game = position(*seats, nobles=["00044", "00440"], passes=1, **NOTHING_TO_DO)
    play(game, "pass")
    assert game.phase == Phase.NOBLE
    play(game, "noble 1")
    assert (game.is_over, game.player, game.to_dict()["passes"]) == (False, 1, 0)


@pytest.mark.parametrize("max_rounds", [1, 7, 100])
def test_round_limit_truncates_after_the_last_seat(max_rounds):
    """No winner, rewards zero, a share of 1/N each. A68."""
    game = position(
        {"points": 9}, {}, {}, round=max_rounds, player=1, rules={"max_rounds": max_rounds}
    )
    play(game, "take W")
    assert not game.is_over
    play(game, "take W")
    assert (game.end_reason, game.rounds) == (EndReason.ROUND_LIMIT, max_rounds)
    assert game.winners == []
    assert game.returns == [0, 0, 0]
    shares = np.zeros((1, 3))
    write_victory_shares(game.games, game.rules, shares)
    assert shares[0].tolist() == pytest.approx([1 / 3] * 3)


def test_default_round_limit_is_a_hundred():
    """A game that idles ends then."""
    assert Game().rules.max_rounds == 100
    game = play(position(round=99, player=1), "take W")
    assert not game.is_over


def test_target_comes_before_stalemate():
    """Both at once: the game ended by points."""
    game = position({"points": 15}, {}, player=1, passes=1, **NOTHING_TO_DO)
    assert play(game, "pass").end_reason == EndReason.TARGET


def test_stalemate_comes_before_the_round_limit():
    """A real end is terminated, never also truncated."""
    rules = {"max_rounds": 4}
    game = position({"points": 3}, {}, player=1, passes=1, round=4, rules=rules, **NOTHING_TO_DO)
    play(game, "pass")
    assert (game.end_reason, game.returns) == (EndReason.STALEMATE, [1, -1])


def test_target_comes_before_the_round_limit():
    """A real end on the cap counts."""
    game = position({"points": 15}, {}, player=1, round=4, rules={"max_rounds": 4})
    play(game, "take W")
    assert (game.end_reason, game.returns) == (EndReason.TARGET, [1, -1])


@pytest.mark.slow
@pytest.mark.parametrize(("num_players", "num_games"), [(2, 100_000), (3, 20_000), (4, 20_000)])
def test_random_games_all_end(num_players, num_games):
    """Many random games: each ends or is truncated within the cap. A68."""
    batch = Batch(PRESETS["standard"](num_players), 4_000)
    actions = np.zeros(batch.num_games, np.int32)
    num_ended = ply = 0
    age = np.zeros(batch.num_games, np.int64)
    # A turn has at most five decisions in these rules: an action, three returns, a noble.
    longest = batch.rules.max_rounds * num_players * 5
    while num_ended < num_games:
        choose_random_in(batch.games, batch.rules, np.uint64(5), ply * batch.num_games, actions)
        batch.step(actions)
        over = batch.terminated | batch.truncated
        age = np.where(over, 0, age + 1)
        assert age.max() < longest
        num_ended += int(over.sum())
        ply += 1


# Rulings by number, presets, legality


@pytest.mark.parametrize("gold_tokens", [0, 5, 7])
def test_number_of_gold_tokens(gold_tokens):
    """`gold_tokens` lie in the bank whatever the player count."""
    game = Game(PRESETS["standard"](3, gold_tokens=gold_tokens), seed=1)
    assert game.to_dict()["bank"]["gold"] == gold_tokens


@pytest.mark.parametrize("num_nobles", [0, 2, 5])
def test_number_of_nobles(num_nobles):
    """`num_nobles` are dealt."""
    game = Game(PRESETS["standard"](2, num_nobles=num_nobles), seed=1)
    names = [entry["noble"] for entry in game.to_dict()["nobles"]]
    assert len(set(names)) == num_nobles
    assert set(names) <= set(NOBLE_NAMES)


@pytest.mark.parametrize(("preset", "num_players"), list(product(PRESETS, (2, 3, 4))))
def test_presets(preset, num_players):
    """What each preset changes in the defaults."""
    small_table = 0 if num_players < 4 else 5
    changed = {
        "standard": {},
        "rulebook_2014": {"take_fewer": TakeFewer.NEVER, "payment": Payment.CHOICE},
        "later_printing": {"take_fewer": TakeFewer.WHEN_SHORT, "payment": Payment.CHOICE},
        "no_gold_small_table": {"take_fewer": TakeFewer.NEVER, "gold_tokens": small_table},
        "from_four_left": {
            "take_fewer": TakeFewer.NEVER,
            "take_two_minimum": 5,
            "hide_reserves": 1,
        },
    }[preset]
    defaults = {
        "num_players": num_players,
        "num_nobles": num_players + 1,
        "target_points": 15,
        "token_limit": 10,
        "reserve_limit": 3,
        "gold_tokens": 5,
        "noble_points": 3,
        "take_two_minimum": 4,
        "take_fewer": TakeFewer.ALWAYS,
        "payment": Payment.COLORS_FIRST,
        "hide_reserves": 0,
        "max_rounds": 100,
    }
    assert PRESETS[preset](num_players)._asdict() == {**defaults, **changed}


@pytest.mark.parametrize(("hide_reserves", "is_shown"), [(0, True), (1, False)])
def test_face_up_card_once_reserved(hide_reserves, is_shown):
    """Public by default; with `hide_reserves` others see its level only."""
    game = position({"reserved": ["K33530"]}, {}, player=1, rules={"hide_reserves": hide_reserves})
    seen = view_observation(game.observe(1))["opponents_reserved"][0, 0]
    assert (seen[:5].sum() > 0) == is_shown
    assert seen[11:14].tolist() == [0, 0, 1]


def test_opponents_things_are_visible():
    """Tokens, bonuses, points, bought cards and the hand size, to every seat. A73."""
    seat = {"tokens": {"R": 3, "gold": 1}, "bonuses": {"U": 2}, "points": 4, "reserved": ["K33530"]}
    seen = view_observation(position(seat, {}, rules={"hide_reserves": 1}).observe(1))["seats"][1]
    assert seen[1:7] * 7 == pytest.approx([0, 0, 0, 3, 0, 1])
    assert seen[8:13] * 7 == pytest.approx([0, 2, 0, 0, 0])
    assert seen[13] * 50 == pytest.approx(4)
    assert seen[15] * 45 == pytest.approx(2)
    assert seen[16] * 3 == pytest.approx(1)


@pytest.mark.parametrize("preset", PRESETS)
def test_listed_moves_succeed_and_unlisted_leave_the_game_alone(preset):
    """In each phase met on the way. A69."""
    game = Game(preset, num_players=2, seed=4)
    for ply in range(6):
        legal = set(game.legal_actions)
        before = game.copy()
        for action in range(NUM_ACTIONS):
            if action in legal:
                game.push(action)
                assert game != before
                game.undo()
            else:
                with pytest.raises(IllegalActionError):
                    game.push(action)
            assert game == before
        game.push(game.legal_actions[(7 * ply) % len(legal)])
