// Win chances of each seat over a game, as lines that differ in dashes as well as in colour.

import { percent } from "./analysis.js";
import { h, svg } from "./dom.js";
import { seatName } from "./words.js";

const WIDTH = 320,
  HEIGHT = 150,
  LEFT = 34,
  RIGHT = 8,
  TOP = 8,
  BOTTOM = 20;

/** `shares` by decision and seat; a click goes to the decision there. */
export function chartNode(view, shares, decision, go) {
  const last = Math.max(1, shares.length - 1);
  const x = (step) => LEFT + (step / last) * (WIDTH - LEFT - RIGHT);
  const y = (share) => TOP + (1 - share) * (HEIGHT - TOP - BOTTOM);
  const grid = [0, 0.5, 1].map((share) => [
    svg("line", { x1: LEFT, x2: WIDTH - RIGHT, y1: y(share), y2: y(share), class: "grid" }),
    svg(
      "text",
      {
        x: LEFT - 5,
        y: y(share),
        "text-anchor": "end",
        "dominant-baseline": "central",
        "font-size": 10,
      },
      percent(share),
    ),
  ]);
  // A redacted record knows nothing of some decisions: the lines go straight over them.
  const known = shares.flatMap((share, step) => (share ? [[step, share]] : []));
  const lines = view.seats.map((_, seat) =>
    svg("polyline", {
      class: `line seat-line-${seat}`,
      points: known
        .map(([step, share]) => `${x(step).toFixed(1)},${y(share[seat]).toFixed(1)}`)
        .join(" "),
    }),
  );
  const chart = svg(
    "svg",
    {
      class: "chart",
      viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
      role: "img",
      "aria-label":
        "Win chances of each seat over the game; the list below gives those of this position",
      onclick: (event) => {
        const box = chart.getBoundingClientRect();
        const at = ((event.clientX - box.left) / box.width) * WIDTH;
        go(Math.round(Math.max(0, Math.min(1, (at - LEFT) / (WIDTH - LEFT - RIGHT))) * last));
      },
    },
    grid,
    svg("text", { x: LEFT, y: HEIGHT - 5, "font-size": 10 }, "0"),
    svg(
      "text",
      { x: WIDTH - RIGHT, y: HEIGHT - 5, "text-anchor": "end", "font-size": 10 },
      String(last),
    ),
    svg("line", {
      x1: x(decision),
      x2: x(decision),
      y1: TOP,
      y2: HEIGHT - BOTTOM,
      class: "cursor",
    }),
    lines,
  );
  const now = shares[Math.min(decision, shares.length - 1)];
  const legend = view.seats.map((_, seat) =>
    h(
      "li",
      {},
      svg(
        "svg",
        { class: "key", viewBox: "0 0 28 8", "aria-hidden": "true" },
        svg("line", { x1: 0, x2: 28, y1: 4, y2: 4, class: `line seat-line-${seat}` }),
      ),
      h("span", {}, seatName(view, seat)),
      h("span", { class: "number" }, now ? percent(now[seat]) : "not known"),
    ),
  );
  return h("figure", {}, chart, h("figcaption", {}, h("ul", { class: "legend" }, legend)));
}
