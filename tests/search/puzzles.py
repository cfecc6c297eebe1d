"""End-game positions built by hand. Each has good moves and bad ones, and `exhaustive` can tell."""

EMPTY = [[], [], []]
"""Decks without a card: nothing is turned up."""

PUZZLES = {
    # Seat 0 has 15 points with 6 cards; seat 1 decides the last turn.
    "four points win where three would lose the tie": {
        "player": 1,
        "bank": {},
        "market": {"3-1": "W00007", "2-1": "K00006"},
        "decks": EMPTY,
        "nobles": [],
        "seats": [
            {"points": 15, "num_cards": 6},
            {"points": 12, "num_cards": 6, "bonuses": {"K": 7}},
        ],
    },
    "three points win a tie with fewer cards": {
        "player": 1,
        "bank": {"W": 4, "U": 1},
        "market": {"1-1": "W00400", "2-1": "K00006"},
        "decks": EMPTY,
        "nobles": [],
        "seats": [
            {"points": 15, "num_cards": 12},
            {"points": 12, "num_cards": 10, "bonuses": {"K": 6, "G": 4}},
        ],
    },
    "a shared victory is better than none": {
        "player": 1,
        "bank": {"W": 1, "U": 1, "G": 1},
        "market": {"1-1": "W00400", "2-1": "K00006"},
        "decks": EMPTY,
        "nobles": [],
        "seats": [
            {"points": 15, "num_cards": 11},
            {"points": 12, "num_cards": 10, "bonuses": {"K": 6, "G": 4}},
        ],
    },
    "a card without points brings the noble that wins": {
        "player": 1,
        "bank": {"R": 1},
        "market": {"1-1": "K00300", "2-1": "W00050"},
        "decks": EMPTY,
        "nobles": ["00044", "44000"],
        "seats": [
            {"points": 15, "num_cards": 7},
            {"points": 13, "num_cards": 10, "bonuses": {"R": 5, "K": 3, "G": 3}},
        ],
    },
    # Seat 1 has a card of two points in reach, and with a noble it would have 17.
    "the noble that the other would get is chosen": {
        "player": 0,
        "phase": "noble",
        "bank": {"W": 1},
        "market": {"1-1": "K00300", "2-1": "K00530"},
        "decks": EMPTY,
        "nobles": ["33003", "00044", "33300"],
        "seats": [
            {"points": 12, "num_cards": 9, "bonuses": {"W": 3, "U": 3, "G": 3, "R": 4, "K": 4}},
            {"points": 12, "num_cards": 9, "bonuses": {"G": 5, "R": 4, "K": 3}},
        ],
    },
    # Next turn seat 1 needs seven black for the last points, or six for too few.
    "the token that is needed stays": {
        "player": 1,
        "phase": "return",
        "round": 20,
        "rules": {"max_rounds": 21, "reserve_limit": 0},
        "bank": {},
        "market": {"3-1": "W00007"},
        "decks": EMPTY,
        "nobles": [],
        "seats": [
            {"points": 10},
            {"points": 11, "tokens": {"K": 4, "W": 4, "gold": 3}},
        ],
    },
    "gold is kept too": {
        "player": 2,
        "phase": "return",
        "round": 20,
        "rules": {"max_rounds": 21, "reserve_limit": 0},
        "bank": {},
        "market": {"3-1": "U70000"},
        "decks": EMPTY,
        "nobles": [],
        "seats": [
            {"points": 10},
            {"points": 3},
            {"points": 11, "tokens": {"W": 5, "R": 4, "gold": 2}},
        ],
    },
    # Buying to 15 at once lets seat 1 have the four points.
    "the card that the other needs is reserved": {
        "player": 0,
        "round": 20,
        "rules": {"max_rounds": 21},
        "bank": {},
        "market": {"1-1": "W00400", "1-2": "K04000", "3-1": "W00007"},
        "decks": EMPTY,
        "nobles": [],
        "seats": [
            {"points": 14, "num_cards": 10, "bonuses": {"G": 4, "U": 4}},
            {"points": 12, "num_cards": 9, "bonuses": {"K": 7}},
        ],
    },
    "two colours are collected for the next turn": {
        "player": 0,
        "round": 20,
        "rules": {"max_rounds": 21, "reserve_limit": 0},
        "bank": {"W": 1, "U": 1, "R": 1, "K": 1},
        "market": {"2-1": "K01420"},
        "decks": EMPTY,
        "nobles": [],
        "seats": [
            {"points": 13, "num_cards": 9, "bonuses": {"G": 4, "R": 1}},
            {"points": 14, "num_cards": 9},
        ],
    },
    # Seat 0 has finished; seat 2 can afford the four points only.
    "three players: the points that the next seat needs": {
        "player": 1,
        "bank": {"W": 1, "U": 1},
        "market": {"3-1": "W00007", "2-1": "K00006"},
        "decks": EMPTY,
        "nobles": [],
        "seats": [
            {"points": 15, "num_cards": 8},
            {"points": 13, "num_cards": 9, "bonuses": {"K": 7}},
            {"points": 14, "num_cards": 9, "tokens": {"K": 5, "gold": 2}},
        ],
    },
    # Seat 2 would have 15 with fewer cards, but can afford the black card only.
    "three players: a tie with seat 0 is kept from seat 2": {
        "player": 1,
        "bank": {"G": 1},
        "market": {"1-1": "W00400", "1-2": "K04000"},
        "decks": EMPTY,
        "nobles": [],
        "seats": [
            {"points": 15, "num_cards": 10},
            {"points": 14, "num_cards": 9, "bonuses": {"U": 4, "G": 4}},
            {"points": 14, "num_cards": 8, "bonuses": {"U": 4}},
        ],
    },
    "four players: only the noble beats the two after it": {
        "player": 1,
        "bank": {"W": 1},
        "market": {"1-1": "G00030", "2-1": "K00006", "2-2": "G00500"},
        "decks": EMPTY,
        "nobles": ["00440", "00044"],
        "seats": [
            {"points": 15, "num_cards": 7},
            {"points": 13, "num_cards": 9, "bonuses": {"G": 3, "R": 4}},
            {"points": 12, "num_cards": 6, "bonuses": {"K": 6}},
            {"points": 8, "num_cards": 9, "bonuses": {"G": 5}},
        ],
    },
    # Both buys make 15, but one of them may turn up what seat 1 wins with.
    "the refill that can help the other is avoided": {
        "player": 0,
        "rules": {"reserve_limit": 0},
        "bank": {},
        "market": {"1-1": "K04000", "2-1": "U02230"},
        "decks": [["K00300", "G00030"], ["K00006", "U05000"], []],
        "nobles": [],
        "seats": [
            {"points": 14, "num_cards": 9, "bonuses": {"U": 4, "G": 2, "R": 3}},
            {"points": 13, "num_cards": 9, "bonuses": {"K": 6}},
        ],
    },
    "of two risks the smaller one": {
        "player": 0,
        "rules": {"reserve_limit": 0},
        "bank": {},
        "market": {"1-1": "K04000", "2-1": "U02230"},
        "decks": [["G00004", "K00300", "G00030"], ["K00006", "U05000"], []],
        "nobles": [],
        "seats": [
            {"points": 14, "num_cards": 9, "bonuses": {"U": 4, "G": 2, "R": 3}},
            {"points": 14, "num_cards": 8, "bonuses": {"K": 6}},
        ],
    },
    # Seat 1 needs a white token for its last points.
    "gold is paid to keep white from the other": {
        "player": 0,
        "phase": "pay",
        "pending": "buy 1-1",
        "payment": {"W": 1},
        "round": 20,
        "rules": {"max_rounds": 21, "payment": 1, "reserve_limit": 0},
        "bank": {},
        "market": {"1-1": "R40000", "2-1": "G42001", "2-2": "W60000"},
        "decks": EMPTY,
        "nobles": [],
        "seats": [
            {
                "points": 13,
                "num_cards": 9,
                "tokens": {"W": 1, "gold": 1},
                "bonuses": {"W": 3, "U": 2, "K": 1},
            },
            {"points": 14, "num_cards": 12, "bonuses": {"W": 5}},
        ],
    },
}
_SLOTS = [f"{level}-{slot}" for level in (1, 2, 3) for slot in (1, 2, 3, 4)]
for _puzzle in PUZZLES.values():  # a slot that is not named is empty
    _puzzle["market"] = {slot: _puzzle["market"].get(slot) for slot in _SLOTS}
