// Choosing a move: what is open to the viewer, and what has been staged but not sent.
//
// A stage is null or one of {take: [colors]}, {back: [tokens]}, {card: place}, {deck: level},
// {noble: slot}, {move: notation}. The server alone knows the rules: everything here asks its list
// of legal moves.

import { COLORS, TOKENS } from "./cards.js";

const colorsOf = (move) => move.split(" ").slice(1);

/** What the legal moves touch, for highlighting; `stage` narrows the piles to what can be added. */
export function openThings(view, stage) {
  const moves = view.legal_moves;
  const ending = (start) =>
    new Set(moves.filter((m) => m.startsWith(start)).map((m) => m.slice(start.length)));
  const numbers = (start) => new Set([...ending(start)].map(Number));
  return {
    buy: ending("buy "),
    reserve: ending("reserve "),
    decks: numbers("reserve deck "),
    nobles: numbers("noble "),
    piles: new Set(COLORS.filter((color) => addToTake(view, stage?.take ?? [], color) !== null)),
  };
}

/** The colours taken with one more of `color`, or null if no legal move has them all. */
function addToTake(view, take, color) {
  const wanted = [...take, color];
  const isWithin = view.legal_moves.some((move) => {
    if (!move.startsWith("take ")) return false;
    const rest = colorsOf(move);
    return wanted.every((letter) => {
      const at = rest.indexOf(letter);
      if (at >= 0) rest.splice(at, 1);
      return at >= 0;
    });
  });
  return isWithin ? wanted : null;
}

/** A click on a pile adds a token of it, and takes its tokens back where none can be added. */
export function clickPile(view, stage, color) {
  const take = stage?.take ?? [];
  const more = addToTake(view, take, color);
  if (more) return { take: more };
  if (!take.includes(color)) return stage;
  const rest = take.filter((letter) => letter !== color);
  return rest.length ? { take: rest } : null;
}

/** A click on an own token in the return step: stages it until enough are staged. */
export function clickBack(view, stage, token) {
  const back = stage?.back ?? [];
  const held = view.position.seats[view.viewer].tokens[token];
  const staged = back.filter((other) => other === token).length;
  const isFull = back.length === excess(view);
  if (!isFull && staged < held) return { back: [...back, token] };
  if (staged === 0) return stage;
  const rest = back.filter((other) => other !== token);
  return rest.length ? { back: rest } : null;
}

/** Tokens that the viewer must give back. */
export const excess = (view) => view.tokens_total[view.viewer] - view.token_limit;

/** Tokens in the order of the notation. */
export const inOrder = (tokens) =>
  [...tokens].sort((a, b) => TOKENS.indexOf(a) - TOKENS.indexOf(b));

/** The moves that a stage stands for, in notation; empty if it is not complete. */
export function stagedMoves(view, stage) {
  const moves = [];
  if (stage?.take) moves.push(`take ${inOrder(stage.take).join(" ")}`);
  if (stage?.back?.length === excess(view))
    return inOrder(stage.back).map((token) => `return ${token}`);
  if (stage?.deck) moves.push(`reserve deck ${stage.deck}`);
  if (stage?.noble) moves.push(`noble ${stage.noble}`);
  if (stage?.move) moves.push(stage.move);
  return moves.filter((move) => view.legal_moves.includes(move));
}

/** The stage that highlights a move on the board as if it had been clicked together. */
export function stageOf(move) {
  const words = move.split(" ");
  if (words[0] === "take") return { take: words.slice(1) };
  if (move.startsWith("reserve deck ")) return { deck: Number(words[2]) };
  if (words[0] === "noble") return { noble: Number(words[1]) };
  if (words[0] === "buy" || words[0] === "reserve") return { card: words.slice(1).join(" "), move };
  return { move };
}
