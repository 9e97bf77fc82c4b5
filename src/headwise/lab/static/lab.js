// The lab: panels, the state in the address, exports, and who answers questions (a server, a notebook, or nobody).

import { afterPause, make } from "./draw.js";
import { asker } from "./asker.js";
import { exportsOf } from "./exports.js";
import { copyPanel } from "./copy.js";
import { noisePanel } from "./noise.js";
import { matricesPanel } from "./matrices.js";
import { extractPanel } from "./extract.js";
import { answerPanel } from "./answer.js";

// An address that is longer is not sent round; the state is then kept by the browser alone.
const LONGEST = 30000;
const PANELS = [copyPanel, noisePanel, matricesPanel, extractPanel, answerPanel];

/** Read the panel and its state from the address; whatever cannot be read is left out. */
export function readAddress(hash) {
  const [name, text] = hash.replace(/^#/, "").split(/=(.*)/s);
  const panel = PANELS.find((one) => one.name === name);
  if (!panel) return null;
  try {
    const given = text ? JSON.parse(decodeURIComponent(text)) : {};
    return { panel: panel.name, state: panel.check(given) };
  } catch {
    return { panel: panel.name, state: null, broken: true };
  }
}

function address(panel, state) {
  const short = JSON.stringify(state, (_, value) => (typeof value === "number" ? Number(value.toPrecision(12)) : value));
  return `#${panel}=${encodeURIComponent(short)}`;
}

/** Write a state into the history, where the back button and the address find it. */
function remember(panel, state) {
  const full = address(panel, state);
  if (full.length <= LONGEST) history.pushState(null, "", full);
  else history.pushState({ panel, state: JSON.parse(JSON.stringify(state)) }, "", `#${panel}`);
}

/** What draws one panel in an element; `store` keeps its state, `ask` answers questions. */
function shownPanel(panel, el, shell) {
  el.replaceChildren();
  const body = make("div", { class: "panel-body" });
  const host = {
    state: shell.state,
    canAsk: shell.ask !== null,
    ask: shell.ask ?? (() => Promise.reject(new Error("this needs Python: run headwise lab"))),
    announce: shell.announce,
    open: shell.open,
    change(patch, done = true) {
      Object.assign(host.state, patch);
      shell.keep(panel.name, host.state, done);
    },
  };
  const mounted = panel.mount(body, host);
  const [where, parts] = panel.part === "all" ? ["Any part", ""] : [`Part ${panel.part}`, ` --parts ${panel.part.split(" and ").join(",")}`];
  const command = make("code", {}, `headwise study${parts}`);
  const part = make("p", { class: "about" }, panel.about, ` ${where} of the exercise, worked out by `, command, ".");
  el.append(make("h2", {}, panel.title), part, body, exportsOf(panel, body, host));
  return mounted;
}

function render({ model, el }) {
  const page = model.get("page") === true;
  const ask = asker(model);
  const live = make("p", { class: "announcer", "aria-live": "polite" });
  const main = make("main", { class: "panel", id: "panel" });
  const notice = make("p", { class: "notice", role: "status", hidden: true });
  const tabs = make("nav", { class: "tabs", "aria-label": "panels" });
  const kept = {};
  let mounted = null;
  let current = null;
  let toRemember = null;
  const flush = () => {
    if (toRemember) remember(...toRemember);
    toRemember = null;
  };
  // Keys that are held down would fill the history; what has come to rest is remembered.
  const soon = afterPause(flush, 250);

  const shell = {
    ask,
    announce(text) {
      live.textContent = text;
    },
    keep(name, state, done) {
      kept[name] = state;
      if (page && done) {
        toRemember = [name, state];
        soon();
      } else if (!page) {
        model.set("state", { panel: name, state: JSON.parse(JSON.stringify(state)) });
        if (done) model.save_changes();
      }
    },
    open(name, state) {
      const panel = PANELS.find((one) => one.name === name);
      kept[name] = panel.check(state ?? kept[name] ?? {});
      if (page) {
        flush();
        remember(name, kept[name]);
      }
      show(name);
    },
  };

  function show(name) {
    const panel = PANELS.find((one) => one.name === name);
    mounted?.stop?.();
    kept[name] ??= panel.check({});
    shell.state = kept[name];
    current = name;
    for (const tab of tabs.children) tab.setAttribute("aria-current", tab.dataset.panel === name ? "page" : "false");
    mounted = shownPanel(panel, main, shell);
  }

  for (const panel of PANELS) {
    const open = () => shell.open(panel.name);
    tabs.append(make("button", { type: "button", "data-panel": panel.name, onclick: open }, panel.title));
  }
  ask?.onChange?.((alive) => {
    notice.hidden = alive;
    notice.textContent = alive ? "" : "The server has stopped. What you see stays; start headwise lab again and this page goes on.";
    if (alive) mounted?.resume?.();
  });

  const fromAddress = () => {
    toRemember = null;
    const found = readAddress(location.hash);
    const held = history.state;
    if (found && held?.panel === found.panel) found.state = PANELS.find((one) => one.name === held.panel).check(held.state);
    if (found?.broken) {
      notice.hidden = false;
      notice.textContent = "The address holds a state that cannot be read; this is how the panel opens.";
    }
    if (found?.state) kept[found.panel] = found.state;
    show(found?.panel ?? current ?? PANELS[0].name);
  };
  el.classList.add("headwise-lab");
  el.append(tabs, notice, main, live);
  if (page) {
    window.addEventListener("popstate", fromAddress);
    window.addEventListener("pagehide", flush);
    fromAddress();
  } else {
    const given = model.get("state") ?? {};
    const name = PANELS.some((one) => one.name === given.panel) ? given.panel : PANELS[0].name;
    kept[name] = PANELS.find((one) => one.name === name).check(given.state ?? {});
    show(name);
  }
  return () => {
    mounted?.stop?.();
    window.removeEventListener("popstate", fromAddress);
    window.removeEventListener("pagehide", flush);
  };
}

export default { render };
