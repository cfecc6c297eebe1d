"""A small data set of strong self-play: a file of records, and a data card that says what it is.

    python examples/make_dataset.py --games 100 --out datasets/mine

What is special here: every game has its own deal, so that none repeats or betrays another; records
hold each decision and each card drawn, and `load_dataset` verifies them and makes arrays of them.
"""

import argparse
import hashlib
import shlex
import sys
from collections import Counter
from pathlib import Path

import numpy as np

from splendor_env import PRESETS, SplendorError, __version__
from splendor_env.agents import make_agent
from splendor_env.core.state import EndReason
from splendor_env.evaluation.arena import Games, Seating, play_games
from splendor_env.record import load_dataset, record_game, write_records

CARD = """\
# Splendor self-play: {agent}, {players} players

Games of the board game Splendor that one agent has played against copies of itself, for imitation
and offline learning. Every decision, every card drawn and the result of each game are in
`{file}`, one JSON object a line (the format: docs/records.md of splendor_env).

| | |
|---|---|
| agents | `{agent}` in all seats, seed {seed} |
| rules | preset `{rules}`, {players} players |
| deals | {games}, one for each game, from seed {seed} |
| games | {games} |
| decisions | {decisions:,} |
| rounds a game | {rounds:.1f} |
| points a seat | {points:.1f} |
| win shares by seat | {shares} |
| ended by | {ends} |
| size | {size:,} bytes, SHA-256 `{digest}` |
| made by | splendor_env {version}: `{command}` |

```python
from splendor_env.record import load_dataset

dataset = load_dataset("{file}")
dataset.observation  # ({decisions}, {width}) float32, what the mover saw
dataset.action  # ({decisions},) int32, what it did; legal ones: dataset.action_mask
dataset.share  # ({decisions},) float32, the mover's share of the victory at the end
```

**Limits.** One agent's style, which is not perfect play; decisions of one game are not independent,
so split by `dataset.game`. The deals follow from the seed: they are no secret.

**Licence.** MIT, as splendor_env. The file holds moves and counts, no text or art of the game's
publisher, with whom this project is not connected.
"""


def main() -> int:
    """Play, write the records, read them back, and write the card."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--agent", default="lookahead:eval=pretrained", help="spec of the agent")
    parser.add_argument("--games", type=int, default=20)
    parser.add_argument("--players", type=int, default=2, choices=(2, 3, 4))
    parser.add_argument("--rules", default="standard", choices=PRESETS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("datasets/self_play"), help="folder")
    options = parser.parse_args()
    if options.games < 1:
        parser.error(f"--games must be at least 1, not {options.games}")

    rules = PRESETS[options.rules](options.players)
    try:
        agent = make_agent(options.agent, options.seed)
        seats = np.zeros((options.games, options.players), np.int16)
        seating = Seating(seats, np.arange(options.games))
        games = play_games([agent], seating, rules, options.seed)
    except SplendorError as error:
        parser.error(str(error))
    if games.notes:
        print(f"the agent has forfeited a game: {games.notes}", file=sys.stderr)
        return 1

    options.out.mkdir(parents=True, exist_ok=True)
    file = options.out / "games.jsonl.gz"
    write_records(
        file,
        (
            record_game(
                games.deals[game : game + 1],
                actions,
                rules,
                [options.agent] * options.players,
                about={"game": game, "seed": options.seed},
            )
            for game, actions in enumerate(games.actions)
        ),
    )
    card = data_card(options, file, games)
    (options.out / "README.md").write_text(card, encoding="utf-8")
    print(card.partition("\n```")[0])
    print(f"written: {file} and README.md")
    return 0


def data_card(options: argparse.Namespace, file: Path, games: Games) -> str:
    """What stands in the file, counted in what is read back from it."""
    dataset = load_dataset(file)
    results, players = games.results, options.players
    shares = results["share"][:, :players].mean(0)
    ends = Counter(EndReason(reason).name.lower() for reason in results["end_reason"])
    content = file.read_bytes()
    return CARD.format(
        agent=options.agent,
        players=players,
        file=file.name,
        rules=options.rules,
        seed=options.seed,
        games=len(results),
        decisions=len(dataset.action),
        width=dataset.observation.shape[1],
        rounds=results["rounds"].mean(),
        points=results["points"][:, :players].mean(),
        shares=", ".join(f"{share:.1%}" for share in shares),
        ends=", ".join(f"{name} {count}" for name, count in ends.items()),
        size=len(content),
        digest=hashlib.sha256(content).hexdigest(),
        version=__version__,
        command=shlex.join(["python", "examples/make_dataset.py", *sys.argv[1:]]),
    )


if __name__ == "__main__":
    sys.exit(main())
