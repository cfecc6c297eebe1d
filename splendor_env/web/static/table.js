// A table that is being played at: from a seat, or watched.

import {
  ApiError,
  analyseTable,
  createReplay,
  forgetTable,
  getRecord,
  getTable,
  keepSeat,
  resign,
  sendMove,
  setSeat,
} from "./api.js";
import { agentSelect, analysisPane } from "./analysis.js";
import { boardNodes, seatNodes } from "./board.js";
import { lookNode, purseNode, turnNodes } from "./choice.js";
import { alertLine, announce, button, buttons, download, focusKey, h, refill } from "./dom.js";
import { logNode } from "./log.js";
import { clickBack, clickPile, openThings, stageOf } from "./moves.js";
import { rulesInShort } from "./rules.js";
import { linkTools } from "./start.js";
import { colorWords, endReason, isOwn, moveSentence, seatName, statusSentence } from "./words.js";

const RETRY_MS = [500, 1000, 2000, 5000];
// A page in the background does not hold a request open: browsers allow few to one server.
const HIDDEN_MS = 5000;

/** Shows the table in `main`; the result ends it. */
export function tableScreen(main, setup, { table, secret }) {
  const ending = new AbortController();
  const { cards } = setup;
  let view = null;
  let stage = null;
  let isBusy = false;
  let filter = "";
  let toolsShown = ""; // the state they are drawn for
  let hasShownResult = false;

  const status = h("div", { class: "status-line" });
  const notice = alertLine(); // of the table and the connection
  const trouble = alertLine(); // what the server did not accept
  const board = h("div", { class: "board" });
  const turn = h("div", { class: "turn-box" });
  const choice = h(
    "section",
    { class: "choice card-box", "aria-label": "Your choice", tabindex: -1 },
    turn,
    trouble.node,
  );
  const moves = h("details", { class: "all-moves" });
  const log = h("section", { class: "log-box", "aria-label": "What happened" });
  const seats = h("div", { class: "seats-box" });
  const rules = h("details", { class: "rules" });
  const tools = h("details", { class: "tools" });
  const hints = analysisPane(setup, {
    title: "Hint",
    ask: (agent) => analyseTable(table, secret, agent),
    getView: () => view,
    onPick: pickMove,
  });
  main.replaceChildren(
    status,
    notice.node,
    h(
      "div",
      { class: "table" },
      board,
      h("div", { class: "panel" }, choice, moves, hints.node, log, rules, tools),
      seats,
    ),
  );
  main.addEventListener(
    "keydown",
    (event) => {
      if (event.key === "Escape" && stage) clear();
    },
    { signal: ending.signal },
  );

  const isMine = () =>
    view.viewer !== null &&
    view.player === view.viewer &&
    !view.is_over &&
    view.seats[view.viewer].kind === "person";

  // Talking to the server.

  async function follow() {
    let failures = 0;
    while (!ending.signal.aborted) {
      try {
        const since = document.hidden ? undefined : view?.version;
        accept(await getTable(table, secret, since, ending.signal));
        failures = 0;
        if (document.hidden) await pause(HIDDEN_MS);
      } catch (error) {
        if (error.name === "AbortError") return;
        if (error.status >= 400 && error.status < 500) {
          if (error.status === 404) forgetTable(table);
          notice.say(error.message);
          if (!view)
            main.replaceChildren(
              notice.node,
              h("p", {}, h("a", { class: "button", href: "#/" }, "New game")),
            );
          return;
        }
        if (!(error instanceof ApiError)) throw error;
        notice.say("The server does not answer; trying again.");
        await pause(RETRY_MS[Math.min(failures++, RETRY_MS.length - 1)]);
      }
    }
  }

  /** Until the time is over, the page is hidden or shown, or the screen ends. */
  async function pause(ms) {
    const waking = new AbortController();
    const { signal } = waking;
    await new Promise((resolve) => {
      const timer = setTimeout(resolve, ms);
      signal.addEventListener("abort", () => clearTimeout(timer));
      document.addEventListener("visibilitychange", resolve, { signal });
      ending.signal.addEventListener("abort", resolve, { signal });
    });
    waking.abort();
  }

  function accept(next) {
    if (view && next.version < view.version) return;
    const isFirst = view === null;
    // Who is away changes without a new version.
    const hasSameSeats = JSON.stringify(view?.seats) === JSON.stringify(next.seats);
    const isSame = view?.version === next.version && hasSameSeats;
    const seen = view?.history.length ?? next.history.length;
    const hadTurn = !isFirst && isMine();
    if (view?.history.length !== next.history.length) {
      stage = null;
      hints.clear();
    }
    view = next;
    notice.say(view.notice ?? "");
    if (!hasSameSeats) trouble.say("");
    if (isFirst) {
      rules.append(h("summary", {}, "The rules in short"), rulesInShort(view.rules));
      if (view.viewer !== null) keepOwnSeat();
    }
    if (isSame) return;
    const news = view.history.slice(seen).map((entry) => moveSentence(view, entry, cards));
    if (isFirst || news.length || hadTurn !== isMine()) {
      announce(
        [
          ...news,
          `${statusSentence(view)}.`,
          view.last_round && !view.is_over ? "Last round." : "",
        ].join(" "),
      );
    }
    document.title = `${isMine() ? "● " : ""}${statusSentence(view)} · Splendor table`;
    draw();
  }

  function keepOwnSeat() {
    const seat = view.viewer;
    const others = view.seats.filter((_, other) => other !== seat);
    keepSeat({
      table,
      seat,
      secret,
      name: view.seats[seat].name,
      others: others.map((holder) => holder.name ?? holder.agent),
    });
  }

  async function send(list) {
    if (isBusy) return;
    isBusy = true;
    trouble.say("");
    draw();
    try {
      for (const move of list) accept(await sendMove(table, secret, move, view.version));
    } catch (error) {
      if (error.status === 409) accept(await getTable(table, secret).catch(() => view));
      trouble.say(error.message);
    }
    isBusy = false;
    draw();
    // The button that was pressed is gone; Tab goes on from here.
    if (document.activeElement === document.body) choice.focus({ preventScroll: true });
  }

  // Staging.

  function setStage(next, focus) {
    stage = next;
    trouble.say("");
    draw();
    if (focus) focusKey(main, focus);
  }

  function clear() {
    const key = stage.card ? `card ${stage.card}` : stage.deck ? `deck ${stage.deck}` : null;
    setStage(null, key);
    announce("Choice cleared.");
  }

  const controls = () => ({
    stage,
    open: openThings(view, stage),
    onCard: (place) => setStage(stage?.card === place ? null : { card: place }, "confirm"),
    onDeck: (level) => setStage(stage?.deck === level ? null : { deck: level }, "confirm"),
    onNoble: (slot) => setStage(stage?.noble === slot ? null : { noble: slot }, "confirm"),
    onPile: (color) => {
      setStage(clickPile(view, stage, color));
      announce(stage?.take ? `Chosen: ${colorWords(stage.take)}.` : "Nothing chosen.");
      // On a phone the bar of what is chosen must not lie over the bank.
      main.querySelector(`[data-key="pile ${color}"]`).scrollIntoView({ block: "nearest" });
      const canAdd = openThings(view, stage).piles.size > 0;
      if (stage?.take && !canAdd) focusKey(main, "confirm");
    },
  });

  // Drawing.

  function draw() {
    const acts = controls();
    refill(status, statusNodes(view));
    refill(board, boardNodes(view, cards, acts));
    refill(seats, seatNodes(view, cards, acts));
    refill(turn, choiceNodes(acts.open));
    choice.classList.toggle("needed", isMine() && (stage !== null || view.phase !== "play"));
    choice.classList.toggle("slim", Boolean(stage?.take));
    drawMoves();
    hints.node.hidden = !isMine();
    refill(log, logNode(view, cards));
    drawTools();
    main.dataset.version = view.version;
    main.classList.toggle("my-turn", isMine());
    main.classList.toggle("over", view.is_over);
    if (view.is_over && !hasShownResult) {
      hasShownResult = true;
      choice.scrollIntoView({ block: "nearest" });
    }
  }

  function choiceNodes(open) {
    if (view.is_over) return resultNodes();
    if (!isMine()) return waitingNodes();
    return turnNodes({ view, cards, stage, open, isBusy, setStage, clear, send });
  }

  function waitingNodes() {
    const isAway = view.viewer !== null && view.seats[view.viewer].kind === "agent";
    return [
      h("h2", {}, `${statusSentence(view)} …`),
      isAway && h("p", {}, `${view.seats[view.viewer].agent} plays your seat.`),
      isAway && buttons(button("Take my seat back", takeBack, { class: "primary" })),
      stage?.card && lookNode(view, cards, stage.card),
      view.viewer !== null && !stage?.card && purseNode(view),
      view.viewer !== null && view.seats[view.player].away && awayNode(),
      view.viewer === null &&
        h(
          "p",
          { class: "quiet" },
          "You are watching. Cards that one seat alone has seen stay face down.",
        ),
    ];
  }

  /** The person to move has left: any other seat may let an agent play on for them. */
  function awayNode() {
    const agents = agentSelect(setup, "Agent for the seat of who is away", "away-agent");
    const { player } = view;
    return h(
      "div",
      {},
      h("p", {}, `${seatName(view, player)} has not been here for a minute.`),
      h(
        "div",
        { class: "row" },
        agents,
        button("Let it play on", () => handOver(player, agents.value), { "data-key": "away" }),
      ),
    );
  }

  function drawMoves() {
    moves.hidden = view.legal_moves.length === 0;
    const list = h("ul", { class: "move-list" });
    const fill = () => {
      const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
      const shown = view.legal_moves.filter((move) =>
        words.every((word) => move.toLowerCase().includes(word)),
      );
      refill(
        list,
        shown.map(moveItem),
        shown.length === 0 && h("li", { class: "quiet" }, "No such move."),
      );
    };
    const search = h("input", {
      type: "search",
      placeholder: "Filter, such as buy or take R",
      "aria-label": "Filter the moves",
      value: filter,
      "data-key": "filter",
      oninput: (event) => {
        filter = event.target.value;
        fill();
      },
    });
    fill();
    const title = `All open moves (${view.legal_moves.length})`;
    refill(moves, h("summary", { "data-key": "all-moves" }, title), search, list);
  }

  function moveItem(move) {
    const staged = stageOf(move);
    const isStaged = JSON.stringify(stage) === JSON.stringify(staged);
    return h(
      "li",
      {},
      button(move, () => pickMove(move), {
        "data-key": `move ${move}`,
        "aria-pressed": String(isStaged),
        onpointerenter: () => glow(staged, true),
        onpointerleave: () => glow(staged, false),
        onfocus: () => glow(staged, true),
        onblur: () => glow(staged, false),
      }),
    );
  }

  /** A move of the list is staged like a click on the board. */
  function pickMove(move) {
    const [verb, token] = move.split(" ");
    if (verb === "return") setStage(clickBack(view, stage, token));
    else setStage(verb === "done" ? null : stageOf(move), "confirm");
  }

  /** Show on the board what a move of the list is about. */
  function glow(target, isOn) {
    const keys = [
      ...(target.take ?? []).map((color) => `pile ${color}`),
      target.card && `card ${target.card}`,
      target.deck && `deck ${target.deck}`,
      target.noble && `noble ${target.noble}`,
    ].filter(Boolean);
    for (const key of keys) {
      main.querySelector(`[data-key="${CSS.escape(key)}"]`)?.classList.toggle("glow", isOn);
    }
  }

  function resultNodes() {
    const order = view.points
      .map((points, who) => ({ who, points, held: view.position.seats[who] }))
      .sort(
        (a, b) =>
          view.winners.includes(b.who) - view.winners.includes(a.who) || b.points - a.points,
      );
    const rows = order.map(({ who, points, held }) =>
      h(
        "tr",
        { class: view.winners.includes(who) ? "winner" : "" },
        h("th", { scope: "row" }, seatName(view, who), view.winners.includes(who) && " ★"),
        h("td", {}, String(points)),
        h("td", {}, String(held.num_cards)),
        h("td", {}, String(view.position.nobles.filter(({ owner }) => owner === who).length)),
      ),
    );
    return [
      h("h2", {}, statusSentence(view)),
      h(
        "table",
        { class: "result" },
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            ["Seat", "Points", "Cards", "Nobles"].map((name) => h("th", { scope: "col" }, name)),
          ),
        ),
        h("tbody", {}, rows),
      ),
      buttons(
        button("Replay this game", replay, { class: "primary", "data-key": "replay" }),
        button("Save the record", save, { "data-key": "save" }),
        h("a", { class: "button", href: "#/" }, "New game"),
      ),
    ];
  }

  async function attempt(action) {
    trouble.say("");
    try {
      await action();
    } catch (error) {
      trouble.say(error.message);
    }
  }

  const save = () =>
    attempt(async () => {
      download(
        `splendor-${table.slice(0, 8)}.jsonl`,
        `${JSON.stringify(await getRecord(table, secret))}\n`,
      );
    });

  const replay = () =>
    attempt(async () => {
      const made = await createReplay(JSON.stringify(await getRecord(table, secret)));
      location.hash = `#/replay/${made.replay}/0/all`;
    });

  const takeBack = () =>
    attempt(async () => {
      accept(await setSeat(table, secret, view.viewer, { kind: "person" }));
    });

  const handOver = (number, agent) =>
    attempt(async () => {
      accept(await setSeat(table, secret, number, { kind: "agent", agent }));
    });

  const giveUp = () =>
    attempt(async () => {
      if (confirm("Resign? The game ends here, and you lose it."))
        accept(await resign(table, secret));
    });

  function drawTools() {
    const isAway = view.viewer !== null && view.seats[view.viewer].kind === "agent";
    const state = `${view.is_over} ${isAway}`;
    if (toolsShown === state) return; // an agent that is being chosen stays chosen
    toolsShown = state;
    const agents = agentSelect(setup, "Agent for my seat", "hand-over");
    const watch = new URL(`#/watch/${table}`, location.href).href;
    refill(
      tools,
      h("summary", {}, "Table"),
      view.viewer !== null &&
        !view.is_over &&
        h(
          "div",
          { class: "tool" },
          h("h3", {}, "Leave, or let an agent play"),
          isAway
            ? h(
                "div",
                { class: "row" },
                button("Take my seat back", takeBack, { "data-key": "swap" }),
              )
            : h(
                "div",
                { class: "row" },
                agents,
                button("Hand over", () => handOver(view.viewer, agents.value), {
                  "data-key": "swap",
                }),
              ),
          h(
            "p",
            { class: "quiet" },
            "You can take the seat back at any time. " +
              "To come back later keep the address of this page, " +
              "or look under “Your seats” on the first page.",
          ),
          h("div", { class: "row" }, button("Resign", giveUp, { "data-key": "resign" })),
        ),
      h(
        "div",
        { class: "tool" },
        h("h3", {}, "Record"),
        h(
          "div",
          { class: "row" },
          button("Save the record", save),
          !view.is_over && h("span", { class: "quiet" }, "without what you may not know yet"),
        ),
      ),
      h(
        "div",
        { class: "tool" },
        h("h3", {}, "Link for watching"),
        h("div", { class: "row" }, linkTools(watch)),
      ),
    );
  }

  follow();
  return () => ending.abort();
}

/** Round, whose turn, last round, why the game is over. */
export function statusNodes(view) {
  const target = `${view.rules.target_points} points`;
  const preset = view.preset ? ` · ${view.preset.replaceAll("_", " ")} rules` : "";
  return [
    h(
      "h1",
      { class: isOwn(view, view.player) && !view.is_over ? "mine" : "" },
      statusSentence(view),
    ),
    h("p", { class: "quiet" }, `Round ${view.round} · first to ${target}${preset}`),
    view.last_round &&
      !view.is_over &&
      h("p", { class: "last-round" }, `Last round: somebody has ${target}`),
    view.is_over && h("p", {}, endReason(view)),
  ];
}
