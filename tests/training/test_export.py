import hashlib
import json
import warnings

import numpy as np
import pytest

pytest.importorskip("safetensors.torch")
pytest.importorskip("onnxscript")
pytest.importorskip("onnxruntime")

import onnx
import torch

import training.export
from splendor_env.agents import make_agent
from splendor_env.agents.builtin import RandomAgent
from splendor_env.agents.onnx import OnnxAgent
from splendor_env.core.batch import Batch
from splendor_env.core.state import SplendorError, standard
from splendor_env.evaluation import play_match
from training.checkpoint import load_policy, save_policy
from training.export import MAX_DIFFERENCE, OPSET, export_policy, to_onnx
from training.networks import NETWORKS, NetworkSizes, PolicyNetwork, win_shares

SIZES = NetworkSizes("mlp", 32, 1, 1, 8)
RULES = {"mlp": standard(3), "cards": [standard(2), standard(3), standard(4)]}


def make_network(sizes=SIZES, seed=0):
    torch.manual_seed(seed)
    network = PolicyNetwork(sizes)
    # Far from the start of a training, where all logits are nearly equal.
    torch.nn.init.normal_(network.action_logits.weight)
    torch.nn.init.normal_(network.value_logits.weight)
    return network


@pytest.fixture(scope="module", params=NETWORKS)
def exported(request, tmp_path_factory):
    """A checkpoint, its ONNX file, and what the export returned."""
    folder = tmp_path_factory.mktemp(request.param)
    save_policy(
        folder / "run" / "policy",
        make_network(SIZES._replace(network=request.param)),
        RULES[request.param],
        step=7,
        evaluation={"random": 0.5},
    )
    path = folder / "new" / "own.onnx"
    return folder / "run", path, export_policy(folder / "run", path)


def observations(num_players, num_games=64):
    batch = Batch(standard(num_players), num_games)
    for _ in range(40):
        batch.step(RandomAgent(3).act(batch.games, batch.rules, np.arange(num_games)))
    return batch.observation


@pytest.mark.parametrize("num_players", [2, 3, 4])
@pytest.mark.parametrize("batch_size", [1, 3, 64])
def test_the_file_gives_what_torch_gives(exported, num_players, batch_size):
    run, path, _ = exported
    observation = observations(num_players)[:batch_size]
    with torch.inference_mode():
        logits, value_logits = load_policy(run)[0](torch.from_numpy(observation))
    found_logits, found_shares = OnnxAgent(path).evaluate(observation)
    assert np.ptp(logits.numpy()) > 1
    np.testing.assert_allclose(found_logits, logits, rtol=0, atol=MAX_DIFFERENCE)
    np.testing.assert_allclose(found_shares, win_shares(value_logits), rtol=0, atol=MAX_DIFFERENCE)
    np.testing.assert_allclose(found_shares.sum(1), 1, atol=1e-5)
    assert (found_shares[:, num_players:] == 0).all()


def test_the_policy_plays_the_same_games_from_either_file(exported):
    run, path, about = exported
    for num_players in about["num_players"]:
        rules = standard(num_players)
        batch = Batch(rules, 32, auto_reset=False)
        agents = make_agent(f"ppo:{run}"), make_agent(f"onnx:{path}")
        num_actions = 0
        while (rows := np.flatnonzero(batch.action_mask.any(1))).size:
            games = batch.games[rows]
            one, two = (agent.act(games.copy(), rules, rows) for agent in agents)
            assert np.array_equal(one, two)
            actions = np.full(32, -1, np.int32)
            actions[rows] = one
            batch.step(actions)
            num_actions += len(rows)
        assert num_actions > 32 * 40


def test_the_json_says_what_the_policy_is(exported):
    run, path, about = exported
    assert json.loads(path.with_suffix(".json").read_text()) == about
    assert about["onnx_version"] == 1
    assert about["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert about["size"] == path.stat().st_size
    policy = json.loads((run / "policy" / "policy.json").read_text())
    of_the_weights = {"checkpoint_version", "weights", "sha256"}
    assert set(about) - set(policy) == {"onnx_version", "size", "parity"}
    assert set(policy) - set(about) == of_the_weights - {"sha256"}
    kept = set(policy) - of_the_weights
    assert {key: about[key] for key in kept} == {key: policy[key] for key in kept}
    assert {"rules", "num_players", "network", "step", "evaluation", "versions"} <= kept
    assert {"observation_layout", "action_names", "algorithm", "git_commit"} <= kept


def test_the_parity_is_of_hundreds_of_positions_for_each_number_of_players(exported):
    about = exported[2]
    assert about["parity"]["positions"] == 384 * len(about["num_players"])
    assert 0 <= about["parity"]["logits"] < MAX_DIFFERENCE
    assert 0 <= about["parity"]["win_shares"] < MAX_DIFFERENCE


def test_the_file_stands_alone_and_names_no_source(exported):
    path = exported[1]
    assert sorted(file.name for file in path.parent.iterdir()) == ["own.json", "own.onnx"]
    model = onnx.load(path, load_external_data=False)
    onnx.checker.check_model(model)
    assert [(entry.domain, entry.version) for entry in model.opset_import] == [("", OPSET)]
    assert not any(weight.external_data for weight in model.graph.initializer)
    for word in (b".py", b"stack_trace", str(path.parent).encode()):
        assert word not in path.read_bytes()


def test_equal_weights_give_equal_files_and_nothing_is_printed(capfd):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        contents = {to_onnx(make_network()) for _ in range(2)}
    assert len(contents) == 1
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("layers", [(0, 0), (2, 0)])
def test_networks_without_hidden_layers_are_exported_too(tmp_path, layers):
    sizes = SIZES._replace(num_shared_layers=layers[0], num_separate_layers=layers[1])
    save_policy(tmp_path / "policy", make_network(sizes), standard(2), step=1)
    export_policy(tmp_path / "policy", tmp_path / "own.onnx")
    result = play_match(OnnxAgent(tmp_path / "own.onnx"), RandomAgent(), standard(2), 4)
    assert result.illegal == 0


def test_rules_of_ones_own_are_kept(tmp_path):
    rules = standard(2, target_points=5, max_rounds=30)
    save_policy(tmp_path / "policy", make_network(), rules, step=1)
    about = export_policy(tmp_path / "policy", tmp_path / "own.onnx")
    assert about["rules"] == rules._asdict()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        play_match(OnnxAgent(tmp_path / "own.onnx"), RandomAgent(), rules, 2)


@pytest.mark.parametrize("fault", ["logits", "win_shares", "nan"])
def test_a_file_that_differs_from_torch_is_not_written(tmp_path, monkeypatch, fault):
    network = make_network()
    save_policy(tmp_path / "policy", network, standard(2), step=1)
    layer = network.value_logits if fault == "win_shares" else network.action_logits
    with torch.no_grad():
        layer.bias[0] += torch.nan if fault == "nan" else 1e-2
    content = to_onnx(network)
    monkeypatch.setattr(training.export, "to_onnx", lambda _: content)
    folder = tmp_path / "out"
    with pytest.raises(SplendorError, match=r"differs from torch's by .* nothing was written"):
        export_policy(tmp_path / "policy", folder / "own.onnx")
    assert not folder.exists()


def test_what_cannot_be_read_or_written_is_named(tmp_path):
    with pytest.raises(SplendorError, match=r"no policy in .*nowhere"):
        export_policy(tmp_path / "nowhere", tmp_path / "own.onnx")
    with pytest.raises(SplendorError, match=r"must end in \.onnx, not be 'own\.json'"):
        export_policy(tmp_path / "nowhere", "own.json")
    save_policy(tmp_path / "policy", make_network(), standard(2), step=1)
    (tmp_path / "file").touch()
    with pytest.raises(SplendorError, match=r"cannot write .*own\.onnx"):
        export_policy(tmp_path / "policy", tmp_path / "file" / "own.onnx")
    (tmp_path / "own.onnx").mkdir()
    with pytest.raises(SplendorError, match=r"cannot write .*own\.onnx"):
        export_policy(tmp_path / "policy", tmp_path / "own.onnx")
    assert not (tmp_path / "own.json").exists()
