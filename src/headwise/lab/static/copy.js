// Copy and average: a query among keys, the weights, the output among values, and a design that aims for you.

import { attendTo, hullOf, logLeak, principalPlane, scoresOf } from "./attention.js";
import { latestOnly } from "./asker.js";
import { afterPause, barsPath, canvas, keyName, make, onceAFrame, plane, put, python, said, slider } from "./draw.js";
import { copyAims } from "./aims.js";
import { designLeak } from "./designs.js";
import { COPY_MOVED, COPY_SIZE, copyKeysPicture } from "./keys.js";

// Of more keys than these Python is not asked whether each can be copied.
const COPY_DECIDED = 400;
// Larger numbers than these have products that overflow.
const COPY_LARGEST = 1e100;
const COPY_VIEWS = { principal: "directions of most spread", first: "first two coordinates", round: "all coordinates, round a circle" };
const COPY_OPEN = {
  keys: [[1.6, 0.3], [0.2, 1.5], [-1.4, 0.8], [-1.1, -1.1], [0.7, -1.4], [0.2, 0.1]],
  values: [[1, 0], [0.31, 0.95], [-0.81, 0.59], [-0.81, -0.59], [0.31, -0.95], [0, 0]],
  query: [1.2, 1.1],
  scale: 2,
  chosen: [],
  leak: 0.01,
  view: "principal",
  named: false,
  note: "",
};

function copyRow(given, width) {
  return Array.isArray(given) && given.length === width && given.every((x) => Number.isFinite(x) && Math.abs(x) <= COPY_LARGEST);
}

function copyRows(given, most) {
  if (!Array.isArray(given) || given.length < 1 || given.length > most) return null;
  const width = Array.isArray(given[0]) ? given[0].length : 0;
  return width >= 1 && width <= 64 && given.every((row) => copyRow(row, width)) ? given.map((row) => [...row]) : null;
}

/** A complete state from a partial or hostile one. */
function copyCheck(given) {
  const state = structuredClone(COPY_OPEN);
  const known = given !== null && typeof given === "object" ? given : {};
  const keys = copyRows(known.keys, 2000);
  if (keys) {
    state.keys = keys;
    state.values = keys.map((_, i) => [Math.cos((2 * Math.PI * i) / keys.length), Math.sin((2 * Math.PI * i) / keys.length)]);
    // Towards the longest key, and beyond it, where both are seen.
    state.query = keys.reduce((best, key) => (Math.hypot(...key) > Math.hypot(...best) ? key : best)).map((entry) => 1.25 * entry);
    state.scale = 1;
  }
  const values = copyRows(known.values, 2000);
  if (values && values.length === state.keys.length) state.values = values;
  if (copyRow(known.query, state.keys[0].length)) state.query = [...known.query];
  if (Number.isFinite(known.scale)) state.scale = Math.min(Math.max(known.scale, 1e-250), 1e250);
  if (!scoresOf(state.keys, state.query, state.scale).every(Number.isFinite)) state.scale = 1;
  if (Array.isArray(known.chosen)) {
    const rows = new Set(known.chosen.filter((row) => Number.isInteger(row) && row >= 0 && row < state.keys.length));
    state.chosen = [...rows].slice(0, 64).sort((a, b) => a - b);
  }
  state.leak = designLeak(known.leak, state.leak);
  if (Object.hasOwn(COPY_VIEWS, known.view)) state.view = known.view;
  state.named = known.named === true;
  if (typeof known.note === "string") state.note = known.note.slice(0, 400);
  return state;
}

/** Two directions to look along. */
function copyAxes(rows, view) {
  const width = rows[0].length;
  const unit = (j) => rows[0].map((_, i) => (i === j ? 1 : 0));
  if (view === "principal" && width > 2) return principalPlane(rows);
  if (view !== "round" || width <= 2) return [unit(0), unit(1)];
  const around = (turn) => rows[0].map((_, i) => Math.sqrt(2 / width) * turn((2 * Math.PI * i) / width));
  return [around(Math.cos), around(Math.sin)];
}

/** Where rows are seen: two axes, and the plane they are drawn in; `fit()` makes it as large as is needed. */
function copyView(rows, view, more = () => []) {
  const axes = copyAxes(rows, view);
  const flat = (row) => axes.map((axis) => axis.reduce((sum, entry, j) => sum + entry * row[j], 0));
  const farthest = () => {
    let reach = 0;
    for (const row of [...rows, ...more()]) reach = Math.max(reach, ...flat(row).map(Math.abs));
    return reach;
  };
  const found = {
    axes, flat, where: null,
    fit: () => { found.where = plane(COPY_SIZE, COPY_SIZE, 1.25 * (farthest() || 1)); },
    /** Whether something lies at the edge or beyond it. */
    full: () => farthest() > 0.95 * found.where.reach,
  };
  found.fit();
  return found;
}

/** What is seen in words: where more keys than can be moved are shown, or more than Python is asked about. */
function copyCaption(count) {
  return count <= COPY_MOVED ? "keys; drag the query q, or a key" : "keys; drag the query q, or a key that you have chosen below";
}

/** The keys with what moves in them; `changed(done)` is told of every move, `touched()` where keys have moved. */
function copyKeys(picture, state, { changed, decided }) {
  const nameOf = (row) => (state.named ? keyName(row) : String(row + 1));
  let view, parts;
  let verdicts = null;
  const settled = (done) => {
    if (done && view.full()) {
      view.fit();
      parts.all();
    }
    changed(done);
  };
  const moves = {
    nameOf,
    moveKey(row, point, done) {
      state.keys[row] = copyMoved(state.keys[row], point, view);
      verdicts = null;
      parts.place(row);
      parts.hull(null);
      settled(done);
      decided.again();
    },
    moveQuery(point, done) {
      state.query = copyMoved(state.query, point, view);
      settled(done);
    },
  };
  return {
    nameOf,
    draw() {
      view = copyView(state.keys, state.view, () => [state.query]);
      parts = copyKeysPicture(picture, state, view, moves);
      parts.all();
      parts.hull(verdicts);
      if (!verdicts) decided.again();
    },
    query: () => parts.query(),
    proof: (certificate) => parts.proof(certificate),
    know: (found) => parts.hull((verdicts = found)),
  };
}

/** Asks which keys can be copied, when they have come to rest. */
function copyDecider(host, know) {
  const ask = latestOnly(host.ask);
  const soon = afterPause(async () => {
    if (!host.canAsk || host.state.keys.length > COPY_DECIDED) return;
    try {
      const found = await ask("copyable", { keys: host.state.keys });
      if (found) know(found.verdicts);
    } catch {
      // What the page found itself stays.
    }
  });
  return { again() { ask.drop(); soon(); } };
}

/** The list of directions to look along; null in the plane. */
function copyViews(host, changed) {
  const state = host.state;
  if (state.keys[0].length <= 2 && state.values[0].length <= 2) return null;
  const list = make("select", { "aria-label": "seen along" }, ...Object.entries(COPY_VIEWS).map(([value, name]) => make("option", { value }, name)));
  list.value = state.view;
  list.addEventListener("change", () => {
    host.change({ view: list.value });
    changed();
  });
  return make("label", {}, "seen along ", list);
}

function copyMount(el, host) {
  const state = host.state;
  const keysPicture = canvas(COPY_SIZE, COPY_SIZE, "keys and the query");
  const valuesPicture = canvas(COPY_SIZE, COPY_SIZE, "values and the output");
  const barsPicture = canvas(window.innerWidth < 600 ? 360 : 720, 150, "weights of the keys");
  const facts = make("table");
  let valueView;
  const update = () => {
    const found = attendTo(state.query, state.keys, state.values, state.scale);
    keys.query();
    copyBars(barsPicture, found, state, keys.nameOf);
    put(valuesPicture.querySelector(".copy-output"), { transform: `translate(${valueView.where.to(valueView.flat(found.context)).join(" ")})` });
    copyFacts(facts, found, state, keys.nameOf);
    return found;
  };
  const updateSoon = onceAFrame(update);
  const decider = copyDecider(host, (verdicts) => keys.know(verdicts));
  const keys = copyKeys(keysPicture, state, {
    decided: decider,
    changed(done) {
      host.change({ keys: state.keys, query: state.query }, done);
      aims.clear();
      updateSoon();
      if (!done) return;
      const found = attendTo(state.query, state.keys, state.values, state.scale);
      host.announce(`key ${keys.nameOf(found.top)} has weight ${said(found.weights[found.top])}`);
    },
  });
  const scale = slider({
    label: "scale", low: 0.05, high: 100, value: state.scale, log: true,
    change(value, done) {
      host.change({ scale: value }, done);
      aims.clear();
      updateSoon();
    },
  });
  const draw = () => {
    scale.set(state.scale);
    keys.draw();
    valueView = copyView(state.values, state.view);
    copyValuesPicture(valuesPicture, state, valueView, keys.nameOf);
    update();
  };
  const aims = copyAims(host, { redraw: draw, mark: keys.proof, nameOf: keys.nameOf });
  const view = copyViews(host, () => {
    aims.clear();
    draw();
  });
  const unasked = state.keys[0].length > 2 && state.keys.length > COPY_DECIDED;
  el.append(
    ...(state.note ? [make("p", { class: "copy-note" }, state.note)] : []),
    make("div", { class: "controls" }, scale.element, view),
    make("div", { class: "pictures" },
      make("figure", {}, make("figcaption", {}, copyCaption(state.keys.length)), keysPicture),
      make("figure", {}, make("figcaption", {}, "values, and the output c"), valuesPicture)),
    ...(unasked ? [make("p", { class: "quiet" }, `Of more than ${COPY_DECIDED} keys it is not asked which can be copied: aim at one.`)] : []),
    make("figure", { class: "copy-bars" }, make("figcaption", {}, "weights"), barsPicture),
    make("div", { class: "wide" }, facts),
    aims.element,
  );
  draw();
  return { resume: decider.again };
}

/** A row whose shadow in the view is moved to a point. */
function copyMoved(row, point, { axes, flat }) {
  const old = flat(row);
  return row.map((entry, j) => entry + axes.reduce((sum, axis, k) => sum + (point[k] - old[k]) * axis[j], 0));
}

function copyValuesPicture(picture, state, view, nameOf) {
  const few = state.values.length <= COPY_MOVED;
  const at = (row) => view.where.to(view.flat(row));
  const corners = hullOf(state.values.map((value) => view.flat(value)));
  picture.replaceChildren(
    make("polygon", { class: "hull", points: corners.map((row) => at(state.values[row]).map((x) => x.toFixed(1)).join(",")).join(" ") }),
    ...state.values.slice(0, few ? 60 : 0).map((value, row) => {
      const [x, y] = at(value);
      return make("g", { transform: `translate(${x} ${y})` }, make("rect", { x: -5, y: -5, width: 10, height: 10, class: "role-rest" }),
        make("text", { y: -9, "text-anchor": "middle" }, `v${state.named ? "_" : ""}${nameOf(row)}`));
    }),
    few ? "" : make("path", { class: "role-rest", d: state.values.map((value) => { const [x, y] = at(value); return `M${x.toFixed(1)} ${y.toFixed(1)}h3v3h-3z`; }).join("") }),
    make("g", { class: "copy-output" }, make("path", { d: "M-9 0L0 -9L9 0L0 9Z", class: "role-one" }), make("text", { y: 22, "text-anchor": "middle" }, "c")),
  );
}

function copyBars(picture, found, state, nameOf) {
  const wide = picture.viewBox.baseVal.width;
  const box = { left: 34, top: 8, width: wide - 42, height: 116 };
  if (!picture.querySelector(".copy-all")) {
    picture.replaceChildren(
      make("path", { class: "faint", d: `M${box.left} ${box.top}h${box.width}M${box.left} ${box.top + box.height / 2}h${box.width}M${box.left} ${box.top + box.height}h${box.width}` }),
      make("text", { x: 4, y: box.top + 5 }, "1"), make("text", { x: 4, y: box.top + box.height / 2 + 4 }, "0.5"), make("text", { x: 4, y: box.top + box.height + 4 }, "0"),
      make("path", { class: "role-rest copy-all" }), make("path", { class: "role-a copy-chosen" }), make("g", { class: "copy-names" }));
    if (state.keys.length <= 40) {
      const step = box.width / state.keys.length;
      picture.querySelector(".copy-names").append(
        ...state.keys.map((_, row) => make("text", { x: box.left + (row + 0.5) * step, y: 142, "text-anchor": "middle" }, nameOf(row))));
    }
  }
  const chosen = new Set(state.chosen);
  put(picture.querySelector(".copy-all"), { d: barsPath(found.weights, box, (row) => !chosen.has(row)) });
  put(picture.querySelector(".copy-chosen"), { d: barsPath(found.weights, box, (row) => chosen.has(row)) });
}

function copyFacts(table, found, state, nameOf) {
  const leak = state.chosen.length ? Math.exp(logLeak(found.scores, state.chosen)) : null;
  const rows = [
    ["largest weight", `${said(found.weights[found.top])} (key ${nameOf(found.top)})`],
    ["margin", said(found.margin)],
    ["effective number of keys", said(found.effectiveKeys)],
    ["entropy", said(found.entropy)],
    ...(leak === null ? [] : [["weight outside the chosen keys", said(leak)]]),
  ];
  table.replaceChildren(...rows.map(([name, value]) => make("tr", {}, make("th", { scope: "row" }, name), make("td", {}, value))));
}

/** The Python lines that give the same numbers. */
function copyCode(state) {
  const [verb, rows] = state.chosen.length > 1 ? ["average", python(state.chosen)] : ["copy", state.chosen[0]];
  return (
    `import numpy as np\nimport headwise as hw\n\nkeys = np.array(${python(state.keys)}, float)\nvalues = np.array(${python(state.values)}, float)\n` +
    `query = np.array(${python(state.query)}, float)\nfound = hw.attend(query, keys, values, scale=${state.scale})\nprint(found.weights)\nprint(found.contexts)\n` +
    "print(hw.design.copyable(keys))\n" +
    (state.chosen.length ? `print(hw.design.${verb}(keys, ${rows}, leak=${state.leak}, values=values))\n` : "")
  );
}

export const copyPanel = {
  name: "copy",
  title: "Copy and average",
  part: "a and b.ii",
  about: "A head reads a mixture of values; the query decides which. Crosses mark keys that no query can copy.",
  check: copyCheck,
  mount: copyMount,
  code: copyCode,
};
