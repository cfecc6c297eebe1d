"""The lines between an arena and an engine, as docs/protocol.md has them: one JSON object each.

Both sides read and write with these functions. Nothing here knows processes or agents.
"""

import json
from typing import Any

from splendor_env.core.cards import (
    CARD_BONUS,
    CARD_COST,
    CARD_LEVEL,
    CARD_NAMES,
    CARD_POINTS,
    NOBLE_COST,
    NOBLE_NAMES,
)
from splendor_env.core.gems import COLOR_LETTERS, unpack
from splendor_env.core.state import Rules, SplendorError

PROTOCOL_VERSION = 1
"""Rises when a message changes its meaning or loses a field; new fields do not raise it."""

MAX_LINE = 64 * 1024
"""Longest line in bytes, line feed included."""

MAX_NAME = 80
"""Longest name of an arena or engine."""

_MAX_SHOWN = 200


class ProtocolError(SplendorError):
    """A line that is not what the protocol has at this place."""


def encode(kind: str, **fields: Any) -> bytes:
    """The line of a message."""
    text = json.dumps({"type": kind} | fields, separators=(",", ":"), allow_nan=False)
    return text.encode("ascii") + b"\n"


def decode(line: bytes) -> dict[str, Any]:
    """The message of a line; it has a `type`, other fields are not looked at.

    Raises:
        ProtocolError: The line is too long, has no end, or is not such a message.
    """
    if len(line) > MAX_LINE:
        raise ProtocolError(f"a line of more than {MAX_LINE} bytes: {shown(line)}")
    if not line.endswith(b"\n"):
        raise ProtocolError(f"half a line: {shown(line)}")
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        raise ProtocolError(f"a line that is not JSON: {shown(line)}") from None
    if not isinstance(message, dict) or not isinstance(message.get("type"), str):
        raise ProtocolError(f"no object with a `type`: {shown(line)}")
    return message


def shown(received: object) -> str:
    """What was received, printable and cut."""
    text = ascii(received)
    return text if len(text) <= _MAX_SHOWN else text[:_MAX_SHOWN] + "..."


def integer(message: dict[str, Any], key: str) -> int:
    """A field that must be an integer from 0 to 2**63 - 1."""
    value = message.get(key)
    if type(value) is not int or not 0 <= value < 2**63:
        raise ProtocolError(f"`{key}` must be an integer from 0, not {shown(value)}")
    return value


def check_hello(message: dict[str, Any]) -> str:
    """The name in a hello of our version.

    Raises:
        ProtocolError: Another message or version, or a name that cannot be printed.
    """
    if message["type"] != "hello":
        raise ProtocolError(f"no hello: {shown(message)}")
    version, name = message.get("protocol"), message.get("name")
    if type(version) is not int or version != PROTOCOL_VERSION:
        raise ProtocolError(f"protocol {shown(version)}, this program speaks {PROTOCOL_VERSION}")
    if not isinstance(name, str) or not name.isprintable() or not 1 <= len(name) <= MAX_NAME:
        raise ProtocolError(f"`name` must be 1 to {MAX_NAME} characters, not {shown(name)}")
    return name


def rules_line(rules: Rules) -> bytes:
    """The line that says how is played, and what every card and noble is."""
    cards = {
        name: {
            "level": int(CARD_LEVEL[card]) + 1,
            "points": int(CARD_POINTS[card]),
            "bonus": COLOR_LETTERS[CARD_BONUS[card]],
            "cost": _colors(CARD_COST[card]),
        }
        for card, name in enumerate(CARD_NAMES)
    }
    nobles = {
        name: {"points": rules.noble_points, "bonuses": _colors(NOBLE_COST[noble])}
        for noble, name in enumerate(NOBLE_NAMES)
    }
    return encode("rules", rules=rules._asdict(), cards=cards, nobles=nobles)


def _colors(gems: Any) -> dict[str, int]:
    return dict(zip(COLOR_LETTERS, unpack(gems), strict=False))
