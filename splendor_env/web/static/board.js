// The table as a View shows it: nobles, market, bank and seats. Knows nothing of the server.
//
// `controls` says what a click does: {stage, open, onCard, onDeck, onPile, onNoble}; without it, as
// in a replay, the same pictures are no buttons. `open` is what `openThings` of moves.js returns.

import {
  COLOR_NAMES,
  TOKENS,
  backPicture,
  cardPicture,
  cardWords,
  costWords,
  countLetters,
  emptyPicture,
  holdingPicture,
  noblePicture,
  nobleWords,
  plural,
  sum,
  tokenPicture,
} from "./cards.js";
import { h, unseen } from "./dom.js";
import { moveLine, placeOf, seatName } from "./words.js";

export function boardNodes(view, cards, controls) {
  return [nobles(view, controls), market(view, cards, controls), bank(view, controls)];
}

/** A picture that is a button where there are controls, and else is read out as an image. */
function piece({ key, name, classes, pressed, onclick }, ...children) {
  if (onclick === undefined) {
    return h(
      "div",
      { class: classes, role: "img", "aria-label": name, "data-key": key },
      ...children,
    );
  }
  return h(
    "button",
    {
      type: "button",
      class: classes,
      "data-key": key,
      "aria-label": name,
      "aria-pressed": pressed === undefined ? null : String(pressed),
      onclick,
    },
    ...children,
  );
}

function nobles(view, controls) {
  const tiles = view.position.nobles.map(({ noble, owner }, index) => {
    const slot = index + 1;
    const isOpen = controls?.open.nobles.has(slot);
    const isStaged = controls?.stage?.noble === slot;
    const state = owner === null ? nobleWords(noble) : `with ${seatName(view, owner)}`;
    const classes = `noble ${isOpen ? "open" : ""} ${isStaged ? "staged" : ""}`;
    const name = `Noble ${slot}, ${plural(view.rules.noble_points, "point")}, ${state}`;
    return h(
      "li",
      {},
      piece(
        {
          key: `noble ${slot}`,
          name,
          classes,
          pressed: isOpen ? isStaged : undefined,
          onclick: isOpen ? () => controls.onNoble(slot) : undefined,
        },
        noblePicture(noble, view.rules.noble_points, owner !== null),
        owner !== null && h("span", { class: "owner" }, seatName(view, owner)),
      ),
    );
  });
  return h(
    "section",
    { class: "nobles", "aria-labelledby": "nobles-title" },
    h(
      "h2",
      { id: "nobles-title" },
      "Nobles",
      h("small", {}, " come for bonus cards; tokens do not count"),
    ),
    tiles.length ? h("ul", {}, tiles) : h("p", { class: "quiet" }, "This table has none."),
  );
}

function market(view, cards, controls) {
  const fresh = freshPlaces(view);
  const rows = [3, 2, 1].map((level) =>
    h(
      "li",
      { class: "market-row" },
      deck(view, level, controls),
      [1, 2, 3, 4].map((slot) => marketCard(view, cards, `${level}-${slot}`, fresh, controls)),
    ),
  );
  return h(
    "section",
    { class: "market", "aria-labelledby": "market-title" },
    h("h2", { id: "market-title" }, "Cards"),
    h("ul", {}, rows),
  );
}

function deck(view, level, controls) {
  const size = view.deck_sizes[level - 1];
  const isOpen = controls?.open.decks.has(level);
  const isStaged = controls?.stage?.deck === level;
  return piece(
    {
      key: `deck ${level}`,
      name: `Deck of level ${level}, ${plural(size, "card")}${isOpen ? ", open to you" : ""}`,
      classes: `card deck ${isOpen ? "open" : ""} ${isStaged ? "staged" : ""}`,
      pressed: isOpen ? isStaged : undefined,
      onclick: isOpen ? () => controls.onDeck(level) : undefined,
    },
    backPicture(level, size),
  );
}

function marketCard(view, cards, place, fresh, controls) {
  const card = view.position.market[place];
  if (card === null) {
    return h(
      "div",
      { class: "card", role: "img", "aria-label": `${place}: empty` },
      emptyPicture(),
    );
  }
  const left = fresh.get(place);
  return cardPiece(view, cards, card, place, controls, [
    left && h("span", { class: "fresh" }, "new", unseen(`, in place of ${cardWords(left, cards)}`)),
  ]);
}

function cardPiece(view, cards, card, place, controls, marks = []) {
  const canBuy = controls?.open.buy.has(place);
  const missing = canBuy ? "you can buy it" : missingWords(view, place);
  const isStaged = controls?.stage?.card === place;
  const isPending = view.position.pending === `buy ${place}` && view.player === view.viewer;
  const parts = [`${place}: ${cardWords(card, cards)}, cost ${costWords(card, cards)}`, missing];
  return piece(
    {
      key: `card ${place}`,
      name: parts.filter(Boolean).join("; "),
      classes: `card ${canBuy ? "can-buy" : ""} ${isStaged || isPending ? "staged" : ""}`,
      pressed: isStaged,
      onclick: controls && (() => controls.onCard(place)),
    },
    cardPicture(card, cards, place in view.position.market ? place : null),
    canBuy && h("span", { class: "tick" }, "✓"),
    marks,
    missing && h("span", { class: "missing" }, missing),
  );
}

/** What a place still costs the viewer: "missing W2 R1", and whether gold makes up for it. */
export function missingWords(view, place) {
  const missing = view.missing?.[place];
  if (!missing) return "";
  const lacking = sum(missing);
  if (lacking === 0) return "nothing missing";
  const gold = view.position.seats[view.viewer]?.tokens.gold ?? 0;
  const byGold = gold >= lacking ? "; gold covers it" : gold ? `; you have gold ${gold}` : "";
  return `missing ${countLetters(missing)}${byGold}`;
}

/** Places refilled since the viewer's last turn (a spectator: the mover's), and what left. */
function freshPlaces(view) {
  const places = new Map();
  const since = view.viewer ?? view.history.at(-1)?.seat;
  let isOwnTurn = view.viewer === null || view.history.at(-1)?.seat === view.viewer;
  for (const entry of view.history.toReversed()) {
    if (entry.seat === since && !isOwnTurn) break;
    if (entry.seat !== since) isOwnTurn = false;
    const place = placeOf(entry.move);
    if (place && entry.drawn && !places.has(place)) places.set(place, entry.card);
  }
  return places;
}

function bank(view, controls) {
  const piles = TOKENS.map((color) => {
    const count = view.position.bank[color];
    const isOpen = controls?.open.piles.has(color);
    const staged = controls?.stage?.take?.filter((taken) => taken === color).length ?? 0;
    const chosen = staged ? `, ${staged} chosen` : "";
    const name = `${COLOR_NAMES[color]}, ${plural(count, "token")}${chosen}`;
    return h(
      "li",
      {},
      piece(
        {
          key: `pile ${color}`,
          name,
          classes: `pile ${isOpen ? "open" : ""} ${staged ? "staged" : ""}`,
          pressed: isOpen || staged ? staged > 0 : undefined,
          onclick: isOpen || staged ? () => controls.onPile(color) : undefined,
        },
        tokenPicture(color, count),
        staged > 0 && h("span", { class: "mark" }, `+${staged}`),
      ),
      h(
        "span",
        { class: "pile-name", "aria-hidden": "true" },
        color === "gold" ? "gold" : `${color} ${COLOR_NAMES[color]}`,
      ),
    );
  });
  return h(
    "section",
    { class: "bank", "aria-labelledby": "bank-title" },
    h("h2", { id: "bank-title" }, "Bank"),
    h("ul", {}, piles),
  );
}

/** All seats in the order of play, from the viewer's on. */
export function seatNodes(view, cards, controls) {
  const { seats } = view.position;
  const first = view.replay ? 0 : (view.viewer ?? 0);
  const order = seats.map((_, index) => (first + index) % seats.length);
  return h(
    "section",
    { class: "seats", "aria-label": "Seats" },
    order.map((seat) => seatNode(view, cards, seat, seats[seat], controls)),
  );
}

function seatNode(view, cards, seat, held, controls) {
  const isMover = seat === view.player && !view.is_over;
  const isOwn = seat === view.viewer;
  const numNobles = view.position.nobles.filter(({ owner }) => owner === seat).length;
  const tokens = view.tokens_total[seat];
  const last = view.history.findLastIndex((entry) => entry.seat === seat);
  const marks = [isMover && "mover", view.is_over && view.winners.includes(seat) && "winner"];
  return h(
    "article",
    {
      class: ["seat", ...marks].filter(Boolean).join(" "),
      "aria-labelledby": `seat-${seat}`,
    },
    h(
      "header",
      {},
      h("h3", { id: `seat-${seat}` }, seatName(view, seat)),
      isMover && h("span", { class: "turn" }, view.thinking ? "thinking" : "to move"),
      h(
        "span",
        { class: "points" },
        String(held.points),
        h("small", {}, ` / ${view.rules.target_points}`),
        unseen(" points"),
      ),
    ),
    h(
      "ul",
      { class: "holdings" },
      TOKENS.map((color) => holding(held, color)),
    ),
    h(
      "p",
      { class: "quiet counts" },
      h(
        "span",
        { class: tokens > view.token_limit ? "over" : "" },
        `${tokens} of ${view.token_limit} tokens,`,
      ),
      ` ${plural(held.num_cards, "card")}, ${plural(numNobles, "noble")}`,
    ),
    held.reserved.length > 0 &&
      h(
        "ul",
        { class: "reserved", "aria-label": "Reserved" },
        held.reserved.map((entry, index) =>
          h(
            "li",
            {},
            reservedCard(view, cards, seat, entry, index + 1, isOwn ? controls : undefined),
          ),
        ),
      ),
    last >= 0 &&
      h("p", { class: "quiet last" }, "Last: ", moveLine(view, view.history[last], cards)),
  );
}

/** Bonuses and tokens of one colour, one above the other. */
function holding({ bonuses, tokens }, color) {
  const hasBonuses = color !== "gold";
  const counts = [
    hasBonuses && plural(bonuses[color], "bonus card"),
    plural(tokens[color], "token"),
  ];
  const words = `${COLOR_NAMES[color]}: ${counts.filter(Boolean).join(", ")}`;
  return h(
    "li",
    { title: words },
    hasBonuses ? holdingPicture("bonus", color, bonuses[color]) : h("span", { class: "no-bonus" }),
    holdingPicture("token", color, tokens[color]),
    unseen(`${words}.`),
  );
}

function reservedCard(view, cards, seat, { card, level, blind }, slot, controls) {
  if (card === null) {
    return piece(
      { name: `reserved ${slot}: a card of level ${level}, face down`, classes: "card" },
      backPicture(level),
    );
  }
  const isClosed = blind && seat === view.viewer;
  const marks = [
    isClosed && h("span", { class: "fresh", title: "Only you have seen it" }, "hidden"),
  ];
  const shown = seat === view.viewer ? view : { ...view, missing: {} };
  return cardPiece(shown, cards, card, `reserved ${slot}`, controls, marks);
}
