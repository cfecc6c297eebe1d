// Cards, nobles and tokens as SVG of our own design, and the words for them.
//
// Each colour has a letter and a symbol, so that nothing depends on seeing the colour. Circles are
// tokens, upright rectangles are bonuses, that is cards.

import { h, svg } from "./dom.js";

export const COLORS = ["W", "U", "G", "R", "K"];
export const TOKENS = [...COLORS, "gold"];
export const COLOR_NAMES = {
  W: "white",
  U: "blue",
  G: "green",
  R: "red",
  K: "black",
  gold: "gold",
};

// In a box from -10 to 10.
const SYMBOLS = {
  W: ["M0-10 8 0 0 10-8 0z", "M-8 0H8M0-10-3 0 0 10 3 0z"],
  U: ["M0-10C4-4 8-.5 8 3.500A8 6.5 0 0 1-8 3.500C-8-.5-4-4 0-10z", "M-4 3A4 4 0 0 0 0 7"],
  G: ["M-3-10H3L7-6V6L3 10H-3L-7 6V-6z", "M-3-5H3V5H-3zM-7-6-3-5M7-6 3-5M-7 6-3 5M7 6 3 5"],
  R: ["M0-9.5 10 8H-10z", "M0-9.500V2M-10 8 0 2 10 8"],
  K: ["M0-9A9 9 0 1 0 0 9 9 9 0 1 0 0-9zM0-4A4 4 0 1 1 0 4 4 4 0 1 1 0-4z", ""],
  gold: ["M0-10 2.9-3.1 10-2.9 4.4 1.7 6.2 9 0 5-6.2 9-4.4 1.7-10-2.9-2.9-3.100z", ""],
};

/** Cost as [[color, count], ...], for drawing. */
const costOf = (name, cards) => Object.entries(cards[name].cost);

/** {W: 2, R: 1} as "2 white, 1 red". */
function countWords(counts) {
  const parts = TOKENS.filter((color) => counts[color]).map(
    (color) => `${counts[color]} ${COLOR_NAMES[color]}`,
  );
  return parts.join(", ") || "nothing";
}

/** {W: 2, R: 1} as "W2 R1". */
export function countLetters(counts) {
  return TOKENS.filter((color) => counts[color])
    .map((color) => (color === "gold" ? `gold ${counts[color]}` : `${color}${counts[color]}`))
    .join(" ");
}

export const plural = (count, noun) => `${count} ${noun}${count === 1 ? "" : "s"}`;

export const sum = (counts) => Object.values(counts).reduce((a, b) => a + b, 0);

/** A card in words: "blue card, 1 point". */
export function cardWords(name, cards) {
  const { bonus, points } = cards[name];
  return `${COLOR_NAMES[bonus]} card${points ? `, ${plural(points, "point")}` : ""}`;
}

export function costWords(name, cards) {
  return countWords(cards[name].cost);
}

function symbol(color, x, y, size, kind) {
  const [outline, facets] = SYMBOLS[color];
  const place = `translate(${x} ${y}) scale(${size / 10})`;
  return svg(
    "g",
    { class: `symbol ${kind}-${color}`, transform: place },
    svg("path", { d: outline, "fill-rule": "evenodd" }),
    facets && svg("path", { d: facets, class: "facets" }),
  );
}

function label(x, y, size, text, attributes) {
  const where = {
    x,
    y,
    "font-size": size,
    "dominant-baseline": "central",
    "text-anchor": "middle",
  };
  return svg("text", { ...where, ...attributes }, String(text));
}

const picture = (kind, width, height, ...children) =>
  svg(
    "svg",
    { class: kind, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" },
    ...children,
  );

/** A development card face up. */
export function cardPicture(name, cards, place) {
  const { bonus, points } = cards[name];
  const chips = costOf(name, cards).map(([color, count], index) => {
    const x = 23 + (index % 2) * 39;
    const y = 96 - Math.floor(index / 2) * 36;
    return [
      svg("circle", { cx: x, cy: y, r: 17, class: `gem-${color}` }),
      label(x, y, 17, `${color}${count}`, { class: `ink-${color}` }),
    ];
  });
  return picture(
    "card-picture",
    100,
    130,
    svg("rect", { x: 1, y: 1, width: 98, height: 128, rx: 9, class: "paper" }),
    symbol(bonus, 71, 66, 24, "shade"),
    svg("path", { d: "M1 38V10A9 9 0 0 1 10 1H90A9 9 0 0 1 99 10V38z", class: `gem-${bonus}` }),
    points ? label(22, 20.5, 28, points, { class: `ink-${bonus} points` }) : null,
    label(58, 20.5, 15, bonus, { class: `ink-${bonus}` }),
    symbol(bonus, 80, 20, 12, "ink"),
    ...chips,
    place && label(95, 121, 11, place, { class: "place", "text-anchor": "end" }),
  );
}

/** A card face down: the top of a deck, or a reserve that nobody else has seen. */
export function backPicture(level, size) {
  const dots = Array.from({ length: level }, (_, index) =>
    svg("circle", { cx: 50 + (index - (level - 1) / 2) * 16, cy: 22, r: 5, class: "dot" }),
  );
  return picture(
    "card-picture",
    100,
    130,
    svg("rect", { x: 1, y: 1, width: 98, height: 128, rx: 9, class: size === 0 ? "gone" : "back" }),
    svg("path", { d: "M50 36 82 65 50 94 18 65z", class: "back-mark" }),
    ...dots,
    size === undefined
      ? label(50, 66, 30, "?", { class: "back-ink" })
      : label(50, 66, 30, size, { class: "back-ink" }),
    label(50, 112, 15, `level ${level}`, { class: "back-ink" }),
  );
}

/** An empty place of the market. */
export const emptyPicture = () =>
  picture(
    "card-picture",
    100,
    130,
    svg("rect", { x: 1, y: 1, width: 98, height: 128, rx: 9, class: "gone" }),
  );

/** A card as a small badge for running text. */
export function cardBadge(name, cards) {
  const { bonus, points } = cards[name];
  const drawing = picture(
    "badge",
    40,
    24,
    svg("rect", { x: 1, y: 1, width: 38, height: 22, rx: 4, class: `gem-${bonus}` }),
    points ? label(11, 12.5, 15, points, { class: `ink-${bonus}` }) : null,
    symbol(bonus, points ? 28 : 20, 12, 7.5, "ink"),
  );
  const words = `${cardWords(name, cards)}, cost ${costWords(name, cards)}`;
  return h(
    "span",
    { class: "badge-box", title: words },
    drawing,
    h("span", { class: "hidden" }, words),
  );
}

/** What a noble asks for: "asks for 3 white, 3 blue bonus cards". */
export function nobleWords(name) {
  const asked = Object.fromEntries(COLORS.map((color, place) => [color, Number(name[place])]));
  return `asks for ${countWords(asked)} bonus cards`;
}

/** A noble; what it asks for is drawn as cards, because tokens do not count. */
export function noblePicture(name, points, isClaimed) {
  const asked = COLORS.map((color, place) => [color, Number(name[place])]).filter(([, n]) => n);
  const left = 50 - (asked.length * 30 - 4) / 2;
  const bonuses = asked.map(([color, count], index) => {
    const x = left + index * 30;
    return [
      svg("rect", { x, y: 40, width: 26, height: 34, rx: 4, class: `gem-${color}` }),
      label(x + 13, 57.5, 14, `${color}${count}`, { class: `ink-${color}` }),
    ];
  });
  return picture(
    `noble-picture ${isClaimed ? "claimed" : ""}`,
    100,
    82,
    svg("rect", { x: 1, y: 1, width: 98, height: 80, rx: 9, class: "noble-paper" }),
    svg("path", { d: "M62 28V12L69 19 77 8 85 19 92 12V28z", class: "crown" }),
    label(20, 20.5, 26, points, { class: "paper-ink points" }),
    ...bonuses,
  );
}

/** A pile of tokens, or one of them. */
export function tokenPicture(color, count) {
  return picture(
    "token-picture",
    100,
    100,
    svg("circle", { cx: 50, cy: 50, r: 47, class: count ? `gem-${color}` : "gone" }),
    svg("circle", { cx: 50, cy: 50, r: 40, class: count ? `rim-${color}` : "no-rim" }),
    symbol(color, 50, 29, 14, count ? "ink" : "faint"),
    label(50, 66, 38, count, { class: count ? `ink-${color}` : "faint-ink" }),
  );
}

/** A seat's tokens of a colour as a circle, its bonuses as a card; nothing as a dash. */
export function holdingPicture(kind, color, count) {
  const shape =
    kind === "token"
      ? svg("circle", { cx: 20, cy: 20, r: 18, class: count ? `gem-${color}` : "gone" })
      : svg("rect", {
          x: 5,
          y: 1,
          width: 30,
          height: 38,
          rx: 5,
          class: count ? `gem-${color}` : "gone",
        });
  const letter = color === "gold" ? "" : color;
  return picture(
    "holding-picture",
    40,
    40,
    shape,
    count
      ? label(20, 20.5, color === "gold" ? 19 : 16, `${letter}${count}`, { class: `ink-${color}` })
      : label(20, 20.5, 14, letter || "–", { class: "faint-ink" }),
  );
}
