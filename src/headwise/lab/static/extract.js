// Take it out of the sum: two lines in the plane, a vector on each, and the matrix that gives one of them back.

import { normalsFrom, times } from "./attention.js";
import { latestOnly } from "./asker.js";
import { afterPause, canvas, draggable, make, onceAFrame, plane, put, python, said, slider } from "./draw.js";

const EXTRACT_SIZE = 420;
const EXTRACT_REACH = 3.5;
const EXTRACT_RING = 3.05;
const EXTRACT_LONGEST = 1.6;
const EXTRACT_DRAWS = 300;
// Lines at a smaller angle than this, in degrees, are taken for the same.
const EXTRACT_LEAST = 0.5;
const EXTRACT_OPEN = { angleA: 15, angleB: 60, lengthA: 1.4, lengthB: 1.3, sigma: 0.1, seed: 1 };
const EXTRACT_LIMITS = { angleA: [-180, 180], angleB: [-180, 180], lengthA: [-1.6, 1.6], lengthB: [-1.6, 1.6], sigma: [0, 0.5] };
const EXTRACT_PRESETS = [["right angle", 90], ["45 degrees", 45], ["10 degrees", 10], ["the same line", 0]];

/** A complete state from a partial or hostile one. */
function extractCheck(given) {
  const state = { ...EXTRACT_OPEN };
  const known = given !== null && typeof given === "object" ? given : {};
  for (const [name, [low, high]] of Object.entries(EXTRACT_LIMITS)) {
    if (Number.isFinite(known[name])) state[name] = Math.min(Math.max(known[name], low), high);
  }
  if (Number.isInteger(known.seed) && known.seed >= 0 && known.seed < 1e9) state.seed = known.seed;
  return state;
}

/** The unit vector at an angle in degrees; exact along the axes. */
function extractUnit(degrees) {
  const turn = (degrees * Math.PI) / 180;
  const clean = (x) => (Math.abs(x) < 1e-15 ? 0 : x);
  return [clean(Math.cos(turn)), clean(Math.sin(turn))];
}

/** The angle of a point in degrees, to a thousandth. */
function extractDegrees([x, y]) {
  return Number(((Math.atan2(y, x) * 180) / Math.PI).toFixed(3));
}

/** Everything about a state: directions, vectors, their sum, the angle, M (null for the same line) and what else gives. */
function extractFound(state) {
  const [a, b] = [extractUnit(state.angleA), extractUnit(state.angleB)];
  const [first, second] = [a.map((x) => state.lengthA * x), b.map((x) => state.lengthB * x)];
  const sum = [first[0] + second[0], first[1] + second[1]];
  const cross = a[0] * b[1] - a[1] * b[0];
  const cosine = a[0] * b[0] + a[1] * b[1];
  const angle = (Math.atan2(Math.abs(cross), Math.abs(cosine)) * 180) / Math.PI;
  const coordinate = a[0] * sum[0] + a[1] * sum[1];
  const shadow = a.map((x) => coordinate * x);
  const found = { a, b, first, second, sum, angle, coordinate, shadow, matrix: null, norm: Infinity, taken: null };
  if (angle < EXTRACT_LEAST) return found;
  // M = a n^T / (n . a) with n at right angles to b.
  const normal = [b[1] / cross, -b[0] / cross];
  found.matrix = a.map((x) => normal.map((y) => x * y));
  found.norm = 1 / Math.abs(cross);
  found.taken = times(found.matrix, sum);
  return found;
}

/** Noisy sums and what M makes of them, with the root mean square of both noises. */
function extractCloud(found, sigma, normals) {
  const cloud = { sums: [], taken: [], before: 0, after: 0 };
  for (let k = 0; k < EXTRACT_DRAWS; k++) {
    const noise = [sigma * normals[2 * k], sigma * normals[2 * k + 1]];
    cloud.sums.push([found.sum[0] + noise[0], found.sum[1] + noise[1]]);
    cloud.before += (noise[0] ** 2 + noise[1] ** 2) / EXTRACT_DRAWS;
    if (!found.matrix) continue;
    const moved = times(found.matrix, noise);
    cloud.taken.push([found.taken[0] + moved[0], found.taken[1] + moved[1]]);
    cloud.after += (moved[0] ** 2 + moved[1] ** 2) / EXTRACT_DRAWS;
  }
  [cloud.before, cloud.after] = [Math.sqrt(cloud.before), Math.sqrt(cloud.after)];
  return cloud;
}

function extractPath(where, ...points) {
  return points.map((point, k) => `${k ? "L" : "M"}${where.to(point).map((x) => x.toFixed(2)).join(" ")}`).join("");
}

/** An arrow from zero, as a path; its head is left out where there is no room. */
function extractArrow(where, tip) {
  const [[x0, y0], [x, y]] = [where.to([0, 0]), where.to(tip)];
  const size = Math.hypot(x - x0, y - y0);
  const shaft = extractPath(where, [0, 0], tip);
  if (size < 12) return shaft;
  const [ux, uy] = [(x - x0) / size, (y - y0) / size];
  const wing = (side) => `${(x - 11 * ux - side * 5 * uy).toFixed(2)} ${(y - 11 * uy + side * 5 * ux).toFixed(2)}`;
  return `${shaft}M${wing(1)}L${x.toFixed(2)} ${y.toFixed(2)}L${wing(-1)}`;
}

/** A thing to drag: a wide ring for the finger, a shape, a name. */
function extractHandle(shape, name) {
  return make("g", {}, make("circle", { r: 16, class: "halo" }), shape, make("text", { class: "extract-name", "text-anchor": "middle" }, name));
}

/** What is drawn and not dragged. */
function extractParts() {
  const path = (name, more = {}) => make("path", { class: name, ...more });
  return {
    lineA: path("line-a", { "stroke-width": 1.2 }), lineB: path("line-b", { "stroke-width": 1.2, "stroke-dasharray": "8 3" }),
    sums: path("role-rest", { "fill-opacity": 0.55 }), taken: path("line-one", { "stroke-width": 1.5, "stroke-opacity": 0.45 }),
    along: path("line-ink", { "stroke-width": 1.6, "stroke-dasharray": "6 4" }), drop: path("line-rest", { "stroke-width": 1.6, "stroke-dasharray": "2 3" }),
    first: path("line-a", { "stroke-width": 3.2 }), second: path("line-b", { "stroke-width": 3.2 }), sum: path("line-ink", { "stroke-width": 2.4 }),
    shadow: path("line-ink", { "stroke-width": 1.6 }), arc: path("line-ink"),
  };
}

/** What is dragged. */
function extractHandles() {
  return {
    angleA: extractHandle(make("circle", { r: 7, class: "role-a" }), "A"),
    angleB: extractHandle(make("path", { d: "M0-8L8 0L0 8L-8 0Z", class: "role-b" }), "B"),
    lengthA: extractHandle(make("circle", { r: 6, class: "role-a" }), "v_a"),
    lengthB: extractHandle(make("path", { d: "M0-7L7 0L0 7L-7 0Z", class: "role-b" }), "v_b"),
  };
}

/** The picture of the plane; `draw(found, cloud)` brings it up to date. */
function extractPicture(state, moved) {
  const picture = canvas(EXTRACT_SIZE, EXTRACT_SIZE, "two lines through zero, a vector on each, and their sum");
  const where = plane(EXTRACT_SIZE, EXTRACT_SIZE, EXTRACT_REACH);
  const [parts, handles] = [extractParts(), extractHandles()];
  const names = { sum: "s", shadow: "A Aᵀ s", degrees: "" };
  for (const [name, text] of Object.entries(names)) names[name] = make("text", { "text-anchor": "middle" }, text);
  const middle = where.to([0, 0]);
  const ring = make("circle", { cx: middle[0], cy: middle[1], r: where.unit * EXTRACT_RING, class: "faint" });
  picture.append(ring, ...Object.values(parts), ...Object.values(names), ...Object.values(handles));
  const at = {
    angleA: () => extractUnit(state.angleA).map((x) => EXTRACT_RING * x), angleB: () => extractUnit(state.angleB).map((x) => EXTRACT_RING * x),
    lengthA: () => extractUnit(state.angleA).map((x) => state.lengthA * x), lengthB: () => extractUnit(state.angleB).map((x) => state.lengthB * x),
  };
  const along = (side, [x, y]) => {
    const unit = extractUnit(state[`angle${side}`]);
    return Math.min(Math.max(x * unit[0] + y * unit[1], -EXTRACT_LONGEST), EXTRACT_LONGEST);
  };
  const labels = { angleA: "direction of A", angleB: "direction of B", lengthA: "tip of v_a", lengthB: "tip of v_b" };
  for (const name of Object.keys(handles)) {
    const move = (point, done) => moved({ [name]: name.startsWith("angle") ? extractDegrees(point) : along(name.at(-1), point) }, done);
    draggable(handles[name], picture, () => where, { label: labels[name], at: at[name], move });
  }
  const label = (element, point, [dx, dy]) => put(element, { x: (where.to(point)[0] + dx).toFixed(1), y: (where.to(point)[1] + dy).toFixed(1) });
  const draw = (found, cloud) => {
    const far = (unit) => [unit.map((x) => -2 * EXTRACT_REACH * x), unit.map((x) => 2 * EXTRACT_REACH * x)];
    put(parts.lineA, { d: extractPath(where, ...far(found.a)) });
    put(parts.lineB, { d: extractPath(where, ...far(found.b)) });
    for (const name of ["first", "second", "sum"]) put(parts[name], { d: extractArrow(where, found[name]) });
    put(parts.along, { d: found.taken ? extractPath(where, found.sum, found.taken) : "" });
    put(parts.drop, { d: extractPath(where, found.sum, found.shadow) });
    const [sx, sy] = where.to(found.shadow);
    put(parts.shadow, { d: `M${(sx - 5).toFixed(1)} ${(sy - 5).toFixed(1)}h10v10h-10z` });
    put(parts.sums, { d: cloud.sums.map((point) => `M${where.to(point).map((x) => (x - 1.3).toFixed(1)).join(" ")}h2.6v2.6h-2.6z`).join("") });
    const [tx, ty] = [7 * found.a[1], 7 * found.a[0]].map((x) => x.toFixed(1));
    const tick = ([x, y]) => `M${(x - tx).toFixed(1)} ${(y - ty).toFixed(1)}l${(2 * tx).toFixed(1)} ${(2 * ty).toFixed(1)}`;
    put(parts.taken, { d: cloud.taken.map((point) => tick(where.to(point))).join("") });
    // Names stand on the outer side: of A away from B, of B away from A.
    const side = Math.sign(found.a[0] * found.b[1] - found.a[1] * found.b[0]) || 1;
    const beside = (unit, turn, size) => [turn * side * unit[1] * size, turn * side * unit[0] * size + 4];
    for (const [name, handle] of Object.entries(handles)) {
      put(handle, { transform: `translate(${where.to(at[name]()).map((x) => x.toFixed(2)).join(" ")})` });
      const [dx, dy] = beside(name.endsWith("A") ? found.a : found.b, name.endsWith("A") ? 1 : -1, 20);
      put(handle.lastChild, { x: dx.toFixed(1), y: dy.toFixed(1) });
    }
    const size = Math.hypot(...found.sum) || 1;
    label(names.sum, found.sum, [(16 * found.sum[0]) / size, 4 - (16 * found.sum[1]) / size]);
    // Where the shadow lies near the end of its line, its name makes room for the name of the line.
    const crowded = Math.hypot(...[0, 1].map((j) => found.shadow[j] - EXTRACT_RING * found.a[j])) < 0.55;
    label(names.shadow, found.shadow, beside(found.a, 1, crowded ? 46 : 26));
    extractArc(parts.arc, names.degrees, found, where);
  };
  return { picture, draw };
}

/** The angle between the lines, drawn where both are on the same side. */
function extractArc(arc, text, found, where) {
  const flip = found.a[0] * found.b[0] + found.a[1] * found.b[1] < 0 ? -1 : 1;
  const end = found.b.map((x) => flip * x);
  const points = Array.from({ length: 13 }, (_, k) => {
    const mixed = [0, 1].map((j) => (1 - k / 12) * found.a[j] + (k / 12) * end[j]);
    const size = Math.hypot(...mixed) || 1;
    return mixed.map((x) => (0.6 * x) / size);
  });
  put(arc, { d: extractPath(where, ...points) });
  const [x, y] = where.to(points[6].map((entry) => entry * 1.5));
  put(text, { x: x.toFixed(1), y: (y + 4).toFixed(1) });
  text.textContent = `${found.angle.toFixed(1)}°`;
}

/** The picture of 1 / sin(angle), with a point where the lines stand. */
function extractChart() {
  const [left, top, width, height] = [44, 28, 300, 172];
  const picture = canvas(360, 250, "how much M lengthens noise, against the angle between the lines");
  const x = (degrees) => left + (width * degrees) / 90;
  const y = (norm) => top + height * (1 - Math.log10(Math.min(norm, 130)) / Math.log10(130));
  const curve = Array.from({ length: 90 }, (_, k) => EXTRACT_LEAST + ((90 - EXTRACT_LEAST) * k * k) / 7921);
  const d = curve.map((degrees, k) => `${k ? "L" : "M"}${x(degrees).toFixed(1)} ${y(1 / Math.sin((degrees * Math.PI) / 180)).toFixed(1)}`).join("");
  const text = (px, py, words, anchor) => make("text", { x: px, y: py, "text-anchor": anchor }, words);
  picture.append(make("path", { class: "faint", d: `M${left} ${top}v${height}h${width}` }));
  for (const tick of [1, 10, 100]) {
    picture.append(make("path", { class: "faint", d: `M${left} ${y(tick)}h${width}` }), text(left - 6, y(tick) + 4, String(tick), "end"));
  }
  for (const tick of [0, 15, 30, 45, 60, 75, 90]) picture.append(text(x(tick), top + height + 17, String(tick), "middle"));
  picture.append(text(left, 14, "|M| = 1 / sin(angle)", "start"), text(left + width / 2, 242, "angle between the lines, degrees", "middle"));
  const mark = make("circle", { r: 6, class: "role-one" });
  const value = text(0, 0, "", "start");
  picture.append(make("path", { class: "line-one", "stroke-width": 2, d }), mark, value);
  const draw = ({ angle, norm }) => {
    put(mark, { cx: x(angle).toFixed(1), cy: y(norm).toFixed(1) });
    const [dx, dy] = angle > 70 ? [4, -10] : [12, 4];
    put(value, { x: (x(angle) + dx).toFixed(1), y: (y(norm) + dy).toFixed(1), "text-anchor": angle > 70 ? "end" : "start" });
    value.textContent = Number.isFinite(norm) ? said(norm) : "no M";
  };
  return { picture, draw };
}

/** A vector in round brackets; rounding shows as zero. */
function extractVector(vector) {
  return `(${vector.map((x) => said(Math.abs(x) < 1e-14 ? 0 : Number(x.toPrecision(4)))).join(", ")})`;
}

function extractTable(table, head, rows) {
  const line = (cells, tag) => make("tr", {}, ...cells.map((text, k) => make(k ? tag : "th", { scope: tag === "th" ? "col" : k ? null : "row" }, text)));
  table.replaceChildren(...(head ? [line(head, "th")] : []), ...rows.map((cells) => line(cells, "td")));
}

/** What M and its rivals give, M itself, and the noise. */
function extractNumbers({ rivals, matrix, noise }, state, found, cloud) {
  const miss = (vector) => said(Math.hypot(vector[0] - found.first[0], vector[1] - found.first[1]));
  extractTable(rivals, ["", "gives", "misses v_a by"], [
    ["v_a, wanted", extractVector(found.first), ""],
    ["M s", found.taken ? extractVector(found.taken) : "no M", found.taken ? miss(found.taken) : "–"],
    ["A Aᵀ s", extractVector(found.shadow), miss(found.shadow)],
    ["Aᵀ s", `${said(Number(found.coordinate.toPrecision(4)))}, a coordinate`, "not a vector"],
  ]);
  const entry = (i, j) => (found.matrix ? said(Math.abs(found.matrix[i][j]) < 1e-14 ? 0 : found.matrix[i][j]) : "–");
  extractTable(matrix, null, [[make("span", { class: "extract-m" }, "M ="), entry(0, 0), entry(0, 1)], ["", entry(1, 0), entry(1, 1)]]);
  const predicted = state.sigma * found.norm;
  const doubt = predicted / Math.sqrt(2 * EXTRACT_DRAWS);
  const plain = state.sigma * Math.SQRT2;
  extractTable(noise, ["root mean square of the noise", "predicted", `in ${EXTRACT_DRAWS} draws`], [
    ["e, in the sum", `σ √2 = ${said(plain)}`, said(cloud.before)],
    ["M e, in what is taken out", found.matrix ? `σ √trace(M Mᵀ) = ${said(predicted)}` : "–", found.matrix ? `${said(cloud.after)} (± ${said(Number(doubt.toPrecision(1)))})` : "–"],
  ]);
}

/** What is seen, in words. */
function extractSentence(found) {
  if (!found.matrix) {
    return (
      `The lines are ${found.angle < 0.05 ? "the same" : "less than half a degree apart"}. For the same line there is no M: any w on it can be moved from one part to the other, ` +
      "v_a + v_b = (v_a + w) + (v_b − w), so one sum s has many parts v_a and a matrix gives one answer."
    );
  }
  const square = Math.abs(found.angle - 90) < 0.05;
  const rival = Math.hypot(found.shadow[0] - found.first[0], found.shadow[1] - found.first[1]);
  return (
    `At ${found.angle.toFixed(1)} degrees M gives v_a back and lengthens noise along its worst direction by ${said(found.norm)}. ` +
    (square ? "The lines stand at right angles: M is A Aᵀ." : `A Aᵀ misses v_a by ${said(rival)}: part of v_b lies along A.`)
  );
}

function extractMount(el, host) {
  const state = host.state;
  const ask = latestOnly(host.ask);
  const normals = Float64Array.from({ length: 2 * EXTRACT_DRAWS }, normalsFrom(state.seed));
  const tables = { rivals: make("table"), matrix: make("table", { class: "extract-matrix" }), noise: make("table") };
  const [sentence, badge] = [make("p", { class: "extract-sentence" }), make("p", { class: "quiet" })];
  const update = () => {
    const found = extractFound(state);
    const cloud = extractCloud(found, state.sigma, normals);
    picture.draw(found, cloud);
    chart.draw(found);
    extractNumbers(tables, state, found, cloud);
    sentence.textContent = extractSentence(found);
  };
  const soon = onceAFrame(update);
  const compare = afterPause(async () => {
    const found = extractFound(state);
    if (!host.canAsk) return;
    try {
      const answer = found.matrix ? await ask("extractor", { basis: [found.a], against: [found.b] }) : null;
      if (found.matrix && !answer) return;
      const off = answer ? Math.max(...answer.matrix.flatMap((row, i) => row.map((x, j) => Math.abs(x - found.matrix[i][j])))) : 0;
      badge.textContent = answer
        ? `Python's design.extractor: |M| ${said(answer.norm)}, angle ${said((answer.angle * 180) / Math.PI)} degrees; largest difference of an entry ${said(Number(off.toPrecision(2)))}.`
        : "Python is not asked: there is no M to compare.";
    } catch (error) {
      badge.textContent = `There is no answer: ${error.message}`;
    }
  });
  const moved = (patch, done) => {
    host.change(patch, done);
    ask.drop();
    if (host.canAsk) badge.textContent = "Comparing with Python …";
    soon();
    compare();
    if (done) host.announce(extractSentence(extractFound(state)));
  };
  const [picture, chart] = [extractPicture(state, moved), extractChart()];
  const sigma = slider({ label: "noise σ", low: 0, high: 0.5, value: state.sigma, change: (value, done) => moved({ sigma: value }, done) });
  const turn = (degrees) => {
    const angle = state.angleA + degrees;
    moved({ angleB: Number((angle > 180 ? angle - 360 : angle).toFixed(3)) }, true);
  };
  if (!host.canAsk) badge.textContent = "To compare M with design.extractor: this needs Python: run headwise lab.";
  el.append(
    make("div", { class: "controls" }, ...EXTRACT_PRESETS.map(([name, degrees]) => make("button", { type: "button", onclick: () => turn(degrees) }, name)), sigma.element),
    make("div", { class: "pictures" },
      make("figure", {}, make("figcaption", {}, "drag the lines A and B, and the tips of v_a and v_b"), picture.picture),
      make("div", {}, sentence, make("div", { class: "wide" }, tables.matrix), badge, make("div", { class: "wide" }, tables.rivals),
        make("div", { class: "wide" }, tables.noise), make("figure", { class: "extract-chart" }, chart.picture))),
    make("p", { class: "quiet" }, "Dashed: along B from s to A, where M lands. Dotted: at right angles to A, where A Aᵀ lands (square). Grey dots: noisy sums s + e; strokes across A: M (s + e)."),
  );
  update();
  compare();
  return { resume: compare };
}

/** The Python lines that give the same matrix, or say why there is none. */
function extractCode(state) {
  const { a, b, first, second, matrix } = extractFound(state);
  const taken = matrix
    ? "found = hw.design.extractor(basis, against=against)\nprint(found.matrix, found.norm, np.degrees(found.angle))\nprint(found.extract(v_a + v_b), v_a)\n" +
      `print(${state.sigma} * np.sqrt(np.trace(found.matrix @ found.matrix.T)))  # noise in what is taken out\n`
    : "try:\n    print(hw.design.extractor(basis, against=against))\nexcept hw.HeadwiseError as error:\n    print(error)\n" +
      "w = basis[0]  # on both lines, or nearly: the same sum from other parts\nprint(v_a + v_b, (v_a + w) + (v_b - w))\n";
  return (
    `import numpy as np\nimport headwise as hw\n\nbasis = np.array(${python([a])}, float)  # the line A\nagainst = np.array(${python([b])}, float)  # the line B\n` +
    `v_a, v_b = np.array(${python(first)}, float), np.array(${python(second)}, float)\n${taken}` +
    "print(basis.T @ basis @ (v_a + v_b))  # A A^T s: right only at right angles\n"
  );
}

export const extractPanel = {
  name: "extract",
  title: "Take it out of the sum",
  part: "b.i",
  about: "s is the sum of v_a on the line A and v_b on the line B. A matrix M gives v_a back, at the price of more noise the closer the lines are.",
  check: extractCheck,
  mount: extractMount,
  code: extractCode,
};
