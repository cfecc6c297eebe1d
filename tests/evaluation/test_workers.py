import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from splendor_env.agents import make_agent
from splendor_env.core.random import CHOICE_STREAM, hash_seed
from splendor_env.core.state import EndReason, SplendorError, standard
from splendor_env.evaluation.arena import mixed_tables, one_against_rest, play_games
from splendor_env.evaluation.workers import chunk_of, play_specs_games
from tests.evaluation.agents import without_time

CHECKOUT = Path(__file__).parents[2]
AGENTS = "tests.evaluation.agents"
SHORT = standard(2, target_points=4)


def assert_same_games(first, second):
    assert (without_time(first.results) == without_time(second.results)).all()
    assert (first.deals == second.deals).all()
    assert len(first.actions) == len(second.actions)
    assert all(map(np.array_equal, first.actions, second.actions))
    assert first.notes == second.notes


def test_chunks_begin_at_multiples_of_their_sizes_which_rise_with_the_deals_before():
    chunks = chunk_of(np.arange(5000))
    first, sizes = np.unique(chunks[:4096], return_counts=True)
    assert sizes.tolist() == [8] * 16 + [16] * 8 + [32] * 8 + [64] * 8 + [128] * 8 + [256] * 8
    assert (first % sizes == 0).all()
    assert (np.diff(chunks) >= 0).all() and (chunks <= np.arange(5000)).all()
    assert chunk_of(np.array([2**62 + 300, 2**63 - 1])).tolist() == [2**62 + 256, 2**63 - 256]


def test_the_games_are_the_same_in_several_processes():
    rules = standard(3, target_points=6)
    seating = mixed_tables(3, rules, 60, seed=8)
    specs = ["greedy", "racer", f"{AGENTS}:fainting"]
    progress = []
    alone = play_specs_games(specs, seating, rules, 8)
    together = play_specs_games(
        specs, seating, rules, 8, jobs=2, progress=lambda *counts: progress.append(counts)
    )
    assert_same_games(alone, together)
    assert progress == sorted(progress) and progress[-1] == (60, 60)
    assert_same_games(play_games([make_agent(spec) for spec in specs], seating, rules, 8), alone)
    assert len(alone.notes) == 60


def test_agents_with_random_numbers_play_the_same_in_any_number_of_processes():
    rules = standard(2, max_rounds=4)
    seating = one_against_rest(rules, 40)
    games = [play_specs_games(["random"] * 2, seating, rules, 5, jobs=jobs) for jobs in (1, 2, 3)]
    assert_same_games(games[0], games[1])
    assert_same_games(games[0], games[2])
    # Each chunk has agents of its own: with the same numbers all three would open alike.
    first_moves = [actions[:2].tolist() for actions in games[0].actions]
    assert first_moves[:8] != first_moves[16:24] != first_moves[32:]
    assert play_specs_games(["random"] * 2, seating, rules, 6).actions[0].tolist() != (
        games[0].actions[0].tolist()
    )


def test_a_chunk_does_not_depend_on_the_chunks_after_it():
    rules = standard(2, max_rounds=4)
    few, many = (
        play_specs_games(["random"] * 2, one_against_rest(rules, number), rules, 5)
        for number in (32, 50)
    )
    assert all(map(np.array_equal, few.actions, many.actions[:32]))


def test_agents_do_not_know_the_seed_of_the_match(tmp_path):
    rules = standard(2, max_rounds=1)
    for seed in (3, 4):
        specs = [f"{AGENTS}:seeded {tmp_path / str(seed)}", "greedy"]
        play_specs_games(specs, one_against_rest(rules, 34), rules, seed)
    seeds = [[int(line) for line in (tmp_path / str(seed)).open()] for seed in (3, 4)]
    assert [len(one) for one in seeds] == [3, 3]
    assert len({*seeds[0], *seeds[1]}) == 6
    # 32 bits of a hash that can be inverted narrow a seed down: they are not taken from it.
    hashes = {
        int(hash_seed(seed, CHOICE_STREAM, chunk))
        for seed in map(np.uint64, (3, 4))
        for chunk in (0, 8, 16)
    }
    plain = {int(hash_seed(np.uint64(one), CHOICE_STREAM, 0)) >> 32 for one in hashes}
    assert not plain & {*seeds[0], *seeds[1]}


def test_an_engine_plays_on_from_chunk_to_chunk(tmp_path):
    engine = tmp_path / "engine.py"
    script = (CHECKOUT / "examples" / "external_engine.py").read_text()
    starts = tmp_path / "starts"
    engine.write_text(f"open({str(starts)!r}, 'a').write('x')\n{script}")
    specs = ["greedy", f"external:start=60 {sys.executable} {engine}"]
    rules = standard(2, max_rounds=2)
    results = play_specs_games(specs, one_against_rest(rules, 40), rules, 1).results
    assert (results["offender"] == -1).all()
    assert starts.read_text() == "x"


def test_searches_and_engines_play_in_processes():
    engine = CHECKOUT / "examples" / "external_engine.py"
    specs = ["mcts:sims=4", f"external:start=60 {sys.executable} {engine}"]
    rules = standard(2, max_rounds=3)
    results = play_specs_games(specs, one_against_rest(rules, 18), rules, 1, jobs=2).results
    assert (results["end_reason"] == EndReason.ROUND_LIMIT).all()
    assert (results["offender"] == -1).all() and (results["decisions"][:, :2] >= 3).all()


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_error_is_the_same_from_within_a_process(jobs):
    seating = one_against_rest(SHORT, 20)
    for spec, message in (
        ("nobody", "unknown agent 'nobody'; agents are random, greedy"),
        (f"{AGENTS}:refusing", "^no, not 'me'$"),
    ):
        with pytest.raises(SplendorError, match=message):
            play_specs_games(["greedy", spec], seating, SHORT, jobs=jobs)


def test_an_exception_in_an_agent_keeps_its_traceback_through_a_process():
    seating = one_against_rest(SHORT, 20)
    with pytest.raises(SplendorError, match="agent 'broken'") as caught:
        play_specs_games([f"{AGENTS}:broken", "greedy"], seating, SHORT, jobs=2)
    cause = str(caught.value.__cause__)
    assert 'return {}["no such key"]' in cause and "KeyError: 'no such key'" in cause


def test_a_process_that_dies_is_an_error_with_its_exit_code():
    seating = one_against_rest(SHORT, 20)
    with pytest.raises(SplendorError, match="a process that plays games has ended with code 3"):
        play_specs_games(["greedy", f"{AGENTS}:dying"], seating, SHORT, jobs=2)


@pytest.mark.parametrize("jobs", [0, -1, 257, 1.5, True, "2"])
def test_jobs_are_1_to_256(jobs):
    with pytest.raises(SplendorError, match=f"jobs must be an integer 1 to 256, not {jobs!r}"):
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
