// Your answer: text as a student writes it, how it was read, the verdict, and the instance on which it fails.

import { attendTo } from "./attention.js";
import { latestOnly } from "./asker.js";
import { copyInReach } from "./aims.js";
import { copyPanel } from "./copy.js";
import { afterPause, barsPath, canvas, keyName, make, said } from "./draw.js";
import { MATRICES_UNITS, matricesPanel } from "./matrices.js";
import { noisePanel } from "./noise.js";

const ANSWER_OPEN = { part: "b.ii", text: "k_a + k_b" };
const ANSWER_LONGEST = 4000;
const ANSWER_PAUSE = 400;
const ANSWER_V = "V = (u_b u_b^T - u_c u_c^T) / beta^2";
// A few answers for every part; the first is what the part opens with.
const ANSWER_EXAMPLES = {
  "a.i": ["exp(k_j^T q)", "k_j^T q / sum_i k_i^T q", "\\frac{\\exp(k_j^\\top q)}{\\sum_{i=1}^n \\exp(k_i^\\top q)}"],
  "a.ii": ["k_j^T q > k_i^T q", "||k_j|| >> ||k_i||", "k_j^\\top q \\gg k_i^\\top q"],
  "a.iii": ["k_j", "c ≈ v_j"],
  "b.i": ["A^T A", "A^T", "2 A A^T", "I - B B^T", "\\sum_{i=1}^m a_i a_i^\\top"],
  "b.ii": ["k_a + k_b", "t (v_a + v_b), t large", "t (k_a + 2 k_b), t large", "beta (k_a + ", "q = \\beta (k_a + k_b), \\beta \\gg 0"],
  "c.i": ["mu_a + mu_b", "t (k_a + k_b), t large", "t (mu_a + mu_b), t large"],
  "c.i output": ["(mu_a + mu_b) / 2", "v_a + v_b", "\\frac{1}{2}(v_a + v_b)"],
  "c.ii": ["1/4", "0", "Var(c) = 1/4 + 1/4 = 1/2"],
  "d.i": ["q_1 = mu_a, q_2 = mu_b", "q_1 = t (mu_a + mu_b), q_2 = t (mu_a + mu_b), t large", "q_1 = t mu_a, q_2 = t mu_a, t large", "q_1 = \\beta\\mu_a, q_2 = \\beta\\mu_b, \\beta \\gg 0"],
  "d.ii": ["Phi(-2)", "0.92", "\\Phi(-\\sqrt{2})"],
  "d.ii variance": ["0", "p (1 - p) * n / (n - 1)", "p (1 - p) / 4 * n / (n - 1)"],
  "d.ii head": ["c_2", "c_1"],
  "e.i": ["u_b", "(x_1 + x_2 + x_3) / 3", "u_a"],
  "e.i more": ["yes", "No, c_2 is a mixture of tokens"],
  "e.ii": [
    "K = I, Q = I, V = I", `K = I, Q = (u_a u_d^T + u_d u_c^T) / beta^2, ${ANSWER_V}`, "K = I, Q = (u_d u_a^T + u_c u_d^T) / beta^2, V = u_b u_b^T - u_c u_c^T",
    `K = I, Q = (u_d u_a^T + u_c u_d^T) / beta^2, ${ANSWER_V}`,
  ],
};
// Parts that need only hold in the limit.
const ANSWER_GROWING = new Set(["b.ii", "c.i", "d.i", "e.i", "e.ii"]);
const ANSWER_SIGNS = { right: "✓", remark: "✓", wrong: "✗", unreadable: "?" };
const ANSWER_MATH = "http://www.w3.org/1998/Math/MathML";
const ANSWER_ELEMENTS = new Set(["math", "mrow", "mi", "mn", "mo", "mtext", "mspace", "mfrac", "msup", "msub", "msubsup", "msqrt", "mroot", "munder", "mover", "munderover"]);
const ANSWER_ATTRIBUTES = new Set(["display", "separator", "width", "stretchy", "mathvariant"]);

/** A complete state from a partial or hostile one. */
function answerCheck(given) {
  const known = given !== null && typeof given === "object" ? given : {};
  const part = typeof known.part === "string" && Object.hasOwn(ANSWER_EXAMPLES, known.part) ? known.part : ANSWER_OPEN.part;
  const text = typeof known.text === "string" ? known.text.slice(0, ANSWER_LONGEST) : ANSWER_EXAMPLES[part][0];
  return { part, text };
}

/** MathML built anew from its text: elements and attributes of mathematics, nothing else; null if it is not that. */
function answerMath(text) {
  const parsed = new DOMParser().parseFromString(text, "application/xml").documentElement;
  const built = (from) => {
    if (from.namespaceURI !== ANSWER_MATH || !ANSWER_ELEMENTS.has(from.localName)) return null;
    const to = document.createElementNS(ANSWER_MATH, from.localName);
    for (const { name, value } of from.attributes) if (ANSWER_ATTRIBUTES.has(name)) to.setAttribute(name, value);
    for (const child of from.childNodes) {
      const made = child.nodeType === Node.TEXT_NODE ? document.createTextNode(child.data) : child.nodeType === Node.ELEMENT_NODE ? built(child) : null;
      if (made) to.append(made);
    }
    return to;
  };
  return parsed.localName === "math" ? built(parsed) : null;
}

/** The error against the scale, both on logarithmic axes: what is zero lies on the floor, one error alone is a level; null for none. */
function answerErrors(pairs, tokens) {
  const known = pairs.filter(([scale, error]) => scale > 0 && Number.isFinite(scale) && Number.isFinite(error) && error >= 0);
  if (!known.length) return null;
  const errors = known.map(([, error]) => error);
  const [left, top, width, height] = [52, 30, 290, 166];
  const floor = Math.max(1e-16, Math.min(0.001, ...errors.map((error) => error || 1e-16)));
  const bounds = (numbers) => [Math.floor(Math.log10(Math.min(...numbers)) + 1e-9), Math.ceil(Math.log10(Math.max(...numbers)) - 1e-9)];
  const [low, high] = bounds([1, floor, ...errors.map((error) => Math.max(error, floor))]);
  const [first, last] = known.length > 1 ? bounds(known.map(([scale]) => scale)) : [0, 5];
  const x = (scale) => left + (width * (Math.log10(scale) - first)) / Math.max(last - first, 1);
  const y = (error) => top + (height * (high - Math.log10(Math.max(error, floor)))) / (high - low);
  const text = (px, py, said, anchor = "middle") => make("text", { x: px.toFixed(1), y: py.toFixed(1), "text-anchor": anchor }, said);
  const level = (error, look) => make("path", { d: `M${left} ${y(error).toFixed(1)}h${width}`, ...look });
  const power = (k) => (Math.abs(k) < 4 ? String(Number(`1e${k}`)) : `1e${k}`);
  const picture = canvas(360, 250, "error against the scale");
  picture.append(text(6, 16, tokens ? "error, in units of β" : "error, in lengths of a value", "start"), text(left + width / 2, 242, tokens ? "length β of the vectors" : "scale"));
  for (let k = high; k >= low; k -= Math.ceil((high - low) / 6)) picture.append(level(10 ** k, { class: "faint" }), text(left - 6, y(10 ** k) + 4, power(k), "end"));
  for (let k = first; k <= last; k += Math.max(1, Math.ceil((last - first) / 6))) picture.append(text(x(10 ** k), top + height + 18, power(k)));
  picture.append(level(0.01, { class: "line-ink", "stroke-dasharray": "5 4" }), text(left + width, y(0.01) - 5, "1%", "end"));
  if (known.length === 1) {
    picture.append(level(errors[0], { class: "line-one", "stroke-width": 2 }), text(left + width / 2, y(errors[0]) + 18, `nothing in it may grow: ${said(errors[0])}`));
  } else {
    const d = known.map(([scale, error], k) => `${k ? "L" : "M"}${x(scale).toFixed(1)} ${y(error).toFixed(1)}`).join("");
    const point = ([scale, error]) => make("circle", { cx: x(scale).toFixed(1), cy: y(error).toFixed(1), r: 4, class: "role-one" }, make("title", {}, `${said(scale)}: ${said(error)}`));
    picture.append(make("path", { class: "line-one", "stroke-width": 2, d }), ...known.map(point));
  }
  return make("figure", {}, make("figcaption", {}, tokens ? "the error as the vectors grow" : "the error as the scale grows"), picture);
}

/** Weights as bars, the first two as a and b; of a layer those of the row that misses; of keys and a query those that the page finds. */
function answerWeights(example) {
  const layer = Array.isArray(example.weights?.[0]);
  const scored = !example.weights && example.query && example.keys;
  const weights = layer ? example.weights[example.row - 1] : scored ? attendTo(example.query, example.keys, example.keys).weights : example.weights;
  if (!Array.isArray(weights) || !weights.length || !weights.every(Number.isFinite)) return null;
  const box = { left: 34, top: 24, width: 316, height: 150 };
  const picture = canvas(360, 206, "weights");
  const step = box.width / weights.length;
  const named = (row) => !layer && row < (scored ? 1 : 2);
  const name = (row) => (layer ? `x_${row + 1}` : scored ? (row ? String(row + 1) : "j") : keyName(row));
  for (const level of [0, 0.5, 1]) {
    const y = box.top + box.height * (1 - level);
    picture.append(make("path", { class: "faint", d: `M${box.left} ${y}h${box.width}` }), make("text", { x: 28, y: y + 4, "text-anchor": "end" }, String(level)));
  }
  picture.append(
    make("path", { class: "role-rest", d: barsPath(weights, box, (row) => !named(row)) }), make("path", { class: "role-a", d: barsPath(weights, box, (row) => named(row) && row === 0) }),
    make("path", { class: "role-b", d: barsPath(weights, box, (row) => named(row) && row === 1) }));
  weights.forEach((weight, row) => {
    const middle = { x: (box.left + (row + 0.5) * step).toFixed(1), "text-anchor": "middle" };
    if (step > 20 || row < 2) picture.append(make("text", { ...middle, y: 192 }, name(row)));
    const y = (box.top + box.height * (1 - weight) - 5).toFixed(1);
    if (step > 40 || (named(row) && step > 26)) picture.append(make("text", { ...middle, y }, weight < 0.005 ? "≈ 0" : said(Number(weight.toFixed(2)))));
  });
  return make("figure", {}, make("figcaption", {}, layer ? `weights of x_${example.row} there` : "weights there"), picture);
}

/** Panels in which an instance can be looked at: their titles and states. */
function answerPlaces(part, example) {
  const found = [];
  const same = (one, other) => JSON.stringify(one) === JSON.stringify(other);
  const query = example.query ?? (example.queries?.length === 1 ? example.queries[0] : null);
  if (example.keys && query) {
    const pair = Boolean(example.queries);
    // A query that is far longer than the keys would leave them a dot: its length goes into the scale.
    const long = Math.hypot(...query) > 2 * Math.max(...example.keys.map((key) => Math.hypot(...key)));
    const aimed = long ? copyInReach(query, example.keys) : { query, scale: 1 };
    const note = `Opened from your answer. ${answerSentence(example.sentence ?? "")}`;
    const taken = copyPanel.check({ keys: example.keys, values: example.values, ...aimed, chosen: pair ? [0, 1] : [], named: pair, note, view: pair && example.seed < 2 ? "round" : "principal" });
    if (same(taken.keys, example.keys) && same(taken.query, aimed.query)) found.push([copyPanel, taken]);
  }
  if (example.keys && example.queries && (example.queries.length > 1 || part.startsWith("c"))) {
    const taken = noisePanel.check({ keys: example.keys, queries: example.queries });
    if (taken.queries) found.push([noisePanel, taken]);
  }
  if (example.tokens?.length === 3) {
    // The second token is u_a, so its length is beta.
    const beta = Math.hypot(...example.tokens[1]);
    const shorter = (row) => row.map((x) => Number((x / beta).toPrecision(6)));
    const round = (matrix) => matrix?.map((row) => row.map((x) => Number(x.toPrecision(6))));
    const usual = same(example.tokens.map(shorter), MATRICES_UNITS.tokens);
    const targets = usual && example.row ? MATRICES_UNITS.targets : example.tokens.map(() => null);
    if (targets !== MATRICES_UNITS.targets) targets[(example.row ?? 2) - 1] = shorter(example.target ?? example.answer.flat());
    const given = { beta, tokens: example.tokens.map(shorter), targets, key: round(example.K), query: round(example.Q), value: round(example.V) };
    const taken = matricesPanel.check(given);
    if (same(taken.tokens, given.tokens) && same(taken.value, given.value ?? null) && same(taken.query, given.query ?? null)) found.push([matricesPanel, taken]);
  }
  return found;
}

/** The instance on which an answer fails: what is seen there, Python lines, and where to look at it. */
function answerExample(example, found, host) {
  const code = make("pre", { class: "code", tabindex: "0", "aria-label": "Python lines that show it" }, example.code);
  const copied = make("button", { type: "button", onclick: async () => {
    try {
      await navigator.clipboard.writeText(example.code);
      copied.textContent = "copied";
      host.announce("copied");
    } catch {
      getSelection().selectAllChildren(code);
      copied.textContent = "marked: copy it by hand";
    }
  } }, "copy the lines");
  const places = answerPlaces(host.state.part, example);
  const open = ([panel, state], place) =>
    make("button", { type: "button", class: place ? null : "answer-open", title: panel.title, onclick: () => host.open(panel.name, state) }, place ? `open it in “${panel.title}”` : "open it");
  return make("section", { "aria-label": "counterexample" },
    make("h3", {}, "Where it fails"),
    example.sentence && example.sentence !== found.problem ? make("p", {}, answerSentence(example.sentence)) : null,
    make("div", { class: "controls" }, ...places.map(open), copied),
    make("details", {}, make("summary", {}, "Python lines that show it"), code));
}

/** Words as a sentence of their own; a name such as q_1 at the start stays as it is, a column is written as a vector or a number. */
function answerSentence(given) {
  const column = (_, rows) => (rows.includes("], [") ? `(${rows.replaceAll("], [", ", ")})` : rows);
  const words = given.replace(/\[\[([^[\],]+(?:\], \[[^[\],]+)*)\]\]/g, column);
  const begun = /^[a-z]+[ ,]/.test(words) && !/^[a-zA-Z] /.test(words) ? words[0].toUpperCase() + words.slice(1) : words;
  return /[.!?]$/.test(begun) ? begun : `${begun}.`;
}

/** Pictures side by side; where there are none, one that says so. */
function answerFigures(figures, words = "nothing to draw for this") {
  const none = canvas(360, 40, words);
  none.append(make("text", { x: 14, y: 24 }, words));
  return make("div", { class: `pictures answer-figures${figures.length < 2 ? " answer-single" : ""}` }, ...(figures.length ? figures : [make("figure", {}, none)]));
}

/** What is to be said of an answer, as elements. */
function answerShown(found, host) {
  const good = found.status === "right" || found.status === "remark";
  const [problem, ...place] = (found.problem ?? "").split("\n");
  const math = found.mathml ? answerMath(found.mathml) : null;
  const tone = good ? "good" : found.status === "wrong" ? "bad" : "unsure";
  const example = found.counterexample;
  const tokens = host.state.part.startsWith("e");
  const pairs = ANSWER_GROWING.has(host.state.part) ? (found.errors ?? []) : [];
  const figures = [answerErrors(pairs, tokens), example ? answerWeights(example) : null].filter(Boolean);
  const one = found.scale_for_one_percent;
  return [
    make("div", { class: `verdict ${tone}` },
      make("p", { class: "answer-word" }, make("span", { class: `word-${tone}` }, `${ANSWER_SIGNS[found.status] ?? "?"} ${found.said}`)),
      math ? make("div", { class: "answer-math", "aria-label": "read as", role: "group" }, make("span", { class: "quiet" }, "read as"), math) : null,
      problem ? make("p", {}, answerSentence(problem)) : null,
      place.length ? make("pre", { class: "code answer-place", "aria-label": "the place" }, place.map((line) => line.replace(/^ {2}/, "")).join("\n")) : null,
      found.misconception ? make("p", {}, make("b", {}, `A known mistake: ${found.misconception}. `), found.help) : found.help ? make("p", {}, found.help) : null,
      found.remarks?.length ? make("ul", {}, ...found.remarks.map((remark) => make("li", {}, answerSentence(remark)))) : null,
      one ? make("p", { class: "quiet" }, tokens ? `The error falls to 1% at a length β of ${said(one)}.` : `With ten keys the error falls to 1% at a scale of ${said(one)}.`) : null),
    ...(example ? [answerExample(example, found, host)] : []),
    answerFigures(figures),
  ];
}

/** The text with its part, examples and question; `asked` is called when something is to be checked. */
function answerForm(host, asked) {
  const state = host.state;
  const drafts = {};
  const question = make("p", { class: "answer-question" });
  const select = make("select", { "aria-label": "part" }, ...Object.keys(ANSWER_EXAMPLES).map((part) => make("option", { value: part }, part)));
  const text = make("textarea", { class: "answer-text", rows: 3, maxlength: ANSWER_LONGEST, spellcheck: "false", autocapitalize: "off", autocomplete: "off", "aria-label": "your answer, plain text or LaTeX" });
  const examples = make("div", { class: "answer-examples", role: "group", "aria-label": "answers to try" });
  let titles = host.parts ?? {};
  let kept = state.text;
  const write = (words) => {
    text.value = words;
    kept = words;
    host.change({ text: words });
    asked();
  };
  const draw = () => {
    [select.value, text.value, question.textContent] = [state.part, state.text, titles[state.part] ?? ""];
    examples.replaceChildren(...ANSWER_EXAMPLES[state.part].map((words) => make("button", { type: "button", onclick: () => write(words) }, words)));
  };
  select.addEventListener("change", () => {
    drafts[state.part] = state.text;
    kept = drafts[select.value] ?? ANSWER_EXAMPLES[select.value][0];
    host.change({ part: select.value, text: kept });
    draw();
    asked();
  });
  text.addEventListener("input", () => {
    host.change({ text: text.value }, false);
    asked(true);
  });
  const keep = () => {
    if (state.text !== kept) host.change({ text: (kept = state.text) });
  };
  text.addEventListener("change", keep);
  const name = () => {
    for (const option of select.options) option.textContent = titles[option.value] ? answerShort(option.value, titles[option.value]) : option.value;
    question.textContent = titles[state.part] ?? "";
  };
  draw();
  name();
  return {
    keep,
    elements: [
      make("div", { class: "controls" }, make("label", { class: "answer-part" }, "part ", select)), question, text,
      make("p", { class: "quiet answer-try" }, "plain text or LaTeX; or try one of these:"), examples],
    name(parts) {
      titles = Object.fromEntries(parts.map(({ part, title }) => [part, title]));
      name();
    },
  };
}

/** A part and its title, short enough for a list. */
function answerShort(part, title) {
  return `${part}: ${title.length > 50 ? `${title.slice(0, 49).replace(/[ ,]+[^ ]*$/, "")} …` : title}`;
}

function answerMount(el, host) {
  const ask = latestOnly(host.ask);
  const out = make("div", { class: "answer-out" });
  const check = async () => {
    const { part, text } = host.state;
    form.keep();
    if (text.trim() === "" || !host.canAsk) {
      const words = host.canAsk ? "Nothing is written yet." : "To check an answer: this needs Python: run headwise lab. What you write is kept in the address.";
      out.replaceChildren(make("p", {}, words), answerFigures([]));
      out.classList.remove("answer-stale");
      return;
    }
    try {
      const found = await ask("check", { part, text });
      if (!found) return;
      out.replaceChildren(...answerShown(found, host));
      host.announce([found.said, found.misconception, (found.problem ?? "").split("\n")[0]].filter(Boolean).join(": "));
    } catch (error) {
      const again = make("button", { type: "button", onclick: () => check() }, "check again");
      out.replaceChildren(make("p", {}, `There is no verdict: ${error.message} `), again, answerFigures([]));
    }
    out.classList.remove("answer-stale");
  };
  const soon = afterPause(check, ANSWER_PAUSE);
  const form = answerForm(host, (typing = false) => {
    ask.drop();
    if (host.canAsk) out.classList.add("answer-stale");
    if (typing) soon();
    else check();
  });
  el.append(...form.elements, out);
  out.append(answerFigures([], "Python is at work …"));
  if (host.canAsk) host.ask("parts", {}).then(({ parts }) => form.name(parts), () => {});
  check();
  return { resume: check };
}

export const answerPanel = {
  name: "answer",
  title: "Your answer",
  part: "all",
  about: "Write an answer as you would on paper. It is tried on instances, not compared with a text, so any right form is right.",
  check: answerCheck,
  mount: answerMount,
  code: (state) =>
    `import headwise as hw\n\nverdict = hw.check.answer(${JSON.stringify(state.part)}, ${JSON.stringify(state.text)})\nprint(verdict)\n` +
    "if verdict.counterexample is not None:\n    print(verdict.counterexample.code)\n",
};
