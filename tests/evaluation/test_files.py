import json
import sys
from pathlib import Path

import pytest

from splendor_env.agents.fingerprint import fingerprint
from splendor_env.core.state import Rules, SplendorError, standard
from splendor_env.evaluation.arena import Seating, mixed_tables, one_against_rest
from splendor_env.evaluation.files import play_to_file, results_of
from splendor_env.evaluation.workers import play_specs_games
from splendor_env.record import read_records, write_records
from tests.evaluation.agents import without_time

AGENTS = "tests.evaluation.agents"
SHORT = standard(2, target_points=4)


class Interrupted(Exception):  # noqa: N818  no error of its own
    pass


def interrupt_after(num_games):
    def progress(done, total):
        if done >= num_games:
            raise Interrupted

    return progress


@pytest.mark.parametrize("name", ["games.jsonl", "games.jsonl.gz"])
@pytest.mark.parametrize("is_torn", [False, True])
def test_an_interrupted_match_goes_on_where_its_file_ends(tmp_path, name, is_torn):
    file = tmp_path / name
    specs = ["greedy", f"{AGENTS}:fainting"]
    seating = one_against_rest(SHORT, 48)
    whole = play_specs_games(specs, seating, SHORT, 3)
    with pytest.raises(Interrupted):
        play_to_file(specs, seating, SHORT, 3, file, progress=interrupt_after(40))
    assert len(list(read_records(file))) == 32
    if is_torn:
        content = file.read_bytes()
        file.write_bytes(content[: len(content) - 700])
    progress = []
    results = play_to_file(
        specs, seating, SHORT, 3, file, progress=lambda *counts: progress.append(counts)
    )
    assert (without_time(results) == without_time(whole.results)).all()
    kept = 16 if is_torn else 32
    assert kept < progress[0][0] <= kept + 16 and progress[-1] == (48, 48)
    records = list(read_records(file))
    assert [record["about"]["game"] for record in records] == list(range(48))
    before = file.read_bytes()
    again = play_to_file(specs, seating, SHORT, 3, file, progress=interrupt_after(0))
    assert (again == results).all() and file.read_bytes() == before


def test_a_longer_match_adds_its_games_to_the_file(tmp_path):
    file = tmp_path / "games.jsonl"
    specs = ["greedy", "racer"]
    few = play_to_file(specs, one_against_rest(SHORT, 22), SHORT, 0, file)
    many = play_to_file(specs, one_against_rest(SHORT, 40), SHORT, 0, file)
    # The seconds tell that only those of a broken chunk were played again.
    assert (many[:16] == few[:16]).all() and (many[16:22] != few[16:]).all()
    assert (without_time(many[:22]) == without_time(few)).all()
    assert sorted(one["about"]["game"] for one in read_records(file)) == list(range(40))
    with pytest.raises(SplendorError, match="has game 22, and this match only games 0 to 21"):
        play_to_file(specs, one_against_rest(SHORT, 22), SHORT, 0, file)


def turns_by_game(file):
    return {record["about"]["game"]: record["turns"] for record in read_records(file)}


@pytest.mark.parametrize("jobs", [1, 2])
def test_agents_with_random_numbers_play_on_as_if_never_interrupted(tmp_path, jobs):
    rules = standard(2, max_rounds=4)
    specs = ["random", "random"]
    seating = one_against_rest(rules, 80)
    whole, parts = tmp_path / "whole.jsonl", tmp_path / "parts.jsonl"
    play_to_file(specs, seating, rules, 3, whole)
    # Shorter at first; then interrupted; then torn within the records of a chunk; then to its end.
    play_to_file(specs, one_against_rest(rules, 6), rules, 3, parts, jobs=jobs)
    with pytest.raises(Interrupted):
        play_to_file(specs, seating, rules, 3, parts, jobs=jobs, progress=interrupt_after(33))
    lines = parts.read_bytes().splitlines(keepends=True)
    assert len(lines) >= 16
    parts.write_bytes(b"".join(lines[:-3]) + lines[-3][:50])
    results = play_to_file(specs, seating, rules, 3, parts, jobs=jobs)
    assert turns_by_game(parts) == turns_by_game(whole)
    verified = results_of(read_records(parts), ["random"])
    order = [record["about"]["game"] for record in read_records(parts)]
    assert (results["points"][order] == verified["points"]).all()


def write_module(folder, name):
    text = "from splendor_env.agents import make_agent as make\n"
    text += f"def make_agent(argument, seed):\n    return make({name!r}, seed)\n"
    Path(folder, "mine", "agent.py").write_text(text)


@pytest.fixture
def own_module(tmp_path, monkeypatch):
    Path(tmp_path, "mine").mkdir()
    Path(tmp_path, "mine", "__init__.py").touch()
    write_module(tmp_path, "greedy")
    monkeypatch.syspath_prepend(tmp_path)
    yield "mine.agent:x"
    for name in ("mine", "mine.agent"):
        sys.modules.pop(name, None)


def test_games_of_an_agent_as_it_was_before_are_refused(tmp_path, own_module):
    file = tmp_path / "games.jsonl"
    specs, seating = ["racer", own_module], one_against_rest(SHORT, 4)
    play_to_file(specs, seating, SHORT, 1, file)
    before = fingerprint(own_module)
    records = list(read_records(file))
    assert records[0]["about"]["agents"] == [fingerprint("racer"), before]
    assert records[1]["about"]["agents"] == [before, fingerprint("racer")]
    play_to_file(specs, seating, SHORT, 1, file, progress=interrupt_after(0))

    write_module(tmp_path, "random")
    content = file.read_bytes()
    now = fingerprint(own_module)
    message = (
        f"games.jsonl has games of another '{own_module}': seat 1 of game 0 was made from "
        f"'{before}', now it is '{now}'; choose another file"
    )
    with pytest.raises(SplendorError, match=message):
        play_to_file(specs, one_against_rest(SHORT, 40), SHORT, 1, file)
    assert file.read_bytes() == content
    write_module(tmp_path, "greedy")
    play_to_file(specs, one_against_rest(SHORT, 40), SHORT, 1, file)

    del records[0]["about"]["agents"]
    write_records(file, records[:1])
    with pytest.raises(SplendorError, match="was made from 'unknown', now it is"):
        play_to_file(specs, seating, SHORT, 1, file)


def test_an_agent_that_is_changed_while_it_plays_ends_the_match(tmp_path, own_module):
    file = tmp_path / "games.jsonl"

    def change(done, total):
        if done > 16:
            write_module(tmp_path, "random")

    seating = one_against_rest(SHORT, 48)
    with pytest.raises(SplendorError, match=f"'{own_module}' was changed while it played"):
        play_to_file(["racer", own_module], seating, SHORT, 1, file, progress=change)
    assert len(list(read_records(file))) == 16


def test_a_file_of_another_match_is_refused(tmp_path):
    file = tmp_path / "games.jsonl"
    specs = ["greedy", "racer"]
    seating = one_against_rest(SHORT, 4)
    play_to_file(specs, seating, SHORT, 1, file)
    before = file.read_bytes()
    torn = before + b'{"record":'
    file.write_bytes(torn)
    others = [
        (["greedy", "builder"], seating, SHORT, 1, "seats of game 0 is"),
        (specs, Seating(1 - seating.seats, seating.deal), SHORT, 1, "seats of game 0 is"),
        (specs, Seating(seating.seats, seating.deal + 1), SHORT, 1, "deal of game 0 is 0, in this"),
        (specs, seating, standard(2), 1, "rules of game 0 is"),
        (specs, seating, SHORT, 2, "seed of game 0 is 1, in this match 2"),
    ]
    for *match, message in others:
        with pytest.raises(SplendorError, match=f"another match: {message}"):
            play_to_file(*match, file)
    assert file.read_bytes() == torn
    file.write_bytes(before + before)
    with pytest.raises(SplendorError, match="has game 0 twice"):
        play_to_file(specs, seating, SHORT, 1, file)


def test_a_record_that_is_not_of_the_arena_is_refused(tmp_path):
    file = tmp_path / "games.jsonl"
    seating = one_against_rest(SHORT, 2)
    play_to_file(["greedy", "racer"], seating, SHORT, 1, file)
    records = list(read_records(file))
    for about in (
        {},
        records[0]["about"] | {"game": "0"},
        records[0]["about"] | {"game": -1},
        records[0]["about"] | {"deal": 2**63},
        records[0]["about"] | {"decisions": [1, 2, 3]},
        records[0]["about"] | {"decisions": [1, 2**40]},
        records[0]["about"] | {"seconds": ["1", "2"]},
    ):
        write_records(file, [records[0] | {"about": about}])
        with pytest.raises(SplendorError, match="not a record of the arena: about is"):
            play_to_file(["greedy", "racer"], seating, SHORT, 1, file)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("notes.txt", b"A line.\nAnother, without an end", "notes.txt, line 1"),
        ("notes.txt", b"One line without an end", "notes.txt has no whole record"),
        ("x.jsonl.gz", b"One line without an end", "x.jsonl.gz, line 1"),
        ("x.jsonl.gz", b"\x1f\x8b", "x.jsonl.gz has no whole record"),
    ],
)
def test_a_file_without_records_is_refused_and_left_as_it_is(tmp_path, name, content, message):
    file = tmp_path / name
    file.write_bytes(content)
    with pytest.raises(SplendorError, match=message):
        play_to_file(["greedy", "racer"], one_against_rest(SHORT, 2), SHORT, 1, file)
    assert file.read_bytes() == content


def test_a_record_that_does_not_verify_stops_the_match_with_its_place(tmp_path):
    file = tmp_path / "games.jsonl"
    seating = one_against_rest(SHORT, 4)
    play_to_file(["greedy", "racer"], seating, SHORT, 1, file)
    records = list(read_records(file))
    records[2]["result"]["rounds"] += 1
    write_records(file, records)
    number = records[2]["about"]["game"]
    with pytest.raises(SplendorError, match=rf"games.jsonl, game {number}: result.rounds: \d+ rec"):
        play_to_file(["greedy", "racer"], seating, SHORT, 1, file)


@pytest.mark.parametrize("rules", [SHORT, standard(3, max_rounds=8), standard(4, target_points=3)])
def test_the_table_of_results_follows_from_the_records(tmp_path, rules: Rules):
    file = tmp_path / "games.jsonl.gz"
    specs = ["greedy", "builder", f"{AGENTS}:fainting", "racer", f"{AGENTS}:cheat"]
    seating = mixed_tables(5, rules, 24, seed=6)
    results = play_to_file(specs, seating, rules, 6, file)
    records = list(read_records(file))
    recomputed = results_of(records, specs)
    assert (recomputed == results).all()
    assert results["has_failed"].any() and (results["offender"] >= 0).sum() > 5
    reversed_specs = results_of(records, specs[::-1])["agents"]
    seated = results["agents"] >= 0
    assert (reversed_specs[seated] == 4 - results["agents"][seated]).all()
    assert results_of([], specs).shape == (0,)

    with pytest.raises(SplendorError, match="specs must differ"):
        results_of(records, ["greedy", "greedy"])
    with pytest.raises(SplendorError, match=r"a record has agent .*, not one of greedy"):
        results_of(records, ["greedy"])


def test_a_table_of_results_is_not_made_from_a_falsified_record(tmp_path):
    file = tmp_path / "games.jsonl"
    play_to_file(["greedy", "racer"], one_against_rest(SHORT, 2), SHORT, 1, file)
    record = json.loads(file.read_text().splitlines()[0])
    record["result"]["points"][0] += 1
    with pytest.raises(SplendorError, match=r"result\.points"):
        results_of([record], ["greedy", "racer"])
