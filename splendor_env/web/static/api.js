// The server's interface, one function a request, and the seats this browser has been given.

/** An answer that is not a success: `status` is 0 where no answer came at all. */
export class ApiError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

async function request(path, { method = "GET", body, secret, signal } = {}) {
  const headers = {};
  if (secret) headers["X-Seat-Secret"] = secret;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let response, answer;
  try {
    response = await fetch(path, { method, headers, signal, body });
    answer = await response.json();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(response?.status ?? 0, "No answer from the server.");
  }
  if (!response.ok) throw new ApiError(response.status, answer.error ?? response.statusText);
  return answer;
}

const post = (path, body, secret) =>
  request(path, { method: "POST", body: JSON.stringify(body), secret });

const tablePath = (table) => `/api/tables/${encodeURIComponent(table)}`;
const replayPath = (replay) => `/api/replays/${encodeURIComponent(replay)}`;

let setup;
/** Presets, agents, cards and version; asked for once. */
export async function getSetup() {
  setup ??= await request("/api/setup");
  return setup;
}

export const createTable = (wishes) => post("/api/tables", wishes);

/** The table as a seat or a spectator sees it; `since` waits for another version than this. */
export const getTable = (table, secret, since, signal) =>
  request(`${tablePath(table)}${since === undefined ? "" : `?since=${since}`}`, {
    secret,
    signal,
  });

export const sendMove = (table, secret, move, version) =>
  post(`${tablePath(table)}/moves`, { move, version }, secret);

export const setSeat = (table, secret, seat, holder) =>
  post(`${tablePath(table)}/seats/${seat}`, holder, secret);

export const resign = (table, secret) => post(`${tablePath(table)}/resign`, {}, secret);

export const analyseTable = (table, secret, agent) =>
  post(`${tablePath(table)}/analysis`, { agent }, secret);

export const getRecord = (table, secret) => request(`${tablePath(table)}/record`, { secret });

/** Hand in a record, as text, to be replayed. */
export const createReplay = (text) => request("/api/replays", { method: "POST", body: text });

/** The view after so many decisions; `viewer` is a seat, "all", or null for a spectator. */
export function getReplay(replay, decision, viewer) {
  const query = viewer === null ? "" : `?viewer=${encodeURIComponent(viewer)}`;
  return request(`${replayPath(replay)}/${decision}${query}`);
}

export const analyseReplay = (replay, decision, agent) =>
  post(`${replayPath(replay)}/${decision}/analysis`, { agent });

export const getWinShares = (replay, agent) =>
  request(`${replayPath(replay)}/win_shares?agent=${encodeURIComponent(agent)}`);

// Seats are kept in the browser so that a closed page can be reopened.

const STORE = "splendor-seats";

/** Seats of this browser, latest first: {table, seat, secret, name, others, made, isLink}. */
export function keptSeats() {
  try {
    const seats = JSON.parse(localStorage.getItem(STORE));
    return Array.isArray(seats) ? seats : [];
  } catch {
    return [];
  }
}

/** Keep the links to the seats of a new table until somebody sits down at it here. */
export function keepLinks(links) {
  const made = Date.now();
  store([...links.map((link) => ({ ...link, made, isLink: true })), ...keptSeats()]);
}

/** Keep the seat that somebody sits at here; the table's other links are for other people. */
export function keepSeat(entry) {
  const isSame = (seat) => seat.table === entry.table && seat.seat === entry.seat;
  const isLink = (seat) => seat.table === entry.table && seat.isLink;
  const { made } = keptSeats().find(isSame) ?? { made: Date.now() };
  const others = keptSeats().filter((seat) => !isSame(seat) && !isLink(seat));
  store([{ ...entry, made }, ...others]);
}

export function forgetTable(table) {
  store(keptSeats().filter((seat) => seat.table !== table));
}

function store(seats) {
  try {
    localStorage.setItem(STORE, JSON.stringify(seats.slice(0, 40)));
  } catch {
    // Private windows may refuse; the link in the address bar works all the same.
  }
}
