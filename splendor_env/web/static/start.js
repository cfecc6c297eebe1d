// The first screen: who sits where, by which rules; seats of this browser to come back to.

import { createTable, forgetTable, keepLinks, keptSeats } from "./api.js";
import { alertLine, button, h, refill } from "./dom.js";

const DELAYS = [
  [0, "at once"],
  [500, "half a second"],
  [1500, "a second and a half"],
  [4000, "4 seconds"],
];

const tableLink = ({ table, seat, secret }) => `#/table/${table}/${seat}/${secret}`;

export function startScreen(main, setup) {
  const favourite = "pretrained" in setup.agents ? "pretrained" : Object.keys(setup.agents)[0];
  const seats = [{ kind: "person" }, { kind: favourite }, { kind: favourite }, { kind: favourite }];
  seats.forEach((seat, index) => {
    seat.name = `Player ${index + 1}`;
  });
  let numPlayers = 2;

  const seatRows = h("div", { class: "seat-rows" });
  const meaning = h("p", { class: "quiet", id: "rules-meaning" });
  const alert = alertLine();
  const submit = h("button", { class: "primary", type: "submit" }, "Start the game");
  const rules = h(
    "select",
    { id: "rules", "aria-describedby": "rules-meaning", onchange: explainRules },
    Object.keys(setup.presets).map((name) =>
      h("option", { value: name }, name.replaceAll("_", " ")),
    ),
  );
  const target = number("target", 1, 40, "by the rules");
  const seed = number("seed", 0, Number.MAX_SAFE_INTEGER, "random");
  const delay = h(
    "select",
    { id: "delay" },
    DELAYS.map(([ms, words]) => h("option", { value: ms, selected: ms === 500 }, words)),
  );

  function explainRules() {
    meaning.textContent = setup.presets[rules.value];
  }

  function showSeats() {
    refill(seatRows, seats.slice(0, numPlayers).map(seatRow));
  }

  function seatRow(seat, index) {
    const kinds = h(
      "select",
      {
        id: `kind-${index}`,
        "data-key": `kind-${index}`,
        "aria-label": `Seat ${index + 1}`,
        onchange: (event) => {
          seat.kind = event.target.value;
          showSeats();
        },
      },
      h("option", { value: "person", selected: seat.kind === "person" }, "a person"),
      h(
        "optgroup",
        { label: "Agents" },
        Object.keys(setup.agents).map((spec) =>
          h("option", { value: spec, selected: seat.kind === spec }, spec),
        ),
      ),
    );
    const more =
      seat.kind === "person"
        ? h("input", {
            "aria-label": `Name of seat ${index + 1}`,
            value: seat.name,
            maxlength: 40,
            autocomplete: "off",
            oninput: (event) => {
              seat.name = event.target.value;
            },
          })
        : h("span", { class: "quiet" }, setup.agents[seat.kind]);
    return h(
      "div",
      { class: "seat-row" },
      h("span", { class: "seat-number" }, `Seat ${index + 1}`),
      kinds,
      more,
    );
  }

  const counts = [2, 3, 4].map((count) =>
    h(
      "label",
      { class: "choice" },
      h("input", {
        type: "radio",
        name: "players",
        value: count,
        checked: count === numPlayers,
        onchange: () => {
          numPlayers = count;
          showSeats();
        },
      }),
      String(count),
    ),
  );

  async function start(event) {
    event.preventDefault();
    alert.say("");
    submit.disabled = true; // a second click would make a second table
    const wishes = {
      players: numPlayers,
      rules: rules.value,
      seed: seed.value === "" ? null : Number(seed.value),
      seats: seats
        .slice(0, numPlayers)
        .map(({ kind, name }, index) =>
          kind === "person"
            ? { kind, name: name.trim() || `Player ${index + 1}` }
            : { kind: "agent", agent: kind },
        ),
      delay_ms: Number(delay.value),
    };
    if (target.value !== "") wishes.target_points = Number(target.value);
    try {
      opened(wishes, await createTable(wishes));
    } catch (error) {
      alert.say(error.message);
      submit.disabled = false;
    }
  }

  function opened(wishes, { table, secrets }) {
    const own = Object.entries(secrets).map(([seat, secret]) => ({
      table,
      secret,
      seat: Number(seat),
      name: wishes.seats[seat].name,
      others: wishes.seats
        .filter((_, other) => other !== Number(seat))
        .map((holder) => holder.name ?? holder.agent),
    }));
    keepLinks(own);
    if (own.length === 0) location.hash = `#/watch/${table}`;
    else if (own.length === 1) location.hash = tableLink(own[0]);
    else {
      main.replaceChildren(invitation(table, own));
      main.focus();
    }
  }

  main.replaceChildren(
    h("h1", {}, "A new game"),
    h(
      "form",
      { class: "card-box", onsubmit: start },
      h("fieldset", { class: "player-counts" }, h("legend", {}, "Players"), counts),
      h("fieldset", {}, h("legend", {}, "Seats"), seatRows),
      h("div", { class: "field" }, h("label", { for: "rules" }, "Rules"), rules, meaning),
      h(
        "details",
        {},
        h("summary", {}, "More options"),
        h(
          "div",
          { class: "fields" },
          h("div", { class: "field" }, h("label", { for: "target" }, "Points to reach"), target),
          h("div", { class: "field" }, h("label", { for: "seed" }, "Seed"), seed),
          h("div", { class: "field" }, h("label", { for: "delay" }, "Agents move after"), delay),
        ),
      ),
      alert.node,
      submit,
    ),
    returning(),
  );
  explainRules();
  showSeats();
  return () => {};
}

function number(id, min, max, placeholder) {
  return h("input", { id, type: "number", min, max, step: 1, placeholder, inputmode: "numeric" });
}

/** One link a person; whoever opens it holds the seat. */
function invitation(table, own) {
  const rows = own.map((entry) => {
    const link = new URL(tableLink(entry), location.href).href;
    return h(
      "li",
      { class: "invite" },
      h("strong", {}, entry.name),
      linkTools(link),
      h("a", { class: "button", href: tableLink(entry) }, "Sit here"),
    );
  });
  const watch = new URL(`#/watch/${table}`, location.href).href;
  return h(
    "section",
    { class: "card-box" },
    h("h1", {}, "The table is ready"),
    h(
      "p",
      {},
      "Give each person the link of their seat. " +
        "Who has the link plays the seat, so share it with nobody else.",
    ),
    h(
      "ul",
      { class: "plain" },
      rows,
      h(
        "li",
        { class: "invite" },
        h("strong", {}, "Watch only"),
        linkTools(watch),
        h("a", { class: "button", href: `#/watch/${table}` }, "Watch"),
      ),
    ),
  );
}

export function linkTools(link) {
  const field = h("input", {
    readonly: true,
    value: link,
    "aria-label": "Link",
    onfocus: (event) => event.target.select(),
  });
  const copy = button("Copy", async () => {
    try {
      await navigator.clipboard.writeText(link);
      copy.textContent = "Copied";
    } catch {
      field.focus(); // selected, to be copied by hand
    }
  });
  return [field, copy];
}

function returning() {
  const seats = keptSeats();
  if (seats.length === 0) return "";
  const list = h("ul", { class: "plain" });
  const box = h("section", { class: "card-box" }, h("h2", {}, "Your seats"), list);
  for (const seat of seats) {
    const row = h(
      "li",
      { class: "kept" },
      h(
        "a",
        { href: tableLink(seat) },
        `${seat.name} with ${(seat.others ?? []).join(", ") || "others"}`,
      ),
      h(
        "span",
        { class: "quiet" },
        new Date(seat.made).toLocaleString([], { dateStyle: "medium", timeStyle: "short" }),
      ),
      button("Forget", () => {
        forgetTable(seat.table);
        row.remove();
        if (!list.children.length) box.remove();
      }),
    );
    list.append(row);
  }
  return box;
}
