"""What the files of trained policies have in common, whatever library reads them.

A policy can be used where its inputs and outputs mean the same, and is trusted by the rules that it
was trained for. Nothing here needs a learning library.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from splendor_env.core.actions import ACTION_NAMES, NUM_ACTIONS
from splendor_env.core.observation import LAYOUT_VERSION, OBSERVATION_SIZE
from splendor_env.core.state import Rules


class PolicyWarning(UserWarning):
    """A policy is used with other rules or libraries than it was trained with."""


def layouts() -> dict[str, Any]:
    """What a network's inputs and outputs mean here; must be equal to use its weights."""
    actions = hashlib.sha256("\n".join(ACTION_NAMES).encode()).hexdigest()[:16]
    return {
        "observation_layout": LAYOUT_VERSION,
        "observation_size": OBSERVATION_SIZE,
        "num_actions": NUM_ACTIONS,
        "action_names": actions,
    }


def rule_differences(
    trained_for: Mapping[str, int], num_players: Sequence[int], rules: Rules
) -> str:
    """How `rules` differ from those of a policy's training; empty where they do not.

    Args:
        trained_for: Fields of the rules of the training; one that is not there is free.
        num_players: The numbers of players of the training.
        rules: Those to be played by.
    """
    differences = []
    if rules.num_players not in num_players:
        trained = ", ".join(map(str, num_players))
        differences.append(f"num_players {trained} (here {rules.num_players})")
    here = rules._asdict()
    differences += [
        f"{key} {value} (here {here.get(key)})"
        for key, value in trained_for.items()
        if key != "num_players" and value != here.get(key)
    ]
    return ", ".join(differences)
