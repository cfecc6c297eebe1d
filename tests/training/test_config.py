import pytest

from splendor_env.core.state import SplendorError, standard
from training.config import Config, dump_config, load_config, load_run_config


def write(folder, text):
    path = folder / "mine.toml"
    path.write_text(text)
    return path


def test_a_file_gives_its_values_and_its_name(tmp_path):
    config = load_config(write(tmp_path, "num_players = 3\nlearning_rate = 1e-3\ngamma = 1\n"))
    assert (config.num_players, config.learning_rate, config.run_name) == (3, 1e-3, "mine")
    assert isinstance(config.gamma, float)
    assert config.seed == Config().seed
    assert config.resolve_rules() == standard(3)


def test_overrides_go_before_the_file_and_have_the_fields_type(tmp_path):
    path = write(tmp_path, "seed = 1\nbatch_size = 64\n")
    config = load_config(
        path, ["seed=7", "total_steps=2e6", "run_name = 12", "num_games=1_024", "ent_coef=0"]
    )
    assert config.seed == 7
    assert config.total_steps == 2_000_000
    assert isinstance(config.total_steps, int)
    assert config.run_name == "12"
    assert config.num_games == 1024
    assert config.rollout_size == 1024 * config.rollout_steps
    assert config.ent_coef == 0.0
    assert config.run_folder.name == "12"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("learning_rat = 1.0", "unknown setting 'learning_rat'; settings are run_name, .*gamma"),
        ("num_players = 5", "num_players must be int from 2 to 4, not 5"),
        ("num_players = 2.5", "num_players must be int"),
        ("seed = true", "seed must be int"),
        ("seed = '1'", "seed must be int"),
        ("gamma = nan", "gamma must be float"),
        ("max_grad_norm = inf", "max_grad_norm"),
        ("gamma = true", "gamma must be float"),
        ("learning_rate = -1.0", "learning_rate must be float from 0 to 1, not -1.0"),
        ("rules = 'house'", "rules must be one of standard, "),
        ("rules = 3", "rules must be str"),
        ("run_name = '../x'", "run_name"),
        ("batch_size = 1000", "batch_size 1000 must divide"),
        ("[ppo]\nseed = 1", "unknown setting 'ppo'"),
        ("seed = ", "is not TOML"),
        (
            "weight_current=0\nweight_past=0\nweight_greedy=0\nweight_random=0",
            "one of the weights",
        ),
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
    config = Config(run_name='a "ü" b', seed=3, learning_rate=2.5e-5, gamma=1.0, ent_coef=0.0)
    (tmp_path / "config.toml").write_text(dump_config(config), encoding="utf-8")
    assert load_config(tmp_path / "config.toml") == config
    resumed = load_run_config(tmp_path, ["seed=4"])
    assert resumed.run_folder == tmp_path
    assert resumed.seed == 4


@pytest.mark.parametrize("name", ["quickstart", "smoke", "sb3_2p"])
def test_the_shipped_configs_load(name):
    config = load_config(f"configs/{name}.toml")
    assert config.run_name == name
