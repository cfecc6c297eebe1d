"""Rules and the record: what is allowed, what is refused, and that a record is plain data."""

import io

import numpy as np
import pytest

from splendor_env import PRESETS, Rules, SplendorError, standard
from splendor_env.core.batch import deal_games
from splendor_env.core.state import GAME, Payment, TakeFewer, check_rules, resolve_rules

RANGES = {
    "num_players": (2, 4),
    "target_points": (1, 40),
    "token_limit": (5, 20),
    "reserve_limit": (0, 3),
    "gold_tokens": (0, 7),
    "num_nobles": (0, 5),
    "noble_points": (0, 5),
    "take_two_minimum": (2, 7),
    "take_fewer": (0, 2),
    "payment": (0, 1),
    "hide_reserves": (0, 1),
    "max_rounds": (1, 10_000),
}


def test_every_field_of_rules_has_a_range():
    assert set(RANGES) == set(Rules._fields)
    assert Rules._fields[0] == "num_players"


@pytest.mark.parametrize("name", RANGES)
def test_rules_at_their_bounds(name):
    """The ends of a range are allowed; one beyond is refused with name, value and range."""
    low, high = RANGES[name]
    for value in (low, high):
        assert getattr(check_rules(standard(2)._replace(**{name: value})), name) == value
    for value in (low - 1, high + 1):
        with pytest.raises(SplendorError) as error:
            check_rules(standard(2)._replace(**{name: value}))
        for part in (name, repr(value), str(low), str(high)):
            assert part in str(error.value)


@pytest.mark.parametrize("value", [True, 1.0, "1", None, np.float32(1)])
def test_rules_are_integers(value):
    """A truth value or a float is a mistake, not a number."""
    with pytest.raises(SplendorError, match="payment must be an integer 0 to 1"):
        check_rules(standard(2)._replace(payment=value))


def test_checked_rules_are_plain_ints():
    """Enums and NumPy integers would make another compiled version of everything."""
    checked = check_rules(
        standard(2)._replace(
            take_fewer=TakeFewer.NEVER, payment=Payment.CHOICE, gold_tokens=np.int8(3)
        )
    )
    assert [type(value) for value in checked] == [int] * len(checked)
    assert (checked.take_fewer, checked.payment, checked.gold_tokens) == (2, 1, 3)


def test_unknown_rule_is_refused_by_name():
    with pytest.raises(SplendorError, match="unknown rule 'points'"):
        standard(2, points=10)


def test_changes_of_a_preset_win_over_the_preset():
    for preset in PRESETS.values():
        rules = preset(3, take_fewer=1, gold_tokens=2, num_nobles=0)
        assert (rules.take_fewer, rules.gold_tokens, rules.num_nobles) == (1, 2, 0)


def test_resolving_a_name_and_a_number_of_players():
    """A preset's name means two players unless told; rules know their own number."""
    assert resolve_rules() == standard(2)
    assert resolve_rules("rulebook_2014", 4) == PRESETS["rulebook_2014"](4)
    assert resolve_rules(standard(3)) == resolve_rules(standard(3), 3) == standard(3)


@pytest.mark.parametrize(
    ("rules", "num_players", "message"),
    [
        ("Standard", 2, "unknown rules 'Standard'; presets are standard, rulebook_2014"),
        (None, 2, "unknown rules None"),
        ((2, 3), None, "unknown rules"),
        (standard(3), 2, "num_players=2 contradicts rules for 3 players"),
        (standard(2)._replace(token_limit=4), None, "token_limit must be an integer 5 to 20"),
        ("standard", 5, "num_players must be 2, 3 or 4, not 5"),
    ],
)
def test_unresolvable_rules_are_refused(rules, num_players, message):
    with pytest.raises(SplendorError, match=message):
        resolve_rules(rules, num_players)


def test_record_is_compact_plain_data():
    """One aligned record without objects: copied, compared and saved as bytes."""
    assert GAME.itemsize <= 320
    assert not GAME.hasobject
    assert GAME.isalignedstruct


def test_records_survive_saving():
    games = np.zeros(3, GAME)
    deal_games(games, standard(3), np.uint64(5))
    buffer = io.BytesIO()
    np.save(buffer, games)
    buffer.seek(0)
    loaded = np.load(buffer)
    assert loaded.dtype == games.dtype
    assert (loaded == games).all()


def test_unused_seats_and_slots_are_empty():
    """With 2 players seats 2 and 3 hold nothing and own nothing."""
    games = np.zeros(1, GAME)
    deal_games(games, standard(2), np.uint64(5))
    game = games[0]
    assert game.tokens.tolist() == game.bonuses.tolist() == [0] * 4
    assert game.points.tolist() == game.num_cards.tolist() == [0] * 4
    assert (game.reserved == -1).all()
    assert not game.reserved_blind.any()
    assert game.nobles[3:].tolist() == game.noble_owner[3:].tolist() == [-1, -1]
    assert (game.deck[1, 30:] == -1).all()
    assert (game.deck[2, 20:] == -1).all()
