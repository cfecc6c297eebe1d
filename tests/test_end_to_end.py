"""The way of a policy from a config file to an agent without torch, by the commands alone."""

import json
from pathlib import Path

import pytest

from splendor_env.cli import main

pytest.importorskip("safetensors.torch")
pytest.importorskip("matplotlib")
pytest.importorskip("tensorboard")
pytest.importorskip("onnxscript")
pytest.importorskip("onnxruntime")

pytestmark = [
    pytest.mark.usefixtures("torch_as_before"),
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

CONFIG = Path(__file__).parents[1] / "configs" / "smoke.toml"


def test_train_go_on_export_and_evaluate(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("splendor_env.cli._REPORT_GAMES", 40)

    def command(*arguments):
        assert main([str(argument) for argument in arguments]) == 0
        return capsys.readouterr()

    def step():
        return json.loads((run / "policy" / "policy.json").read_bytes())["step"]

    run = tmp_path / "smoke"
    command("train", CONFIG, "--set", f"runs_folder={tmp_path}")
    first = step()
    assert 8_192 <= first < 8_192 + 64 * 32
    assert {path.name for path in run.iterdir()} >= {
        "config.toml",
        "versions.json",
        "metrics.csv",
        "learning_curve.png",
        "calibration.png",
        "diagnostics.png",
        "evaluation.json",
        "opponents",
        "policy",
    }
    results = json.loads((run / "evaluation.json").read_bytes())["results"]
    assert [(one["against"], one["games"]) for one in results] == [("random", 40), ("greedy", 40)]

    shown = command("train", run, "--resume")
    assert f"is finished at step {first:,}" in shown.err and step() == first
    shown = command("train", run, "--resume", "--set", f"total_steps={first + 1_000}")
    assert f"steps {first:,} to {first + 1_000:,}" in shown.err and step() >= first + 1_000
    assert not (tmp_path / "smoke-2").exists()

    file = tmp_path / "smoke.onnx"
    command("export", run, file)
    report = [tmp_path / f"{kind}.json" for kind in ("ppo", "onnx")]
    for path, spec in zip(report, (f"ppo:{run}", f"onnx:{file}"), strict=True):
        command("evaluate", spec, "--against", "random", "--games", 40, "--json", path)
    ours, exported = (json.loads(path.read_bytes())["results"][0] for path in report)
    assert exported["illegal"] == 0 and exported["games"] == 40
    different = {key for key in ours if ours[key] != exported[key]}
    assert different <= {
        "agent",
        "seconds",
        "seconds_per_decision",
        "seconds_per_decision_against",
    }
