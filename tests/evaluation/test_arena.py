import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from splendor_env import Game
from splendor_env.agents import make_agent
from splendor_env.core.batch import deal_games
from splendor_env.core.state import GAME, EndReason, Rules, SplendorError, standard
from splendor_env.evaluation.arena import (
    GAME_RESULT,
    Seating,
    mixed_tables,
    one_against_rest,
    play_games,
    play_specs_games,
    play_to_file,
    results_of,
)
from splendor_env.record import read_records, write_records
from tests.evaluation.agents import Cheat, Fainting, FirstLegal

CHECKOUT = Path(__file__).parents[2]
AGENTS = "tests.evaluation.agents"
SHORT = standard(2, target_points=4)


def without_time(results):
    results = results.copy()
    results["seconds"] = 0
    return results


def assert_same_games(first, second):
    assert (without_time(first.results) == without_time(second.results)).all()
    assert (first.deals == second.deals).all()
    assert len(first.actions) == len(second.actions)
    assert all((a == b).all() for a, b in zip(first.actions, second.actions, strict=True))
    assert first.notes == second.notes


# Seatings.


def test_one_against_rest_seats_agent_0_once_in_every_seat_of_each_deal():
    seating = one_against_rest(standard(3), 5)
    assert seating.seats.tolist() == [[0, 1, 1], [1, 0, 1], [1, 1, 0]] * 2
    assert seating.deal.tolist() == [0, 0, 0, 1, 1, 1]


def test_mixed_tables_have_different_agents_in_all_rotations_and_equal_counts():
    rules = standard(3)
    seats, deal = mixed_tables(5, rules, 3 * 101, seed=4)
    assert seats.shape == (303, 3) and deal.tolist() == np.repeat(np.arange(101), 3).tolist()
    for table in seats.reshape(-1, 3, 3).tolist():
        assert len(set(table[0])) == 3
        assert [sorted(column) for column in zip(*table, strict=True)] == [sorted(table[0])] * 3
        assert len({tuple(row) for row in table}) == 3
    by_seat = [np.bincount(seats[:, seat], minlength=5) for seat in range(3)]
    assert (by_seat[0] == by_seat[1]).all() and (by_seat[0] == by_seat[2]).all()
    assert by_seat[0].max() - by_seat[0].min() == 1 and by_seat[0].sum() == 303


def test_mixed_tables_let_all_agents_meet_and_begin_alike_whatever_their_number():
    seats, _ = mixed_tables(6, standard(4), 4 * 300, seed=0)
    tables = seats[::4]
    pairs = np.zeros((6, 6), int)
    for table in tables:
        pairs[np.ix_(table, table)] += 1
    meetings = pairs[~np.eye(6, dtype=bool)]
    # 300 tables of 6 pairs, 15 pairs: 120 meetings each.
    assert 90 < meetings.min() and meetings.max() < 150
    assert (mixed_tables(6, standard(4), 40, seed=0).seats == seats[:40]).all()
    assert (mixed_tables(6, standard(4), 40, seed=1).seats != seats[:40]).any()


def test_a_mixed_table_needs_as_many_agents_as_seats():
    with pytest.raises(SplendorError, match="a mixed table of 4 needs as many different agents, n"):
        mixed_tables(3, standard(4), 8, 0)


@pytest.mark.parametrize(
    ("seats", "deal", "message"),
    [
        (np.zeros((0, 2), int), np.zeros(0, int), "must have 1 to 1000000 games, not 0"),
        ([[0, 1, 1]], [0], r"must be \(G, 2\) integers"),
        ([[0, 1], [1, 0]], [0], r"must be \(G, 2\) integers"),
        ([[0.0, 1.0]], [0], r"must be \(G, 2\) integers"),
        ([[0, 2]], [0], "seats must hold 0 to 1"),
        ([[0, -1]], [0], "seats must hold 0 to 1"),
        ([[0, 1]], [-1], "deals count from 0"),
    ],
)
def test_a_seating_that_is_none_is_refused(seats, deal, message):
    with pytest.raises(SplendorError, match=message):
        play_games([FirstLegal(), FirstLegal()], Seating(seats, deal), standard(2))


# Games.


def test_all_games_that_wait_for_an_agent_are_answered_in_one_call():
    rules = standard(3, max_rounds=2)
    agents = [FirstLegal() for _ in range(4)]
    seating = mixed_tables(4, rules, 60, seed=1)
    play_games(agents, seating, rules, seed=1)
    waiting_for = seating.seats[:, 0].copy()
    num_moved = np.zeros(len(waiting_for), int)
    for agent in range(4):
        games, game_id = agents[agent].asked[0]
        assert sorted(game_id // 3) == np.flatnonzero(waiting_for == agent).tolist()
        # None of them has a second decision in the first round: its turn is over.
        moved = game_id // 3
        num_moved[moved] += 1
        waiting_for[moved] = seating.seats[moved, num_moved[moved] % 3]
        assert (games["player"] == game_id % 3).all()
    assert max(len(agent.asked) for agent in agents) <= 2 * 3


@pytest.mark.parametrize("num_players", [2, 3, 4])
def test_an_agent_is_asked_for_its_own_seats_only_and_its_answers_are_played_there(num_players):
    rules = standard(num_players, target_points=3)
    agents = [FirstLegal() for _ in range(num_players + 1)]
    seating = mixed_tables(len(agents), rules, 6 * num_players, seed=3)
    games = play_games(agents, seating, rules, seed=3)
    for index, agent in enumerate(agents):
        game, seat = agent.game_id // num_players, agent.game_id % num_players
        assert (agent.games["player"] == seat).all()
        assert (seating.seats[game, seat] == index).all()
        is_his = games.results["agents"] == index
        assert games.results["decisions"][is_his].sum() == len(game)


def test_every_result_follows_from_deal_and_actions():
    rules = standard(3, target_points=6)
    agents = [make_agent(name) for name in ("greedy", "builder", "racer")]
    seating = mixed_tables(3, rules, 12, seed=2)
    games = play_games(agents, seating, rules, seed=2)
    for index, (result, actions) in enumerate(zip(games.results, games.actions, strict=True)):
        assert actions.dtype == np.int8
        game = Game(rules, seed=0)
        game.games[:] = games.deals[index]
        decisions = [0] * 4
        for action in actions.tolist():
            decisions[game.player] += 1
            game.push(action)
        assert game.is_over
        nobles = [np.sum(game.games["noble_owner"] == seat) for seat in range(4)]
        expected = np.zeros((), GAME_RESULT)
        expected["deal"] = index // 3
        expected["agents"] = [*seating.seats[index], -1]
        expected["share"][game.winners] = 1 / len(game.winners)
        expected["points"][:3] = game.points
        expected["num_cards"] = game.games["num_cards"][0]
        expected["nobles"] = nobles
        expected["rounds"], expected["end_reason"] = game.rounds, EndReason.TARGET
        expected["offender"], expected["decisions"] = -1, decisions
        assert without_time(result) == expected


def test_a_deal_depends_on_the_seed_and_its_number_alone():
    rules = standard(2, max_rounds=1)
    deals = np.zeros(30, GAME)
    deal_games(deals, rules, np.uint64(7))
    seating = Seating(np.array([[0, 1], [1, 1], [1, 0]]), np.array([29, 3, 29]))
    games = play_games([FirstLegal(), FirstLegal()], seating, rules, seed=7)
    assert (games.deals == deals[[29, 3, 29]]).all()
    assert games.results["deal"].tolist() == [29, 3, 29]


@pytest.mark.parametrize("name", ["greedy", "pretrained"])
def test_equal_agents_at_mixed_tables_score_exactly_one_nth_each(name):
    if name == "pretrained":
        pytest.importorskip("onnxruntime")
    rules = standard(3)
    seating = mixed_tables(3, rules, 30, seed=5)
    results = play_games([make_agent(name) for _ in range(3)], seating, rules, seed=5).results
    shares = np.rint(12 * results["share"]).astype(int)
    for agent in range(3):
        assert shares[results["agents"] == agent].sum() == 12 * 10


def test_shares_of_truncated_and_forfeited_games():
    rules = standard(3, max_rounds=3)
    seating = one_against_rest(rules, 3)
    truncated = play_games([FirstLegal(), FirstLegal()], seating, rules).results
    assert truncated["share"].tolist() == [[1 / 3, 1 / 3, 1 / 3, 0]] * 3
    assert (truncated["end_reason"] == EndReason.ROUND_LIMIT).all()

    games = play_games([Cheat(77), FirstLegal()], seating, rules)
    assert games.results["share"].tolist() == [[0, 0.5, 0.5, 0], [0.5, 0, 0.5, 0], [0.5, 0.5, 0, 0]]
    assert games.results["offender"].tolist() == [0, 1, 2]
    assert games.results["end_reason"].tolist() == [EndReason.RUNNING] * 3
    assert not games.results["has_failed"].any()
    assert list(games.notes) == [0, 1, 2]
    assert games.notes[0].startswith("illegal action 77 ('pass'); legal: take")
    # The illegal decision was asked for but is not among the actions.
    assert [len(one) for one in games.actions] == [6, 7, 8]
    assert games.results["decisions"].sum(1).tolist() == [7, 8, 9]

    games = play_games([Fainting(), FirstLegal()], one_against_rest(standard(2), 3), standard(2))
    assert games.results["has_failed"].tolist() == [True, False, True, False]
    assert games.notes[2] == "fell asleep" and "illegal action -1" in games.notes[3]


def test_the_time_of_a_call_is_split_evenly_among_its_games(tmp_path):
    rules = standard(2, max_rounds=2)
    slow = make_agent(f"{AGENTS}:slow 0.05 {tmp_path}")
    results = play_games([slow, FirstLegal()], one_against_rest(rules, 4), rules).results
    is_slow = results["agents"] == 0
    # Both seats come up in one call or two, each for two to four games.
    seconds = results["seconds"][is_slow]
    assert 0.05 * len(slow.asked) <= seconds.sum() < 0.1 * len(slow.asked)
    assert seconds.max() < 0.1 * 2 and seconds.min() > 0.05 * 2 / 4
    assert results["seconds"][~is_slow].sum() < 0.05


# Processes.


def test_the_games_are_the_same_in_several_processes():
    rules = standard(3, target_points=6)
    seating = mixed_tables(3, rules, 30, seed=8)
    specs = ["greedy", "racer", f"{AGENTS}:fainting"]
    progress = []
    alone = play_specs_games(specs, seating, rules, 8)
    together = play_specs_games(
        specs, seating, rules, 8, jobs=2, progress=lambda *counts: progress.append(counts)
    )
    assert_same_games(alone, together)
    assert progress == sorted(progress) and progress[-1] == (30, 30)
    assert_same_games(play_games([make_agent(spec) for spec in specs], seating, rules, 8), alone)
    assert len(alone.notes) == 30


def test_equal_seeds_and_jobs_give_equal_games_to_agents_with_random_numbers_too():
    rules = standard(2, max_rounds=4)
    seating = one_against_rest(rules, 40)
    games = [play_specs_games(["random"] * 2, seating, rules, 5, jobs=2) for _ in range(2)]
    assert_same_games(*games)
    # Both processes with the same numbers would open alike in every second chunk.
    first_moves = np.array([actions[:2] for actions in games[0].actions])
    assert len(np.unique(first_moves, axis=0)) > 20


def test_searches_and_engines_play_in_processes():
    engine = CHECKOUT / "examples" / "external_engine.py"
    specs = ["mcts:sims=4", f"external:start=60 {sys.executable} {engine}"]
    rules = standard(2, max_rounds=3)
    results = play_specs_games(specs, one_against_rest(rules, 4), rules, 1, jobs=2).results
    assert (results["end_reason"] == EndReason.ROUND_LIMIT).all()
    assert (results["offender"] == -1).all() and (results["decisions"][:, :2] >= 3).all()


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_error_is_the_same_from_within_a_process(jobs):
    seating = one_against_rest(SHORT, 8)
    for spec, message in (
        ("nobody", "unknown agent 'nobody'; agents are random, greedy"),
        (f"{AGENTS}:refusing", "^no, not 'me'$"),
    ):
        with pytest.raises(SplendorError, match=message):
            play_specs_games(["greedy", spec], seating, SHORT, jobs=jobs)


def test_a_process_that_dies_is_an_error_with_its_exit_code():
    seating = one_against_rest(SHORT, 8)
    with pytest.raises(SplendorError, match="a process that plays games has ended with code 3"):
        play_specs_games(["greedy", f"{AGENTS}:dying"], seating, SHORT, jobs=2)


@pytest.mark.parametrize("jobs", [0, -1, 1.5, True, "2"])
def test_jobs_are_at_least_one(jobs):
    with pytest.raises(SplendorError, match="jobs must be an integer of at least 1, not"):
        play_specs_games(["greedy", "greedy"], one_against_rest(SHORT, 2), SHORT, jobs=jobs)


def is_running(process_id):
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{process_id}/stat")
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] != "Z"


def wait_until(condition, seconds=30):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "too late"
        time.sleep(0.02)


@pytest.mark.skipif(os.name != "posix", reason="signals")
@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGKILL])
def test_processes_end_with_their_parent(tmp_path, end):
    command = [sys.executable, "-m", "splendor_env.cli", "evaluate"]
    command += [f"{AGENTS}:slow 0.2 {tmp_path}", "--against", "random", "--jobs", "2"]
    process = subprocess.Popen(
        command,
        cwd=CHECKOUT,
        env=os.environ | {"PYTHONPATH": str(CHECKOUT)},
        start_new_session=True,
        stderr=subprocess.PIPE,
    )
    # The command itself makes the opponent only, to find mistakes in its spec early.
    wait_until(lambda: len(list(tmp_path.iterdir())) == 2)
    workers = [int(path.name) for path in tmp_path.iterdir()]
    assert process.pid not in workers and all(map(is_running, workers))
    if end == signal.SIGINT:
        os.killpg(process.pid, end)  # as a terminal does
        assert process.wait(30) == 130
        assert b"Traceback" not in process.stderr.read()
    else:
        process.kill()
        process.wait(30)
    wait_until(lambda: not any(map(is_running, workers)))
    process.stderr.close()


# Files.


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
    seating = one_against_rest(SHORT, 32)
    whole = play_specs_games(specs, seating, SHORT, 3)
    with pytest.raises(Interrupted):
        play_to_file(specs, seating, SHORT, 3, file, progress=interrupt_after(14))
    assert len(list(read_records(file))) == 12
    if is_torn:
        content = file.read_bytes()
        file.write_bytes(content[: len(content) - 700])
    progress = []
    results = play_to_file(
        specs, seating, SHORT, 3, file, progress=lambda *counts: progress.append(counts)
    )
    assert (without_time(results) == without_time(whole.results)).all()
    assert 0 < progress[0][0] <= 16 and progress[-1] == (32, 32)
    records = list(read_records(file))
    assert sorted(record["about"]["game"] for record in records) == list(range(32))
    before = file.read_bytes()
    again = play_to_file(specs, seating, SHORT, 3, file, progress=interrupt_after(0))
    assert (again == results).all() and file.read_bytes() == before


def test_a_longer_match_adds_its_games_to_the_file(tmp_path):
    file = tmp_path / "games.jsonl"
    specs = ["greedy", "racer"]
    few = play_to_file(specs, one_against_rest(SHORT, 6), SHORT, 0, file)
    many = play_to_file(specs, one_against_rest(SHORT, 10), SHORT, 0, file)
    assert (many[:6] == few).all() and len(list(read_records(file))) == 10
    with pytest.raises(SplendorError, match="has game 6, and this match only games 0 to 5"):
        play_to_file(specs, one_against_rest(SHORT, 6), SHORT, 0, file)


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
