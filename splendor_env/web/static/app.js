// Which screen is shown: #/, #/table/ID/SEAT/SECRET, #/watch/ID, #/replay and #/replay/ID/T/VIEWER.
//
// What stands behind the # is never sent to a server, so a secret does not get into its log.

import { getSetup } from "./api.js";
import { h } from "./dom.js";
import { replayScreen } from "./replay.js";
import { startScreen } from "./start.js";
import { tableScreen } from "./table.js";

let leave = null; // ends the screen that is shown: its waiting requests and timers

async function show() {
  const route = location.hash;
  leave?.();
  leave = null;
  const main = document.getElementById("main");
  const [screen, ...words] = route.replace(/^#\/?/, "").split("/");
  document.title = "Splendor table";
  main.className = `${screen || "start"}-screen`;
  let setup;
  try {
    setup = await getSetup();
  } catch (error) {
    main.replaceChildren(h("p", { class: "notice", role: "alert" }, error.message));
    return;
  }
  if (route !== location.hash) return; // has gone elsewhere in the meantime
  document.getElementById("version").textContent = `Version ${setup.version}.`;
  if (screen === "table") {
    leave = tableScreen(main, setup, { table: words[0], secret: words[2] });
  } else if (screen === "watch") {
    leave = tableScreen(main, setup, { table: words[0] });
  } else if (screen === "replay") {
    leave = replayScreen(main, setup, words);
  } else {
    leave = startScreen(main, setup);
  }
  window.scrollTo(0, 0);
}

/** Another screen; whoever hears or tabs through the page goes on from its start. */
async function change() {
  await show();
  document.getElementById("main").focus({ preventScroll: true });
}

window.addEventListener("hashchange", change);
document.addEventListener("click", (event) => {
  const link = event.target.closest("a");
  if (link?.className === "skip") {
    event.preventDefault(); // what stands behind the # is the screen
    document.getElementById("main").focus();
  } else if (link?.hash && link.hash === (location.hash || "#/")) {
    change(); // a link to the screen that is shown starts it anew
  }
});
show();
