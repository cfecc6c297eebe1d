import hashlib
import json
import subprocess
import sys
import tomllib
import warnings
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

import onnx
from onnx import TensorProto, helper, numpy_helper

from splendor_env.agents import make_agent
from splendor_env.agents.builtin import GreedyAgent, RandomAgent
from splendor_env.agents.layouts import PolicyWarning, layouts, rule_differences
from splendor_env.agents.onnx import ONNX_VERSION, PRETRAINED_FOLDER, OnnxAgent, PretrainedAgent
from splendor_env.core.actions import NUM_ACTIONS
from splendor_env.core.batch import Batch
from splendor_env.core.observation import LAYOUT_VERSION, OBSERVATION_SIZE
from splendor_env.core.state import SplendorError, rulebook_2014, standard
from splendor_env.evaluation import play_match

ROOT = Path(__file__).parents[2]


def weights_of(seed):
    """Of the layers for logits (D, A) and for shares (D, 4)."""
    generator = np.random.default_rng(seed)
    return (
        generator.standard_normal((OBSERVATION_SIZE, NUM_ACTIONS)).astype(np.float32),
        generator.standard_normal((OBSERVATION_SIZE, 4)).astype(np.float32),
    )


def make_model(seed=0, *, batch="batch", columns=OBSERVATION_SIZE, names=None, kind="FLOAT"):
    """One linear layer for the logits, one and a softmax for the shares."""
    weights = [weight[:columns] for weight in weights_of(seed)]
    source, logits, shares = names or ("observation", "logits", "win_shares")
    data_type = getattr(TensorProto, kind)
    dtype = helper.tensor_dtype_to_np_dtype(data_type)
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", [source, "a"], [logits]),
            helper.make_node("MatMul", [source, "b"], ["value"]),
            helper.make_node("Softmax", ["value"], [shares], axis=1),
        ],
        "policy",
        [helper.make_tensor_value_info(source, data_type, [batch, columns])],
        [
            helper.make_tensor_value_info(logits, data_type, [batch, NUM_ACTIONS]),
            helper.make_tensor_value_info(shares, data_type, [batch, 4]),
        ],
        [
            numpy_helper.from_array(weight.astype(dtype), name)
            for name, weight in zip("ab", weights, strict=True)
        ],
    )
    opset = [helper.make_opsetid("", 18)]
    return helper.make_model(graph, opset_imports=opset, ir_version=10)


def write(path, model=None, **changes):
    """Write a pair of files that is whole but for the changes of its JSON."""
    content = model if isinstance(model, bytes) else (model or make_model()).SerializeToString()
    path.write_bytes(content)
    about = {
        "onnx_version": ONNX_VERSION,
        "sha256": hashlib.sha256(content).hexdigest(),
        **layouts(),
        "num_players": [2],
        "rules": standard(2)._asdict(),
        "versions": {"torch": "2.9.0"},
    }
    path.with_suffix(".json").write_text(json.dumps(about | changes))
    return path


@pytest.fixture
def path(tmp_path):
    return write(tmp_path / "policy.onnx")


@pytest.mark.parametrize("num_players", [2, 3, 4])
def test_the_likeliest_legal_action_is_played(tmp_path, num_players):
    rules = standard(num_players)
    changes = {"num_players": [num_players], "rules": rules._asdict()}
    agent = make_agent(f"onnx:{write(tmp_path / 'policy.onnx', **changes)}")
    batch = Batch(rules, 32, check=True)
    for _ in range(150):
        actions = agent.act(batch.games.copy(), rules, np.arange(32))
        assert actions.dtype == np.int32
        logits = batch.observation @ weights_of(0)[0]
        assert np.array_equal(actions, np.where(batch.action_mask, logits, -np.inf).argmax(1))
        batch.step(actions)


def test_its_name_is_the_spec_and_it_plays_in_the_arena(path):
    agent = make_agent(f"onnx:{path}")
    assert agent.name == f"onnx:{path}"
    assert play_match(agent, RandomAgent(), standard(2), 20).illegal == 0


def test_evaluate_gives_all_logits_and_the_shares(path):
    batch = Batch(standard(2), 16)
    for _ in range(30):
        batch.step(batch.action_mask.argmax(1).astype(np.int32))
    logits, shares = OnnxAgent(path).evaluate(batch.observation)
    for_logits, for_shares = weights_of(0)
    assert logits.dtype == shares.dtype == np.float32
    np.testing.assert_allclose(logits, batch.observation @ for_logits, atol=1e-4)
    value = np.exp(batch.observation @ for_shares)
    np.testing.assert_allclose(shares, value / value.sum(1, keepdims=True), atol=1e-5)


@pytest.mark.parametrize(
    ("observation", "found"),
    [
        (np.zeros(OBSERVATION_SIZE, np.float32), r"\(746,\) float32"),
        (np.zeros((2, 700), np.float32), r"\(2, 700\) float32"),
        (np.zeros((1, 2, OBSERVATION_SIZE), np.float32), r"\(1, 2, 746\) float32"),
        (np.zeros((2, OBSERVATION_SIZE)), r"\(2, 746\) float64"),
        (np.zeros((2, OBSERVATION_SIZE), np.int8), r"\(2, 746\) int8"),
    ],
)
def test_evaluate_refuses_another_shape_or_type_and_names_both(path, observation, found):
    message = rf"observation must be \(B, 746\) float32, not {found}$"
    with pytest.raises(SplendorError, match=message):
        OnnxAgent(path).evaluate(observation)


def test_one_position_at_a_time_gives_what_many_give(path):
    agent = OnnxAgent(path)
    batch = Batch(standard(2), 64)
    for _ in range(20):
        batch.step(RandomAgent().act(batch.games, batch.rules, np.arange(64)))
    together = agent.evaluate(batch.observation)
    for row in range(64):
        alone = agent.evaluate(batch.observation[row : row + 1])
        for one, many in zip(alone, together, strict=True):
            np.testing.assert_allclose(one[0], many[row], atol=1e-5)
    actions = agent.act(batch.games, batch.rules, np.arange(64))
    alone = [agent.act(batch.games[i : i + 1], batch.rules, np.arange(1))[0] for i in range(64)]
    assert actions.tolist() == alone


def test_a_sampling_agent_is_seeded_and_follows_the_probabilities(tmp_path):
    model = make_model()
    chosen = weights_of(0)[0] * 0.05
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(chosen, "a"))
    path = write(tmp_path / "policy.onnx", model)
    batch = Batch(standard(2), 1)
    games = np.repeat(batch.games, 20_000)

    def choose(seed):
        return OnnxAgent(path, sample=True, seed=seed).act(games, batch.rules, np.arange(20_000))

    first = choose(1)
    assert np.array_equal(first, choose(1))
    assert not np.array_equal(first, choose(2))
    weight = np.exp(batch.observation[0] @ chosen) * batch.action_mask[0]
    expected = 20_000 * weight / weight.sum()
    counts = np.bincount(first, minlength=NUM_ACTIONS)
    assert (counts[expected == 0] == 0).all()
    assert (abs(counts - expected) <= 5 * expected**0.5).all()


def test_a_flipped_byte_is_found(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(
        SplendorError, match=r"policy\.onnx is broken: its digest is not the one.*export it again$"
    ):
        OnnxAgent(path)


def test_missing_files_are_named(path):
    path.with_suffix(".json").unlink()
    with pytest.raises(SplendorError, match=r"no policy in .*policy\.json"):
        OnnxAgent(path)
    path.unlink()
    with pytest.raises(SplendorError, match=r"no policy in .*policy\.onnx"):
        make_agent(f"onnx:{path}")


@pytest.mark.parametrize("argument", ["", "policy.json", "policy", "."])
def test_a_file_of_another_suffix_is_refused(argument):
    with pytest.raises(SplendorError, match=r"must end in \.onnx, not be '"):
        make_agent(f"onnx:{argument}")


def test_a_name_that_no_file_has_is_refused():
    with pytest.raises(SplendorError, match="null"):
        make_agent("onnx:a\0b.onnx")


@pytest.mark.parametrize("text", ["[]", "{}", '"x"', "null", '{"onnx_version": 1', "\\xff"])
def test_a_broken_json_file_is_named(path, text):
    path.with_suffix(".json").write_text(text)
    with pytest.raises(SplendorError, match=r"policy\.json is broken"):
        OnnxAgent(path)


@pytest.mark.parametrize("changes", [{"rules": None}, {"rules": [15]}, {"num_players": 2}])
def test_broken_rules_are_named(path, changes):
    write(path, **changes)
    with pytest.raises(SplendorError, match=r"policy\.json is broken: .*rules must be an object"):
        OnnxAgent(path)


@pytest.mark.parametrize(
    ("key", "value", "ours"),
    [
        ("onnx_version", 99, ONNX_VERSION),
        ("observation_layout", LAYOUT_VERSION + 1, LAYOUT_VERSION),
        ("observation_size", 999, OBSERVATION_SIZE),
        ("num_actions", 42, NUM_ACTIONS),
        ("action_names", "abc", layouts()["action_names"]),
    ],
)
def test_another_layout_is_refused_with_both_versions(path, key, value, ours):
    write(path, **{key: value})
    with pytest.raises(SplendorError, match=f"{key} {value!r}.* {ours!r}"):
        OnnxAgent(path)


@pytest.mark.parametrize(
    ("form", "message"),
    [
        (
            {"names": ("obs", "logits", "win_shares")},
            r"inputs observation \(B, 746\).*'obs'",
        ),
        ({"names": ("observation", "policy", "win_shares")}, "outputs logits.* has .*'policy'"),
        ({"names": ("observation", "logits", "shares")}, "outputs logits.* has .*'shares'"),
        ({"columns": 700}, r"inputs observation \(B, 746\).* has .*700"),
        ({"batch": 5}, r"B variable; it has .*\[5, 746\]"),
        ({"kind": "DOUBLE"}, r"float32.* has .*tensor\(double\)"),
    ],
)
def test_other_inputs_or_outputs_are_refused(tmp_path, form, message):
    path = write(tmp_path / "policy.onnx", make_model(**form))
    with pytest.raises(SplendorError, match=message):
        OnnxAgent(path)


def test_what_is_no_network_is_refused(tmp_path, capfd):
    unknown = make_model()
    unknown.graph.node[0].domain = "own.operators"
    unknown.opset_import.append(helper.make_opsetid("own.operators", 1))
    for content in (b"nothing", make_model().SerializeToString()[:1000], unknown):
        path = write(tmp_path / "policy.onnx", content)
        with pytest.raises(SplendorError, match=r"policy\.onnx is not a usable ONNX file: "):
            OnnxAgent(path)
    assert capfd.readouterr() == ("", "")


def test_weights_in_another_file_are_not_read(tmp_path, monkeypatch):
    path = tmp_path / "policy.onnx"
    onnx.save_model(
        make_model(), path, save_as_external_data=True, location="weights", size_threshold=10
    )
    write(path, path.read_bytes())
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SplendorError, match="must hold its weights itself"):
        OnnxAgent("policy.onnx")


def act(agent, rules):
    return agent.act(Batch(rules, 1).games, rules, np.arange(1))


def test_other_rules_than_those_of_the_training_are_warned_of_once(path):
    agent = OnnxAgent(path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        act(agent, standard(2))
    with pytest.warns(PolicyWarning, match=r"onnx: was trained for target_points 15 \(here 9\)$"):
        act(OnnxAgent(path, name="onnx:"), standard(2, target_points=9))
    with pytest.warns(PolicyWarning, match=r"was trained for num_players 2 \(here 3\)"):
        act(agent, standard(3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        act(agent, standard(4))


def test_rules_differ_by_number_of_players_and_by_field():
    trained = standard(2)._asdict()
    assert rule_differences(trained, [2], standard(2)) == ""
    common = {key: value for key, value in trained.items() if not key.startswith("num_")}
    for num_players in (2, 3):
        assert rule_differences(common, [2, 3], standard(num_players)) == ""
    assert rule_differences(common, [2, 3], standard(4)) == "num_players 2, 3 (here 4)"
    assert (
        rule_differences(common, [2, 3], rulebook_2014(2))
        == "take_fewer 0 (here 2), payment 0 (here 1)"
    )
    assert rule_differences({"new_rule": 1}, [2], standard(2)) == "new_rule 1 (here None)"


@pytest.mark.parametrize("spec", ["onnx:policy.onnx", "pretrained"])
def test_without_onnxruntime_the_extra_is_named(monkeypatch, spec):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(SplendorError, match="need onnxruntime: install the extra `play`"):
        make_agent(spec)


def test_no_learning_library_and_nothing_of_the_training_is_needed(path):
    script = f"""
import sys
for name in ("torch", "onnx", "onnxscript", "safetensors", "training"):
    sys.modules[name] = None
from splendor_env.agents import make_agent
from splendor_env.core.state import standard
from splendor_env.evaluation import play_match
result = play_match(make_agent("onnx:{path}"), make_agent("random"), standard(2), 4)
print(result.games, result.illegal)
"""
    process = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert process.stdout == "4 0\n"


@pytest.fixture
def pretrained_folder(tmp_path, monkeypatch):
    """Has policies for 2 and for 3 players, which are different ones."""
    for num_players in (2, 3):
        write(
            tmp_path / f"{num_players}p.onnx",
            make_model(seed=num_players),
            num_players=[num_players],
            rules=standard(num_players)._asdict(),
        )
    monkeypatch.setattr("splendor_env.agents.onnx.PRETRAINED_FOLDER", tmp_path)
    return tmp_path


def test_pretrained_plays_by_the_policy_for_the_number_of_players(pretrained_folder):
    agent = make_agent("pretrained")
    assert agent.name == "pretrained"
    for num_players in (3, 2, 3):
        batch = Batch(standard(num_players), 64)
        for _ in range(10):
            batch.step(RandomAgent().act(batch.games, batch.rules, np.arange(64)))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            actions = agent.act(batch.games, batch.rules, np.arange(64))
        logits = batch.observation @ weights_of(num_players)[0]
        assert np.array_equal(actions, np.where(batch.action_mask, logits, -np.inf).argmax(1))


def test_pretrained_policies_are_read_once_and_only_when_asked_for(pretrained_folder):
    (pretrained_folder / "2p.json").unlink()
    agent = PretrainedAgent()
    policy = agent.policy(3)
    (pretrained_folder / "3p.onnx").unlink()
    assert agent.policy(3) is policy
    with pytest.raises(SplendorError, match=r"2p\.json"):
        act(agent, standard(2))
    with pytest.raises(SplendorError, match="no pretrained policy for 4 players"):
        act(agent, standard(4))


def test_pretrained_tells_of_rules_that_it_was_not_trained_for(pretrained_folder):
    with pytest.warns(PolicyWarning, match=r"pretrained 2p was trained for target_points 15"):
        act(make_agent("pretrained"), standard(2, target_points=21))


@pytest.mark.parametrize(("num_players", "least"), [(2, 0.85), (3, 0.65), (4, 0.4)])
def test_the_pretrained_policies_that_are_shipped(num_players, least):
    """Small, of this layout, for these rules, legal, and far better than the baselines."""
    path = PRETRAINED_FOLDER / f"{num_players}p.onnx"
    assert path.stat().st_size <= 3_000_000
    rules = standard(num_players)
    agent = make_agent("pretrained")
    about = agent.policy(num_players).about
    assert rule_differences(about["rules"], about["num_players"], rules) == ""
    for opponent, share in ((RandomAgent(7), 0.97), (GreedyAgent(), least)):
        result = play_match(agent, opponent, rules, 300, seed=11)
        assert result.illegal == 0
        assert result.win_share >= share


def test_the_pretrained_policies_are_declared_as_package_data():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    declared = project["tool"]["setuptools"]["package-data"]["splendor_env"]
    assert {f"agents/pretrained/*.{suffix}" for suffix in ("onnx", "json", "md")} <= set(declared)
