// Clouds of outputs under random keys, drawn in the space of scores: what the noise panel computes itself.

import { normalsFrom } from "./attention.js";

export const NOISE_DRAWS = 400;
const NOISE_HEADS = 4;
export const NOISE_LIMITS = { scale: [0.3, 100], isotropic: [1e-6, 0.1], length_variance: [0.01, 2], count: [3, 200] };
const NOISE_START = { scale: 10, isotropic: 1e-6, length_variance: 0.5, count: 10, seed: 1, queries: null, keys: null };
export const NOISE_NAMES = { one: "one head", two: "two heads", own: "your answer" };

/** Rows of finite numbers, all of one width, within limits; otherwise null. */
function noiseRows(given, least, most) {
  if (!Array.isArray(given) || given.length < least || given.length > most) return null;
  const width = Array.isArray(given[0]) ? given[0].length : 0;
  const right = (row) => Array.isArray(row) && row.length === width && row.every((x) => Number.isFinite(x) && Math.abs(x) <= 1e12);
  return width > 0 && width * given.length <= 4096 && given.every(right) ? given.map((row) => [...row]) : null;
}

/** The products of each query with each key. */
function noiseProducts(queries, keys) {
  return queries.map((query) => keys.map((key) => key.reduce((sum, entry, j) => sum + entry * query[j], 0)));
}

/** The largest score of a or b under given queries: what they have for a scale. */
export function noiseOwnScale(queries, keys) {
  return Math.max(...noiseProducts(queries, keys).map((row) => Math.max(Math.abs(row[0]), Math.abs(row[1]))));
}

/** A complete state from a partial or hostile one. */
export function noiseCheck(given) {
  const found = { ...NOISE_START };
  const known = given !== null && typeof given === "object" ? given : {};
  const [queries, keys] = [noiseRows(known.queries, 1, NOISE_HEADS), noiseRows(known.keys, ...NOISE_LIMITS.count)];
  if (queries && keys && queries[0].length === keys[0].length && noiseOwnScale(queries, keys) > 1e-6) {
    Object.assign(found, { queries, keys, scale: noiseWithin("scale", noiseOwnScale(queries, keys)) });
  }
  for (const name of Object.keys(NOISE_LIMITS)) if (Number.isFinite(known[name])) found[name] = noiseWithin(name, known[name]);
  found.count = found.keys ? found.keys.length : Math.round(found.count);
  if (Number.isInteger(known.seed) && known.seed >= 0 && known.seed < 1e9) found.seed = known.seed;
  return found;
}

function noiseWithin(name, number) {
  return Math.min(Math.max(number, NOISE_LIMITS[name][0]), NOISE_LIMITS[name][1]);
}

/** Lower triangle L with L L^T = matrix; directions that add nothing are left at zero. */
function noiseRoot(matrix) {
  const root = matrix.map((row) => row.map(() => 0));
  for (let i = 0; i < matrix.length; i++) {
    for (let j = 0; j <= i; j++) {
      let left = matrix[i][j];
      for (let k = 0; k < j; k++) left -= root[i][k] * root[j][k];
      if (i === j) root[i][i] = left > 1e-12 * matrix[i][i] ? Math.sqrt(left) : 0;
      else root[i][j] = root[j][j] > 0 ? left / root[j][j] : 0;
    }
  }
  return root;
}

/** For each set of heads: mean scores, and how far independent normals of each key move them. */
export function noiseReaders(state) {
  const { scale, count } = state;
  const size = scale * Math.sqrt(state.isotropic);
  const line = (...first) => Array.from({ length: count }, (_, i) => (first[i] ?? 0) * scale);
  const found = {
    // The query of one head is the sum of those of two, and so are its scores: both clouds see the same keys.
    one: { means: [line(1, 1)], mix: [[size, size]] },
    two: { means: [line(1), line(0, 1)], mix: [[size, 0], [0, size]] },
  };
  if (state.queries) {
    const factor = scale / noiseOwnScale(state.queries, state.keys);
    const queries = state.queries.map((query) => query.map((entry) => factor * entry));
    const root = noiseRoot(noiseProducts(queries, queries));
    found.own = { means: noiseProducts(queries, state.keys), mix: root.map((row) => row.map((x) => x * Math.sqrt(state.isotropic))) };
  }
  return found;
}

/** Standard normals for every draw: one for the length of a, then `wide` for each key. */
export function noiseNormals(seed, wide) {
  const next = normalsFrom(seed);
  return Float64Array.from({ length: NOISE_DRAWS * (1 + wide * NOISE_LIMITS.count[1]) }, next);
}

/** The outputs of some heads for all draws: shares of v_a and v_b, and what is read off them. */
export function noiseCloud({ means, mix }, state, normals, wide) {
  const { count } = state;
  const [heads, stride, spread] = [means.length, 1 + wide * NOISE_LIMITS.count[1], Math.sqrt(state.length_variance)];
  const points = new Float64Array(2 * NOISE_DRAWS);
  const [scores, weights, mean] = [new Float64Array(count), new Float64Array(count), new Float64Array(count)];
  const tally = { wins: 0, negative: 0, single: 0, near: 0, read: 0 };
  let [squares, far] = [0, 0];
  for (let draw = 0; draw < NOISE_DRAWS; draw++) {
    const start = draw * stride;
    const length = 1 + spread * normals[start];
    weights.fill(0);
    for (let h = 0; h < heads; h++) {
      let top = -Infinity;
      for (let i = 0; i < count; i++) {
        let score = i === 0 ? means[h][0] * length : means[h][i];
        for (let r = 0; r < mix[h].length; r++) score += mix[h][r] * normals[start + 1 + i * wide + r];
        scores[i] = score;
        if (score > top) top = score;
      }
      if (h === 0 && scores[0] === top) tally.wins += 1 / NOISE_DRAWS;
      let total = 0;
      for (let i = 0; i < count; i++) total += scores[i] = Math.exp(scores[i] - top);
      for (let i = 0; i < count; i++) weights[i] += scores[i] / (total * heads);
    }
    let square = 0;
    for (let i = 0; i < count; i++) {
      square += weights[i] * weights[i];
      mean[i] += weights[i] / NOISE_DRAWS;
    }
    const [a, b] = weights;
    points.set([a, b], 2 * draw);
    squares += square / NOISE_DRAWS;
    // |c - (v_a + v_b) / 2|^2 for orthonormal values.
    const away = Math.max(square - a - b + 0.5, 0);
    far += away / NOISE_DRAWS;
    if (length + Math.sqrt(state.isotropic) * normals[start + 1] < 0) tally.negative += 1 / NOISE_DRAWS;
    if (Math.max(a, b) > 0.75) tally.single += 1 / NOISE_DRAWS;
    if (away < 0.02) tally.near += 1 / NOISE_DRAWS;
    tally.read += (a + b) / NOISE_DRAWS;
  }
  const variance = squares - mean.reduce((sum, entry) => sum + entry * entry, 0);
  return { points, mean: [mean[0], mean[1]], variance: Math.max(variance, 0), mean_squared_error: far, ...tally };
}

/** Covariance of points, two by two. */
export function noiseCovariance({ points, mean }) {
  let [xx, xy, yy] = [0, 0, 0];
  for (let k = 0; k < points.length; k += 2) {
    const [x, y] = [points[k] - mean[0], points[k + 1] - mean[1]];
    [xx, xy, yy] = [xx + x * x, xy + x * y, yy + y * y];
  }
  return [[xx, xy], [xy, yy]].map((row) => row.map((entry) => entry / NOISE_DRAWS));
}

/** Error against scale as the draws of the page have it, where there is no Python. */
export function noiseDrawnCurve(state, normals, wide) {
  const scales = Array.from({ length: 22 }, (_, k) => 0.3 * (100 / 0.3) ** (k / 21));
  const series = { "one head": { mean_squared_error: [] }, "two heads": { mean_squared_error: [] } };
  for (const scale of scales) {
    const readers = noiseReaders({ ...state, queries: null, scale });
    for (const which of ["one", "two"]) {
      const found = noiseCloud(readers[which], { ...state, scale }, normals, wide);
      series[NOISE_NAMES[which]].mean_squared_error.push(found.mean_squared_error);
    }
  }
  return { scales, series };
}
