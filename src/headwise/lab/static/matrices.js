// Key, query, value: tokens and the matrices K, Q and V as maps of numbers to edit; contexts against what is wanted.

import { selfAttention } from "./attention.js";
import { latestOnly } from "./asker.js";
import { MATRICES_LARGEST, MATRICES_STEP, matricesClean, matricesGrid } from "./cells.js";
import { designLeak, designLeaks, designVerdict } from "./designs.js";
import { canvas, make, onceAFrame, python, said, slider } from "./draw.js";

const MATRICES_MOST = { tokens: 8, width: 12 };
const MATRICES_LENGTHS = [0.5, 32];
// Three tokens in units of beta: u_d + u_b, u_a, u_c + u_b; the first shall read u_b - u_c, the second u_b.
export const MATRICES_UNITS = { tokens: [[0, 1, 0, 1], [1, 0, 0, 0], [0, 1, 1, 0]], targets: [[0, 1, -1, 0], [0, 1, 0, 0], null] };
const MATRICES_PLAIN = { key: null, query: null, value: null };
// Q = (u_d u_a^T + u_c u_d^T) / beta^2, V = (u_b u_b^T - u_c u_c^T) / beta^2, in the coordinates of the u.
const MATRICES_TEXTBOOK = {
  key: null,
  query: [[0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 1], [1, 0, 0, 0]],
  value: [[0, 0, 0, 0], [0, 1, 0, 0], [0, 0, -1, 0], [0, 0, 0, 0]],
};
const MATRICES_OPEN = { beta: 4, tokens: null, targets: null, ...MATRICES_PLAIN };
const MATRICES_LETTERS = { key: "K", query: "Q", value: "V" };

function matricesRow(given, width) {
  const right = (x) => Number.isFinite(x) && Math.abs(x) <= MATRICES_LARGEST;
  return Array.isArray(given) && given.length === width && given.every(right);
}

/** Rows of finite numbers with a width and a number of rows within limits; otherwise null. */
function matricesRows(given, most, width) {
  if (!Array.isArray(given) || given.length < 1 || given.length > most || !Array.isArray(given[0])) return null;
  const wide = width ?? given[0].length;
  if (wide < 1 || wide > MATRICES_MOST.width) return null;
  return given.every((row) => matricesRow(row, wide)) ? given.map((row) => [...row]) : null;
}

/** A complete state from a partial or hostile one; tokens and targets are in units of beta. */
function matricesCheck(given) {
  const state = { ...MATRICES_OPEN, leak: 0.001 };
  const known = given !== null && typeof given === "object" ? given : {};
  if (Number.isFinite(known.beta)) state.beta = Math.min(Math.max(known.beta, MATRICES_LENGTHS[0]), MATRICES_LENGTHS[1]);
  state.leak = designLeak(known.leak, state.leak);
  state.tokens = matricesRows(known.tokens, MATRICES_MOST.tokens);
  const tokens = state.tokens ?? MATRICES_UNITS.tokens;
  const width = tokens[0].length;
  const asked = (row) => row === null || matricesRow(row, width);
  if (Array.isArray(known.targets) && known.targets.length === tokens.length && known.targets.every(asked)) {
    state.targets = known.targets.map((row) => row && [...row]);
  } else if (state.tokens && (width !== 4 || tokens.length !== 3)) state.targets = tokens.map(() => null);
  for (const name of ["key", "query"]) state[name] = matricesRows(known[name], MATRICES_MOST.width, width);
  if ((state.key?.length ?? width) !== (state.query?.length ?? width)) Object.assign(state, { key: null, query: null });
  const value = matricesRows(known.value, width, width);
  state.value = value?.length === width ? value : null;
  return state;
}

function matricesIdentity(width) {
  return Array.from({ length: width }, (_, i) => Array.from({ length: width }, (__, j) => (i === j ? 1 : 0)));
}

/** Everything about a state: tokens, targets, K, Q, V, weights, contexts and the distance of each to its target. */
function matricesFound(state) {
  const grown = (row) => row && row.map((x) => matricesClean(state.beta * x));
  const tokens = (state.tokens ?? MATRICES_UNITS.tokens).map(grown);
  const targets = (state.targets ?? MATRICES_UNITS.targets).map(grown);
  const plain = matricesIdentity(tokens[0].length);
  const [key, query, value] = [state.key ?? plain, state.query ?? plain, state.value ?? plain];
  const { weights, contexts } = selfAttention(tokens, key, query, value);
  const away = (row, target) => Math.hypot(...row.map((x, j) => x - target[j]));
  const distances = contexts.map((row, i) => (targets[i] ? away(row, targets[i]) : null));
  return { tokens, targets, key, query, value, weights, contexts, distances };
}

/** Names of coordinates: those of the u where there are four. */
function matricesColumns(width) {
  return Array.from({ length: width }, (_, j) => (width === 4 ? "abcd"[j] : String(j + 1)));
}

/** The weights: which token (row) reads which (column). */
function matricesWeights(picture, weights) {
  const count = weights.length;
  const size = Math.min(290 / count, 76);
  const [left, top] = [(360 - size * count) / 2 + 16, 44];
  const text = (x, y, words, more = {}) => make("text", { x: x.toFixed(1), y: y.toFixed(1), "text-anchor": "middle", ...more }, words);
  const number = (weight) => {
    if (count > 5) return weight > 0 && weight < 0.005 ? "≈ 0" : said(Number(weight.toFixed(2)));
    return weight > 0 && weight < 1e-3 ? weight.toExponential(0) : said(Number(weight.toFixed(4)));
  };
  picture.setAttribute("viewBox", `0 0 360 ${Math.ceil(top + size * count + 14)}`);
  const parts = [text(left + (size * count) / 2, 16, "the row reads the column")];
  weights.forEach((row, i) => {
    parts.push(text(left + (i + 0.5) * size, 36, `x_${i + 1}`), text(left - 20, top + (i + 0.5) * size + 4, `x_${i + 1}`));
    row.forEach((weight, j) => {
      const [x, y] = [left + j * size, top + i * size];
      parts.push(
        make("rect", { x, y, width: size - 2, height: size - 2, rx: 3, class: "role-a", "fill-opacity": (0.45 * weight).toFixed(3) }),
        make("rect", { x, y, width: size - 2, height: size - 2, rx: 3, class: "faint" }),
        text(x + size / 2 - 1, y + size / 2 + 4, number(weight)),
      );
    });
  });
  picture.replaceChildren(...parts);
}

/** A distance, and in units of beta. */
function matricesAway(distance, beta, between = "") {
  return `${said(distance)} ${between}(${said(Number((distance / beta).toPrecision(3)))} β)`;
}

/** Every context as bars over its coordinates, what is wanted as outlines, and the distance in words. */
function matricesContexts(picture, found, beta) {
  const [high, left, wide] = [104, 12, 336];
  const columns = matricesColumns(found.contexts[0].length);
  const step = wide / columns.length;
  const largest = Math.max(1e-9, ...[...found.contexts, ...found.targets].flatMap((row) => row ?? [0]).map(Math.abs));
  picture.setAttribute("viewBox", `0 0 360 ${high * found.contexts.length + 6}`);
  const parts = found.contexts.map((row, i) => {
    const [top, middle] = [high * i, high * i + 57];
    const tall = (x) => (30 * Math.abs(x)) / largest;
    const bar = (x, j, share, look) =>
      make("rect", {
        x: (left + (j + (1 - share) / 2) * step).toFixed(1), y: (x > 0 ? middle - tall(x) : middle).toFixed(2),
        width: (share * step).toFixed(1), height: tall(x).toFixed(2), ...look,
      });
    const target = found.targets[i];
    const words = target ? `c_${i + 1} is ${matricesAway(found.distances[i], beta, "from its target ")}` : `c_${i + 1}: nothing is wanted`;
    const met = target && found.distances[i] <= 0.01 * beta;
    const number = (x) => (Math.abs(x) < 1e-4 * largest ? "0" : said(Number(x.toPrecision(3))));
    const name = (x, j) =>
      make("text", { x: (left + (j + 0.5) * step).toFixed(1), y: top + 101, "text-anchor": "middle" }, columns.length > 6 ? columns[j] : `${columns[j]}: ${number(x)}`);
    return make("g", {},
      make("text", { x: left, y: top + 17, "font-weight": 600 }, `${target ? (met ? "✓ " : "✗ ") : ""}${words}`),
      ...row.map((x, j) => bar(x, j, 0.6, { class: "role-one", "fill-opacity": 0.75 })),
      ...(target ?? []).map((x, j) => (x === 0 ? "" : bar(x, j, 0.72, { class: "wanted", "stroke-dasharray": "4 2" }))),
      make("path", { class: "line-ink", d: `M${left} ${middle}h${wide}` }), ...row.map(name),
      i ? make("path", { class: "faint", d: `M0 ${top}h360` }) : "");
  });
  picture.replaceChildren(...parts);
}

/** What is seen, in a sentence. */
function matricesSentence(found, state) {
  const rows = found.distances.map((_, i) => i).filter((i) => found.distances[i] !== null);
  if (!rows.length) return "No target is set: tick a row of the targets to ask for something.";
  const worst = rows.reduce((one, i) => (found.distances[i] > found.distances[one] ? i : one));
  const off = matricesAway(found.distances[worst], state.beta);
  if (found.distances[worst] <= 0.01 * state.beta) return `All that is asked for is met: the farthest, c_${worst + 1}, is off by ${off}.`;
  const top = found.weights[worst].reduce((one, weight, j, all) => (weight > all[one] ? j : one), 0);
  const plain = !state.key && !state.query && !state.value && !state.tokens && !state.targets;
  return (
    `c_${worst + 1} misses its target by ${off}; x_${worst + 1} reads x_${top + 1} most, with weight ${said(found.weights[worst][top])}.` +
    (plain ? " Without matrices each token reads itself, and u_b is no mixture of the tokens: Q must turn the question, V must cut u_b out of what is read." : "")
  );
}

/** Six digits of what Python found; what is rounding beside the rest is zero. */
function matricesRounded(matrix) {
  if (!matrix) return null;
  const largest = Math.max(...matrix.flat().map(Math.abs));
  return matrix.map((row) => row.map((x) => (Math.abs(x) < 1e-9 * largest ? 0 : Number(x.toPrecision(6)))));
}

/** Python counts positions and tokens from 0, the page from 1, as the exercise does. */
function matricesOneBased(text) {
  const more = (rows) => rows.replace(/\d+/g, (row) => Number(row) + 1);
  return text.replace(/\b(?:positions?|tokens?) \d+(?:(?:, | and |, and )\d+)*/g, more);
}

/** The button that lets Python find K, Q and V, and what it says; `clear()` takes back what no longer holds. */
function matricesSolver(host, loaded) {
  const ask = latestOnly(host.ask);
  const out = make("div");
  const clear = () => {
    ask.drop();
    out.replaceChildren();
  };
  const show = (found) => {
    const good = found.verdict === "possible";
    if (good) loaded({ key: matricesRounded(found.key), query: matricesRounded(found.query), value: matricesRounded(found.value) });
    const facts = [["rank, the width of keys and queries", found.rank], ["margin", found.margin], ["leak at most", found.leak], ["error at most", found.error_bound]];
    const rows = facts.filter(([, x]) => x !== null).map(([name, x]) => make("tr", {}, make("th", { scope: "row" }, name), make("td", {}, said(x))));
    out.replaceChildren(designVerdict(found, matricesOneBased, good ? make("table", {}, ...rows) : null));
    host.announce(`${found.verdict}: ${matricesOneBased(found.reason)}`);
  };
  const button = make("button", { type: "button", onclick: async () => {
    const { tokens, targets } = matricesFound(host.state);
    const asked = Object.fromEntries(targets.map((row, i) => [String(i), row]).filter(([, row]) => row));
    out.replaceChildren(make("p", { class: "quiet" }, "Python is looking for matrices …"));
    try {
      const found = await ask("layer", { tokens, targets: asked, leak: host.state.leak });
      if (found) show(found);
    } catch (error) {
      out.replaceChildren(make("p", {}, error.message));
    }
  } }, "solve");
  return {
    out, button, clear,
    leaks: designLeaks(host, clear),
    update: (found) => { button.disabled = !host.canAsk || found.targets.every((row) => !row); },
  };
}

/** Buttons that change the chosen cell, for hands without a keyboard. */
function matricesStepper() {
  let cell = null;
  const name = make("span", { class: "quiet matrices-chosen" });
  const button = (text, label, work) =>
    make("button", { type: "button", "aria-label": label, onpointerdown: (event) => event.preventDefault(), onclick: () => work() }, text);
  const buttons = [
    button("−", `less by ${MATRICES_STEP}`, () => cell.step(-1)),
    button("+", `more by ${MATRICES_STEP}`, () => cell.step(1)),
    button("±", "change the sign", () => cell.sign()),
  ];
  // Without a cell it would only lie over the end of the page.
  const element = make("div", { class: "matrices-stepper", role: "group", "aria-label": "change the chosen cell", hidden: true }, ...buttons, name);
  return {
    element,
    choose(one, label = "") {
      cell = one;
      name.textContent = label;
      element.hidden = one === null;
    },
  };
}

/** All maps of a state; `edit(name, row, column, number, done)` is told what is changed in them. */
function matricesMaps(found, { edit, ask, chosen, refused }) {
  const columns = matricesColumns(found.tokens[0].length);
  const tokens = found.tokens.map((_, i) => `x_${i + 1}`);
  const ticks = found.tokens.map((_, i) => make("input", { type: "checkbox", "aria-label": `c_${i + 1} has a target`, onchange: (event) => ask(i, event.target.checked) }));
  const map = (name, about, rows, field, extra) => matricesGrid({ name, about, rows, columns, chosen, refused, extra, change: (...given) => edit(field, ...given) });
  const square = (field) => (found[field].length === columns.length ? columns : found[field].map((_, i) => String(i + 1)));
  const maps = {
    tokens: map("tokens", "one in each row", tokens, "tokens"),
    targets: map("targets", "tick what is asked for", found.tokens.map((_, i) => `c_${i + 1}`), "targets", (i) => make("td", {}, ticks[i])),
    key: map("K", "keys are K x", square("key"), "key"),
    query: map("Q", "queries are Q x", square("query"), "query"),
    value: map("V", "values are V x", square("value"), "value"),
  };
  return {
    elements: [["tokens", "targets"], ["key", "query", "value"]].map((names) => make("div", { class: "matrices-maps" }, ...names.map((name) => maps[name].element))),
    set(now) {
      for (const [name, one] of Object.entries(maps)) one.set(now[name]);
      now.targets.forEach((row, i) => { ticks[i].checked = row !== null; });
    },
  };
}

/** Buttons that load a setting, the solver's, and the slider of lengths. */
function matricesControls(state, solver, load, length) {
  const button = (name, patch) => make("button", { type: "button", onclick: () => { solver.clear(); load(patch()); } }, name);
  const four = () => (state.tokens && state.tokens[0].length !== 4 ? { tokens: null, targets: null } : {});
  return make("div", { class: "controls" }, button("identity", () => MATRICES_PLAIN), button("textbook matrices", () => ({ ...four(), ...MATRICES_TEXTBOOK })),
    make("span", { class: "matrices-solve" }, solver.button, solver.leaks), button("start again", () => MATRICES_OPEN), length.element);
}

/** The matrix of a name to be changed: the state's, that of the example, or the identity. */
function matricesOwn(state, name) {
  if (name in MATRICES_UNITS) return structuredClone(state[name] ?? MATRICES_UNITS[name]);
  return state[name] ?? matricesIdentity((state.tokens ?? MATRICES_UNITS.tokens)[0].length);
}

function matricesMount(el, host) {
  const state = host.state;
  const pictures = [canvas(360, 280, "weights: which token reads which"), canvas(360, 320, "contexts against targets")];
  const [sentence, place, trouble] = [make("p", { class: "matrices-sentence" }), make("div"), make("p", { role: "alert" })];
  const stepper = matricesStepper();
  let maps = null;
  const update = () => {
    const found = matricesFound(state);
    maps.set(found);
    matricesWeights(pictures[0], found.weights);
    matricesContexts(pictures[1], found, state.beta);
    sentence.textContent = matricesSentence(found, state);
    solver.update(found);
  };
  const soon = onceAFrame(update);
  const tell = () => host.announce(matricesSentence(matricesFound(state), state));
  const own = (name) => matricesOwn(state, name);
  const edit = (name, row, column, number, done) => {
    const matrix = own(name);
    matrix[row] ??= matrix.find(Boolean)?.map(() => 0) ?? own("tokens")[0].map(() => 0);
    matrix[row][column] = name in MATRICES_UNITS ? matricesClean(number / state.beta) : number;
    host.change({ [name]: matrix }, done);
    solver.clear();
    trouble.textContent = "";
    update();
    if (done) tell();
  };
  const refused = (words) => { trouble.textContent = words; };
  const ask = (row, asked) => {
    const targets = own("targets");
    targets[row] = asked ? own("tokens")[row].map((x) => x) : null;
    host.change({ targets });
    solver.clear();
    update();
    tell();
  };
  const build = () => {
    maps = matricesMaps(matricesFound(state), { edit, ask, chosen: stepper.choose, refused });
    stepper.choose(null);
    trouble.textContent = "";
    place.replaceChildren(...maps.elements);
    update();
  };
  const load = (patch) => {
    host.change(structuredClone(patch));
    length.set(state.beta);
    build();
    tell();
  };
  const solver = matricesSolver(host, load);
  const length = slider({
    label: "length β", low: MATRICES_LENGTHS[0], high: MATRICES_LENGTHS[1], value: state.beta, log: true,
    change(value, done) {
      host.change({ beta: value }, done);
      solver.clear();
      soon();
      if (done) tell();
    },
  });
  el.append(
    matricesControls(state, solver, load, length),
    solver.out, sentence,
    make("div", { class: "pictures" },
      make("figure", {}, make("figcaption", {}, "weights"), pictures[0]),
      make("figure", {}, make("figcaption", {}, "contexts (bars) against targets (outlines)"), pictures[1])),
    place, trouble, stepper.element,
    make("p", { class: "quiet" }, `Type a number in a cell; arrow keys move, + and − step by ${MATRICES_STEP}. The slider lengthens all tokens and targets; K, Q and V stay.`),
    ...(host.canAsk ? [] : [make("p", { class: "quiet" }, "To solve: this needs Python: run headwise lab.")]),
  );
  build();
  return {};
}

/** The Python lines that give the same contexts, and matrices found by design. */
function matricesCode(state) {
  const found = matricesFound(state);
  const matrix = (name) => (state[name] ? `np.array(${python(state[name])}, float)` : "None");
  const targets = found.targets.map((row, i) => (row ? `${i}: np.array(${python(row)}, float)` : "")).filter(Boolean).join(", ");
  const lines = [
    "import numpy as np", "import headwise as hw", "",
    ...(state.tokens ? [`tokens = np.array(${python(found.tokens)}, float)`] : [`a, b, c, d = ${state.beta} * np.eye(4)  # the u`, "tokens = np.stack([d + b, a, c + b])"]),
    `targets = {${targets}}`,
    ...Object.entries(MATRICES_LETTERS).map(([name, letter]) => `${letter} = ${matrix(name)}${state[name] ? "" : "  # the identity"}`),
    "found = hw.SelfAttention(key=K, query=Q, value=V)(tokens)", "print(found.weights)", "print(found.contexts)",
    "for row, target in targets.items():", "    print(row, np.linalg.norm(found.contexts[row] - target))",
    ...(targets ? [`print(hw.design.layer(tokens, targets=targets, leak=${state.leak}))`] : []),
  ];
  return `${lines.join("\n")}\n`;
}

export const matricesPanel = {
  name: "matrices",
  title: "Key, query, value",
  part: "e",
  about: "Every token asks, is asked and is read: K, Q and V decide who reads whom and what of it. Bring each context to its target.",
  check: matricesCheck,
  mount: matricesMount,
  code: matricesCode,
};
