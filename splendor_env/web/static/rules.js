// What a newcomer must know, by the rules of the table.

import { h } from "./dom.js";
import { plural } from "./cards.js";

export function rulesInShort(rules) {
  const { target_points, token_limit, reserve_limit, noble_points, take_two_minimum } = rules;
  const hasGold = rules.gold_tokens > 0;
  const reserve = `reserve a card${hasGold ? " and get a gold token" : ""}; `;
  const lines = [
    "In your turn do one of these: take tokens of three different colours; " +
      `take two of one colour if its pile has at least ${take_two_minimum}; ` +
      (reserve_limit > 0 ? reserve : "") +
      "buy a card of the table or one that you have reserved.",
    "A card costs the tokens in its circles. " +
      "Each card you own makes every later one cheaper by one token of its colour, for good: " +
      "that is its bonus." +
      (hasGold ? " Gold stands for any colour." : ""),
    `You may keep ${plural(token_limit, "token")} at the end of a turn, ` +
      `and hold ${plural(reserve_limit, "reserved card")}.`,
    rules.num_nobles > 0 &&
      "A noble comes by itself to whoever has the bonus cards it asks for, " +
        `and is worth ${plural(noble_points, "point")}.`,
    `When somebody has ${plural(target_points, "point")} the round is played to its end. ` +
      "Most points win, then fewest cards.",
  ];
  return h(
    "ul",
    { class: "bullets" },
    lines.filter(Boolean).map((line) => h("li", {}, line)),
  );
}
