"""Plays the core against the independent slow engine and compares all there is to compare.

Run as a script for a long comparison: `python -m tests.differential --games 100000 --seed 1`.
"""

import argparse
import random
import time

import numpy as np

from splendor_env.core.actions import ACTION_NAMES, BUY, NUM_ACTIONS
from splendor_env.core.batch import (
    deal_games,
    step_games,
    write_action_masks,
    write_returns,
    write_victory_shares,
)
from splendor_env.core.gems import unpack
from splendor_env.core.state import GAME, PRESETS, EndReason, Payment, Phase, Rules, TakeFewer
from tests.reference import ReferenceGame

ACTION_INDEX = {name: action for action, name in enumerate(ACTION_NAMES)}
LETTERS = ("W", "U", "G", "R", "K", "gold")


def reference_rules(rules: Rules) -> dict[str, int | str]:
    """The same rules in the reference's terms."""
    return rules._asdict() | {
        "take_fewer": TakeFewer(rules.take_fewer).name,
        "payment": Payment(rules.payment).name,
    }


def reference_of_deal(game: np.record, rules: Rules) -> ReferenceGame:
    """A reference game that starts from the same deal."""
    return ReferenceGame(
        reference_rules(rules),
        game.market.tolist(),
        decks_of(game),
        game.nobles[: rules.num_nobles].tolist(),
    )


def decks_of(game: np.record) -> list[set[int]]:
    """The undrawn cards by level."""
    return [set(deck[:size].tolist()) for deck, size in zip(game.deck, game.deck_size, strict=True)]


def counts(gems: np.uint64, letters: tuple[str, ...] = LETTERS) -> dict[str, int]:
    """A packed vector as a dict by colour."""
    return dict(zip(letters, unpack(gems), strict=False))


def core_fields(game: np.record, rules: Rules) -> dict[str, object]:
    """Every field of the record in the reference's terms."""
    seats = range(rules.num_players)
    end_reason = EndReason(game.end_reason)
    return {
        "bank": counts(game.bank),
        "tokens": [counts(game.tokens[seat]) for seat in seats],
        "bonuses": [counts(game.bonuses[seat], LETTERS[:5]) for seat in seats],
        "points": game.points[: rules.num_players].tolist(),
        "num_cards": game.num_cards[: rules.num_players].tolist(),
        "market": [[card if card >= 0 else None for card in row] for row in game.market.tolist()],
        "decks": decks_of(game),
        "reserved": [[c for c in game.reserved[seat].tolist() if c >= 0] for seat in seats],
        "reserved_blind": [
            game.reserved_blind[seat][game.reserved[seat] >= 0].astype(bool).tolist()
            for seat in seats
        ],
        "nobles": game.nobles[: rules.num_nobles].tolist(),
        "noble_owner": [
            owner if owner >= 0 else None for owner in game.noble_owner[: rules.num_nobles].tolist()
        ],
        "player": int(game.player),
        "phase": Phase(game.phase).name,
        "round": int(game.rounds),
        "passes": int(game.passes),
        "pending": ACTION_NAMES[game.pending] if game.pending >= 0 else None,
        "payment": counts(game.payment),
        "end_reason": None if end_reason == EndReason.RUNNING else end_reason.name.lower(),
    }


def play_and_compare(rules: Rules, seed: int) -> int:
    """Play one random game in both engines; assert equality throughout; return the decisions.

    Half of the games prefer buying, so that many reach their end by points.
    """
    chooser = random.Random(seed)
    prefers_buying = chooser.random() < 0.5
    games = np.zeros(1, GAME)
    mask = np.zeros((1, NUM_ACTIONS), np.int8)
    rewards = np.zeros((1, rules.num_players), np.float32)
    deal_games(games, rules, np.uint64(seed))
    game = games[0]
    reference = reference_of_deal(game, rules)
    num_decisions = 0
    while True:
        fields = core_fields(game, rules)
        for name, value in fields.items():
            expected = getattr(reference, name)
            assert value == expected, f"seed {seed}, {rules}: {name} {value} != {expected}"
        write_action_masks(games, rules, mask)
        legal = {ACTION_NAMES[action] for action in np.flatnonzero(mask[0])}
        assert legal == reference.legal(), f"seed {seed}, {rules}: {legal ^ reference.legal()}"
        if not legal:
            break
        moves = sorted(legal, key=ACTION_INDEX.__getitem__)
        buys = [move for move in moves if ACTION_INDEX[move] >= BUY and move.startswith("buy")]
        move = chooser.choice(buys if buys and prefers_buying else moves)
        decks = fields["decks"]
        step_games(games, np.array([ACTION_INDEX[move]], np.int32), rules, -1)
        drawn = [card for old, new in zip(decks, decks_of(game), strict=True) for card in old - new]
        assert len(drawn) <= 1
        reference.apply(move, drawn[0] if drawn else None)
        num_decisions += 1
    write_returns(games, rules, rewards)
    assert rewards[0].tolist() == np.float32(reference.returns()).tolist()
    shares = rewards.copy()
    write_victory_shares(games, rules, shares)
    winners = reference.winners() or list(range(rules.num_players))
    assert np.flatnonzero(shares[0] > 0).tolist() == winners
    return num_decisions


def variants() -> list[Rules]:
    """Every preset and player count, and a few rules of extreme values."""
    presets = [preset(players) for preset in PRESETS.values() for players in (2, 3, 4)]
    standard, by_choice = PRESETS["standard"], PRESETS["rulebook_2014"]
    extremes = [
        standard(2, target_points=1, token_limit=5, max_rounds=12),
        standard(3, target_points=40, token_limit=20, noble_points=5, num_nobles=5),
        standard(4, reserve_limit=0, gold_tokens=7, num_nobles=0, take_two_minimum=2),
        by_choice(2, gold_tokens=7, token_limit=12, take_two_minimum=7, hide_reserves=1),
        by_choice(4, reserve_limit=1, noble_points=0, max_rounds=1),
        by_choice(3, max_rounds=3, target_points=2, take_fewer=TakeFewer.ALWAYS),
    ]
    return presets + extremes


def main() -> None:
    """Compare many games and say how many."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--games", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    start = time.time()
    decisions = 0
    rules_list = variants()
    for index in range(options.games):
        decisions += play_and_compare(rules_list[index % len(rules_list)], options.seed + index)
        if (index + 1) % 5_000 == 0:
            print(f"{index + 1} games, {decisions} decisions, no difference", flush=True)
    print(
        f"{options.games} games over {len(rules_list)} rule variants, {decisions} decisions, "
        f"no difference ({time.time() - start:.0f} s)"
    )


if __name__ == "__main__":
    main()
