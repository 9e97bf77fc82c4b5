// The pictures of the noise panel: a cloud with its ellipse, error against scale, what each remedy leaves.

import { NOISE_DRAWS, NOISE_NAMES, noiseCovariance } from "./clouds.js";
import { canvas, ellipsePath, estimated, make, put, said } from "./draw.js";

const NOISE_PICTURE = { width: 360, height: 340, left: 44, top: 34, size: 262 };
const NOISE_CHART = { left: 50, top: 26, width: 296, height: 230 };
const NOISE_SHAPES = {
  one: "m-2.6 0a2.6 2.6 0 1 0 5.2 0a2.6 2.6 0 1 0-5.2 0z",
  two: "m0-3.4l3.4 3.4l-3.4 3.4l-3.4-3.4z",
  own: "m-2.4-2.4h4.8v4.8h-4.8z",
};

/** Text in a picture. */
function noiseText(x, y, text, more = {}) {
  return make("text", { x, y, class: "ink", ...more }, text);
}

/** The picture of one cloud; `draw(cloud, exact)` brings it up to date. */
export function noisePicture(which) {
  const { width, height, left, top, size } = NOISE_PICTURE;
  const where = { to: ([x, y]) => [left + size * x, top + size * (1 - y)] };
  const role = which === "own" ? "rest" : which;
  const picture = canvas(width, height, `outputs of ${NOISE_NAMES[which]}: share of v_a across, share of v_b upwards`);
  const [cloud, ellipse, cross] = [`role-${role}`, `line-${role}`, "line-ink"].map((name) => make("path", { class: name }));
  put(cloud, { "fill-opacity": 0.4 });
  put(ellipse, { "stroke-width": 2 });
  const corners = [noiseText(left + size + 8, top + size - 14, "", { "text-anchor": "end" }), noiseText(left + 8, top - 4, "")];
  const middle = noiseText(left + size / 2 + 16, top + size / 2 - 12, "");
  const [x, y] = where.to([0.5, 0.5]);
  const star = Array.from({ length: 10 }, (_, k) => {
    const [far, turn] = [k % 2 ? 3.4 : 8.5, (k * Math.PI) / 5];
    return `${(x + far * Math.sin(turn)).toFixed(2)},${(y - far * Math.cos(turn)).toFixed(2)}`;
  }).join(" ");
  const frame = `M${left} ${top}v${size}h${size}M${left} ${top}l${size} ${size}`;
  picture.append(make("path", { d: frame, class: "faint" }));
  for (const tick of [0, 0.5, 1]) {
    const [across, up] = [where.to([tick, 0]), where.to([0, tick])];
    picture.append(noiseText(across[0], across[1] + 16, said(tick), { "text-anchor": "middle" }));
    picture.append(noiseText(up[0] - 8, up[1] + 4, said(tick), { "text-anchor": "end" }));
  }
  picture.append(noiseText(left + size / 2, height - 8, "share of v_a", { "text-anchor": "middle" }));
  picture.append(noiseText(13, top + size / 2, "share of v_b", { "text-anchor": "middle", transform: `rotate(-90 13 ${top + size / 2})` }));
  picture.append(noiseText(width - 8, 16, NOISE_NAMES[which], { "text-anchor": "end", class: "ink noise-bold" }));
  picture.append(cloud, ellipse, make("polygon", { points: star, class: "wanted" }), cross, ...corners, middle);
  const draw = (found, exact) => {
    let [path, atA, atB] = ["", 0, 0];
    for (let k = 0; k < found.points.length; k += 2) {
      const [px, py] = where.to([found.points[k], found.points[k + 1]]);
      path += `M${px.toFixed(1)} ${py.toFixed(1)}${NOISE_SHAPES[which]}`;
      if (found.points[k] > 0.75) atA += 1 / NOISE_DRAWS;
      if (found.points[k + 1] > 0.75) atB += 1 / NOISE_DRAWS;
    }
    put(cloud, { d: path });
    put(ellipse, { d: ellipsePath(exact?.mean ?? found.mean, exact?.covariance ?? noiseCovariance(found), where) });
    const [cx, cy] = where.to(exact?.mean ?? found.mean);
    put(cross, { d: `M${(cx - 8).toFixed(2)} ${cy.toFixed(2)}h16m-8-8v16`, "stroke-width": 2 });
    corners[0].textContent = atA > 0 ? `nearly v_a: ${noisePercent(atA)}` : "";
    corners[1].textContent = atB > 0 ? `nearly v_b: ${noisePercent(atB)}` : "";
    middle.textContent = found.near > 0 ? `near the target: ${noisePercent(found.near)}` : "";
  };
  const words = { one: "one head, query β(μ_a + μ_b)", two: "two heads, queries βμ_a and βμ_b", own: "your answer, at this scale" };
  return { element: make("figure", { class: "noise-figure" }, make("figcaption", {}, words[which]), picture), draw };
}

export function noisePercent(part) {
  return `${Number((100 * part).toPrecision(part > 0 && part < 0.0995 ? 2 : 3))}%`;
}

/** The picture of error against scale; `draw(curve, now)` with the mean squared errors at the scale of now. */
export function noiseChart() {
  const { left, top, width, height } = NOISE_CHART;
  const picture = canvas(360, 300, "mean squared error against scale, for one head and two");
  const layer = make("g");
  picture.append(layer);
  const x = (scale) => left + (width * Math.log(scale / 0.3)) / Math.log(100 / 0.3);
  const draw = (curve, now) => {
    const shown = curve ? Object.entries(curve.series) : [];
    const least = Math.min(0.1, ...shown.flatMap(([, one]) => one.mean_squared_error), now.one, now.two);
    const low = Math.max(Math.floor(Math.log10(Math.max(least, 1e-8))), -8);
    const y = (error) => top + height * Math.min(Math.log10(Math.max(error, 1e-8)) / low, 1);
    const parts = [make("path", { d: `M${left} ${top}v${height}h${width}`, class: "faint" })];
    const names = []; // above all curves
    for (const tick of [0.3, 1, 3, 10, 30, 100]) parts.push(noiseText(x(tick), top + height + 16, said(tick), { "text-anchor": "middle" }));
    for (let power = 0; power >= low; power -= low < -4 ? 2 : 1) {
      parts.push(make("path", { d: `M${left} ${y(10 ** power)}h${width}`, class: "faint" }));
      parts.push(noiseText(left - 6, y(10 ** power) + 4, said(10 ** power), { "text-anchor": "end" }));
    }
    parts.push(noiseText(left + width / 2, 294, "scale β", { "text-anchor": "middle" }), noiseText(6, 14, "mean squared error"));
    parts.push(make("path", { d: `M${x(now.scale).toFixed(1)} ${top}v${height}`, class: "line-rest", "stroke-dasharray": "2 3" }));
    for (const [name, one] of shown) {
      const role = name === "one head" ? "one" : "two";
      const [places, errors] = [curve.scales.map((scale) => x(scale).toFixed(1)), one.mean_squared_error];
      const way = (side) => places.map((at, k) => `${at} ${y(errors[k] + side * (one.mean_squared_error_error?.[k] ?? 0)).toFixed(1)}`);
      parts.push(make("path", { d: `M${way(1).join("L")}L${way(-1).reverse().join("L")}z`, class: `role-${role}`, "fill-opacity": 0.3 }));
      parts.push(make("path", { d: `M${way(0).join("L")}`, class: `line-${role}`, "stroke-width": 2 }));
      const last = errors.length - 1;
      names.push(noiseText(places[last], y(errors[last]) - 7, name, { "text-anchor": "end" }));
      // At an edge of the picture the best may lie beyond it.
      if (!one.best_scale || one.best_scale < 0.31 || one.best_scale > 97) continue;
      const [bx, by] = [x(one.best_scale), y(one.best_mean_squared_error)];
      parts.push(make("path", { d: `M${bx.toFixed(1)} ${(by + 3).toFixed(1)}l5 9h-10z`, class: `role-${role}` }));
      // Below and to the left of the best, where no curve comes by.
      const [tx, anchor] = bx - left > 75 ? [bx - 8, "end"] : [bx + 8, "start"];
      names.push(noiseText(tx, by + 20, `best: ${Number(one.best_scale.toPrecision(3))}`, { "text-anchor": anchor }));
    }
    for (const which of ["one", "two"]) {
      const at = `M${x(now.scale).toFixed(1)} ${y(now[which]).toFixed(1)}`;
      parts.push(make("path", { d: at + NOISE_SHAPES[which], class: `role-${which}` }));
    }
    layer.replaceChildren(...parts, ...names);
  };
  const caption = make("figcaption", {}, "error against scale");
  return { element: make("figure", { class: "noise-figure" }, caption, picture), draw };
}

/** Horizontal bars of what each remedy leaves of the error. */
export function noiseBars(remedies) {
  const picture = canvas(360, 26 * remedies.length + 26, "mean squared error that each remedy leaves, the best first");
  const most = Math.max(...remedies.map((one) => one.mean_squared_error.value), 1e-12);
  picture.append(noiseText(6, 14, "mean squared error that is left"));
  remedies.forEach((one, k) => {
    const top = 24 + 26 * k;
    const wide = Math.max((80 * one.mean_squared_error.value) / most, 1);
    picture.append(noiseText(108, top + 15, one.name, { "text-anchor": "end", class: one.name === "as is" ? "ink noise-bold" : "ink" }));
    picture.append(make("rect", { x: 114, y: top + 3, width: wide, height: 17, class: one.name === "as is" ? "role-one" : "role-rest" }));
    picture.append(noiseText(119 + wide, top + 15, estimated(one.mean_squared_error)));
  });
  return picture;
}
