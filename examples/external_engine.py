"""An engine in plain Python, for `splendor evaluate` and any other arena. See docs/protocol.md.

    splendor evaluate "external:python examples/external_engine.py" --against random

Buys the card with the most points if it can, else takes tokens for the card that is cheapest now.
"""

import json
import sys


def choose(position, legal_moves, cards):
    """One of the legal moves, in notation such as "buy 1-4" or "take W U G"."""
    seat = position["seats"][position["player"]]
    slots = {slot: cards[name] for slot, name in position["market"].items() if name}
    for slot, entry in enumerate(seat["reserved"], 1):
        slots[f"reserved {slot}"] = cards[entry["card"]]

    def missing(card):
        have = {color: seat["bonuses"][color] + seat["tokens"][color] for color in card["cost"]}
        return {color: max(0, cost - have[color]) for color, cost in card["cost"].items()}

    def worth(move):
        kind, _, rest = move.partition(" ")
        if kind == "buy":
            return 100 + slots[rest]["points"]
        if kind == "take":
            return sum(goal[color] for color in set(rest.split())) + 0.1 * len(rest)
        return -goal.get(rest, 9) if kind == "return" else 0

    goal = min(
        (missing(card) for card in slots.values()), key=lambda m: sum(m.values()), default={}
    )
    return max(legal_moves, key=worth)


def main():
    """Answer each message that asks for an answer, until the arena says goodbye or goes."""
    for line in sys.stdin:
        message = json.loads(line)
        answer = None
        if message["type"] == "hello":
            answer = {"type": "hello", "protocol": 1, "name": "cheapest card"}
        elif message["type"] == "rules":
            cards = message["cards"]
        elif message["type"] == "position":
            move = choose(message["position"], message["legal_moves"], cards)
            answer = {"type": "answer", "id": message["id"], "move": move}
        elif message["type"] == "goodbye":
            return
        if answer:
            print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
