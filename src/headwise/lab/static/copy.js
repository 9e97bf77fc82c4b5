// Copy and average: a query among keys, the weights, the output among values, and a design that aims for you.

import { attendTo, hullOf, logLeak, principalPlane } from "./attention.js";
import { latestOnly } from "./asker.js";
import { afterPause, barsPath, canvas, draggable, make, onceAFrame, plane, put, python, said, slider } from "./draw.js";
import { copyAims } from "./aims.js";

const COPY_SIZE = 360;
// More keys than these are drawn as one path and moved by their numbers only.
export const COPY_MOVED = 60;
const COPY_OPEN = {
  keys: [[1.6, 0.3], [0.2, 1.5], [-1.4, 0.8], [-1.1, -1.1], [0.7, -1.4], [0.2, 0.1]],
  values: [[1, 0], [0.31, 0.95], [-0.81, 0.59], [-0.81, -0.59], [0.31, -0.95], [0, 0]],
  query: [1.2, 1.1],
  scale: 2,
  chosen: [],
  view: "principal",
};

function copyRows(given, most) {
  if (!Array.isArray(given) || given.length < 1 || given.length > most) return null;
  const width = Array.isArray(given[0]) ? given[0].length : 0;
  if (width < 1 || width > 64) return null;
  return given.every((row) => Array.isArray(row) && row.length === width && row.every(Number.isFinite)) ? given : null;
}

function copyCheck(given) {
  const state = structuredClone(COPY_OPEN);
  const keys = copyRows(given.keys, 2000);
  if (keys) {
    state.keys = keys;
    state.values = keys.map((_, i) => [Math.cos((2 * Math.PI * i) / keys.length), Math.sin((2 * Math.PI * i) / keys.length)]);
    state.query = [...keys.reduce((best, key) => (Math.hypot(...key) > Math.hypot(...best) ? key : best))];
    state.scale = 1;
  }
  const values = copyRows(given.values, 2000);
  if (values && values.length === state.keys.length) state.values = values;
  const query = given.query;
  if (Array.isArray(query) && query.length === state.keys[0].length && query.every(Number.isFinite)) state.query = query;
  if (Number.isFinite(given.scale)) state.scale = Math.min(Math.max(given.scale, 0.001), 1e6);
  if (Array.isArray(given.chosen)) {
    state.chosen = given.chosen.filter((row) => Number.isInteger(row) && row >= 0 && row < state.keys.length).slice(0, 64);
  }
  if (given.view === "first") state.view = "first";
  return state;
}

/** Where rows are seen: two axes and a middle, and the plane they are drawn in. */
function copyView(rows, others, view, size) {
  const width = rows[0].length;
  const axes = view === "first" || width <= 2 ? [0, 1].map((j) => rows[0].map((_, i) => (i === j ? 1 : 0))) : principalPlane(rows);
  const flat = (row) => axes.map((axis) => axis.reduce((sum, entry, j) => sum + entry * row[j], 0));
  let reach = 1e-9;
  for (const row of [...rows, ...others]) reach = Math.max(reach, ...flat(row).map(Math.abs));
  return { axes, flat, where: plane(size, size, 1.25 * reach) };
}

function copyMount(el, host) {
  const state = host.state;
  const keysPicture = canvas(COPY_SIZE, COPY_SIZE, "keys and the query");
  const valuesPicture = canvas(COPY_SIZE, COPY_SIZE, "values and the output");
  const barsPicture = canvas(window.innerWidth < 600 ? 360 : 720, 150, "weights of the keys");
  const facts = make("table");
  const ask = latestOnly(host.ask);
  let keyView;
  let valueView;
  let parts;
  let verdicts = null;

  const drawKeys = () => {
    keyView = copyView(state.keys, [state.query], state.view, COPY_SIZE);
    parts = copyKeysPicture(keysPicture, state, keyView, {
      moveKey(row, point, done) {
        state.keys[row] = copyMoved(state.keys[row], point, keyView);
        verdicts = null;
        parts.place(row);
        parts.hull(null);
        change(done);
        if (done) drawKeys();
      },
      moveQuery(point, done) {
        state.query = copyMoved(state.query, point, keyView);
        change(done);
      },
    });
    parts.hull(verdicts);
    if (!verdicts) decide();
  };
  const decide = afterPause(async () => {
    if (!host.canAsk || state.keys.length > 400) return;
    try {
      const found = await ask("copyable", { keys: state.keys });
      if (found) parts.hull((verdicts = found.verdicts));
    } catch {
      verdicts = null; // what the page found stays
    }
  });
  const drawValues = () => {
    valueView = copyView(state.values, [], state.view, COPY_SIZE);
    copyValuesPicture(valuesPicture, state, valueView);
  };
  const update = () => {
    const found = attendTo(state.query, state.keys, state.values, state.scale);
    parts.query();
    copyBars(barsPicture, found, state);
    put(valuesPicture.querySelector(".copy-output"), { transform: `translate(${valueView.where.to(valueView.flat(found.context)).join(" ")})` });
    copyFacts(facts, found, state);
    return found;
  };
  const updateSoon = onceAFrame(update);
  const change = (done) => {
    host.change({ keys: state.keys, query: state.query }, done);
    updateSoon();
    if (done) {
      const found = attendTo(state.query, state.keys, state.values, state.scale);
      host.announce(`key ${found.top + 1} has weight ${said(found.weights[found.top])}`);
    }
  };
  const scale = slider({
    label: "scale",
    low: 0.05,
    high: 100,
    value: state.scale,
    log: true,
    change(value, done) {
      host.change({ scale: value }, done);
      updateSoon();
    },
  });
  const draw = () => {
    scale.set(state.scale);
    drawKeys();
    drawValues();
    update();
  };
  const aims = copyAims(host, {
    redraw: draw,
    mark: (certificate) => parts.proof(certificate),
  });
  const view = make("select", { "aria-label": "seen along", onchange: () => { host.change({ view: view.value }); draw(); } },
    make("option", { value: "principal" }, "directions of most spread"), make("option", { value: "first" }, "first two coordinates"));
  view.value = state.view;
  const wide = state.keys[0].length > 2 || state.values[0].length > 2;
  el.append(
    make("div", { class: "controls" }, scale.element, wide ? make("label", {}, "seen along ", view) : null),
    make("div", { class: "pictures" },
      make("figure", {}, make("figcaption", {}, "keys; drag the query q, or a key"), keysPicture),
      make("figure", {}, make("figcaption", {}, "values, and the output c"), valuesPicture)),
    make("figure", { class: "copy-bars" }, make("figcaption", {}, "weights"), barsPicture),
    make("div", { class: "wide" }, facts),
    aims.element,
  );
  draw();
  return { stop() {}, resume: decide };
}

/** A row whose shadow in the view is moved to a point. */
function copyMoved(row, point, { axes, flat }) {
  const old = flat(row);
  return row.map((entry, j) => entry + axes.reduce((sum, axis, k) => sum + (point[k] - old[k]) * (axis[j] ?? 0), 0));
}

function copyKeysPicture(picture, state, view, moves) {
  const hull = make("polygon", { class: "hull" });
  const proof = make("g", {});
  const crowd = make("path", { class: "role-rest" });
  const points = make("g", {});
  const arrow = make("line", { class: "line-ink", "stroke-width": 2 });
  const tip = make("g", {}, make("circle", { r: 14, class: "halo" }), make("circle", { r: 7, class: "ink" }),
    make("text", { y: -11, "text-anchor": "middle" }, "q"));
  const middle = view.where.to([0, 0]);
  picture.replaceChildren(
    make("path", { class: "faint", d: `M0 ${middle[1]}H${COPY_SIZE}M${middle[0]} 0V${COPY_SIZE}` }), hull, proof, crowd, points, arrow, tip);
  const few = state.keys.length <= COPY_MOVED;
  const at = (row) => view.where.to(view.flat(state.keys[row]));
  const marks = [];
  if (few) {
    state.keys.forEach((_, row) => {
      const mark = make("g", {}, make("circle", { r: 13, class: "halo" }), make("path", { d: "M-6 0A6 6 0 1 1 6 0A6 6 0 1 1 -6 0Z", class: "role-a copy-shape" }),
        make("text", { y: -10, "text-anchor": "middle" }, String(row + 1)));
      marks.push(mark);
      draggable(mark, picture, () => view.where, {
        label: `key ${row + 1}`,
        at: () => view.flat(state.keys[row]),
        move: (point, done) => moves.moveKey(row, point, done),
      });
      points.append(mark);
    });
  } else {
    crowd.setAttribute("d", state.keys.map((_, row) => { const [x, y] = at(row); return `M${(x - 1.5).toFixed(1)} ${y.toFixed(1)}h3v3h-3z`; }).join(""));
  }
  const place = (row) => marks[row]?.setAttribute("transform", `translate(${at(row).map((x) => x.toFixed(2)).join(" ")})`);
  marks.forEach((_, row) => place(row));
  draggable(tip, picture, () => view.where, { label: "query", at: () => view.flat(state.query), move: moves.moveQuery });
  return {
    place,
    query() {
      const [x, y] = view.where.to(view.flat(state.query));
      put(arrow, { x1: middle[0], y1: middle[1], x2: x.toFixed(2), y2: y.toFixed(2) });
      put(tip, { transform: `translate(${x.toFixed(2)} ${y.toFixed(2)})` });
    },
    /** Draw the hull, and a cross for keys that cannot be copied: from Python's verdicts, or in the plane by what is seen. */
    hull(verdicts) {
      const corners = hullOf(state.keys.map((key) => view.flat(key)));
      hull.setAttribute("points", corners.map((row) => at(row).map((x) => x.toFixed(1)).join(",")).join(" "));
      if (!few) return;
      const plain = state.keys[0].length <= 2;
      marks.forEach((mark, row) => {
        const can = verdicts ? verdicts[row] === "possible" : !plain || corners.includes(row);
        const shape = mark.querySelector(".copy-shape");
        put(shape, { d: can ? "M-6 0A6 6 0 1 1 6 0A6 6 0 1 1 -6 0Z" : "M-6 -4L-4 -6L0 -2L4 -6L6 -4L2 0L6 4L4 6L0 2L-4 6L-6 4L-2 0Z", class: `copy-shape ${can ? "role-a" : "role-b"}` });
        mark.setAttribute("aria-description", can ? "can be copied" : "cannot be copied");
      });
    },
    /** Draw the mixture that proves that something cannot be. */
    proof(certificate) {
      proof.replaceChildren();
      if (certificate?.kind !== "blocked") return;
      const inside = certificate.inside.map(at);
      const here = [0, 1].map((k) => inside.reduce((sum, point) => sum + point[k], 0) / inside.length);
      certificate.rows.forEach((row, place) => {
        const [x, y] = at(row);
        const [top, bottom] = certificate.weights[place].split("/").map(Number);
        proof.append(make("line", { class: "line-b", x1: here[0], y1: here[1], x2: x, y2: y, "stroke-width": 1 + (6 * top) / (bottom || 1), "stroke-opacity": 0.6 }));
      });
    },
  };
}

function copyValuesPicture(picture, state, view) {
  const few = state.values.length <= COPY_MOVED;
  const at = (row) => view.where.to(view.flat(row));
  const corners = hullOf(state.values.map((value) => view.flat(value)));
  picture.replaceChildren(
    make("polygon", { class: "hull", points: corners.map((row) => at(state.values[row]).map((x) => x.toFixed(1)).join(",")).join(" ") }),
    ...state.values.slice(0, few ? 60 : 0).map((value, row) => {
      const [x, y] = at(value);
      return make("g", { transform: `translate(${x} ${y})` }, make("rect", { x: -5, y: -5, width: 10, height: 10, class: "role-rest" }),
        make("text", { y: -9, "text-anchor": "middle" }, `v${row + 1}`));
    }),
    few ? "" : make("path", { class: "role-rest", d: state.values.map((value) => { const [x, y] = at(value); return `M${x.toFixed(1)} ${y.toFixed(1)}h3v3h-3z`; }).join("") }),
    make("g", { class: "copy-output" }, make("path", { d: "M-9 0L0 -9L9 0L0 9Z", class: "role-one" }), make("text", { y: 22, "text-anchor": "middle" }, "c")),
  );
}

function copyBars(picture, found, state) {
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
        ...state.keys.map((_, row) => make("text", { x: box.left + (row + 0.5) * step, y: 142, "text-anchor": "middle" }, String(row + 1))));
    }
  }
  const chosen = new Set(state.chosen);
  put(picture.querySelector(".copy-all"), { d: barsPath(found.weights, box, (row) => !chosen.has(row)) });
  put(picture.querySelector(".copy-chosen"), { d: barsPath(found.weights, box, (row) => chosen.has(row)) });
}

function copyFacts(table, found, state) {
  const leak = state.chosen.length ? Math.exp(logLeak(found.scores, state.chosen)) : null;
  const rows = [
    ["largest weight", `${said(found.weights[found.top])} (key ${found.top + 1})`],
    ["margin", said(found.margin)],
    ["effective number of keys", said(found.effectiveKeys)],
    ["entropy", said(found.entropy)],
    ...(leak === null ? [] : [["weight outside the chosen keys", said(leak)]]),
  ];
  table.replaceChildren(...rows.map(([name, value]) => make("tr", {}, make("th", { scope: "row" }, name), make("td", {}, value))));
}

export const copyPanel = {
  name: "copy",
  title: "Copy and average",
  part: "a and b.ii",
  about: "A head reads a mixture of values; the query decides which. Crosses mark keys that no query can copy.",
  check: copyCheck,
  mount: copyMount,
  code: (state) =>
    `import numpy as np\nimport headwise as hw\nkeys = np.array(${python(state.keys)}, float)\nvalues = np.array(${python(state.values)}, float)\n` +
    `query = np.array(${python(state.query)}, float)\nfound = hw.attend(query, keys, values, scale=${state.scale})\nprint(found.weights, found.contexts)\n` +
    "print(hw.design.copyable(keys))\n" +
    (state.chosen.length ? `print(hw.design.${state.chosen.length > 1 ? `average(keys, ${python(state.chosen)}` : `copy(keys, ${state.chosen[0]}`}, values=values))\n` : ""),
};
