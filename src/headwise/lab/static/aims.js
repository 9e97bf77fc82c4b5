// Aim for me: choose keys, and a design finds the query that copies or averages them, or proves that none does; own data.

import { make, said } from "./draw.js";

/** The controls under the keys; `redraw` is called when the state has changed, `mark` with a certificate to draw. */
export function copyAims(host, { redraw, mark }) {
  const state = host.state;
  const out = make("div", { role: "status" });
  const chips = make("div", { class: "chips", role: "group", "aria-label": "keys to be read" });
  const aim = make("button", { type: "button" }, "aim for me");
  const leak = make("select", { "aria-label": "weight that may leak" },
    ...["0.1", "0.01", "0.001", "1e-6"].map((size) => make("option", { value: size }, `leak ${size}`)));
  leak.value = "0.01";
  const drawChips = () => {
    const few = state.keys.slice(0, 200);
    chips.replaceChildren(...few.map((_, row) =>
      make("button", { type: "button", "aria-pressed": String(state.chosen.includes(row)), "aria-label": `key ${row + 1}`, onclick: () => choose(row) }, String(row + 1))));
    aim.disabled = !state.chosen.length || !host.canAsk;
    aim.textContent = state.chosen.length > 1 ? "average these for me" : "copy this for me";
  };
  const choose = (row) => {
    const others = state.chosen.filter((one) => one !== row);
    host.change({ chosen: others.length < state.chosen.length ? others : [...state.chosen, row].sort((a, b) => a - b) });
    for (const chip of chips.children) chip.setAttribute("aria-pressed", String(state.chosen.includes(Number(chip.textContent) - 1)));
    aim.disabled = !state.chosen.length || !host.canAsk;
    aim.textContent = state.chosen.length > 1 ? "average these for me" : "copy this for me";
    redraw();
    mark(null);
    out.replaceChildren();
  };
  aim.addEventListener("click", async () => {
    aim.disabled = true;
    try {
      show(await host.ask("aim", { keys: state.keys, values: state.values, indices: state.chosen, leak: Number(leak.value) }));
    } catch (error) {
      out.replaceChildren(make("p", {}, error.message));
    }
    aim.disabled = false;
  });
  const show = (found) => {
    if (found.queries) host.change(copyInReach(found.queries[0], state.keys));
    redraw();
    mark(found.certificate);
    const good = found.verdict === "possible";
    const lines = [
      make("p", {}, make("span", { class: good ? "word-good" : "word-bad" }, good ? "✓ possible" : found.verdict === "impossible" ? "✗ impossible" : "? undecided"), ": ", copyOneBased(found.reason)),
    ];
    if (found.certificate) {
      const same = found.certificate.claim === found.reason;
      lines.push(make("p", { class: "quiet" }, same ? "This was checked in exact arithmetic." : `Checked in exact arithmetic: ${copyOneBased(found.certificate.claim)}`));
    }
    if (found.leak !== null) lines.push(make("p", { class: "quiet" }, `leak at most ${said(found.leak)}, margin ${said(found.margin)} per unit of query`));
    if (found.error_bound !== null) lines.push(make("p", { class: "quiet" }, `the output is off by at most ${said(found.error_bound)}`));
    out.replaceChildren(make("div", { class: `verdict ${good ? "good" : "bad"}` }, lines));
    host.announce(`${found.verdict}: ${copyOneBased(found.reason)}`);
  };
  drawChips();
  return {
    element: make("section", { "aria-label": "aim for me" },
      make("h3", {}, "Which keys shall it read?"), chips,
      make("div", { class: "controls" }, leak, aim, copyFile(host)),
      host.canAsk ? null : make("p", { class: "quiet" }, "Aiming, proofs and files need Python: run headwise lab."), out),
  };
}

/** A query that is a little longer than the longest key, and the scale that makes up for it: both are seen in one picture. */
function copyInReach(query, keys) {
  const [size, reach] = [Math.hypot(...query), 1.3 * Math.max(...keys.map((key) => Math.hypot(...key)))];
  if (!(size > 0) || !(reach > 0)) return { query, scale: 1 };
  return { query: query.map((entry) => (entry * reach) / size), scale: size / reach };
}

/** Python counts keys from 0, the page from 1, as the exercise does. */
function copyOneBased(text) {
  return text.replace(/\b(keys?) ((?:\d+, )*\d+)/g, (_, word, rows) => `${word} ${rows.split(", ").map((row) => Number(row) + 1).join(", ")}`);
}

/** A place for a file of keys and values: a button, and the whole panel takes drops. */
function copyFile(host) {
  const input = make("input", { type: "file", accept: ".npy,.npz,.csv,.json,.safetensors", hidden: true, "aria-label": "file of keys and values" });
  const said = make("span", { role: "alert" });
  const take = async (file) => {
    if (!file) return;
    try {
      if (file.size > 4 * 2 ** 20) throw new Error(`${file.name}: a file may have 4 MB here, but it has ${(file.size / 2 ** 20).toFixed(1)}.`);
      const { arrays } = await host.ask("file", file);
      host.open("copy", arrays);
    } catch (error) {
      said.textContent = error.message;
    }
  };
  input.addEventListener("change", () => take(input.files[0]));
  const button = make("button", { type: "button", disabled: !host.canAsk, onclick: () => input.click() }, "open keys and values");
  const place = make("span", {}, input, button, " ", said);
  queueMicrotask(() => {
    const panel = place.closest(".panel");
    panel?.addEventListener("dragover", (event) => event.preventDefault());
    panel?.addEventListener("drop", (event) => {
      event.preventDefault();
      if (place.isConnected) take(event.dataTransfer.files[0]);
    });
  });
  return place;
}
