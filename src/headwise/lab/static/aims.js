// Aim for me: choose keys, and a design finds the query that copies or averages them, or proves that none does; own data.

import { latestOnly } from "./asker.js";
import { designLeaks, designVerdict } from "./designs.js";
import { make, said } from "./draw.js";
import { fileButton } from "./files.js";

const AIM_CHIPS = 200;
const AIM_MOST = 64;

/**
 * The controls under the keys; `redraw` is called when the state has changed, `mark` with a certificate to draw.
 * `clear()` takes back a verdict that no longer holds, and gives up one that is still to come.
 */
export function copyAims(host, { redraw, mark, nameOf }) {
  const state = host.state;
  const ask = latestOnly(host.ask);
  const out = make("div", { role: "status" });
  const aim = make("button", { type: "button", onclick: () => find() }, "aim for me");
  const clear = () => {
    ask.drop();
    if (!out.hasChildNodes()) return;
    out.replaceChildren();
    mark(null);
  };
  const leaks = designLeaks(host, clear);
  const chips = aimChips(state, nameOf, (row) => {
    const others = state.chosen.filter((one) => one !== row);
    clear();
    if (others.length === state.chosen.length && others.length === AIM_MOST) {
      out.replaceChildren(make("p", {}, `At most ${AIM_MOST} keys can be chosen here. Use design.average in Python for more.`));
      return;
    }
    host.change({ chosen: others.length < state.chosen.length ? others : [...state.chosen, row].sort((a, b) => a - b) });
    follow();
    redraw();
  });
  const follow = () => {
    chips.follow();
    aim.disabled = !state.chosen.length || !host.canAsk;
    aim.textContent = state.chosen.length > 1 ? "average these for me" : "copy this for me";
  };
  const find = async () => {
    clear();
    out.replaceChildren(make("p", { class: "quiet" }, "Python is looking for a query …"));
    try {
      const found = await ask("aim", { keys: state.keys, values: state.values, indices: state.chosen, leak: state.leak });
      if (found) show(found);
    } catch (error) {
      out.replaceChildren(make("p", {}, error.message));
    }
  };
  const show = (found) => {
    if (found.queries) host.change(copyInReach(found.queries[0], state.keys));
    redraw();
    mark(found.certificate);
    const worded = (text) => aimWords(text, nameOf);
    out.replaceChildren(designVerdict(found, worded, ...aimFacts(found).map((line) => make("p", { class: "quiet" }, line))));
    host.announce(`${found.verdict}: ${worded(found.reason)}`);
  };
  follow();
  return {
    clear,
    element: make("section", { "aria-label": "aim for me" },
      make("h3", {}, "Which keys shall it read?"), chips.element,
      make("div", { class: "controls" }, leaks, aim, fileButton(host.take)),
      host.canAsk ? null : make("p", { class: "quiet" }, "Aiming, proofs and files of keys and values need Python: run headwise lab."), out),
  };
}

/** Buttons to choose keys, the first of many; others are chosen by their number. */
function aimChips(state, nameOf, choose) {
  const group = make("div", { class: "chips", role: "group", "aria-label": "keys to be read" });
  const number = make("input", { type: "number", min: 1, max: state.keys.length, class: "aim-number", "aria-label": "number of a key" });
  const typed = () => {
    const row = Number(number.value) - 1;
    if (Number.isInteger(row) && row >= 0 && row < state.keys.length) choose(row);
  };
  const form = make("form", { class: "controls", onsubmit: (event) => { event.preventDefault(); typed(); } },
    make("label", {}, `one of ${state.keys.length}, by its number `, number), make("button", { type: "submit" }, "choose"));
  const chip = (row) => make("button", { type: "button", "data-row": row, "aria-label": `key ${nameOf(row)}`, onclick: () => choose(row) }, nameOf(row));
  const first = Array.from({ length: Math.min(AIM_CHIPS, state.keys.length) }, (_, row) => chip(row));
  const far = make("div", { class: "chips", role: "group", "aria-label": "keys chosen by their number" });
  group.append(...first);
  return {
    element: state.keys.length > AIM_CHIPS ? make("div", {}, group, form, far) : group,
    follow() {
      for (const one of first) one.setAttribute("aria-pressed", String(state.chosen.includes(Number(one.dataset.row))));
      far.replaceChildren(...state.chosen.filter((row) => row >= AIM_CHIPS).map(chip));
      for (const one of far.children) one.setAttribute("aria-pressed", "true");
    },
  };
}

/** What a design promises, in words; nothing is said of what it has no number for. */
function aimFacts(found) {
  const facts = [
    found.leak === null ? "" : `leak at most ${said(found.leak)}`,
    found.margin === null ? "" : `margin ${said(found.margin)} per unit of query`,
  ].filter(Boolean);
  const proof = found.certificate?.kind === "blocked" && found.certificate.inside.length > 1
    ? ["In the picture full lines go from the ringed mixture to the keys in their way, dashed ones to the chosen keys."] : [];
  return [
    ...(facts.length ? [facts.join(", ")] : []),
    ...(found.error_bound === null ? [] : [`the output is off by at most ${said(found.error_bound)}`]),
    ...proof,
  ];
}

/** A query that is a little longer than the longest key, and the scale that makes up for it: both are seen in one picture. */
export function copyInReach(query, keys) {
  const [size, reach] = [Math.hypot(...query), 1.3 * Math.max(...keys.map((key) => Math.hypot(...key)))];
  if (!(size > 0) || !(reach > 0)) return { query, scale: 1 };
  return { query: query.map((entry) => (entry / size) * reach), scale: size / reach };
}

/** Python counts keys from 0, the page from 1, as the exercise does. */
function aimWords(text, nameOf) {
  return text.replace(/\b(keys?) ((?:\d+, )*\d+)/g, (_, word, rows) => `${word} ${rows.split(", ").map((row) => nameOf(Number(row))).join(", ")}`);
}
