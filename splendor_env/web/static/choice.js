// The panel of the viewer's turn: what is staged, what it would bring, the buttons that send it.

import {
  COLOR_NAMES,
  TOKENS,
  backPicture,
  cardPicture,
  cardWords,
  countLetters,
  holdingPicture,
  noblePicture,
  nobleWords,
  plural,
} from "./cards.js";
import { missingWords } from "./board.js";
import { announce, button, buttons, h } from "./dom.js";
import { clickBack, excess, inOrder, stagedMoves } from "./moves.js";
import { colorWords } from "./words.js";

/**
 * What the viewer sees while it is their turn.
 *
 * `turn` is {view, cards, stage, open, isBusy, setStage, clear, send}. `setStage(stage, key)`
 * stages something else and moves the focus, `send(moves)` sends moves one after the other.
 */
export function turnNodes(turn) {
  const { view, stage } = turn;
  if (view.phase === "return") return returnNodes(turn);
  if (view.phase === "noble") return nobleNodes(turn);
  if (view.phase === "pay") return payNodes(turn);
  if (stage?.take) return takeNodes(turn);
  if (stage?.card) return cardNodes(turn);
  if (stage?.deck) return deckNodes(turn);
  if (stage?.move) return passNodes(turn);
  return idleNodes(turn);
}

/** The button that sends; it has the focus once a choice is complete. */
function confirmButton({ isBusy, send }, text, moves) {
  return button(text, () => send(moves), {
    class: "primary",
    "data-key": "confirm",
    disabled: isBusy || moves.length === 0,
  });
}

const clearButton = ({ isBusy, stage, clear }) =>
  button("Clear", clear, { "data-key": "clear", disabled: isBusy || stage === null });

function idleNodes({ view, setStage }) {
  const canPass = view.legal_moves.includes("pass");
  return [
    h("h2", {}, "Your turn"),
    h("p", {}, "Choose a card to buy or reserve, a deck to reserve from, or tokens of the bank."),
    purseNode(view),
    canPass && buttons(button("Pass", () => setStage({ move: "pass" }, "confirm"))),
  ];
}

function passNodes(turn) {
  return [
    h("h2", {}, "Pass"),
    h("p", {}, "Do nothing in this turn."),
    buttons(confirmButton(turn, "Pass", [turn.stage.move]), clearButton(turn)),
  ];
}

function takeNodes(turn) {
  const { view, stage } = turn;
  const moves = stagedMoves(view, stage);
  const tokens = stage.take.map((token) => h("li", {}, holdingPicture("token", token, 1)));
  return [
    h("h2", {}, "Take tokens"),
    h("ul", { class: "tokens-row", "aria-label": "Chosen" }, tokens),
    purseNode(view, stage.take.length),
    moves.length === 0 && h("p", { class: "quiet" }, "These rules ask for more tokens than that."),
    buttons(confirmButton(turn, `Take ${inOrder(stage.take).join(" ")}`, moves), clearButton(turn)),
  ];
}

function cardNodes(turn) {
  const { view, cards, stage, open, isBusy, send } = turn;
  const place = stage.card;
  const canBuy = open.buy.has(place);
  const canReserve = open.reserve.has(place);
  const isReserved = place.startsWith("reserved");
  // Whichever is possible has the focus.
  const buy = button("Buy", () => send([`buy ${place}`]), {
    class: "primary",
    "data-key": canBuy ? "confirm" : "buy",
    disabled: isBusy || !canBuy,
  });
  const reserve = button("Reserve", () => send([`reserve ${place}`]), {
    "data-key": canBuy ? "reserve" : "confirm",
    disabled: isBusy || !canReserve,
  });
  return [
    h("h2", {}, isReserved ? `Your reserve ${place.split(" ")[1]}` : `Card ${place}`),
    lookNode(view, cards, place),
    purseNode(view),
    buttons(buy, !isReserved && reserve, clearButton(turn)),
    canReserve && h("p", { class: "quiet" }, goldWords(view)),
  ];
}

/** A card at a place in large, and what it still costs. */
export function lookNode(view, cards, place) {
  const card = cardAt(view, place);
  return h(
    "div",
    { class: "look" },
    cardPicture(card, cards),
    h(
      "div",
      {},
      h("h3", {}, cardWords(card, cards)),
      h("p", {}, missingWords(view, place) || `gives a ${COLOR_NAMES[cards[card].bonus]} bonus`),
    ),
  );
}

function cardAt(view, place) {
  const [kind, slot] = place.split(" ");
  return kind === "reserved"
    ? view.position.seats[view.viewer].reserved[slot - 1].card
    : view.position.market[place];
}

function deckNodes(turn) {
  const { view, stage } = turn;
  const moves = stagedMoves(view, stage);
  return [
    h("h2", {}, `Reserve the top of deck ${stage.deck}`),
    h(
      "div",
      { class: "look" },
      backPicture(stage.deck),
      h("p", {}, `Only you will see the card. ${goldWords(view)}`),
    ),
    purseNode(view),
    buttons(confirmButton(turn, "Reserve", moves), clearButton(turn)),
  ];
}

function goldWords(view) {
  if (view.position.bank.gold === 0) return "The bank has no gold left for a reserve.";
  const isFull = view.tokens_total[view.viewer] >= view.token_limit;
  return `Reserving brings 1 gold${isFull ? ", so you will return 1 token" : ""}.`;
}

/** The viewer's tokens, and how many there would be with `taking` more. */
export function purseNode(view, taking = 0) {
  const had = view.tokens_total[view.viewer];
  const total = had + taking;
  const over = total - view.token_limit;
  const held = countLetters(view.position.seats[view.viewer].tokens) || "none";
  return h(
    "p",
    { class: "purse" },
    `Your tokens: ${held} (`,
    h(
      "span",
      { class: over > 0 ? "over" : "" },
      `${taking ? `${had} + ${taking} = ` : ""}${total} of ${view.token_limit}`,
    ),
    ")",
    over > 0 && h("span", { class: "over" }, `, so you will return ${plural(over, "token")}`),
  );
}

function returnNodes(turn) {
  const { view, stage, setStage } = turn;
  const count = excess(view);
  const staged = stage?.back ?? [];
  const held = view.position.seats[view.viewer].tokens;
  const had = view.tokens_total[view.viewer];

  function choose(token) {
    const next = clickBack(view, stage, token);
    setStage(next, next?.back.length === count ? "confirm" : undefined);
    announce(next ? `To return: ${colorWords(next.back)}.` : "Nothing chosen.");
  }

  function tokenButton(token) {
    const chosen = staged.filter((other) => other === token).length;
    const words = `${COLOR_NAMES[token]}: you hold ${held[token]}`;
    return h(
      "button",
      {
        type: "button",
        class: `token-button ${chosen ? "staged" : ""}`,
        "data-key": `back ${token}`,
        "aria-pressed": String(chosen > 0),
        "aria-label": chosen ? `${words}, ${chosen} to return` : words,
        onclick: () => choose(token),
      },
      holdingPicture("token", token, held[token]),
      chosen > 0 && h("span", { class: "mark" }, `−${chosen}`),
    );
  }

  const moves = stagedMoves(view, stage);
  const tokens = TOKENS.filter((token) => held[token]).map((token) =>
    h("li", {}, tokenButton(token)),
  );
  return [
    h("h2", {}, `Return ${plural(count, "token")}`),
    h(
      "p",
      {},
      `You hold ${had} tokens and may keep ${view.token_limit}. Choose ${count} to give back: `,
      h("strong", {}, `${staged.length} of ${count} chosen`),
      ".",
    ),
    h("ul", { class: "tokens-row", "aria-label": "Your tokens" }, tokens),
    buttons(confirmButton(turn, `Return ${inOrder(staged).join(" ")}`, moves), clearButton(turn)),
  ];
}

function nobleNodes(turn) {
  const { view, stage, open, setStage } = turn;
  const offers = [...open.nobles].map((slot) => {
    const isStaged = stage?.noble === slot;
    const { noble } = view.position.nobles[slot - 1];
    const points = plural(view.rules.noble_points, "point");
    const attributes = {
      type: "button",
      class: `noble open ${isStaged ? "staged" : ""}`,
      "data-key": `offer ${slot}`,
      "aria-pressed": String(isStaged),
      "aria-label": `Noble ${slot}, ${points}, ${nobleWords(noble)}`,
      onclick: () => setStage(isStaged ? null : { noble: slot }, "confirm"),
    };
    return h(
      "li",
      {},
      h("button", attributes, noblePicture(noble, view.rules.noble_points, false)),
    );
  });
  const moves = stagedMoves(view, stage);
  return [
    h("h2", {}, "Choose a noble"),
    h("p", {}, "Several nobles would come to you; one may."),
    h("ul", { class: "noble-offers" }, offers),
    buttons(
      confirmButton(turn, moves.length ? `Choose noble ${stage.noble}` : "Choose", moves),
      clearButton(turn),
    ),
  ];
}

function payNodes(turn) {
  const { view, cards, stage, isBusy, setStage } = turn;
  const { pending, payment } = view.position;
  const card = cardAt(view, pending.replace("buy ", ""));
  const swaps = view.legal_moves.filter((move) => move.startsWith("pay gold for "));
  const color = swaps.includes(stage?.move) ? stage.move.split(" ")[3] : null;
  const paid = color
    ? { ...payment, [color]: payment[color] - 1, gold: payment.gold + 1 }
    : payment;
  const swapButtons = swaps.map((move) => {
    const isStaged = stage?.move === move;
    return button(
      `Gold for ${COLOR_NAMES[move.split(" ")[3]]}`,
      () => setStage(isStaged ? null : { move }),
      {
        disabled: isBusy,
        "data-key": move,
        "aria-pressed": String(isStaged),
      },
    );
  });
  const confirm = color
    ? confirmButton(turn, `Use gold for ${COLOR_NAMES[color]}`, [stage.move])
    : confirmButton(turn, `Pay ${countLetters(payment)}`, ["done"]);
  return [
    h("h2", {}, "Choose how to pay"),
    h(
      "div",
      { class: "look" },
      cardPicture(card, cards),
      h(
        "div",
        {},
        h("h3", {}, cardWords(card, cards)),
        h("p", {}, "You pay ", h("strong", {}, countLetters(paid)), "."),
        h("p", { class: "quiet" }, "Gold may replace a colour that you would rather keep."),
      ),
    ),
    buttons(swapButtons),
    buttons(confirm, clearButton(turn)),
  ];
}
