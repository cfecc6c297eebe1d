"""Records: they say everything, what they say is checked, and redacted they betray nothing."""

import copy
import doctest
import gzip
import json
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from splendor_env import PRESETS, Game, SplendorError, record
from splendor_env.core.actions import ACTION_NAMES, BUY, BUY_RESERVED, RESERVE_DECK, RETURN
from splendor_env.core.batch import deal_games, step_games, write_action_masks
from splendor_env.core.cards import CARD_LEVEL, CARD_NAMES
from splendor_env.core.state import GAME, Phase, standard
from splendor_env.record import (
    RecordError,
    actions_of,
    append_records,
    cut_torn_end,
    load_dataset,
    read_records,
    record_game,
    redact,
    replay,
    verify,
    write_records,
)

VARIANTS = list(product(PRESETS, (2, 3, 4)))


def play(rules, seed, *, until=None, blind=0.3):
    """A deal, and the actions of a random game that likes to buy and to reserve blindly.

    `until` stops it in the first position (1,) GAME for which it is true.
    """
    rng = np.random.default_rng(seed)
    games = np.zeros(1, GAME)
    deal_games(games, rules, np.uint64(seed))
    deal, actions = games.copy(), []
    mask = np.zeros((1, len(ACTION_NAMES)), np.int8)
    while not games["end_reason"][0] and not (until is not None and until(games)):
        write_action_masks(games, rules, mask)
        legal = np.flatnonzero(mask[0])
        buys = legal[(legal >= BUY) & (legal < RETURN)]
        hidden = legal[(legal >= RESERVE_DECK) & (legal < BUY)]
        liked = hidden if len(hidden) and rng.random() < blind else buys
        actions.append(int(rng.choice(liked if len(liked) else legal)))
        step_games(games, np.array(actions[-1:], np.int32), rules, -1)
    return deal, np.array(actions, np.int32)


def recorded(rules, seed, **options):
    deal, actions = play(rules, seed, **options)
    return record_game(deal, actions, rules, [f"agent {i}" for i in range(rules.num_players)])


def as_read(one):
    """The record as a file would give it back."""
    return json.loads(json.dumps(one))


# A record says everything.


@pytest.mark.parametrize(("preset", "num_players"), VARIANTS)
def test_games_round_trip_and_verify(preset, num_players):
    """The same actions, the same end, without the seed."""
    rules = PRESETS[preset](num_players)
    for seed in range(67):  # over 1,000 games of all variants together
        deal, actions = play(rules, seed)
        one = record_game(deal, actions, rules, ["a"] * num_players, about={"seed": seed})
        assert as_read(one) == one
        assert verify(as_read(one)) == ()
        read_deal, read_actions, draws = actions_of(one)
        assert read_actions.tolist() == actions.tolist()
        assert read_deal["seed"][0] == 0
        again = record_game(read_deal, read_actions, rules, ["a"] * num_players, draws=draws)
        assert again == {key: one[key] for key in again}


def test_every_field_of_the_end_is_that_of_the_game():
    rules = standard(3)
    deal, actions = play(rules, 5)
    one = record_game(deal, actions, rules, ["a", "b", "c"])
    game = Game(rules, seed=0)
    game.games[:] = deal
    for action in actions:
        game.push(int(action))
    final = game.games[0]
    assert game.is_over
    assert one["result"] == {
        "end_reason": game.end_reason.name.lower(),
        "rounds": game.rounds,
        "points": game.points,
        "cards": final.num_cards[:3].tolist(),
        "nobles": [int((final.noble_owner == seat).sum()) for seat in range(3)],
        "share": [float(seat in game.winners) / len(game.winners) for seat in range(3)],
        "winners": game.winners,
    }
    assert one["turns"][-1][-1] == f"{game.position_hash():016x}"


def test_turns_hold_all_decisions_of_one_seat_with_their_draws():
    """Returns and the choice of payment belong to the turn that they end."""
    rules = PRESETS["rulebook_2014"](2)
    one = recorded(rules, 3)
    game = Game(rules, seed=3)
    lengths = set()
    for seat, *decisions, digits in one["turns"]:
        lengths.add(len(decisions))
        for text in decisions:
            assert game.player == seat
            move, _, card = text.partition(" draws ")
            in_decks = {*game.games["deck"].ravel().tolist()}
            game.push(move)
            drawn = in_decks - {*game.games["deck"].ravel().tolist()} - {-1}
            assert [CARD_NAMES[card] for card in drawn] == ([card] if card else [])
        assert game.is_over or game.player != seat
        assert digits == f"{game.position_hash():016x}"
    assert game.is_over
    assert {1, 2} <= lengths


def test_format_of_version_1():
    """Written once: a change of it would need another version."""
    one = json.loads(GOLDEN)
    assert verify(one) == ()
    deal, actions, draws = actions_of(one)
    again = record_game(
        deal,
        actions,
        standard(2),
        ["me", "you"],
        draws=draws,
        forfeit={"seat": 1, "reason": "illegal", "detail": "pass"},
        about={"game": 3},
    )
    assert json.dumps(again, separators=(",", ":")) == GOLDEN


GOLDEN = (
    '{"record":1,"rules":{"num_players":2,"num_nobles":3,"target_points":15,"token_limit":10,"res'
    'erve_limit":3,"gold_tokens":5,"noble_points":3,"take_two_minimum":4,"take_fewer":0,"payment"'
    ':0,"hide_reserves":0,"max_rounds":100},"seats":["me","you"],"deal":{"nobles":["00333","00044'
    '","33003"],"market":{"1-1":"G21000","1-2":"W31001","1-3":"W03000","1-4":"U01310","2-1":"W001'
    '42","2-2":"R30005","2-3":"U02230","2-4":"K00006","3-1":"K00363","3-2":"U73000","3-3":"W30007'
    '","3-4":"R00730"}},"turns":[[0,"reserve 3-2 draws W30036","326c76ef8f1a8d41"],[1,"take R","1'
    '79f5af3d59123bb"],[0,"reserve deck 2 draws K50000","1ac9a827471b3652"],[1,"take U U","1c698a'
    'a74bf33f88"],[0,"take K","b7ce86cdc94a1350"]],"result":{"end_reason":"forfeit","rounds":3,"p'
    'oints":[0,0],"cards":[0,0],"nobles":[0,0],"share":[1.0,0.0],"winners":[0],"forfeit":{"seat":'
    '1,"reason":"illegal","detail":"pass"}},"about":{"game":3}}'
)


def test_game_of_sixty_turns_takes_little_space(tmp_path):
    """About 3 KB as text, 1 KB packed with others."""
    rules = standard(2)
    records = [recorded(rules, seed, blind=0.05) for seed in range(30)]
    num_turns = sum(len(one["turns"]) for one in records)
    write_records(tmp_path / "a.jsonl", records)
    write_records(tmp_path / "a.jsonl.gz", records)
    assert (tmp_path / "a.jsonl").stat().st_size < 30 * 800 + 50 * num_turns
    assert (tmp_path / "a.jsonl.gz").stat().st_size < 20 * num_turns


def test_replay_gives_every_position():
    rules = standard(4)
    deal, actions = play(rules, 8)
    shown = replay(record_game(deal, actions, rules, ["a", "b", "c", "d"]))
    game = Game(rules, seed=8)
    game.games[:] = deal
    for decision, action in enumerate(actions):
        assert shown.game(decision).position_hash() == game.position_hash()
        game.push(int(action))
    assert shown.game(len(actions)).position_hash() == game.position_hash()
    assert shown.rules == rules and shown.actions.tolist() == actions.tolist()
    assert shown.viewer is None
    assert shown.turn[0] == 0 and shown.turn[-1] == shown.turn.max() > 0


# Games that do not end by the rules.


def test_forfeit_shares_the_victory_among_the_others():
    rules = standard(3)
    until = lambda games: games["rounds"][0] == 4 and games["player"][0] == 1  # noqa: E731
    deal, actions = play(rules, 1, until=until)
    forfeit = {"seat": 1, "reason": "failed", "detail": "no answer in 10 s"}
    one = as_read(record_game(deal, actions, rules, ["a", "b", "c"], forfeit=forfeit))
    assert verify(one) == ()
    assert one["result"]["end_reason"] == "forfeit"
    assert one["result"]["share"] == [0.5, 0.0, 0.5]
    assert one["result"]["winners"] == [0, 2]
    assert one["result"]["forfeit"] == forfeit


def test_forfeit_of_the_first_decision_and_in_the_middle_of_a_turn():
    rules = standard(2)
    deal, _ = play(rules, 1)
    forfeit = {"seat": 0, "reason": "illegal", "detail": "-7"}
    one = record_game(deal, [], rules, ["a", "b"], forfeit=forfeit)
    assert one["turns"] == [] and one["result"]["rounds"] == 1
    assert verify(as_read(one)) == ()

    rules = standard(2, token_limit=5)
    deal, actions = play(rules, 2, until=lambda games: games["phase"][0] == Phase.RETURN)
    seat = mover(deal, actions, rules)
    forfeit["seat"] = seat
    one = record_game(deal, actions, rules, ["a", "b"], forfeit=forfeit)
    assert one["turns"][-1][0] == seat
    assert verify(as_read(one)) == ()


def mover(deal, actions, rules):
    games = deal.copy()
    for action in actions:
        step_games(games, np.array([action], np.int32), rules, -1)
    return int(games["player"][0])


def test_forfeits_that_cannot_be():
    rules = standard(2)
    deal, actions = play(rules, 1)
    forfeit = {"seat": 1, "reason": "illegal", "detail": ""}
    with pytest.raises(RecordError, match="the game was over"):
        record_game(deal, actions, rules, ["a", "b"], forfeit=forfeit)
    with pytest.raises(RecordError, match="seat 1, but seat 0 was to move"):
        record_game(deal, [], rules, ["a", "b"], forfeit=forfeit)
    with pytest.raises(RecordError, match="'bored'"):
        record_game(deal, [], rules, ["a", "b"], forfeit=forfeit | {"seat": 0, "reason": "bored"})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"forfeit": {"seat": 2, "reason": "failed", "detail": ""}},
            "seat: an integer 0 to 1",
        ),
        (
            {"forfeit": {"seat": -1, "reason": "failed", "detail": ""}},
            "seat: an integer 0 to 1",
        ),
        (
            {"forfeit": {"seat": "x", "reason": "failed", "detail": ""}},
            "seat: an integer 0 to 1",
        ),
        ({"forfeit": []}, "forfeit: an object, not"),
        ({"about": [1]}, "about: an object, not"),
        ({"about": {"a": float("nan")}}, "about: nan is not JSON"),
        ({"about": {1: 2}}, "about: key 1 is no text"),
        ({"about": {"a": np.int64(1)}}, "about: .* is not JSON"),
        ({"deal": np.zeros(0, GAME)}, r"deal: one game \(1,\), not an array of shape \(0,\)"),
        ({"deal": np.zeros(2, GAME)}, r"deal: one game \(1,\), not an array of shape \(2,\)"),
        ({"seats": "ab"}, "seats: 2 names, not 'ab'"),
    ],
)
def test_arguments_that_no_record_can_hold(changes, message):
    rules = standard(2)
    deal, actions = play(rules, 1)
    arguments = {"deal": deal, "actions": actions, "seats": ["a", "b"]} | changes
    with pytest.raises(RecordError, match=message):
        record_game(rules=rules, **arguments)


def test_about_is_held_to_the_depth_that_can_be_read():
    rules = standard(2)
    deal, actions = play(rules, 1)
    about = inner = {}
    for _ in range(31):
        inner["a"] = {}
        inner = inner["a"]
    one = as_read(record_game(deal, actions, rules, ["a", "b"], about=about))
    assert one["about"] == about
    inner["a"] = {}
    with pytest.raises(RecordError, match="nested more than 32 deep"):
        record_game(deal, actions, rules, ["a", "b"], about=about)


def test_detail_of_a_forfeit_is_cut():
    deal, _ = play(standard(2), 1)
    forfeit = {"seat": 0, "reason": "failed", "detail": "x" * 5000}
    one = record_game(deal, [], standard(2), ["a", "b"], forfeit=forfeit)
    assert one["result"]["forfeit"]["detail"] == "x" * 1000


def test_round_limit_has_no_winner():
    rules = standard(4, max_rounds=3)
    one = recorded(rules, 1)
    assert one["result"]["end_reason"] == "round_limit"
    assert one["result"]["share"] == [0.25] * 4
    assert one["result"]["winners"] == []
    assert verify(as_read(one)) == ()


def test_games_that_cannot_be_recorded():
    rules = standard(2)
    deal, actions = play(rules, 1)
    with pytest.raises(RecordError, match="the game goes on in round"):
        record_game(deal, actions[:-1], rules, ["a", "b"])
    with pytest.raises(RecordError, match=rf"decision {len(actions) + 1}: illegal action 0"):
        record_game(deal, [*actions, 0], rules, ["a", "b"])
    with pytest.raises(RecordError, match="decision 1: illegal action -1"):
        record_game(deal, [2**40], rules, ["a", "b"])
    with pytest.raises(RecordError, match="actions: integers"):
        record_game(deal, [0.5], rules, ["a", "b"])
    with pytest.raises(RecordError, match="seats: 2 names"):
        record_game(deal, actions, rules, ["a"])
    with pytest.raises(RecordError, match="not the beginning of a game"):
        record_game(deal, actions, standard(2, num_nobles=4), ["a", "b"])
    later = deal.copy()
    step_games(later, actions[:1], rules, -1)
    with pytest.raises(RecordError, match="not the beginning of a game"):
        record_game(later, actions[1:], rules, ["a", "b"])
    draws = actions_of(record_game(deal, actions, rules, ["a", "b"]))[2].copy()
    draws[np.flatnonzero(draws >= 0)[0]] = deal["market"][0, 0, 0]
    with pytest.raises(RecordError, match="cannot turn up"):
        record_game(deal, actions, rules, ["a", "b"], draws=draws)


# Whatever is changed is found and named.


def leaves(value, path=()):
    """The path of every value that is no list and no object."""
    if isinstance(value, dict):
        return [leaf for key, entry in value.items() for leaf in leaves(entry, (*path, key))]
    if isinstance(value, list):
        return [leaf for i, entry in enumerate(value) for leaf in leaves(entry, (*path, i))]
    return [path]


def changed(one, path, value):
    twin = copy.deepcopy(one)
    inner = twin
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return twin


def other_values(value):
    """Values that could stand in place of one, and some that could not."""
    if isinstance(value, str):
        first = "1" if value[:1] == "0" else "0"
        yield from (first + value[1:], value[:-1], value + " ", "take W U G", None)
        move, _, card = value.partition(" draws ")
        if card:
            same_level = [
                name
                for name, level in zip(CARD_NAMES, CARD_LEVEL, strict=True)
                if level == CARD_LEVEL[CARD_NAMES.index(card)] and name != card
            ]
            yield from (move, f"{move} draws ?", *(f"{move} draws {name}" for name in same_level))
    elif isinstance(value, float):
        yield from (value + 0.125, 1 - value if value != 0.5 else 0.0, True, str(value))
    else:
        yield from (value + 1, value - 1, bool(value), float(value) + 0.5, None, [value])


def test_every_changed_value_is_found():
    """Except names, and rules that have played no part, nothing can be altered."""
    rules = standard(2, target_points=6)
    one = recorded(rules, 11)
    assert any("reserve deck" in str(turn) for turn in one["turns"])
    paths = leaves({key: one[key] for key in ("record", "deal", "turns", "result")})
    assert len(paths) > 60
    for path in paths:
        value = one
        for key in path:
            value = value[key]
        for other in other_values(value):
            if other != value or type(other) is not type(value):
                with pytest.raises(RecordError) as error:
                    verify(changed(one, path, other))
                if path[0] == "turns":
                    assert int(str(error.value).removeprefix("turn ").split(",")[0].split(":")[0])


def test_every_missing_turn_is_found():
    one = recorded(standard(2, target_points=6), 11)
    for index in range(len(one["turns"])):
        with pytest.raises(RecordError):
            verify(one | {"turns": one["turns"][:index] + one["turns"][index + 1 :]})
        with pytest.raises(RecordError):
            verify(one | {"turns": one["turns"][: index + 1] + one["turns"][index:]})


def test_every_flipped_bit_is_found(tmp_path):
    one = recorded(standard(2, target_points=4), 12)
    line = json.dumps(one, separators=(",", ":")).encode() + b"\n"
    first = line.index(b'"deal"')
    path = tmp_path / "flipped.jsonl"
    rng = np.random.default_rng(0)
    for index in rng.choice(np.arange(first, len(line)), 300, replace=False):
        flipped = bytearray(line)
        flipped[index] ^= 1 << rng.integers(8)
        path.write_bytes(flipped)
        with pytest.raises(RecordError, match=r"line|turn|result|deal"):
            [verify(read) for read in read_records(path)]


def test_first_divergence_is_named():
    """Turn, seat, what was recorded and what follows; the first of several."""
    one = recorded(standard(2, target_points=6), 11)
    turns = one["turns"]
    wrong = changed(one, ("turns", 4, len(turns[4]) - 1), "0" * 16)
    wrong = changed(wrong, ("turns", 9, 0), 1 - turns[9][0])
    seat, right = turns[4][0], turns[4][-1]
    with pytest.raises(RecordError) as error:
        verify(wrong)
    assert str(error.value) == f"turn 5, seat {seat}: hash {'0' * 16} recorded, {right} follows"
    wrong = changed(one, ("turns", 9, 0), 1 - turns[9][0])
    with pytest.raises(RecordError, match=f"turn 10: seat {1 - turns[9][0]} recorded, seat"):
        verify(wrong)
    wrong = changed(one, ("turns", 2, 1), "buy 3-4")
    with pytest.raises(RecordError, match=r"turn 3, seat 0: illegal action 56 \('buy 3-4'\); leg"):
        verify(wrong)
    points = one["result"]["points"]
    wrong = changed(one, ("result", "points", 0), points[0] + 1)
    with pytest.raises(RecordError) as error:
        verify(wrong)
    assert str(error.value) == (
        f"result.points: [{points[0] + 1}, {points[1]}] recorded, {points} follows"
    )


def test_draws_stand_exactly_where_a_card_is_drawn():
    one = recorded(standard(2, target_points=6), 11)
    index = next(i for i, turn in enumerate(one["turns"]) if " draws " in turn[1])
    text = one["turns"][index][1]
    move, _, card = text.partition(" draws ")
    place = f"turn {index + 1}, seat {one['turns'][index][0]}: '{move}' draws"
    dealt = one["deal"]["market"]["1-1"]
    for wrong, message in (
        (move, "no card in the record, but one must be drawn"),
        (f"{move} draws {dealt}", f"{dealt} in the record, but that is not in the deck"),
    ):
        with pytest.raises(RecordError) as error:
            verify(changed(one, ("turns", index, 1), wrong))
        assert str(error.value) == f"{place} {message}"
    index = next(i for i, turn in enumerate(one["turns"]) if turn[1].startswith("take"))
    text = one["turns"][index][1]
    with pytest.raises(RecordError, match=f"draws {card} in the record, but none is drawn"):
        verify(changed(one, ("turns", index, 1), f"{text} draws {card}"))


def test_games_cut_short_or_drawn_out_are_refused():
    one = recorded(standard(2, target_points=6), 11)
    with pytest.raises(RecordError, match="the game goes on in round"):
        verify(one | {"turns": one["turns"][:-1]})
    with pytest.raises(RecordError, match=r"^turn \d+: recorded, but the game was over before it"):
        verify(one | {"turns": [*one["turns"], [0, "take W U G", "0" * 16]]})


# Files.


@pytest.mark.parametrize("name", ["games.jsonl", "games.jsonl.gz"])
def test_files_give_back_what_was_written_and_appended(tmp_path, name):
    path = tmp_path / name
    records = [recorded(standard(2), seed) for seed in range(5)]
    write_records(path, records[:2])
    append_records(path, records[2:4])
    append_records(path, [])
    append_records(path, records[4:])
    assert list(read_records(path)) == records
    assert path.read_bytes()[:2] == (b"\x1f\x8b" if name.endswith(".gz") else b'{"')
    assert [entry.name for entry in tmp_path.iterdir()] == [name]
    append_records(tmp_path / f"new_{name}", records)
    assert list(read_records(tmp_path / f"new_{name}")) == records


def test_packed_files_depend_on_the_records_alone(tmp_path):
    """Neither name nor time of writing is in them."""
    records = [recorded(standard(2), 1)]
    write_records(tmp_path / "a.jsonl.gz", records)
    write_records(tmp_path / "b.jsonl.gz", records)
    assert (tmp_path / "a.jsonl.gz").read_bytes() == (tmp_path / "b.jsonl.gz").read_bytes()


def test_failed_writing_leaves_the_old_file(tmp_path):
    path = tmp_path / "games.jsonl"
    records = [recorded(standard(2), 1)]
    write_records(path, records)
    with pytest.raises(RecordError, match="must be JSON"):
        write_records(path, [records[0], records[0] | {"about": {"time": float("nan")}}])
    assert list(read_records(path)) == records
    assert [entry.name for entry in tmp_path.iterdir()] == ["games.jsonl"]


@pytest.mark.parametrize("name", ["games.jsonl", "games.jsonl.gz"])
def test_torn_end_is_refused_or_left_out_or_cut_off(tmp_path, name):
    """At whatever byte the last write was interrupted."""
    path = tmp_path / name
    records = [recorded(standard(2, target_points=4), seed) for seed in range(3)]
    write_records(path, records[:2])
    whole = path.stat().st_size
    append_records(path, records[2:])
    content = path.read_bytes()
    for size in range(whole + 1, len(content), 97):
        path.write_bytes(content[:size])
        with pytest.raises(RecordError, match=f"{name}, line [34]: torn"):
            list(read_records(path))
        # Of a packed record just the checksum may be missing.
        assert list(read_records(path, allow_torn=True)) in (records[:2], records)
        if name == "games.jsonl":
            with pytest.raises(RecordError, match="the last line is torn"):
                append_records(path, records[2:])
        cut_torn_end(path)
        assert path.read_bytes() == content[:whole]
        append_records(path, records[2:])
        assert path.read_bytes() == content
    cut_torn_end(path)
    assert path.read_bytes() == content


def test_torn_line_in_the_middle_is_refused(tmp_path):
    path = tmp_path / "games.jsonl"
    write_records(path, [recorded(standard(2, target_points=4), seed) for seed in range(2)])
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0][:-20] + lines[1])
    with pytest.raises(RecordError, match=r"games\.jsonl, line 1: not JSON"):
        list(read_records(path, allow_torn=True))


def test_damaged_gzip_is_refused(tmp_path):
    path = tmp_path / "games.jsonl.gz"
    write_records(path, [recorded(standard(2), seed) for seed in range(3)])
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 16
    path.write_bytes(content)
    with pytest.raises(RecordError):
        list(read_records(path, allow_torn=True))
    path.write_bytes(b"no gzip at all")
    with pytest.raises(RecordError, match="cannot be read"):
        list(read_records(path))
    with pytest.raises(RecordError, match="cannot be mended"):
        cut_torn_end(path)
    assert path.read_bytes() == b"no gzip at all"


def test_missing_file_is_named(tmp_path):
    for use in (lambda path: list(read_records(path)), load_dataset, cut_torn_end):
        with pytest.raises(RecordError, match=r"nowhere\.jsonl"):
            use(tmp_path / "nowhere.jsonl")


def hostile_lines():
    one = recorded(standard(2, target_points=4), 12)
    text = json.dumps(one)
    values = [
        *(None, True, -1, 10**30, 0.5, "", "x", "\ud800", [], {}, [[]], {"x": 1}),
        "draws ? draws ?",
        " draws W00021",
        "take W U G draws ?",
        "buy reserved 3 shows W00021",
    ]
    places = [
        *(("record",), ("viewer",), ("rules",), ("seats",), ("deal",), ("turns",), ("result",)),
        *(("rules", "num_players"), ("rules", "max_rounds"), ("seats", 0), ("deal", "nobles")),
        *(("deal", "nobles", 0), ("deal", "market"), ("deal", "market", "1-1"), ("turns", 0)),
        *(("turns", 0, 0), ("turns", 0, 1), ("turns", 0, -1), ("result", "end_reason")),
        *(("result", "rounds"), ("result", "points"), ("result", "points", 0)),
        *(("result", "share", 0), ("result", "winners"), ("result", "forfeit")),
    ]
    for place, value in product(places, values):
        is_name = place == ("seats", 0) and isinstance(value, str)
        if not is_name and not (place == ("result", "winners") and value == []):
            yield json.dumps(changed(one, place, value))
    yield from (
        *("", " ", "null", "[]", "1", '"x"', "{}", "{", "NaN", '{"record": NaN}', "\x00"),
        "[" * 100_000,
        '{"a":' * 100_000,
        '{"record": 1' + "0" * 5000 + "}",
        '{"record": 1, "record": 1}',
        '{"record": 1e999}',
        text[:-1] + ', "more": 1}',
        text[:-1] + ', "about": []}',
        text[:-1] + ', "about": {"a": 1e999}}',
        text[:-1] + ', "about": {"a": Infinity}}',
        text[:-1] + ', "about": {"a": ' + "[" * 50 + "]" * 50 + "}}",
        text[:-1] + ', "about": {"a": 1, "a": 2}}',
        text.replace('"record": 1', '"record": 2'),
        text.replace('"record": 1', '"record": true'),
        text.replace('"rounds"', '"round"'),
    )


def test_hostile_lines_give_a_record_error_with_the_line(tmp_path):
    path = tmp_path / "hostile.jsonl"
    good = json.dumps(recorded(standard(2, target_points=4), 13)) + "\n"
    for line in hostile_lines():
        path.write_text(good + line + "\n", encoding="utf-8")
        with pytest.raises(RecordError, match=r"hostile\.jsonl, line 2: "):
            load_dataset(path)
    for content in (b"\xff\xfe{}\n", b"\x00" * 100 + b"\n"):
        path.write_bytes(content)
        with pytest.raises(RecordError, match="line 1: not JSON"):
            list(read_records(path))


def test_too_long_line_is_refused_unread(tmp_path, monkeypatch):
    monkeypatch.setattr(record, "MAX_LINE_BYTES", 1000)
    path = tmp_path / "long.jsonl.gz"
    path.write_bytes(gzip.compress(b" " * 5000 + b"\n"))
    with pytest.raises(RecordError, match="line 1: longer than 1000 bytes"):
        list(read_records(path))
    with pytest.raises(RecordError, match="the limit is 1000"):
        write_records(tmp_path / "own.jsonl", [recorded(standard(2), 1)])


# What a redacted record must not say.


def secrets_of(one, seat):
    """(turn that reserves, turn that buys or None, card) of each blind reserve of the others."""
    shown = replay(one)
    found = {}
    for decision, action in enumerate(shown.actions.tolist()):
        mover, turn = int(shown.positions["player"][decision]), int(shown.turn[decision])
        if RESERVE_DECK <= action < BUY and mover != seat:
            found[int(shown.draws[decision])] = [turn, None]
        if BUY_RESERVED <= action < RETURN:
            slot = action - BUY_RESERVED
            card = int(shown.positions["reserved"][decision, mover, slot])
            if card in found:
                found[card][1] = turn
    return [(*turns, CARD_NAMES[card]) for card, turns in found.items()]


@pytest.mark.parametrize(("preset", "num_players"), VARIANTS)
def test_redacted_record_names_hidden_cards_when_they_are_bought(preset, num_players):
    """And verifies; nothing else of what the seat could not know is in its bytes."""
    rules = PRESETS[preset](num_players)
    num_kept = num_shown = 0
    for seed in range(4):
        deal, actions = play(rules, seed)
        about = {"seed": 123456789, "game": 4, "deal": 2, "match": "m", "seconds": [0.25] * 2}
        one = record_game(deal, actions, rules, ["a"] * num_players, about=about)
        end = replay(one).game(len(actions))
        for seat in range(num_players):
            secrets = secrets_of(one, seat)
            redacted = as_read(redact(one, seat))
            text = json.dumps(redacted)
            for reserved_in, bought_in, card in secrets:
                assert text.count(card) == (bought_in is not None)
                assert str(redacted["turns"][reserved_in]).count("draws ?'") == 1
                if bought_in is not None:
                    assert f"shows {card}" in str(redacted["turns"][bought_in])
                num_kept += bought_in is None
                num_shown += bought_in is not None
            seen_end = end.determinize(seat, 0).position_hash()
            assert redacted["turns"][-1][-1] == f"{seen_end:016x}"
            assert redacted["about"] == {"game": 4, "deal": 2}
            assert "123456789" not in text
            assert redacted["result"] == one["result"]
            own = [str(turn[1:-1]) for turn in one["turns"] if turn[0] == seat]
            seen = [str(turn[1:-1]) for turn in redacted["turns"] if turn[0] == seat]
            assert seen == own
            num_unknown = sum(bought_in is None for _, bought_in, _ in secrets)
            assert sum(f"cards {num_unknown} are" in text for text in verify(redacted)) == (
                num_unknown > 0
            )
    assert num_kept > 0 and num_shown > 0


@pytest.mark.parametrize("preset", ["standard", "from_four_left"])
def test_redacted_records_of_games_that_differ_in_hidden_cards_are_equal(preset):
    """Whatever card a seat held unseen to the end: the bytes are the same."""
    rules = PRESETS[preset](3)
    num_pairs = 0
    for seed in range(3):
        one = recorded(rules, seed)
        deal, actions, draws = actions_of(one)
        for viewer in range(3):
            hidden = [CARD_NAMES.index(c) for _, bought, c in secrets_of(one, viewer) if not bought]
            left = set(range(90)) - {*draws.tolist(), *deal["market"].ravel().tolist()}
            for card in hidden:
                for other in sorted(left | set(hidden) - {card}):
                    if CARD_LEVEL[other] == CARD_LEVEL[card]:
                        swapped = draws.copy()
                        swapped[draws == card], swapped[draws == other] = other, card
                        try:
                            twin = record_game(deal, actions, rules, one["seats"], draws=swapped)
                        except RecordError:  # a pass, with a card that could be bought
                            continue
                        assert twin["turns"] != one["turns"]
                        assert json.dumps(redact(twin, viewer)) == json.dumps(redact(one, viewer))
                        num_pairs += 1
    assert num_pairs > 50


def test_text_of_a_forfeit_is_removed():
    """It lists what its seat could have bought."""
    rules = standard(2)
    until = lambda games: games["rounds"][0] == 5 and games["player"][0] == 1  # noqa: E731
    deal, actions = play(rules, 1, until=until)
    forfeit = {"seat": 1, "reason": "illegal", "detail": "legal: buy reserved 1"}
    one = record_game(deal, actions, rules, ["a", "b"], forfeit=forfeit)
    redacted = redact(one, 0)
    assert redacted["result"]["forfeit"] == {"seat": 1, "reason": "illegal", "detail": None}
    assert verify(redacted)[-1] == "the reason of the forfeit"


def test_pass_with_a_hidden_card_is_not_held_against_its_seat():
    """The stand-in could be bought; the card that was there could not."""
    rules = PRESETS["no_gold_small_table"](2)
    for seed in range(100):
        redacted = redact(recorded(rules, seed, blind=0.9), 0)
        unchecked = verify(redacted)
        if "when it passed" in unchecked[-1]:
            turn = int(unchecked[-1].removeprefix("turn ").split(",")[0]) - 1
            assert redacted["turns"][turn][:-1] == [1, "pass"]
            return
    pytest.fail("no such pass in 100 games")


def test_changed_redacted_records_are_refused():
    rules = standard(2, target_points=6)
    for seed in range(50):
        one = recorded(rules, seed, blind=0.5)
        redacted = redact(one, 0)
        text = json.dumps(redacted)
        if "shows" in text and "draws ?" in text:
            break
    for turn, entry in enumerate(redacted["turns"]):
        with pytest.raises(RecordError, match=rf"^turn {turn + 1}, seat {entry[0]}: hash 0+ rec"):
            verify(changed(redacted, ("turns", turn, len(entry) - 1), "0" * 16))
        for index, decision in enumerate(entry[1:-1], 1):
            move, word, card = decision.partition(" draws ")
            wrong = [f"{decision} shows W00021", f"{decision} draws ?", "done"]
            if word:
                wrong.append(move)
            if card == "?":
                wrong.append(f"{move} draws {one['turns'][turn][index].split()[-1]}")
            if " shows " in decision:
                move = decision.partition(" shows ")[0]
                wrong = [move, f"{move} shows {one['deal']['market']['1-1']}"]
            for other in wrong:
                with pytest.raises(RecordError, match=r"^turn \d+"):
                    verify(changed(redacted, ("turns", turn, index), other))
    for key, value in (("about", {"seed": 1}), ("about", {"game": "1"}), ("viewer", 2)):
        with pytest.raises(RecordError, match=key):
            verify(redacted | {key: value})
    with pytest.raises(RecordError):
        verify({key: value for key, value in redacted.items() if key != "viewer"})
    with pytest.raises(RecordError):
        verify(one | {"viewer": 0})


def test_redacted_records_serve_to_look_at_only(tmp_path):
    """Stand-ins fill the hands of others; nothing is learnt or redacted from them."""
    one = recorded(standard(2), 3)
    redacted = redact(one, 1)
    whole, seen = replay(one), replay(redacted)
    assert seen.viewer == 1
    for decision in range(len(whole.positions)):
        assert seen.game(decision).seen_by(1) == whole.game(decision).seen_by(1)
    for use in (actions_of, lambda one: redact(one, 1)):
        with pytest.raises(RecordError, match="as seat 1 saw it does not say all draws"):
            use(redacted)
    write_records(tmp_path / "seen.jsonl", [redacted])
    with pytest.raises(RecordError, match=r"seen\.jsonl, line 1: a record as seat 1 saw it"):
        load_dataset(tmp_path / "seen.jsonl")
    with pytest.raises(RecordError, match="seat: an integer 0 to 1, not 2"):
        redact(one, 2)
    with pytest.raises(RecordError, match="result"):
        redact(changed(one, ("result", "rounds"), 1), 0)


# Records to learn from.


def test_dataset_holds_what_the_movers_saw(tmp_path):
    rules = [standard(2), standard(4, target_points=8), PRESETS["from_four_left"](2)]
    records = [recorded(one, seed) for seed, one in enumerate(rules)]
    write_records(tmp_path / "a.jsonl", records[:2])
    write_records(tmp_path / "b.jsonl.gz", records[2:])
    data = load_dataset([tmp_path / "a.jsonl", tmp_path / "b.jsonl.gz"])
    row = 0
    for number, one in enumerate(records):
        deal, actions, draws = actions_of(one)
        game = Game(rules[number], seed=0)
        game.games[:] = deal
        for action, draw in zip(actions.tolist(), draws.tolist(), strict=True):
            assert (data.observation[row] == game.observe()).all()
            assert (data.action_mask[row] == game.action_mask).all()
            assert (data.action[row], data.player[row]) == (action, game.player)
            assert data.share[row] == np.float32(one["result"]["share"][game.player])
            assert data.game[row] == number
            game.push(action, None if draw < 0 else draw)
            row += 1
    assert len(data.action) == row
    assert [array.dtype.name for array in data] == [
        *("float32", "int8", "int32", "int8", "float32", "int32")
    ]


def test_dataset_of_some_rules_leaves_the_others_out(tmp_path):
    records = [recorded(standard(2), 0), recorded(standard(3), 1), recorded(standard(2), 2)]
    write_records(tmp_path / "a.jsonl", records)
    data = load_dataset(str(tmp_path / "a.jsonl"), standard(2))
    assert sorted(set(data.game.tolist())) == [0, 2]
    nothing = load_dataset(tmp_path / "a.jsonl", standard(4))
    assert nothing.observation.shape == (0, 746)


def test_dataset_of_a_false_record_names_the_line(tmp_path):
    records = [recorded(standard(2), 0), recorded(standard(2), 1)]
    records[1]["result"]["rounds"] += 1
    write_records(tmp_path / "a.jsonl", records)
    with pytest.raises(RecordError, match=r"a\.jsonl, line 2: result\.rounds"):
        load_dataset(tmp_path / "a.jsonl")


def test_record_errors_are_mistakes_of_the_caller():
    assert issubclass(RecordError, SplendorError)


def test_session_of_the_page_runs():
    page = Path(__file__).parents[1] / "docs" / "records.md"
    results = doctest.testfile(str(page), module_relative=False)
    assert results.attempted > 8 and results.failed == 0


# Unfinished games.


@pytest.mark.parametrize("num_decisions", [0, 1, 25])
def test_unfinished_game_has_no_result_and_all_decisions_so_far(num_decisions, tmp_path):
    rules = PRESETS["rulebook_2014"](3)
    deal, actions = play(rules, 2)
    so_far = actions[:num_decisions]
    one = record_game(deal, so_far, rules, ["a", "b", "c"], unfinished=True)
    assert one["result"] is None
    assert verify(as_read(one)) == ()
    assert replay(one).actions.tolist() == so_far.tolist()
    assert verify(redact(one, 1)) is not None and redact(one, 1)["result"] is None
    write_records(tmp_path / "one.jsonl", [one])
    assert list(read_records(tmp_path / "one.jsonl", allow_unfinished=True)) == [one]
    for reader in read_records, load_dataset:
        with pytest.raises(RecordError, match=r"line 1: result: null, the game is unfinished"):
            list(reader(tmp_path / "one.jsonl"))


def test_unfinished_game_may_stop_within_a_turn():
    rules = PRESETS["rulebook_2014"](2)
    deal, actions = play(rules, 3, until=lambda games: games["phase"][0] == Phase.RETURN)
    one = record_game(deal, actions, rules, ["a", "b"], unfinished=True)
    assert verify(one) == ()
    assert replay(one).game(len(actions)).phase == Phase.RETURN


def test_game_that_is_over_is_not_unfinished():
    rules = standard(2)
    deal, actions = play(rules, 3)
    message = r"the game is over \(target\), and so not unfinished"
    with pytest.raises(RecordError, match=message):
        record_game(deal, actions, rules, ["a", "b"], unfinished=True)
    forfeit = {"seat": 0, "reason": "failed", "detail": ""}
    with pytest.raises(RecordError, match=r"over \(forfeit\)"):
        record_game(deal, [], rules, ["a", "b"], forfeit=forfeit, unfinished=True)
    one = recorded(rules, 3)
    with pytest.raises(RecordError, match=message):
        verify(one | {"result": None})
    cut = one["turns"][:-1]
    with pytest.raises(RecordError, match="the game goes on in round"):
        verify(one | {"turns": cut})
    assert verify(one | {"turns": cut, "result": None}) == ()


def test_every_line_of_a_file_is_verified_after_a_wrong_one_too(tmp_path):
    records = [recorded(standard(2), seed) for seed in range(4)]
    records[1]["turns"][5][-1] = "0" * 16
    path = tmp_path / "games.jsonl"
    write_records(path, records)
    text = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*text[:2], text[2].replace(b'"record":1', b'"record":I'), text[3]]))
    first, second, third, fourth = record.verify_file(path)
    assert first == fourth == ()
    assert str(second).startswith(f"{path}, line 2: turn 6, seat 1: hash 0000000000000000 recorded")
    assert str(third).startswith(f"{path}, line 3: not JSON")
    path.write_bytes(text[0] + text[1][:-1])
    with pytest.raises(RecordError, match="line 2: torn"):
        list(record.verify_file(path))
