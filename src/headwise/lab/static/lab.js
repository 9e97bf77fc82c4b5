// The lab: panels, the state in the address, exports, and who answers questions (a server, a notebook, or nobody).

import { afterPause, make } from "./draw.js";
import { asker, askWhile, latestOnly } from "./asker.js";
import { exportsOf } from "./exports.js";
import { fileDrops, fileRead } from "./files.js";
import { copyPanel } from "./copy.js";
import { noisePanel } from "./noise.js";
import { matricesPanel } from "./matrices.js";
import { extractPanel } from "./extract.js";
import { answerPanel } from "./answer.js";

// An address that is longer is not sent round; the state is then kept by the browser alone.
const LONGEST = 30000;
const PANELS = [copyPanel, noisePanel, matricesPanel, extractPanel, answerPanel];

function panelOf(name) {
  return PANELS.find((one) => one.name === name);
}

/** Read the panel and its state from the address; whatever cannot be read is left out. */
export function readAddress(hash) {
  const [name, text] = hash.replace(/^#/, "").split(/=(.*)/s);
  const panel = panelOf(name);
  if (!panel) return null;
  try {
    const given = text ? JSON.parse(decodeURIComponent(text)) : {};
    return { panel: panel.name, state: panel.check(given) };
  } catch {
    return { panel: panel.name, state: panel.check({}), broken: true };
  }
}

function address(panel, state) {
  const short = JSON.stringify(state, (_, value) => (typeof value === "number" ? Number(value.toPrecision(12)) : value));
  return `#${panel}=${encodeURIComponent(short)}`;
}

/** Write states into the history, where the back button and the address find them; what has not changed is not written again. */
function historian() {
  let last = "";
  return {
    remember(panel, state) {
      const full = address(panel, state);
      if (full === last) return;
      last = full;
      if (full.length <= LONGEST) history.pushState(null, "", full);
      else history.pushState({ panel, state: JSON.parse(JSON.stringify(state)) }, "", `#${panel}`);
    },
    /** What the address holds now. */
    recall() {
      const found = readAddress(location.hash) ?? { panel: PANELS[0].name, state: PANELS[0].check({}) };
      const held = history.state;
      if (held?.panel === found.panel) found.state = panelOf(held.panel).check(held.state);
      last = address(found.panel, found.state);
      return found;
    },
  };
}

/** What draws one panel in an element; `store` keeps its state, `ask` answers questions. */
function shownPanel(panel, el, shell) {
  el.replaceChildren();
  const body = make("div", { class: "panel-body" });
  const gone = new AbortController();
  const host = {
    state: shell.state,
    canAsk: shell.ask !== null,
    parts: shell.parts,
    ask: askWhile(gone.signal, shell.ask ?? (() => Promise.reject(new Error("this needs Python: run headwise lab")))),
    announce: shell.announce,
    open: shell.open,
    take: shell.take,
    change(patch, done = true) {
      if (gone.signal.aborted) return;
      Object.assign(host.state, patch);
      shell.keep(panel.name, host.state, done);
      exported.follow();
    },
  };
  const exported = exportsOf(panel, body, host);
  const mounted = panel.mount(body, host);
  const [where, parts] = panel.part === "all" ? ["Any part", ""] : [`Part ${panel.part}`, ` --parts ${panel.part.split(" and ").join(",")}`];
  const command = make("code", {}, `headwise study${parts}`);
  const part = make("p", { class: "about" }, panel.about, ` ${where} of the exercise, worked out by `, command, ".");
  el.append(make("h2", {}, panel.title), part, body, exported.element);
  return { resume: mounted.resume, stop: () => gone.abort() };
}

/** What the server's coming and going does: a line that tells how to start it again at the same address. */
function watchServer(ask, notice, resume) {
  ask?.onChange?.((alive) => {
    notice.hidden = alive;
    const command = `headwise lab --port ${location.port}`;
    notice.textContent = alive ? "" : `The server has stopped. What you see stays; start it again with ${command} and this page goes on.`;
    if (alive) resume();
  });
}

/** Where an address is kept in step with the panels: the states that the browser remembers. */
function pageStates(shell, show, complain) {
  const states = historian();
  let toRemember = null;
  const flush = () => {
    if (toRemember) states.remember(...toRemember);
    toRemember = null;
  };
  // Keys that are held down would fill the history; what has come to rest is remembered.
  const soon = afterPause(flush, 250);
  const fromAddress = () => {
    toRemember = null;
    const found = states.recall();
    shell.kept[found.panel] = found.state;
    show(found.panel);
    if (found.broken) complain("The address holds a state that cannot be read; this is how the panel opens.");
  };
  window.addEventListener("popstate", fromAddress);
  window.addEventListener("pagehide", flush);
  return {
    start: fromAddress,
    keep(name, state, done) {
      if (!done) return;
      toRemember = [name, state];
      soon();
    },
    opened(name, state) {
      flush();
      states.remember(name, state);
    },
    stop() {
      window.removeEventListener("popstate", fromAddress);
      window.removeEventListener("pagehide", flush);
    },
  };
}

/** Where the notebook is told of every state. */
function notebookStates(model, shell, show) {
  const tell = (name, state, done) => {
    model.set("state", { panel: name, state: JSON.parse(JSON.stringify(state)) });
    if (done) model.save_changes();
  };
  return {
    start() {
      const given = model.get("state") ?? {};
      const panel = panelOf(given.panel) ?? PANELS[0];
      shell.kept[panel.name] = panel.check(given.state ?? {});
      show(panel.name);
    },
    keep: tell,
    opened: (name, state) => tell(name, state, true),
    stop() {},
  };
}

/** Open what is in a file, or complain. */
async function taken(file, ask, open, complain) {
  if (!file) return;
  complain("");
  try {
    const found = await fileRead(file, PANELS.map((one) => one.name), ask);
    if (found) open(found.panel, found.state);
  } catch (error) {
    complain(error.message);
  }
}

function render({ model, el }) {
  const page = model.get("page") === true;
  const ask = asker(model);
  const live = make("p", { class: "announcer", "aria-live": "polite" });
  const main = make("main", { class: "panel", id: "panel" });
  const notice = make("p", { class: "notice", role: "status", hidden: true });
  const trouble = make("p", { class: "notice", role: "alert", hidden: true });
  const tabs = make("nav", { class: "tabs", "aria-label": "panels" });
  const reading = latestOnly(ask ?? (() => null));
  let mounted = null;

  const complain = (text) => {
    trouble.textContent = text;
    trouble.hidden = !text;
  };
  const shell = {
    ask,
    kept: {},
    parts: model.get("parts") ?? null,
    announce(text) {
      live.textContent = text;
    },
    keep: (...given) => states.keep(...given),
    open(name, state) {
      shell.kept[name] = panelOf(name).check(state ?? shell.kept[name] ?? {});
      states.opened(name, shell.kept[name]);
      show(name);
    },
    take: (file) => taken(file, ask && reading, shell.open, complain),
  };

  function show(name) {
    reading.drop();
    complain("");
    mounted?.stop();
    shell.kept[name] ??= panelOf(name).check({});
    shell.state = shell.kept[name];
    for (const tab of tabs.children) tab.setAttribute("aria-current", tab.dataset.panel === name ? "page" : "false");
    mounted = shownPanel(panelOf(name), main, shell);
  }

  for (const panel of PANELS) {
    const open = () => shell.open(panel.name);
    tabs.append(make("button", { type: "button", "data-panel": panel.name, onclick: open }, panel.title));
  }
  watchServer(ask, notice, () => mounted?.resume?.());
  // Beside the lab a dropped file would replace the page.
  const noDrops = fileDrops(page ? window : el, shell.take);
  el.classList.add("headwise-lab");
  el.append(tabs, notice, trouble, main, live);
  const states = page ? pageStates(shell, show, complain) : notebookStates(model, shell, show);
  states.start();
  return () => {
    mounted?.stop();
    states.stop();
    noDrops();
  };
}

export default { render };
