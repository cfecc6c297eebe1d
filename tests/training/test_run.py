import csv
import io
import json
import os
import signal
import subprocess
import sys
import threading
import warnings
from dataclasses import replace

import pytest

pytest.importorskip("safetensors.torch")
pytest.importorskip("matplotlib")

import torch
from rich.console import Console

from splendor_env.core.state import SplendorError, standard
from training import run as runs
from training.checkpoint import git_commit, library_versions
from training.config import RunConfig, dump_config
from training.networks import PolicyNetwork
from training.run import Metrics

pytestmark = pytest.mark.usefixtures("torch_as_before")


@pytest.fixture
def config(tmp_path):
    return RunConfig(run_name="test", runs_folder=str(tmp_path), layer_size=8, num_games=16)


@pytest.fixture
def network(config):
    torch.manual_seed(0)
    return PolicyNetwork(config.network_sizes()).eval()


def test_a_taken_name_gets_a_number(config, capsys):
    folders = [runs.make_run(config) for _ in range(3)]
    assert [folder.name for folder in folders] == ["test", "test-2", "test-3"]
    assert all(folder.is_dir() for folder in folders)
    assert capsys.readouterr().err.count("this run is") == 2


def test_a_folder_that_cannot_be_made_is_named(config, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(SplendorError, match="cannot make the run's folder"):
        runs.make_run(RunConfig(runs_folder=str(tmp_path / "file")))


def test_a_run_is_gone_on_with_by_the_same_fixed_settings_only(config, monkeypatch):
    monkeypatch.setattr(runs, "load_run_config", lambda run: before)
    before = config
    fixed = ("rules", "layer_size")
    assert runs.check_run(config, fixed) == config.run_folder
    before = RunConfig(layer_size=16, num_games=32)
    with pytest.raises(SplendorError, match="layer_size = 16: cannot resume with 8"):
        runs.check_run(config, fixed)
    assert runs.check_run(config, ("rules",)) == config.run_folder
    before = RunConfig(algorithm="sb3_ppo", layer_size=8)
    with pytest.raises(SplendorError, match="algorithm = 'sb3_ppo': cannot resume with 'ppo'"):
        runs.check_run(config, fixed)


def test_what_is_no_run_is_not_gone_on_with(config):
    with pytest.raises(SplendorError, match="not the folder of a run"):
        runs.check_run(config, ())


def test_the_settings_are_written(config, tmp_path):
    runs.write_settings(tmp_path, config)
    assert (tmp_path / "config.toml").read_text() == dump_config(config)
    versions = json.loads((tmp_path / "versions.json").read_text())
    assert versions == library_versions() | {"git_commit": git_commit()}


def test_one_process_at_a_time_has_the_lock(tmp_path):
    pytest.importorskip("fcntl")
    hold = "import fcntl, sys; file = open(sys.argv[1], 'w'); fcntl.flock(file, fcntl.LOCK_EX); "
    other = subprocess.Popen(
        [sys.executable, "-c", f"{hold}print(flush=True); input()", str(tmp_path / ".lock")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with other:
        assert other.stdout is not None
        other.stdout.readline()
        with pytest.raises(SplendorError, match=f"another process trains in {tmp_path}"):
            runs.lock(tmp_path).__enter__()
        other.kill()
    for _ in range(2):
        with runs.lock(tmp_path), pytest.raises(SplendorError, match="another process"):
            runs.lock(tmp_path).__enter__()
    with pytest.raises(SplendorError, match="cannot write"):
        runs.lock(tmp_path / "nowhere").__enter__()


def test_a_run_is_finished_where_its_steps_are_done(config, capsys):
    run = runs.make_run(config)
    runs.write_settings(run, replace(config, total_steps=1000))
    before = (run / "config.toml").read_bytes()
    assert not runs.check_finished(run, 999, 1000)
    assert not runs.check_finished(run, 1024, 1025)
    assert capsys.readouterr().err == ""
    for step, total_steps in ((1000, 1000), (1024, 1000), (1024, 1024)):
        assert runs.check_finished(run, step, total_steps)
        message = f"{run} is finished at step {step:,}; --set total_steps=... goes on\n"
        assert capsys.readouterr().err == message
    with pytest.raises(SplendorError, match=r"has reached step 800: cannot stop at 500$"):
        runs.check_finished(run, 800, 500)
    assert not runs.check_finished(run, 800, 900)  # earlier than planned, but not yet there
    assert (run / "config.toml").read_bytes() == before


SIGNALS = [signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])]


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_says_what_it_does_and_an_ignored_one_stays_ignored(number, capsys):
    with runs.caught_signals() as caught:
        os.kill(os.getpid(), number)
        assert caught == [number]
    shown = capsys.readouterr().err
    assert shown == "stopping after this update; once more to stop at once\n"
    before = signal.signal(number, signal.SIG_IGN)
    try:
        with runs.caught_signals() as caught:
            os.kill(os.getpid(), number)
            assert caught == [] and signal.getsignal(number) == signal.SIG_IGN
        assert signal.getsignal(number) == signal.SIG_IGN
    finally:
        signal.signal(number, before)


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="needs SIGHUP")
def test_the_end_of_the_terminal_is_caught_though_it_comes_twice_and_nothing_can_be_printed(
    monkeypatch,
):
    class Terminal(io.StringIO):
        is_gone = False

        def write(self, text):
            if self.is_gone:
                raise OSError("Input/output error")
            return super().write(text)

    terminal = Terminal()
    monkeypatch.setattr(runs, "console", Console(file=terminal, force_terminal=True))
    before = signal.getsignal(signal.SIGHUP)
    with runs.caught_signals() as caught, runs.progress_bar(100, 0):
        terminal.is_gone = True
        os.kill(os.getpid(), signal.SIGHUP)
        os.kill(os.getpid(), signal.SIGHUP)
        assert caught == [signal.SIGHUP]
    assert signal.getsignal(signal.SIGHUP) == before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_caught_once(number):
    before = signal.getsignal(number)
    with runs.caught_signals() as caught:
        assert caught == []
        os.kill(os.getpid(), number)
        assert caught == [number]
        assert signal.getsignal(number) == before
    with runs.caught_signals() as caught:
        assert signal.getsignal(number) != before
    assert signal.getsignal(number) == before


def test_beside_the_main_thread_signals_are_left_alone():
    seen = []

    def work():
        with runs.caught_signals() as caught:
            seen.append((caught, signal.getsignal(signal.SIGTERM)))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [([], signal.getsignal(signal.SIGTERM))]


def test_a_stopped_run_says_how_to_go_on(tmp_path, capsys):
    with pytest.raises(SystemExit) as exit_:
        runs.exit_stopped(tmp_path / "my run", 12_345, signal.SIGTERM)
    assert exit_.value.code == 128 + signal.SIGTERM
    assert f"step 12,345; go on with: splendor train '{tmp_path}/my run'" in capsys.readouterr().err


def test_the_progress_bar_shows_steps_and_status(capsys, monkeypatch):
    monkeypatch.setattr(runs, "console", Console(stderr=True, width=200))
    with runs.progress_bar(4000, 1000) as progress:
        progress.update(progress.task_ids[0], completed=2000, status="all [well]")
    assert "2,000/4,000" in (line := capsys.readouterr().err.splitlines()[-1])
    assert line.rstrip().endswith("all [well]")


def test_the_newest_file_to_resume_from_is_found(tmp_path):
    for name in ("resume-000000000512.pt", "resume-000000000256.pt", "resume-old.pt", "x.pt"):
        (tmp_path / name).touch()
    step, path = runs.last_resume_file(tmp_path, ".pt")
    assert (step, path.name) == (512, "resume-000000000512.pt")
    assert len(runs.resume_files(tmp_path, ".pt")) == 2
    with pytest.raises(SplendorError, match="no checkpoint to resume from"):
        runs.last_resume_file(tmp_path, ".safetensors")


def test_an_unreadable_file_is_named(tmp_path):
    with pytest.raises(SplendorError, match=f"cannot read {tmp_path}"):
        runs.read(tmp_path)


@pytest.mark.parametrize("num_players", [2, 3])
def test_an_evaluation_meets_random_and_greedy(network, num_players):
    shares = runs.evaluate(network, standard(num_players), 6, seed=1)
    assert list(shares) == ["random", "greedy"]
    assert all(0 <= share <= 1 for share in shares.values())


def test_an_evaluation_is_told_in_a_line_and_found_again_in_a_row():
    evaluation = {"random": 0.25, "greedy_2p": 1.0}
    assert runs.as_text(evaluation) == "random 25.0%  greedy_2p 100.0%"
    row = {"step": 1, "win_share_random": 0.25, "loss": 3.0, "win_share_greedy_2p": 1.0}
    assert runs.shares(row) == evaluation


def read_csv(run):
    with (run / "metrics.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_metrics_are_kept_and_drawn(tmp_path):
    metrics = Metrics(tmp_path)
    assert metrics.rows == []
    metrics.append({"step": 512, "minutes": 0.0, "win_share_random": 0.5})
    metrics.append({"step": 1024, "minutes": 0.4, "win_share_random": 0.75, "win_share_past": 0.5})
    assert [row["win_share_past"] for row in read_csv(tmp_path)] == ["", "0.5"]
    assert (tmp_path / "learning_curve.png").read_bytes().startswith(b"\x89PNG")
    again = Metrics(tmp_path)
    assert again.rows == metrics.rows
    assert isinstance(again.rows[0]["step"], int)
    again.keep_until(1023)
    again.append({"step": 768, "minutes": 3.0})
    assert [row["step"] for row in read_csv(tmp_path)] == ["512", "768"]


def test_the_learning_curve_has_a_line_for_each_opponent_and_the_minutes_on_top(
    tmp_path, monkeypatch
):
    from matplotlib.figure import Figure

    figures = []
    init = Figure.__init__

    def spy(self, *args, **kwargs):
        init(self, *args, **kwargs)
        figures.append(self)

    monkeypatch.setattr(Figure, "__init__", spy)
    rows = [
        {"step": 10**6, "minutes": 1.0, "win_share_random_2p": 0.5},
        {"step": 2 * 10**6, "minutes": 5.0, "win_share_random_2p": 0.7, "win_share_greedy_2p": 0.1},
    ]
    runs.draw_learning_curve(tmp_path, rows)
    [axes] = figures[0].axes
    assert [line.get_label() for line in axes.lines] == ["against random_2p", "against greedy_2p"]
    assert [line.get_xydata().tolist() for line in axes.lines] == [[[1, 0.5], [2, 0.7]], [[2, 0.1]]]
    assert axes.get_title() == tmp_path.name
    [top] = axes.child_axes
    ticks = {
        label.get_text(): x
        for label, x in zip(top.get_xticklabels(), top.get_xticks(), strict=True)
    }
    assert (ticks["0"], ticks["1"], ticks["3"], ticks["5"]) == (0, 1, 1.5, 2)
    runs.draw_learning_curve(tmp_path, [{"step": 5, "minutes": 0.0}])  # nothing to draw yet


def test_the_learning_curve_has_a_dotted_line_at_each_share_of_chance(tmp_path, monkeypatch):
    figures = []
    write_figure = runs.write_figure

    def spy(figure, path):
        figures.append(figure)
        write_figure(figure, path)

    monkeypatch.setattr(runs, "write_figure", spy)
    metrics = Metrics(tmp_path, [1 / 2, 1 / 3])
    metrics.append({"step": 512, "minutes": 1.0, "win_share_random": 0.75})
    [axes] = figures[0].axes
    curve, *chance = axes.lines
    assert curve.get_label() == "against random" and curve.get_linestyle() == "-"
    assert [list(line.get_ydata()) for line in chance] == [[1 / 2] * 2, [1 / 3] * 2]
    assert all(line.get_linestyle() == ":" and line.get_linewidth() < 1 for line in chance)
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["against random"]


def test_rows_after_a_checkpoint_are_dropped_from_the_file_at_once(tmp_path):
    metrics = Metrics(tmp_path)
    for step in (512, 1024):
        metrics.append({"step": step, "minutes": 1.0})
    metrics.keep_until(1024)
    assert [row["step"] for row in read_csv(tmp_path)] == ["512", "1024"]
    metrics.keep_until(1023)
    assert [row["step"] for row in read_csv(tmp_path)] == ["512"]
    metrics.keep_until(0)
    assert read_csv(tmp_path) == [] and Metrics(tmp_path).rows == []


def test_a_picture_that_cannot_be_drawn_is_told_once_and_stops_nothing(tmp_path, monkeypatch):
    def full(figure, path):
        raise OSError("No space left on device")

    monkeypatch.setattr(runs, "write_figure", full)
    monkeypatch.setattr(runs, "_told", set())
    metrics = Metrics(tmp_path)
    with pytest.warns(UserWarning, match="drawing failed.*No space left") as warned:
        for step in (512, 1024):
            metrics.append({"step": step, "minutes": 1.0})
    assert len(warned) == 1 and len(read_csv(tmp_path)) == 2


def test_other_errors_and_other_things_are_told_apart():
    told = set()
    with pytest.raises(ValueError, match="bug"), runs.tell_once("drawing", told=told):
        raise ValueError("bug")
    with pytest.raises(KeyboardInterrupt), runs.tell_once("drawing", Exception, told):
        raise KeyboardInterrupt
    for what in ("drawing", "sending"):
        with (
            pytest.warns(UserWarning, match=f"{what} failed.*: bug"),
            runs.tell_once(what, Exception, told),
        ):
            raise ValueError("bug")
    with warnings.catch_warnings(), runs.tell_once("sending", told=told):
        warnings.simplefilter("error")
        raise OSError("again")


@pytest.mark.parametrize(
    "content",
    [
        b"step,minutes\nabc,1\n",
        b"step,minutes\n,1\n",
        b"step,minutes\nnan,1\n",
        b"step,minutes\ninf,1\n",
        b"step,minutes\n256,1,2\n",
        b"step\n256\n",
        b"\xff\n",
    ],
)
def test_broken_metrics_are_named(tmp_path, content):
    (tmp_path / "metrics.csv").write_bytes(content)
    with pytest.raises(SplendorError, match=r"metrics\.csv is broken"):
        Metrics(tmp_path)


def test_metrics_that_cannot_be_read_are_named(tmp_path):
    (tmp_path / "metrics.csv").mkdir()
    with pytest.raises(SplendorError, match=r"cannot read .*metrics\.csv"):
        Metrics(tmp_path)
