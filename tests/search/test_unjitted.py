"""The search without compilation, where NumPy checks every index and every overflow."""

import os
import subprocess
import sys

import pytest

SCRIPT = """
import numpy as np

from splendor_env.agents import make_agent
from splendor_env.core.batch import Batch
from splendor_env.core.state import PRESETS

np.seterr(divide="raise", invalid="raise")
for num_players, preset in ((2, "standard"), (3, "rulebook_2014"), (4, "from_four_left")):
    batch = Batch(PRESETS[preset](num_players), 2)
    racer = make_agent("racer")
    for _ in range(12 * num_players):
        batch.step(racer.act(batch.games, batch.rules, np.arange(2)))
    for spec in (
        "mcts:sims=12,root=puct,depth=2",
        "mcts:sims=12,root=gumbel,depth=2",
        "mcts:sims=10,eval=pretrained",
        "lookahead:eval=pretrained,samples=1",
        "builder",
    ):
        agent = make_agent(spec, 1)
        print(preset, spec, *agent.act(batch.games, batch.rules, np.arange(2)))
"""


def answers(**environment):
    command = [sys.executable, "-W", "ignore", "-c", SCRIPT]
    done = subprocess.run(
        command, env=os.environ | environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.slow
def test_choices_are_the_same_without_compilation():
    compiled = answers()
    assert len(compiled) == 15
    assert answers(NUMBA_DISABLE_JIT="1") == compiled
