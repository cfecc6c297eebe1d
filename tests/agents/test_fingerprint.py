import shutil
import sys

import pytest

from splendor_env.agents.fingerprint import fingerprint
from splendor_env.agents.onnx import PRETRAINED_FOLDER
from splendor_env.core.state import SplendorError


def assert_follows(spec, *files):
    """The fingerprint changes with each of these files, and comes back with it."""
    before = fingerprint(spec)
    for file in files:
        content = file.read_bytes()
        file.write_bytes(content + b"\n")
        assert fingerprint(spec) != before, file
        file.write_bytes(content)
        assert fingerprint(spec) == before


def test_agents_of_the_package_go_by_its_version():
    assert fingerprint("greedy").startswith("splendor_env")
    assert fingerprint("greedy") == fingerprint("random") == fingerprint("mcts:sims=20")


def test_policies_go_by_their_weights(tmp_path):
    onnx = tmp_path / "one.onnx"
    shutil.copy(PRETRAINED_FOLDER / "2p.onnx", onnx)
    assert_follows(f"onnx:{onnx}", onnx)
    copy = tmp_path / "two.onnx"
    shutil.copy(onnx, copy)
    assert fingerprint(f"onnx:{copy}") == fingerprint(f"onnx:{onnx}") != fingerprint("pretrained")
    (tmp_path / "run" / "policy").mkdir(parents=True)
    weights = tmp_path / "run" / "policy" / "weights-000000000012.safetensors"
    weights.write_bytes(b"weights")
    assert_follows(f"ppo:{tmp_path / 'run'}", weights)
    assert fingerprint(f"ppo:{tmp_path / 'run'}") == fingerprint(f"ppo:{tmp_path / 'run/policy'}")


def test_a_search_goes_by_the_agent_that_judges(tmp_path):
    onnx = tmp_path / "one.onnx"
    onnx.write_bytes(b"network")
    for kind in ("mcts:sims=2,", "lookahead:"):
        assert_follows(f"{kind}eval=onnx:{onnx}", onnx)
    assert fingerprint("mcts:eval=pretrained,sims=3").startswith(fingerprint("greedy"))
    assert fingerprint("mcts:eval=pretrained,sims=3").endswith(fingerprint("pretrained"))


def test_a_search_by_pretrained_goes_by_the_same_whatever_its_spec():
    assert fingerprint("pretrained:sims=3") == fingerprint("mcts:sims=3,eval=pretrained")
    assert fingerprint("pretrained:sims=3") != fingerprint("pretrained")


def test_an_own_module_goes_by_its_source_and_the_file_that_its_argument_names(
    tmp_path, monkeypatch
):
    (tmp_path / "ours").mkdir()
    source, weights = tmp_path / "ours" / "one.py", tmp_path / "weights.pt"
    source.write_text("")
    weights.write_bytes(b"weights")
    monkeypatch.syspath_prepend(tmp_path)
    assert_follows(f"ours.one:{weights}", source, weights)
    assert_follows("ours.one:no file", source)
    for name in ("ours", "ours.one"):
        sys.modules.pop(name)


def test_a_program_goes_by_the_files_that_its_command_names(tmp_path):
    script = tmp_path / "my engine.py"
    script.write_text("pass")
    assert_follows(f"external:time=2 python3 '{script}' --fast", script)


@pytest.mark.parametrize("spec", ["onnx:no/such/file.onnx", "no.such.module:x", "external:'"])
def test_what_cannot_be_read_is_an_error_that_names_the_agent(spec):
    with pytest.raises(SplendorError) as caught:
        fingerprint(spec)
    assert str(caught.value).startswith(f"agent {spec!r}: ")
