import subprocess
import sys
from dataclasses import asdict, dataclass

import pytest

pytest.importorskip("optuna")
pytest.importorskip("torch")

from typer.testing import CliRunner

from splendor_env.core.state import SplendorError
from training.checkpoint import load_policy
from training.config import DivergedError, PPOConfig
from training.run import EVALUATION_SEED, Metrics, evaluate
from training.tune import SPACE, Range, app, settings_of, tune

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@dataclass
class FakeTrainer:
    """Evaluates by a given curve for each trial, and keeps the configs."""

    curve: object

    def __post_init__(self):
        self.configs = []

    def __call__(self, config, *, on_evaluation):
        self.configs.append(config)
        for index, share in enumerate(self.curve(len(self.configs) - 1, config)):
            on_evaluation((index + 1) * 1000, {"random": 1.0, "greedy": share})


@pytest.fixture
def config(tmp_path):
    return PPOConfig(runs_folder=str(tmp_path), run_name="search", rollout_steps=64)


@pytest.fixture
def study_file(tmp_path):
    return tmp_path / "first.db"


def states(study):
    return [trial.state.name for trial in study.trials]


def test_settings_are_sampled_in_their_ranges(config, study_file):
    train = FakeTrainer(lambda number, config: [0.5])
    tune(config, study_file, 8, train=train)
    for trained in train.configs:
        for key, space in SPACE.items():
            value = getattr(trained, key)
            if isinstance(space, Range):
                assert space.low <= value <= space.high
                assert value == float(f"{value:.3g}")
            else:
                assert value in space
        assert trained.seed == config.seed
        assert trained.total_steps == config.total_steps
    for key in SPACE:
        assert len({getattr(trained, key) for trained in train.configs}) > 1


def test_the_first_trial_has_the_own_settings_of_the_config(config, study_file):
    train = FakeTrainer(lambda number, config: [0.5])
    tune(config, study_file, 2, train=train)
    first, second = train.configs
    assert {key: getattr(first, key) for key in SPACE} == {
        key: getattr(config, key) for key in SPACE
    }
    assert second.learning_rate != first.learning_rate


def test_own_settings_outside_of_the_ranges_are_sampled(tmp_path, study_file):
    config = PPOConfig(runs_folder=str(tmp_path), learning_rate=0.5, batch_size=128, num_epochs=3)
    train = FakeTrainer(lambda number, config: [0.5])
    tune(config, study_file, 1, train=train)
    assert train.configs[0].learning_rate <= 3e-3
    assert train.configs[0].batch_size in SPACE["batch_size"]
    assert train.configs[0].num_epochs == 3


def test_a_trial_counts_by_its_last_share_against_greedy(config, study_file, tmp_path):
    curves = [[0.1, 0.3], [0.2, 0.7], [0.6, 0.5]]
    train = FakeTrainer(lambda number, config: curves[number])
    study = tune(config, study_file, 3, train=train)
    assert [trial.value for trial in study.trials] == [0.3, 0.7, 0.5]
    assert study.trials[1].intermediate_values == {1: 0.2, 2: 0.7}
    assert study.best_trial.number == 1
    best = settings_of(study.best_params)
    assert best == {key: getattr(train.configs[1], key) for key in SPACE}
    assert [trained.run_folder for trained in train.configs] == [
        tmp_path / "tune-first" / f"trial-{number:03d}" for number in range(3)
    ]


def test_numbers_of_players_count_alike(config, study_file):
    def train(config, *, on_evaluation):
        on_evaluation(
            1000, {"random_2p": 1.0, "greedy_2p": 0.5, "greedy_3p": 0.4, "greedy_4p": 0.3}
        )

    study = tune(config, study_file, 1, train=train)
    assert study.trials[0].value == pytest.approx(0.4)


def test_a_study_goes_on_where_it_was(config, study_file):
    train = FakeTrainer(lambda number, config: [0.5])
    tune(config, study_file, 3, train=train)
    study = tune(config, study_file, 3, train=train)
    assert len(study.trials) == 6
    assert [trained.run_name for trained in train.configs[3:]] == [
        f"trial-{number:03d}" for number in (3, 4, 5)
    ]
    rates = [trained.learning_rate for trained in train.configs]
    assert len(set(rates)) == 6  # not the same draws again


def test_the_same_seed_samples_the_same_settings(config, tmp_path):
    def rates(name, seed):
        train = FakeTrainer(lambda number, config: [0.5])
        tune(config, tmp_path / name, 3, train=train, seed=seed)
        return [trained.learning_rate for trained in train.configs]

    assert rates("a.db", 1) == rates("b.db", 1)
    assert rates("c.db", 2)[1:] != rates("a2.db", 1)[1:]


def test_a_trial_below_the_median_is_pruned(config, study_file):
    good, bad = [0.3, 0.5, 0.6], [0.1, 0.2, 0.3]
    reached = []

    def curve(number, config):
        for share in bad if number == 5 else good:
            reached.append((number, share))
            yield share

    study = tune(config, study_file, 7, train=FakeTrainer(curve))
    assert states(study) == ["COMPLETE"] * 5 + ["PRUNED", "COMPLETE"]
    # The first evaluation is too early to judge by.
    assert [share for number, share in reached if number == 5] == [0.1, 0.2]


def test_settings_that_cannot_train_are_pruned(config, study_file, capsys):
    def curve(number, config):
        if number == 1:
            raise DivergedError("the training diverged")
        return [0.5]

    study = tune(config, study_file, 3, train=FakeTrainer(curve))
    assert states(study) == ["COMPLETE", "PRUNED", "COMPLETE"]
    assert "trial 1: the training diverged" in capsys.readouterr().err


def test_settings_that_contradict_each_other_are_pruned(config, study_file, capsys):
    @dataclass(frozen=True)
    class Config(PPOConfig):
        def __post_init__(self):
            super().__post_init__()
            if self.run_name == "trial-001":
                raise SplendorError("batch_size must divide")

    train = FakeTrainer(lambda number, config: [0.5])
    study = tune(Config(**asdict(config)), study_file, 3, train=train)
    assert states(study) == ["COMPLETE", "PRUNED", "COMPLETE"]
    assert [one.run_name for one in train.configs] == ["trial-000", "trial-002"]
    assert "trial 1: batch_size must divide" in capsys.readouterr().err


@pytest.mark.parametrize("error", [SplendorError("cannot make the folder"), OSError("disk full")])
def test_what_is_no_fault_of_the_settings_stops_the_study(config, study_file, error):
    def curve(number, config):
        if number == 1:
            raise error
        return [0.5]

    train = FakeTrainer(curve)
    with pytest.raises(type(error), match=str(error)):
        tune(config, study_file, 3, train=train)
    assert len(train.configs) == 2
    assert states(tune(config, study_file, 1, train=train)) == ["COMPLETE", "FAIL", "COMPLETE"]


@pytest.mark.parametrize("max_minutes", [0.0, 1e-9])
def test_the_policy_behind_a_trials_value_is_in_its_folder(tmp_path, study_file, max_minutes):
    """Whether the trial came to its end or its time was up."""
    ppo = pytest.importorskip("training.ppo")
    config = ppo.Config(
        runs_folder=str(tmp_path),
        precision="float32",
        num_games=16,
        layer_size=8,
        card_size=4,
        total_steps=4_000,
        eval_every=1,
        eval_games=6,
        checkpoint_every=10**6,
        max_minutes=max_minutes,
    )
    study = tune(config, study_file, 1, train=ppo.train, seed=3)
    run = tmp_path / "tune-first" / "trial-000"
    network, about = load_policy(run)
    rows = Metrics(run).rows
    assert len(rows) == 1 if max_minutes else len(rows) > 1
    assert study.trials[0].value == rows[-1]["win_share_greedy"]
    assert about["step"] == rows[-1]["step"]
    seed = EVALUATION_SEED + about["step"]
    again = evaluate(network, config.rules_in_turn()[0], config.eval_games, seed)
    assert again["greedy"] == pytest.approx(study.trials[0].value, abs=1e-5)


def test_a_trial_without_evaluation_is_an_error(config, study_file):
    with pytest.raises(SplendorError, match="eval_every"):
        tune(config, study_file, 2, train=FakeTrainer(lambda number, config: []))


def test_a_stopped_training_stops_the_study(config, study_file):
    def curve(number, config):
        if number == 1:
            raise SystemExit(143)
        return [0.5]

    train = FakeTrainer(curve)
    with pytest.raises(KeyboardInterrupt):
        tune(config, study_file, 4, train=train)
    assert len(train.configs) == 2
    study = tune(config, study_file, 1, train=train)
    assert states(study) == ["COMPLETE", "FAIL", "COMPLETE"]


def test_a_study_is_not_mixed_with_another_length_of_training(config, study_file):
    train = FakeTrainer(lambda number, config: [0.5])
    tune(config, study_file, 1, train=train)
    other = PPOConfig(runs_folder=config.runs_folder, total_steps=5, learning_rate=0.1)
    with pytest.raises(SplendorError, match=r"begun with total_steps = 4000000 \(here 5\): choose"):
        tune(other, study_file, 1, train=train)


def test_a_file_that_is_no_study_is_told_of(config, study_file):
    study_file.write_text("something else, and long enough " * 40)
    with pytest.raises(SplendorError, match="cannot open the study"):
        tune(config, study_file, 1, train=FakeTrainer(lambda number, config: [0.5]))


def test_a_missing_optuna_is_told_how_to_install(config, study_file, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(SplendorError, match=r"pip install -e '\.\[tune\]'"):
        tune(config, study_file, 1, train=FakeTrainer(lambda number, config: [0.5]))


@pytest.fixture
def config_file(tmp_path, monkeypatch):
    ppo = pytest.importorskip("training.ppo")
    train = FakeTrainer(lambda number, config: [0.25 * (number + 1)])
    monkeypatch.setattr(ppo, "train", train, raising=False)
    path = tmp_path / "some.toml"
    path.write_text(f'runs_folder = "{tmp_path.as_posix()}"\nnum_games = 64\n')
    return path


def test_the_command_prints_the_best_settings(config_file, tmp_path):
    result = CliRunner().invoke(app, [str(config_file), "--trials", "3"])
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert [line.split(":")[0] for line in lines[:3]] == [f"trial {n} complete" for n in range(3)]
    assert lines[3] == "best of 3: trial 2, 75.0% against greedy"
    assert [line.split("=")[0] for line in lines[5:]] == [f"--set {key}" for key in SPACE]
    assert (tmp_path / "some.db").is_file()


def test_the_command_takes_changes_of_the_config(config_file, tmp_path):
    study = tmp_path / "deeper" / "other.db"
    options = ["--trials", "1", "--study", str(study), "--set", "rollout_steps=32"]
    result = CliRunner().invoke(app, [str(config_file), *options])
    assert result.exit_code == 0, result.output
    assert "rollout_steps=32" in result.output
    assert study.is_file()


def test_mistakes_are_told_in_one_line(config_file):
    result = CliRunner().invoke(app, [str(config_file), "--set", "nonsense=1"])
    assert result.exit_code == 2
    assert "unknown setting 'nonsense'" in result.output


def test_help_shows_examples():
    command = [sys.executable, "-m", "training.tune", "--help"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "python -m training.tune configs/quickstart.toml" in shown
    for option in ("--trials", "--study", "--seed", "--set"):
        assert option in shown
