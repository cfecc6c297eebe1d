import sys
import types
from dataclasses import dataclass

import pytest

pytest.importorskip("torch")

from splendor_env.core.state import SplendorError, standard
from training.config import (
    ALGORITHMS,
    RunConfig,
    check_setting,
    dump_config,
    load_config,
    load_run_config,
    setting,
)
from training.networks import NetworkSizes


@dataclass(frozen=True)
class Config(RunConfig):
    gamma: float = setting(1.0, 0, 1)
    is_brave: bool = False
    mood: str = setting("calm", choices=("calm", "wild"))


@pytest.fixture(autouse=True)
def trainer(monkeypatch):
    """The default algorithm is one with the settings above."""
    module = types.ModuleType("training.ppo")
    monkeypatch.setattr(module, "Config", Config, raising=False)
    monkeypatch.setitem(sys.modules, "training.ppo", module)


def write(folder, text):
    path = folder / "mine.toml"
    path.write_text(text)
    return path


def test_a_file_gives_its_values_and_its_name(tmp_path):
    config = load_config(write(tmp_path, "num_players = 3\nlearning_rate = 1e-3\ngamma = 1\n"))
    assert isinstance(config, Config)
    assert (config.num_players, config.learning_rate, config.run_name) == (3, 1e-3, "mine")
    assert isinstance(config.gamma, float)
    assert config.seed == Config().seed
    assert config.rules_in_turn() == [standard(3)]


def test_overrides_go_before_the_file_and_have_the_fields_type(tmp_path):
    path = write(tmp_path, "seed = 1\nbatch_size = 64\n")
    config = load_config(
        path, ["seed=7", "total_steps=2e6", "run_name = 12", "num_games=1_024", "vf_coef=0"]
    )
    assert config.seed == 7
    assert config.total_steps == 2_000_000
    assert isinstance(config.total_steps, int)
    assert config.run_name == "12"
    assert config.num_games == 1024
    assert config.rollout_size == 1024 * config.rollout_steps
    assert config.vf_coef == 0.0
    assert config.run_folder.name == "12"


def test_overrides_of_words_and_switches(tmp_path):
    path = write(tmp_path, "is_brave = true")
    assert load_config(path) == Config(run_name="mine", is_brave=True)
    config = load_config(path, ["is_brave=false", "mood=wild", "network = cards"])
    assert config == Config(run_name="mine", mood="wild", network="cards")


def test_players_in_turn(tmp_path):
    config = load_config(write(tmp_path, 'num_players = 0\nrules = "rulebook_2014"'))
    rules = config.rules_in_turn()
    assert [one.num_players for one in rules] == [2, 3, 4]
    assert rules[0]._replace(num_players=4, num_nobles=5) == rules[2]


def test_network_sizes_are_the_settings_of_the_same_names():
    config = Config(network="cards", layer_size=8, num_separate_layers=3, card_size=5)
    assert config.network_sizes() == NetworkSizes("cards", 8, 1, 3, 5)


def test_the_algorithm_says_which_settings_there_are(tmp_path):
    pytest.importorskip("sb3_contrib")
    from training import sb3_ppo

    path = write(tmp_path, 'algorithm = "sb3_ppo"\nweight_random = 1')
    assert load_config(path) == sb3_ppo.Config(run_name="mine", weight_random=1.0)
    for overrides in ([], ["algorithm=sb3_ppo", "mood=wild"]):
        with pytest.raises(SplendorError, match=r"unknown setting .*settings are algorithm, run_"):
            load_config(write(tmp_path, "weight_random = 1"), overrides)


def test_an_algorithm_that_is_not_installed_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "training.sb3_ppo", None)
    with pytest.raises(SplendorError, match="algorithm 'sb3_ppo' needs the extra `train`"):
        load_config(write(tmp_path, ""), ["algorithm=sb3_ppo"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("learning_rat = 1.0", "unknown setting 'learning_rat'; settings are algorithm, .*gamma"),
        ("num_players = 5", "num_players must be int from 0 to 4, not 5"),
        ("num_players = 1", "num_players must be 2, 3, 4, or 0 for these three in turn, not 1"),
        ("num_players = 2.5", "num_players must be int"),
        ("seed = true", "seed must be int"),
        ("seed = '1'", "seed must be int"),
        ("gamma = nan", "gamma must be float"),
        ("max_grad_norm = inf", "max_grad_norm"),
        ("max_grad_norm = 0", "max_grad_norm must be float from 1e-06, not 0.0"),
        ("gamma = true", "gamma must be float"),
        ("learning_rate = -1.0", "learning_rate must be float from 0 to 1, not -1.0"),
        ("rules = 'house'", "rules must be one of standard, "),
        ("rules = 3", "rules must be one of standard, .* not 3"),
        ("network = 'deep'", "network must be one of mlp, cards, not 'deep'"),
        ("algorithm = 'dqn'", f"algorithm must be one of {', '.join(ALGORITHMS)}, not 'dqn'"),
        ("algorithm = ['ppo']", "algorithm must be one of"),
        ("runs_folder = 3", "runs_folder must be str, not 3"),
        ("is_brave = 1", "is_brave must be bool, not 1"),
        ("num_threads = 0", "num_threads must be int from 1 to 256"),
        ("run_name = '../x'", "run_name"),
        ("[ppo]\nseed = 1", "unknown setting 'ppo'"),
        ("seed = ", "is not TOML"),
    ],
)
def test_mistakes_in_a_file_are_named(tmp_path, text, message):
    with pytest.raises(SplendorError, match=message):
        load_config(write(tmp_path, text))


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("sed=1", "unknown setting 'sed'"),
        ("seed", "key=value"),
        ("seed=one", "seed must be a number, not 'one'"),
        ("seed=1.5", "seed must be int"),
        ("seed=-1", "seed must be int from 0"),
        ("seed=true", "seed must be a number"),
        ("is_brave=1", "is_brave must be true or false, not '1'"),
        ("mood=sad", "mood must be one of calm, wild, not 'sad'"),
    ],
)
def test_mistakes_in_an_override_are_named(tmp_path, override, message):
    with pytest.raises(SplendorError, match=message):
        load_config(write(tmp_path, ""), [override])


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(SplendorError, match=r"no\.toml"):
        load_config(tmp_path / "no.toml")
    with pytest.raises(SplendorError, match="not the folder of a run"):
        load_run_config(tmp_path)


def test_a_dumped_config_reads_back(tmp_path):
    config = Config(run_name='a "ü" b', seed=3, learning_rate=2.5e-5, vf_coef=0.0, is_brave=True)
    (tmp_path / "config.toml").write_text(dump_config(config), encoding="utf-8")
    assert load_config(tmp_path / "config.toml") == config
    resumed = load_run_config(tmp_path, ["seed=4"])
    assert resumed.run_folder == tmp_path
    assert resumed.seed == 4


@pytest.mark.parametrize("override", ["run_name=other", "runs_folder=/tmp/x", " run_name = a"])
def test_the_place_of_a_run_that_goes_on_cannot_be_changed(tmp_path, override):
    (tmp_path / "config.toml").write_text(dump_config(Config(run_name="a", runs_folder="b")))
    key = override.partition("=")[0].strip()
    with pytest.raises(SplendorError, match=f"{key} cannot be changed in a run that goes on"):
        load_run_config(tmp_path, ["seed=1", override])


def test_a_new_run_with_the_settings_of_another_may_be_anywhere(tmp_path):
    (tmp_path / "config.toml").write_text(dump_config(Config(run_name="a", runs_folder="b")))
    assert load_run_config(tmp_path, resume=False).run_folder == tmp_path
    named = load_run_config(tmp_path, ["run_name=other", "seed=4"], resume=False)
    assert (named.run_folder, named.seed) == (tmp_path.parent / "other", 4)
    moved = load_run_config(tmp_path, ["runs_folder=here"], resume=False)
    assert (moved.runs_folder, moved.run_name) == ("here", tmp_path.name)


def test_one_value_can_be_checked():
    check_setting("layer_size", 8)
    with pytest.raises(SplendorError, match="layer_size must be int from 8 to 8192, not 7"):
        check_setting("layer_size", 7)
