"""The board as an RGB image, drawn with Pillow alone: no display, no files, no randomness.

Lengths are those of a board 800 wide, and `_Pen` scales them. Every colour is accompanied by its
letter: circles are tokens and costs, squares are bonuses. Words come from `text.py`.
"""

import os
from collections.abc import Iterable, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from splendor_env.core.actions import BUY, BUY_RESERVED
from splendor_env.core.cards import (
    CARD_BONUS,
    CARD_COST,
    CARD_LEVEL,
    CARD_POINTS,
    NOBLE_COST,
    NUM_LEVELS,
)
from splendor_env.core.gems import COLOR_LETTERS, GOLD, NUM_COLORS, total, unpack
from splendor_env.core.hidden import is_secret
from splendor_env.core.rules import hand_size
from splendor_env.core.state import MARKET_SLOTS, MAX_RESERVED, Rules
from splendor_env.render.text import SPECTATOR, count_text, seat_to_move, status_lines


class _CardSize(NamedTuple):
    width: float
    height: float
    header: float
    gem_radius: float


_WIDTH = 800
_OVERSAMPLING = 2
"""Drawn this much larger and averaged, since Pillow's own edges are jagged."""

# Distinct under the common colour blindnesses (after Okabe and Ito), in the order W U G R K gold.
_GEM_COLORS = ("#ffffff", "#0067a8", "#00875f", "#c8501e", "#2b2b2b", "#f2c230")
_GEM_INKS = ("#222222", "#ffffff", "#ffffff", "#ffffff", "#ffffff", "#222222")
_TABLE = "#e4ddcd"
_PAPER = "#fbf8f1"
_BACK = "#6f675a"
_BAND = "#d3cab7"
_LINE = "#a59c8b"
_INK = "#222222"
_FAINT_INK = "#7d7568"
_HIGHLIGHT = "#8e3b8a"

_MARGIN = 12
_GAP = 10
_TOP = 62
_DECK_WIDTH = 82
_MARKET_CARD = _CardSize(108, 106, 31, 15)
_HELD_CARD = _CardSize(56, 79, 20, 12)
_BANK_X = 594
_BANK_PITCH = 58
_NOBLE_X = 686
_NOBLE_WIDTH, _NOBLE_HEIGHT = 102, 59
_SEATS_Y = _TOP + NUM_LEVELS * (_MARKET_CARD.height + _GAP) + 4
_SEAT_WIDTH, _SEAT_HEIGHT = 383, 138
_SEAT_HEADER = 28


_COLORS_IN_FILE = 64
"""Colours of a picture in a file: edges stay smooth, and files small."""
_FRAME_MS, _LAST_FRAME_MS = 900, 6000
"""How long a picture of a GIF is shown."""


def write_png(path: str | os.PathLike[str], image: np.ndarray) -> None:
    """Write a board (H, W, 3) uint8 as a small PNG file."""
    palette = Image.fromarray(image).quantize(_COLORS_IN_FILE)
    palette.save(path, "PNG", optimize=True)


def write_gif(path: str | os.PathLike[str], images: Iterable[np.ndarray]) -> None:
    """Write boards (H, W, 3) uint8, of equal size, as an animation that holds the last one."""
    frames = [Image.fromarray(image) for image in images]
    # Of one common palette, so that what stays the same on the board costs nothing.
    palette = frames[len(frames) // 2].quantize(_COLORS_IN_FILE)
    first, *others = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames]
    durations = [_FRAME_MS] * len(others) + [_LAST_FRAME_MS]
    first.save(
        path, "GIF", save_all=True, append_images=others, duration=durations, loop=0, optimize=True
    )


def board_image(
    game: np.record,
    rules: Rules,
    viewer: int | None = None,
    width: int = _WIDTH,
    note: str = "",
    forfeited_by: int | None = None,
) -> np.ndarray:
    """Draw one game: (H, `width`, 3) uint8. H depends on `width` and the number of players.

    Args:
        game: One record of dtype `GAME`.
        rules: The variant the game was dealt with.
        viewer: Seat whose own secrets are shown; None is a spectator, who sees nobody's.
        width: In pixels; the small print asks for 600 or more.
        note: Stands under the title, for instance the last move.
        forfeited_by: Seat that has lost the game by giving it up.
    """
    seat_rows = (rules.num_players + 1) // 2
    pen = _Pen(width, _SEATS_Y + seat_rows * (_SEAT_HEIGHT + _GAP) + _MARGIN - _GAP)
    _draw_status(pen, status_lines(game, rules, forfeited_by), note)
    _draw_market(pen, game)
    _draw_bank(pen, game)
    _draw_nobles(pen, game, rules)
    mover = seat_to_move(game, forfeited_by)
    for seat in range(rules.num_players):
        x = _MARGIN + seat % 2 * (_SEAT_WIDTH + _GAP)
        y = _SEATS_Y + seat // 2 * (_SEAT_HEIGHT + _GAP)
        _draw_seat(pen, x, y, game, rules, seat, viewer, seat == mover)
    return np.array(pen.image.reduce(_OVERSAMPLING))


class _Pen:
    """Draws on an enlarged image, lengths given for a board 800 wide."""

    def __init__(self, width: int, height: float) -> None:
        self._scale = width / _WIDTH * _OVERSAMPLING
        size = (width * _OVERSAMPLING, round(height * width / _WIDTH) * _OVERSAMPLING)
        self.image = Image.new("RGB", size, _TABLE)
        self._draw = ImageDraw.Draw(self.image)

    def tile(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        fill: str | None,
        *,
        outline: str = _LINE,
        line: float = 1,
        radius: float = 6,
        is_header: bool = False,
    ) -> None:
        """A rounded rectangle; that of a header has square corners at the bottom."""
        self._draw.rounded_rectangle(
            self._scaled(x, y, x + width, y + height),
            radius * self._scale,
            fill,
            outline,
            self._line(line),
            corners=(True, True, not is_header, not is_header),
        )

    def disc(self, x: float, y: float, radius: float, fill: str | None) -> None:
        """A circle around a point."""
        box = self._scaled(x - radius, y - radius, x + radius, y + radius)
        self._draw.ellipse(box, fill, _LINE, self._line(1))

    def text(
        self, x: float, y: float, text: object, size: float, ink: str = _INK, anchor: str = "m"
    ) -> None:
        """One line, vertically centred at y, with its (l)eft, (m)iddle or (r)ight at x."""
        font = _font(max(1, round(size * self._scale)))
        x, y = self._scaled(x, y)
        # Capitals and digits are centred by their own height, so that letters below the line
        # do not lift the others.
        _, top, _, bottom = font.getbbox("H", anchor="ls")
        self._draw.text((x, y - (top + bottom) / 2), str(text), ink, font, anchor + "s")

    def fitting(self, text: str, size: float, width: float) -> float:
        """The size of letters, or a smaller one with which the text is no wider than `width`."""
        length = _font(max(1, round(size * self._scale))).getlength(text) / self._scale
        return size * min(1, width / length) if length else size

    def _scaled(self, *lengths: float) -> list[float]:
        return [length * self._scale for length in lengths]

    def _line(self, width: float) -> int:
        return max(1, round(width * self._scale))


@cache
def _font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size)


def _draw_status(pen: _Pen, status: Sequence[str], note: str) -> None:
    title, *notes = status
    pen.text(_MARGIN, 20, title, 19, anchor="l")
    line = " ".join([*notes, note]).strip()
    pen.text(_MARGIN, 45, line, pen.fitting(line, 14, _WIDTH - 2 * _MARGIN), anchor="l")


def _draw_market(pen: _Pen, game: np.record) -> None:
    for level in range(NUM_LEVELS):
        y = _TOP + (NUM_LEVELS - 1 - level) * (_MARKET_CARD.height + _GAP)
        _draw_deck(pen, y, level, game.deck_size[level])
        for slot in range(MARKET_SLOTS):
            x = _MARGIN + _DECK_WIDTH + _GAP + slot * (_MARKET_CARD.width + _GAP)
            _draw_market_card(pen, x, y, game, level, slot)


def _draw_deck(pen: _Pen, y: float, level: int, size: int) -> None:
    middle = _MARGIN + _DECK_WIDTH / 2
    ink = "#ffffff" if size else _FAINT_INK
    pen.tile(_MARGIN, y, _DECK_WIDTH, _MARKET_CARD.height, _BACK if size else _TABLE)
    pen.text(middle, y + 26, f"level {level + 1}", 15, ink)
    pen.text(middle, y + 58, size, 30, ink)
    pen.text(middle, y + 87, "in deck", 13, ink)


def _draw_market_card(
    pen: _Pen, x: float, y: float, game: np.record, level: int, slot: int
) -> None:
    width, height, *_ = _MARKET_CARD
    card = int(game.market[level, slot])
    if card < 0:
        pen.tile(x, y, width, height, None)
    else:
        is_pending = game.pending == BUY + level * MARKET_SLOTS + slot
        _draw_card(pen, x, y, _MARKET_CARD, card, is_pending)
    pen.text(x + width - 8, y + height - 14, f"{level + 1}-{slot + 1}", 13, _FAINT_INK, "r")


def _draw_card(pen: _Pen, x: float, y: float, size: _CardSize, card: int, is_pending: bool) -> None:
    """Header in the bonus colour with points and letter; below it the cost, two by two."""
    width, height, header, radius = size
    bonus = CARD_BONUS[card]
    ink = _GEM_INKS[bonus]
    pen.tile(x, y, width, height, _PAPER)
    pen.tile(x, y, width, header, _GEM_COLORS[bonus], is_header=True)
    if CARD_POINTS[card]:
        pen.text(x + header / 3, y + header / 2, CARD_POINTS[card], header * 0.7, ink, "l")
    pen.text(x + width - header / 3, y + header / 2, COLOR_LETTERS[bonus], header * 0.6, ink, "r")
    costs = unpack(CARD_COST[card])
    pitch = 2 * radius + 2
    left = x + min(6, width / 2 - pitch + 1) + radius
    upper = y + (header + height - pitch) / 2
    for place, color in enumerate(np.flatnonzero(costs).tolist()):
        row, column = divmod(place, 2)
        _draw_gem(pen, left + column * pitch, upper + row * pitch, radius, color, costs[color])
    if is_pending:
        pen.tile(x, y, width, height, None, outline=_HIGHLIGHT, line=4)


def _draw_gem(pen: _Pen, x: float, y: float, radius: float, color: int, count: int) -> None:
    pen.disc(x, y, radius, _GEM_COLORS[color])
    pen.text(x, y, f"{COLOR_LETTERS[color]}{count}", radius, _GEM_INKS[color])


def _draw_bonus(pen: _Pen, x: float, y: float, color: int, count: int) -> None:
    pen.tile(x, y, 26, 24, _GEM_COLORS[color], radius=3)
    size = 13 if count < 10 else 11
    pen.text(x + 13, y + 12, f"{COLOR_LETTERS[color]}{count}", size, _GEM_INKS[color])


def _draw_bank(pen: _Pen, game: np.record) -> None:
    for color, count in enumerate(unpack(game.bank)):
        x, y = _BANK_X + 24, _TOP + 24 + color * _BANK_PITCH
        pen.disc(x, y, 24, _GEM_COLORS[color] if count else None)
        pen.text(x, y, count, 22, _GEM_INKS[color] if count else _FAINT_INK)
        pen.text(x + 30, y, (*COLOR_LETTERS, "gold")[color], 14, anchor="l")


def _draw_nobles(pen: _Pen, game: np.record, rules: Rules) -> None:
    for slot in range(rules.num_nobles):
        if game.nobles[slot] < 0:
            continue
        x, y = _NOBLE_X, _TOP + slot * (_NOBLE_HEIGHT + _GAP)
        owner = game.noble_owner[slot]
        is_free = owner < 0
        ink = _INK if is_free else _FAINT_INK
        pen.tile(x, y, _NOBLE_WIDTH, _NOBLE_HEIGHT, _PAPER if is_free else None)
        pen.text(x + 9, y + 15, f"noble {slot + 1}", 13, ink, "l")
        pen.text(x + _NOBLE_WIDTH - 9, y + 15, rules.noble_points, 18, ink, "r")
        if not is_free:
            pen.text(x + 9, y + 42, f"with seat {owner}", 14, ink, "l")
            continue
        asked = unpack(NOBLE_COST[int(game.nobles[slot])])
        for place, color in enumerate(np.flatnonzero(asked).tolist()):
            _draw_bonus(pen, x + 8 + place * 30, y + 29, color, asked[color])


def _draw_seat(
    pen: _Pen,
    x: float,
    y: float,
    game: np.record,
    rules: Rules,
    seat: int,
    viewer: int | None,
    is_mover: bool,
) -> None:
    band, ink = (_HIGHLIGHT, "#ffffff") if is_mover else (_BAND, _INK)
    name = f"Seat {seat}{' (you)' if seat == viewer else ''}{', to move' if is_mover else ''}"
    middle = y + _SEAT_HEADER / 2
    pen.tile(x, y, _SEAT_WIDTH, _SEAT_HEIGHT, _PAPER)
    pen.tile(x, y, _SEAT_WIDTH, _SEAT_HEADER, band, is_header=True)
    pen.text(x + 10, middle, name, 16, ink, "l")
    pen.text(x + _SEAT_WIDTH - 10, middle, count_text(game.points[seat], "point"), 18, ink, "r")

    tokens = unpack(game.tokens[seat])
    held = f"tokens {int(total(game.tokens[seat]))} of {rules.token_limit}"
    pen.text(x + 9, y + 42, held, 12, _FAINT_INK, "l")
    for color, count in enumerate(tokens[:NUM_COLORS]):
        if count:
            _draw_gem(pen, x + 22 + color * 28, y + 64, 13, color, count)
    if tokens[GOLD]:
        pen.tile(x + 151, y + 51, 43, 26, _GEM_COLORS[GOLD], radius=13)
        pen.text(x + 172.5, y + 64, f"gold {tokens[GOLD]}", 13, _GEM_INKS[GOLD])
    pen.text(x + 9, y + 92, f"bought cards {game.num_cards[seat]}", 12, _FAINT_INK, "l")
    for color, count in enumerate(unpack(game.bonuses[seat])[:NUM_COLORS]):
        if count:
            _draw_bonus(pen, x + 9 + color * 28, y + 103, color, count)

    for slot in range(hand_size(game, seat)):
        held_x = x + _SEAT_WIDTH - (MAX_RESERVED - slot) * (_HELD_CARD.width + 4) - 4
        _draw_held_card(pen, held_x, y + 36, game, rules, seat, slot, viewer)


def _draw_held_card(
    pen: _Pen,
    x: float,
    y: float,
    game: np.record,
    rules: Rules,
    seat: int,
    slot: int,
    viewer: int | None,
) -> None:
    width, height, *_ = _HELD_CARD
    card = int(game.reserved[seat, slot])
    if is_secret(game, rules, seat, slot, SPECTATOR if viewer is None else viewer):
        pen.tile(x, y, width, height, _BACK)
        pen.text(x + width / 2, y + height / 2, f"level {CARD_LEVEL[card] + 1}", 13, "#ffffff")
    else:
        is_pending = seat == game.player and game.pending == BUY_RESERVED + slot
        _draw_card(pen, x, y, _HELD_CARD, card, is_pending)
    pen.text(x + width / 2, y + height + 11, f"reserved {slot + 1}", 11, _FAINT_INK)
