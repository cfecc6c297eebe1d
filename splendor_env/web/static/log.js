// What happened, latest first: each seat's decisions, the cards that left and those that came.

import { h } from "./dom.js";
import { moveLine, seatName } from "./words.js";

const MOST = 200; // rows; nobody scrolls further, and each poll draws them anew

export function logNode(view, cards) {
  const rows = view.history
    .slice(-MOST)
    .reverse()
    .map((entry) =>
      h("li", {}, h("strong", {}, seatName(view, entry.seat)), " ", moveLine(view, entry, cards)),
    );
  return [
    h("h2", {}, "What happened"),
    rows.length
      ? h(
          "ol",
          { class: "log", reversed: true, tabindex: 0, "aria-label": "Moves, latest first" },
          rows,
        )
      : h("p", { class: "quiet" }, "Nothing yet."),
  ];
}
