// The operation, at the speed of the hand: scores, weights, context, and what is read off them. float64 throughout.

/** The product of each key with the query, times the scale. */
export function scoresOf(keys, query, scale = 1) {
  return keys.map((key) => {
    let sum = 0;
    for (let j = 0; j < query.length; j++) sum += key[j] * query[j];
    return scale * sum;
  });
}

/** log sum exp of some scores; -Infinity for none. */
export function logSumExp(scores) {
  let top = -Infinity;
  for (const score of scores) if (score > top) top = score;
  if (top === -Infinity) return top;
  let sum = 0;
  for (const score of scores) sum += Math.exp(score - top);
  return top + Math.log(sum);
}

/** A mixture of rows. */
export function mixture(weights, rows) {
  const found = new Array(rows[0].length).fill(0);
  for (let i = 0; i < rows.length; i++) for (let j = 0; j < found.length; j++) found[j] += weights[i] * rows[i][j];
  return found;
}

/** Everything about one query: scores, weights, context, logNormalizer, entropy, effectiveKeys, top, margin. */
export function attendTo(query, keys, values, scale = 1) {
  const scores = scoresOf(keys, query, scale);
  const logNormalizer = logSumExp(scores);
  const weights = scores.map((score) => Math.exp(score - logNormalizer));
  let top = 0;
  let second = -Infinity;
  let entropy = 0;
  for (let i = 0; i < scores.length; i++) {
    if (scores[i] > scores[top]) {
      second = scores[top];
      top = i;
    } else if (i !== top && scores[i] > second) second = scores[i];
    entropy += weights[i] * (logNormalizer - scores[i]);
  }
  return {
    scores,
    weights,
    context: mixture(weights, values),
    logNormalizer,
    entropy,
    effectiveKeys: Math.exp(entropy),
    top,
    margin: scores[top] - second,
  };
}

/** The logarithm of the weight outside some keys, which never rounds to zero. */
export function logLeak(scores, chosen) {
  const inside = new Set(chosen);
  return logSumExp(scores.filter((_, i) => !inside.has(i))) - logSumExp(scores);
}

/** The matrix times a vector. */
export function times(matrix, vector) {
  return matrix.map((row) => row.reduce((sum, entry, j) => sum + entry * vector[j], 0));
}

/** Self-attention: contexts and weights of tokens under K, Q and V. */
export function selfAttention(tokens, key, query, value) {
  const keys = tokens.map((token) => times(key, token));
  const values = tokens.map((token) => times(value, token));
  const found = tokens.map((token) => attendTo(times(query, token), keys, values));
  return { weights: found.map((one) => one.weights), contexts: found.map((one) => one.context) };
}

/** Numbers from a seed: a function that gives standard normals, the same every time. */
export function normalsFrom(seed) {
  let state = seed >>> 0;
  const uniform = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let word = Math.imul(state ^ (state >>> 15), 1 | state);
    word = (word + Math.imul(word ^ (word >>> 7), 61 | word)) ^ word;
    return ((word ^ (word >>> 14)) >>> 0) / 4294967296;
  };
  let kept = null;
  return () => {
    if (kept !== null) {
      const found = kept;
      kept = null;
      return found;
    }
    const radius = Math.sqrt(-2 * Math.log(1 - uniform()));
    const angle = 2 * Math.PI * uniform();
    kept = radius * Math.sin(angle);
    return radius * Math.cos(angle);
  };
}

/** Which points of the plane are corners of their hull, in order round it; points inside or on an edge are none. */
export function hullOf(points) {
  const order = points.map((_, i) => i).sort((i, j) => points[i][0] - points[j][0] || points[i][1] - points[j][1]);
  const cross = (o, a, b) =>
    (points[a][0] - points[o][0]) * (points[b][1] - points[o][1]) -
    (points[a][1] - points[o][1]) * (points[b][0] - points[o][0]);
  const chain = (list) => {
    const found = [];
    for (const i of list) {
      while (found.length > 1 && cross(found[found.length - 2], found[found.length - 1], i) <= 0) found.pop();
      found.push(i);
    }
    found.pop();
    return found;
  };
  return order.length < 2 ? order : [...chain(order), ...chain([...order].reverse())];
}

/** The two directions in which rows vary most, by power iteration on their covariance; rows of width two keep theirs. */
export function principalPlane(rows) {
  const width = rows[0].length;
  const unit = (j) => Array.from({ length: width }, (_, i) => (i === j ? 1 : 0));
  if (width <= 2) return [unit(0), unit(1).slice(0, width)];
  const centre = mixture(rows.map(() => 1 / rows.length), rows);
  const away = rows.map((row) => row.map((entry, j) => entry - centre[j]));
  const found = [];
  for (let turn = 0; turn < 2; turn++) {
    let axis = Array.from({ length: width }, (_, j) => 1 + 0.37 * ((j * 7 + turn * 3) % 5));
    for (let round = 0; round < 60; round++) {
      const along = away.map((row) => row.reduce((sum, entry, j) => sum + entry * axis[j], 0));
      axis = mixture(along, away);
      for (const other of found) {
        const shared = axis.reduce((sum, entry, j) => sum + entry * other[j], 0);
        axis = axis.map((entry, j) => entry - shared * other[j]);
      }
      const length = Math.hypot(...axis);
      axis = length > 1e-12 ? axis.map((entry) => entry / length) : unit(turn);
    }
    found.push(axis);
  }
  return found;
}
