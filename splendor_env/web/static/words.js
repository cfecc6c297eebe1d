// Moves, seats and situations in words.

import { cardBadge, cardWords, COLOR_NAMES, plural } from "./cards.js";
import { h, unseen } from "./dom.js";

/** Who plays a seat now, and for whom: "Ada", "greedy", "greedy for Ada". */
function seatSpec({ kind, name, agent }) {
  if (kind !== "agent") return name;
  return name ? `${agent} for ${name}` : agent;
}

/** Whether a seat is that of the person at this page; in a replay nobody's is. */
export const isOwn = (view, seat) => seat === view.viewer && !view.replay;

/** Who holds a seat: "Ada (you)", "greedy"; with its number where two would have the same name. */
export function seatName(view, seat) {
  const name = seatSpec(view.seats[seat]);
  const isShared = view.seats.filter((other) => seatSpec(other) === name).length > 1;
  const number = isShared ? ` ${seat + 1}` : "";
  return `${name}${number}${isOwn(view, seat) ? " (you)" : ""}`;
}

/** The place of the market that a move empties: "2-3", or null. */
export const placeOf = (move) => /^(?:buy|reserve) (\d-\d)$/.exec(move)?.[1] ?? null;

/** A move that has been made, as nodes: who is said elsewhere. */
export function moveLine(view, entry, cards) {
  const { move, card, drawn, noble } = entry;
  const words = pastWords(entry);
  const nodes = [words];
  if (card) nodes.push(" ", cardBadge(card, cards));
  if (drawn && placeOf(move)) {
    const arrow = h("span", { "aria-hidden": "true" }, "→ ");
    const came = h(
      "span",
      { class: "came", title: "came in its place" },
      arrow,
      unseen(", then came "),
      cardBadge(drawn, cards),
    );
    nodes.push(" ", came);
  }
  if (drawn && !placeOf(move) && drawn !== card) nodes.push(", it is ", cardBadge(drawn, cards));
  if (noble) {
    const gain = move.startsWith("noble") ? ", " : " and gained a noble, ";
    nodes.push(gain, h("strong", {}, plural(view.rules.noble_points, "point")));
  }
  return nodes;
}

/** The same as one sentence for the live region. */
export function moveSentence(view, entry, cards) {
  const card = entry.card ? `, ${cardWords(entry.card, cards)}` : "";
  const noble = entry.noble && !entry.move.startsWith("noble") ? " and gained a noble" : "";
  return `${seatName(view, entry.seat)} ${pastWords(entry)}${card}${noble}.`;
}

function pastWords({ move }) {
  const [verb, ...rest] = move.split(" ");
  if (verb === "take") return `took ${rest.join(" ")}`;
  if (move.startsWith("reserve deck")) return `reserved from deck ${rest[1]}`;
  if (verb === "reserve") return `reserved ${rest[0]}`;
  if (verb === "buy")
    return rest[0] === "reserved" ? `bought reserve ${rest[1]}` : `bought ${rest[0]}`;
  if (verb === "return") return `returned ${rest[0]}`;
  if (verb === "noble") return `chose noble ${rest[0]}`;
  if (verb === "pay") return `paid gold for ${rest[2]}`;
  return { done: "finished paying", pass: "passed" }[move] ?? move;
}

/** What is going on, in one sentence. */
export function statusSentence(view) {
  if (view.is_over) return endSentence(view);
  const isMine = isOwn(view, view.player);
  const who = isMine ? "Your turn" : seatName(view, view.player);
  const excess = view.tokens_total[view.player] - view.token_limit;
  if (view.phase === "return") {
    return isMine
      ? `Return ${plural(excess, "token")}`
      : `${who} returns ${plural(excess, "token")}`;
  }
  if (view.phase === "noble") return isMine ? "Choose a noble" : `${who} chooses a noble`;
  if (view.phase === "pay") return isMine ? "Choose how to pay" : `${who} pays`;
  if (isMine) return who;
  return view.thinking ? `${who} is thinking` : `${who} is to move`;
}

function endSentence(view) {
  if (view.winners.length === 0) return "The game is over: no winner";
  const names = view.winners.map((seat) => seatName(view, seat));
  if (names.length > 1) return `The game is over: ${names.join(" and ")} share the victory`;
  return isOwn(view, view.winners[0]) ? "You have won" : `${names[0]} has won`;
}

/** Why the game is over. */
export function endReason(view) {
  if (view.end_reason === "forfeit") {
    const loser = view.forfeited_by;
    return `${isOwn(view, loser) ? "You" : seatName(view, loser)} forfeited the game.`;
  }
  const reasons = {
    target: `${view.rules.target_points} points were reached and the round is complete.`,
    stalemate: "Every seat passed in a row.",
    round_limit: "The round limit was reached.",
  };
  return reasons[view.end_reason];
}

export const colorWords = (letters) => letters.map((letter) => COLOR_NAMES[letter]).join(", ");
