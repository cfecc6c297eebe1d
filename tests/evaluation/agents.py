"""Agents for tests, also by spec: `tests.evaluation.agents:NAME ARGUMENT`, so in any process."""

import os
import time
from pathlib import Path

import numpy as np

from splendor_env.core.actions import ACTION_NAMES
from splendor_env.core.batch import write_action_masks
from splendor_env.core.state import SplendorError


class FirstLegal:
    """Deterministic, and keeps copies of everything that it was asked."""

    name = "first legal"

    def __init__(self):
        self.asked = []

    def choose(self, mask, games):
        return mask.argmax(1)

    def act(self, games, rules, game_id):
        self.asked.append((games.copy(), game_id.copy()))
        mask = np.zeros((len(games), len(ACTION_NAMES)), np.int8)
        write_action_masks(games, rules, mask)
        return self.choose(mask, games).astype(np.int32)

    @property
    def games(self):
        return np.concatenate([games for games, _ in self.asked])

    @property
    def game_id(self):
        return np.concatenate([game_id for _, game_id in self.asked])


class Peeker(FirstLegal):
    """Chooses by the seed and the deck that it is shown."""

    def choose(self, mask, games):
        key = games["seed"] ^ games["deck"][:, 0, 0].astype(np.uint64)
        order = np.argsort(-mask, axis=1, kind="stable")
        pick = key % mask.sum(1).astype(np.uint64)
        return order[np.arange(len(games)), pick.astype(np.int64)]


class Cheat(FirstLegal):
    """Plays an illegal action in round 3."""

    name = "cheat"

    def __init__(self, action=-1):
        super().__init__()
        self.action = action

    def choose(self, mask, games):
        illegal = mask.argmin(1) if self.action is None else self.action
        return np.where(games["rounds"] >= 3, illegal, mask.argmax(1))


class Fainting(FirstLegal):
    """Has no action in round 3 of every other game, and says why; else an illegal one."""

    name = "fainting"

    def __init__(self):
        super().__init__()
        self.failures = {}

    def act(self, games, rules, game_id):
        actions = super().act(games, rules, game_id)
        is_late = games["rounds"] >= 3
        fails = is_late & (game_id // rules.num_players % 2 == 0)
        self.failures |= dict.fromkeys(game_id[fails].tolist(), "fell asleep")
        return np.where(is_late, -1, actions)


class Slow(FirstLegal):
    """Takes the given seconds for each call, and leaves its process id in a folder."""

    def __init__(self, argument):
        super().__init__()
        seconds, folder = argument.split()
        self.seconds = float(seconds)
        Path(folder, str(os.getpid())).touch()

    def act(self, games, rules, game_id):
        time.sleep(self.seconds)
        return super().act(games, rules, game_id)


class Seeded(FirstLegal):
    """Adds the seed that it was made with to a file."""

    def __init__(self, path, seed):
        super().__init__()
        with open(path, "a") as file:
            print(seed, file=file)


class Refusing(FirstLegal):
    """Raises an error in round 2."""

    def act(self, games, rules, game_id):
        if (games["rounds"] >= 2).any():
            raise SplendorError("no, not 'me'")
        return super().act(games, rules, game_id)


class Dying(FirstLegal):
    """Ends its process in round 2."""

    def act(self, games, rules, game_id):
        if (games["rounds"] >= 2).any():
            os._exit(3)
        return super().act(games, rules, game_id)


class Broken(FirstLegal):
    """Has a bug that shows in round 2."""

    name = "broken"

    def act(self, games, rules, game_id):
        if (games["rounds"] >= 2).any():
            return {}["no such key"]
        return super().act(games, rules, game_id)


def without_time(results):
    """Results (G,) GAME_RESULT as if no time had passed."""
    results = results.copy()
    results["seconds"] = 0
    return results


def make_agent(argument, seed):
    name, _, rest = argument.partition(" ")
    kind = {one.__name__.lower(): one for one in (FirstLegal, Peeker, Cheat, Fainting)}
    kind |= {"slow": Slow, "refusing": Refusing, "dying": Dying, "broken": Broken}
    if name == "seeded":
        return Seeded(rest, seed)
    return kind[name](rest) if rest else kind[name]()
