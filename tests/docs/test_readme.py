import doctest
import re
import shlex
from pathlib import Path

from splendor_env.cli import main

README = Path(__file__).parents[2] / "README.md"


def test_the_sessions_in_the_readme_give_what_they_show():
    result = doctest.testfile(str(README), module_relative=False)
    assert result.attempted > 8
    assert result.failed == 0


def test_the_commands_in_the_readme_exist(capsys):
    commands = re.findall(r"^splendor (\w+)", README.read_text(encoding="utf-8"), re.MULTILINE)
    assert {"train", "evaluate", "play", "bench"} <= set(commands)
    for command in sorted(set(commands)):
        assert main([command, "--help"]) == 0
        assert "Usage: splendor" in capsys.readouterr().out


def test_the_set_up_commands_are_single_lines_that_use_the_constraints():
    lines = [line for line in README.read_text(encoding="utf-8").splitlines() if "venv" in line]
    commands = [line for line in lines if line.startswith("python3.11 -m venv .venv && ")]
    assert len(commands) == 3
    for command in commands:
        assert "-c constraints.txt" in command
        assert shlex.split(command)
