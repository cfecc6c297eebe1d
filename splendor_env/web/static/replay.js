// A recorded game, step by step, seen by any seat; win chances over it, and an agent's judgement.

import { analyseReplay, createReplay, getReplay, getWinShares } from "./api.js";
import { agentSelect, analysisPane } from "./analysis.js";
import { boardNodes, seatNodes } from "./board.js";
import { plural } from "./cards.js";
import { alertLine, announce, button, h, refill, svg } from "./dom.js";
import { chartNode } from "./chart.js";
import { logNode } from "./log.js";
import { statusNodes } from "./table.js";
import { moveSentence, seatName, statusSentence } from "./words.js";

const PLAY_MS = 1000;

export function replayScreen(main, setup, [replay, decision, viewer]) {
  if (!replay) return loadScreen(main);
  return stepScreen(main, setup, replay, Number(decision) || 0, viewer);
}

// Choosing a file.

function loadScreen(main) {
  const alert = alertLine();
  const games = h("ul", { class: "games" });

  async function open(line) {
    alert.say("");
    try {
      const made = await createReplay(line);
      location.hash = `#/replay/${made.replay}/0/${made.viewer ?? "all"}`; // as much as it tells
    } catch (error) {
      alert.say(error.message);
    }
  }

  async function read(file) {
    alert.say("");
    games.replaceChildren();
    if (!file) return;
    try {
      const lines = (await textOf(file)).split("\n").filter((line) => line.trim());
      if (lines.length === 1) await open(lines[0]);
      else if (lines.length === 0) throw new Error("This file is empty.");
      else games.append(...lines.map(gameItem));
    } catch (error) {
      alert.say(error.message);
    }
  }

  function gameItem(line, index) {
    return h(
      "li",
      { class: "game" },
      button(`Open ${index + 1}`, () => open(line)),
      h("span", {}, summary(line)),
    );
  }

  const input = h("input", {
    id: "file",
    type: "file",
    accept: ".json,.jsonl,.gz,application/json",
    onchange: (event) => read(event.target.files[0]),
  });
  const box = h(
    "section",
    {
      class: "card-box drop",
      ondragover: (event) => event.preventDefault(),
      ondrop: (event) => {
        event.preventDefault();
        read(event.dataTransfer.files[0]);
      },
    },
    h("h1", {}, "Replay a game"),
    h(
      "p",
      {},
      "Open a file of records (.jsonl, .jsonl.gz): one saved at a table here, " +
        "or written by the command line.",
    ),
    h("div", { class: "field" }, h("label", { for: "file" }, "File of records"), input),
    games,
    alert.node,
  );
  main.replaceChildren(box);
  return () => {};
}

/** What a list of games tells of a line; the server alone knows whether it is a sound record. */
function summary(line) {
  try {
    const { seats, result } = JSON.parse(line);
    if (!result) return `${seats.join(", ")} · unfinished`;
    const { points, rounds, end_reason: reason } = result;
    const ends = seats.map((name, seat) => `${name} (${plural(points[seat], "point")})`);
    return [ends.join(", "), plural(rounds, "round"), reason.replaceAll("_", " ")].join(" · ");
  } catch {
    return "no record";
  }
}

function textOf(file) {
  if (!file.name.endsWith(".gz")) return file.text();
  return new Response(file.stream().pipeThrough(new DecompressionStream("gzip"))).text();
}

// Stepping through it.

const icon = (path) =>
  svg(
    "svg",
    { class: "icon", viewBox: "-12 -12 24 24", "aria-hidden": "true" },
    svg("path", { d: path }),
  );

function stepScreen(main, setup, replay, first, viewerWord) {
  const { cards } = setup;
  const ending = new AbortController();
  let viewer = viewerWord && viewerWord !== "none" ? viewerWord : null; // a seat, "all", or nobody
  let decision = first;
  let last = null; // the number of the last decision; known from the view of it
  let view = null;
  let shares = null;
  let timer = null;
  let asked = 0;

  const notice = alertLine();
  const status = h("div", { class: "status-line" });
  const board = h("div", { class: "board" });
  const seats = h("div", { class: "seats-box" });
  const log = h("section", { class: "log-box", "aria-label": "What happened" });
  const chart = h("div", { class: "chart-box" });
  const slider = h("input", {
    type: "range",
    min: 0,
    value: decision,
    step: 1,
    "aria-label": "Decision",
    oninput: () => go(Number(slider.value)),
  });
  const steps = [
    button(icon("M-7-8V8M8-8-3 0 8 8z"), () => go(0), { "aria-label": "First" }),
    button(icon("M6-8-6 0 6 8z"), () => go(decision - 1), { "aria-label": "Back" }),
    button(icon("M-6-8 6 0-6 8z"), () => go(decision + 1), { "aria-label": "Forward" }),
    button(icon("M7-8V8M-8-8 3 0-8 8z"), () => go(last), { "aria-label": "Last" }),
  ];
  const play = button("Play", toggle, { class: "play" });
  const count = h("output", { class: "count" });
  const viewers = h("select", {
    id: "viewer",
    onchange: () => {
      viewer = viewers.value === "none" ? null : viewers.value;
      go(decision);
    },
  });
  const judge = agentSelect(setup, "Agent that estimates the win chances");
  const estimate = button("Win chances", async () => {
    estimate.disabled = true;
    try {
      shares = (await getWinShares(replay, judge.value)).win_shares;
      drawChart();
    } catch (error) {
      notice.say(error.message);
    }
    estimate.disabled = false;
  });
  const analysis = analysisPane(setup, {
    title: "Analysis of this position",
    ask: (agent) => analyseReplay(replay, decision, agent),
    getView: () => view,
  });

  main.replaceChildren(
    status,
    notice.node,
    h(
      "div",
      { class: "table" },
      board,
      h(
        "div",
        { class: "panel" },
        h(
          "section",
          { class: "card-box steps", "aria-label": "Steps" },
          slider,
          h("div", { class: "row" }, steps, play, count),
        ),
        h("div", { class: "card-box field" }, h("label", { for: "viewer" }, "Seen by"), viewers),
        h(
          "details",
          { class: "chances-box" },
          h("summary", {}, "Win chances over the game"),
          h("div", { class: "row" }, judge, estimate),
          chart,
        ),
        analysis.node,
        log,
      ),
      seats,
    ),
  );
  window.addEventListener(
    "keydown",
    (event) => {
      if (event.target.matches("input, select, textarea")) return;
      if (event.key === "ArrowLeft") go(decision - 1);
      else if (event.key === "ArrowRight") go(decision + 1);
    },
    { signal: ending.signal },
  );

  async function go(wanted) {
    const target = Math.max(0, last === null ? wanted : Math.min(wanted, last));
    const ask = ++asked;
    try {
      const next = await getReplay(replay, target, viewer);
      if (ask !== asked || ending.signal.aborted) return; // a later step is on its way
      if (target !== decision) analysis.clear();
      const isForward = view && target === decision + 1;
      view = next;
      decision = target;
      last = view.decisions ?? last;
      notice.say("");
      draw();
      const entry = view.history.at(-1);
      announce(
        isForward && entry
          ? moveSentence(view, entry, cards)
          : `Decision ${decision}. ${statusSentence(view)}.`,
      );
    } catch (error) {
      stop();
      notice.say(error.message);
    }
  }

  function draw() {
    slider.max = last;
    slider.value = decision;
    count.textContent = `${decision} of ${last}`;
    slider.setAttribute("aria-valuetext", `${decision} of ${last}`);
    steps[0].disabled = steps[1].disabled = decision === 0;
    steps[2].disabled = steps[3].disabled = play.disabled = decision === last;
    refill(status, statusNodes(view));
    refill(board, boardNodes(view, cards));
    refill(seats, seatNodes(view, cards));
    refill(log, logNode(view, cards));
    if (!viewers.options.length) {
      const only = view.record_viewer ?? null; // a redacted record tells what one seat saw
      viewers.append(
        h("option", { value: "none" }, "a spectator"),
        ...view.seats.flatMap((_, seat) =>
          only === null || only === seat
            ? [h("option", { value: seat }, seatName({ ...view, viewer: null }, seat))]
            : [],
        ),
      );
      if (only === null) viewers.append(h("option", { value: "all" }, "everybody: all hands open"));
    }
    viewers.value = viewer ?? "none";
    history.replaceState(null, "", `#/replay/${replay}/${decision}/${viewer ?? "none"}`);
    if (shares) drawChart();
  }

  function drawChart() {
    refill(chart, chartNode(view, shares, decision, go));
  }

  function toggle() {
    if (timer) return stop();
    play.textContent = "Pause";
    timer = setInterval(() => (decision < last ? go(decision + 1) : stop()), PLAY_MS);
  }

  function stop() {
    clearInterval(timer);
    timer = null;
    play.textContent = "Play";
  }

  go(decision);
  return () => {
    stop();
    ending.abort();
  };
}
