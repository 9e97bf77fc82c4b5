// Noise: clouds of outputs when keys are random, for one head and for two; the exact laws beside them come from Python.

import { NOISE_DRAWS, NOISE_LIMITS, NOISE_NAMES, noiseCheck, noiseCloud, noiseDrawnCurve, noiseNormals, noiseOwnScale, noiseReaders } from "./clouds.js";
import { noiseBars, noiseChart, noisePercent, noisePicture } from "./spread.js";
import { afterPause, estimated, make, onceAFrame, python, said, slider } from "./draw.js";
import { latestOnly } from "./asker.js";

const NOISE_PRESETS = [
  ["both leak", { scale: 1, isotropic: 1e-6, length_variance: 0.5 }],
  ["one head at its best", { scale: 2.14, isotropic: 1e-6, length_variance: 0.5 }],
  ["one head jumps", { scale: 10, isotropic: 1e-6, length_variance: 0.5 }],
  ["noise everywhere", { scale: 20, isotropic: 0.05, length_variance: 0.1 }],
];

/** What is seen now, in words. */
function noiseSentence(clouds, exact) {
  const { one, two } = clouds;
  const [wins, negative] = [exact?.flip.value ?? one.wins, exact?.negative.value ?? one.negative];
  const leaks = (found) => `on average only ${noisePercent(found.read)} of the weight is on a and b`;
  const first =
    one.read < 0.75 ? `One head leaks: ${leaks(one)}.`
    : one.single > 0.5 ? `One head jumps: in ${noisePercent(wins)} of draws a wins, and the output is mostly a single value.`
    : one.single > 0.1 ? `One head wavers: in ${noisePercent(one.single)} of draws one value has more than three quarters.`
    : "One head holds.";
  const missed = 1 - two.near;
  const second =
    two.read < 0.75 ? `Two heads leak: ${leaks(two)}.`
    : missed < 0.005 ? "Two heads hold."
    : Math.abs(missed - negative) < 0.03 ? `Two heads hold, but for the ${noisePercent(negative)} of draws with a negative length.`
    : `Two heads are off the target in ${noisePercent(missed)} of draws; a negative length is the cause in ${noisePercent(negative)}.`;
  const [left, right] = [one, two].map((found, k) => exact?.[k ? "two" : "one"].mean_squared_error.value ?? found.mean_squared_error);
  const better = left > 1.05 * right ? "two heads are better" : right > 1.05 * left ? "one head is better" : "they are about as good";
  return `${first} ${second} By mean squared error, ${said(left)} against ${said(right)}, ${better} here.`;
}

/** What Python is asked about. */
function noiseBody({ count, scale, isotropic, length_variance }) {
  return { count, scale, isotropic, length_variance };
}

/** Rows of numbers: exact ones with their errors beside those of the draws. */
function noiseTable(table, clouds, exact, waiting) {
  const rows = Object.entries(clouds).flatMap(([which, found]) => [
    [`${NOISE_NAMES[which]}: variance`, exact?.[which]?.variance, said(found.variance)],
    [`${NOISE_NAMES[which]}: mean squared error`, exact?.[which]?.mean_squared_error, said(found.mean_squared_error)],
  ]);
  rows.push(["one head: a has the largest score", exact?.flip, said(clouds.one.wins)]);
  rows.push(["the length of k_a is negative", exact?.negative, said(clouds.one.negative)]);
  const head = ["", "exact (Python)", `in ${NOISE_DRAWS} draws`].map((text) => make("th", { scope: "col" }, text));
  const cells = ([name, estimate, drawn]) =>
    make("tr", {}, make("th", { scope: "row" }, name), make("td", {}, estimate ? estimated(estimate) : waiting ? "…" : "–"), make("td", {}, drawn));
  table.replaceChildren(make("tr", {}, ...head), ...rows.map(cells));
}

/** The button that asks what would help, and the bars under it. */
function noiseRemedies(host) {
  const place = make("div", { class: "noise-remedies" });
  const button = make("button", { type: "button", disabled: !host.canAsk }, "what would help?");
  const note = make("p", { class: "quiet" }, host.canAsk ? "" : "This needs Python: run headwise lab.");
  const ask = latestOnly(host.ask);
  let shownFor = null;
  button.addEventListener("click", async () => {
    const body = noiseBody(host.state);
    note.textContent = "Trying remedies on the same noise …";
    try {
      const answer = await ask("remedies", body);
      if (!answer) return;
      const { remedies } = answer;
      place.replaceChildren(noiseBars(remedies));
      shownFor = JSON.stringify(body);
      note.textContent = `For scale ${said(body.scale)}, isotropic noise ${said(body.isotropic)}, length variance ${said(body.length_variance)}, ${body.count} keys.`;
      host.announce(`Best of ${remedies.length} is ${remedies[0].name}, with a mean squared error of ${said(remedies[0].mean_squared_error.value)}.`);
    } catch (error) {
      note.textContent = `There is no answer: ${error.message}`;
    }
    follow();
  });
  const follow = () => place.classList.toggle("noise-stale", shownFor !== null && shownFor !== JSON.stringify(noiseBody(host.state)));
  return { element: make("div", {}, make("div", { class: "controls" }, button), place, note), follow };
}

/** Questions that follow the sliders: the laws at every setting, the curve when more than the scale has changed. */
function noiseQuestions(host, tell) {
  const found = { exact: null, curve: null, problem: "" };
  const names = { exact: "noise", curve: "curve" };
  const keyOf = (which) => JSON.stringify({ ...noiseBody(host.state), ...(which === "curve" ? { scale: 1 } : {}) });
  const has = { exact: "", curve: "" };
  const follow = Object.keys(names).map((which) => {
    const ask = latestOnly(host.ask);
    return afterPause(async () => {
      const key = keyOf(which);
      if (!host.canAsk || has[which] === key) return;
      try {
        const answer = await ask(names[which], noiseBody(host.state));
        if (answer === null) return;
        [found[which], has[which], found.problem] = [answer, key, ""];
      } catch (error) {
        found.problem = `There is no answer: ${error.message}`;
      }
      tell();
    }, which === "curve" ? 300 : 120);
  });
  return { found, now: (which) => (has[which] === keyOf(which) ? found[which] : null), follow: () => follow.forEach((one) => one()) };
}

/** What the clouds show, or why something is missing. */
function noiseNote(canAsk, problem, exact) {
  if (!canAsk) return "Ellipses, crosses and the curve are those of the draws here. What is exact needs Python: run headwise lab.";
  const methods = exact ? `Exact, one head by ${exact.one.method}, two heads by ${exact.two.method}.` : "From the draws until Python answers.";
  return problem || `Ellipse: one standard deviation; cross: mean; star: wanted. ${methods}`;
}

/** The sliders by name; the number of keys of somebody's own answer stays. */
function noiseSliders(state, moved) {
  const labels = { scale: "scale β", isotropic: "isotropic noise α", length_variance: "length variance τ", count: "number of keys n" };
  return Object.entries(labels).map(([name, label]) => {
    const [low, high] = NOISE_LIMITS[name];
    const change = (value, done) => moved({ [name]: value }, done);
    const one = slider({ label, low, high, value: state[name], log: name === "scale" || name === "isotropic", whole: name === "count", change });
    if (name === "count" && state.keys) one.element.querySelector("input").disabled = true;
    return [name, one];
  });
}

function noiseMount(el, host) {
  const state = host.state;
  const wide = Math.max(2, state.queries?.length ?? 0);
  let normals = noiseNormals(state.seed, wide);
  const pictures = Object.fromEntries(Object.keys(noiseReaders(state)).map((which) => [which, noisePicture(which)]));
  const [chart, remedies, table] = [noiseChart(), noiseRemedies(host), make("table")];
  const [sentence, note] = [make("p", { class: "noise-sentence" }), make("p", { class: "quiet" })];
  let toSay = false;
  let drawnCurve = null;
  const update = () => {
    const clouds = {};
    for (const [which, reader] of Object.entries(noiseReaders(state))) clouds[which] = noiseCloud(reader, state, normals, wide);
    const exact = questions.now("exact");
    for (const which of Object.keys(clouds)) pictures[which].draw(clouds[which], exact?.[which]);
    const at = { scale: state.scale };
    for (const which of ["one", "two"]) at[which] = exact?.[which].mean_squared_error.value ?? clouds[which].mean_squared_error;
    chart.draw(questions.found.curve ?? drawnCurve, at);
    chart.element.classList.toggle("noise-stale", host.canAsk && !questions.now("curve"));
    const waiting = host.canAsk && !exact && !questions.found.problem;
    noiseTable(table, clouds, exact, waiting);
    sentence.textContent = noiseSentence(clouds, exact);
    note.textContent = noiseNote(host.canAsk, questions.found.problem, exact);
    remedies.follow();
    if (toSay && !waiting) {
      host.announce(sentence.textContent);
      toSay = false;
    }
  };
  const questions = noiseQuestions(host, () => update());
  const soon = onceAFrame(update);
  const curveHere = afterPause(() => {
    if (host.canAsk) return;
    drawnCurve = noiseDrawnCurve(state, normals, wide);
    update();
  }, 200);
  const moved = (patch, done) => {
    host.change(patch, done);
    toSay = done;
    questions.follow();
    curveHere();
    soon();
  };
  const sliders = noiseSliders(state, moved);
  const jump = (patch) => {
    moved(patch, true);
    for (const [name, one] of sliders) one.set(state[name]);
  };
  const again = () => {
    normals = noiseNormals(state.seed + 1, wide);
    moved({ seed: state.seed + 1 }, true);
  };
  const button = (name, work) => make("button", { type: "button", onclick: work }, name);
  el.append(
    make("div", { class: "controls noise-sliders" }, ...sliders.map(([, one]) => one.element)),
    make("div", { class: "controls" }, ...NOISE_PRESETS.map(([name, patch]) => button(name, () => jump(patch))), button("other draws", again),
      state.queries ? button("leave your answer out", () => host.open("noise", { ...state, queries: null, keys: null })) : null),
    make("div", { class: "pictures" }, ...Object.values(pictures).map((one) => one.element)),
    sentence,
    make("div", { class: "pictures" }, make("div", {}, make("div", { class: "wide" }, table), note, remedies.element), chart.element),
  );
  questions.follow();
  curveHere();
  update();
  return { resume: () => questions.follow() };
}

/** The Python lines that give the same numbers. */
function noiseCode(state) {
  const own = state.queries
    ? `\n# your answer, at this scale\nown = ${state.scale} / ${noiseOwnScale(state.queries, state.keys)} * np.array(${python(state.queries)}, float)\n` +
      `own_keys = hw.RandomKeys(np.array(${python(state.keys)}, float), isotropic=${state.isotropic}, along_mean={0: ${state.length_variance}})\n` +
      "print(hw.stress.law(own, own_keys, e).mean_squared_error(target))\n"
    : "";
  return (
    `import numpy as np\nimport headwise as hw\n\ne = np.eye(${state.count})  # means of the keys, and the values\n` +
    `keys = hw.RandomKeys(e, isotropic=${state.isotropic}, along_mean={0: ${state.length_variance}})\ntarget = (e[0] + e[1]) / 2\n` +
    `one = hw.stress.law(${state.scale} * (e[0] + e[1]), keys, e)\ntwo = hw.stress.law(${state.scale} * e[:2], keys, e)\n` +
    "for law in (one, two):\n    print(law.variance, law.variance_error, law.mean_squared_error(target))\n" +
    "print(one.flip_probability(0))\n" +
    'queries = {"one head": e[0] + e[1], "two heads": e[:2]}\n' +
    "print(hw.stress.curve(queries, keys, e, target, scales=np.geomspace(0.3, 100, 31)))\n" +
    `print(hw.stress.remedies(${state.scale} * (e[0] + e[1]), keys, e, target, keys=[0, 1]))\n${own}`
  );
}

export const noisePanel = {
  name: "noise",
  title: "Noise",
  part: "c.ii and d.ii",
  about: "Keys are random: every coordinate has a little noise, and the length of key a varies. Each point is the output for one draw of the keys; half of v_a and half of v_b is wanted.",
  check: noiseCheck,
  mount: noiseMount,
  code: noiseCode,
};
