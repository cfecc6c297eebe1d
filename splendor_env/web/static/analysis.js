// What an agent thinks of a position: its moves with their probabilities, win chances, best lines.

import { button, h } from "./dom.js";
import { seatName } from "./words.js";

export function percent(share) {
  return share > 0 && share < 0.005 ? "< 1 %" : `${Math.round(share * 100)} %`;
}

/** A choice of agent and a button; `ask(agent)` gets the judgement, `getView` what it is about. */
export function analysisPane(setup, { title, ask, getView, onPick }) {
  const answer = h("div", { class: "answer", "aria-live": "polite" });
  const agents = agentSelect(setup, "Agent that judges");
  const go = button("Analyse", async () => {
    go.disabled = true;
    answer.replaceChildren(h("p", { class: "quiet" }, "Thinking …"));
    try {
      answer.replaceChildren(judgement(await ask(agents.value), getView(), onPick));
    } catch (error) {
      answer.replaceChildren(h("p", { class: "notice" }, error.message));
    }
    go.disabled = false;
  });
  const node = h(
    "details",
    { class: "analysis" },
    h("summary", {}, title),
    h("div", { class: "row" }, agents, go),
    answer,
  );
  return { node, clear: () => answer.replaceChildren() };
}

/** All agents, the strongest kinds that judge first. */
export function agentSelect(setup, name, key) {
  const specs = Object.keys(setup.agents);
  const chosen = specs.includes("pretrained") ? "pretrained" : specs[0];
  return h(
    "select",
    { "aria-label": name, "data-key": key },
    specs.map((spec) => h("option", { value: spec, selected: spec === chosen }, spec)),
  );
}

function judgement({ choice, moves, win_shares: shares, lines }, view, onPick) {
  const best = moves.slice(0, 8); // the server sends the likeliest first
  const pick = (move) =>
    onPick && view.legal_moves.includes(move)
      ? button(move, () => onPick(move), { class: "link" })
      : h("strong", {}, move);
  const hasShares = best.some((move) => typeof move.win_share === "number");
  return h(
    "div",
    {},
    choice && h("p", {}, "It would choose ", pick(choice), "."),
    shares?.length > 0 &&
      h(
        "div",
        { class: "chances" },
        h("h4", {}, "Win chances"),
        shares.map((share, seat) => barRow(seatName(view, seat), share)),
      ),
    best.length > 0 &&
      h(
        "table",
        { class: "judged" },
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            h("th", {}, "Move"),
            h("th", {}, "Probability"),
            hasShares && h("th", { class: "number" }, "Wins"),
          ),
        ),
        h(
          "tbody",
          {},
          best.map((move) =>
            h(
              "tr",
              {},
              h("th", { scope: "row" }, pick(move.move)),
              h(
                "td",
                {},
                h(
                  "div",
                  { class: "share" },
                  bar(move.probability),
                  h("span", { class: "number" }, percent(move.probability)),
                ),
              ),
              hasShares &&
                h(
                  "td",
                  { class: "number" },
                  typeof move.win_share === "number" ? percent(move.win_share) : "",
                ),
            ),
          ),
        ),
      ),
    lines?.length > 0 &&
      h(
        "div",
        {},
        h("h4", {}, "Best lines"),
        h(
          "ol",
          { class: "lines" },
          lines.map((line) => h("li", {}, line.join(", "))),
        ),
      ),
  );
}

function barRow(name, share) {
  return h(
    "p",
    { class: "bar-row" },
    h("span", {}, name),
    bar(share),
    h("span", { class: "number" }, percent(share)),
  );
}

function bar(share) {
  const filled = h("span", {});
  filled.style.width = `${Math.max(0, Math.min(1, share)) * 100}%`;
  return h("span", { class: "bar", "aria-hidden": "true" }, filled);
}
