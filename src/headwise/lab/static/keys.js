// The picture of keys and the query: what can be moved, which keys cannot be copied, and the proof that something cannot be.

import { hullOf } from "./attention.js";
import { draggable, make, put } from "./draw.js";

export const COPY_SIZE = 360;
// More keys than these are drawn as one path, and only the chosen ones are moved.
export const COPY_MOVED = 60;
const COPY_DOT = "M-6 0A6 6 0 1 1 6 0A6 6 0 1 1 -6 0Z";
const COPY_CROSS = "M-6 -4L-4 -6L0 -2L4 -6L6 -4L2 0L6 4L4 6L0 2L-4 6L-6 4L-2 0Z";

/** A fraction of Python's as a number, whatever the length of both parts. */
function copyFraction(text) {
  const [top, bottom] = text.split("/").map(BigInt);
  return Number((top * 10n ** 15n) / (bottom ?? 1n)) / 1e15;
}

/** Which keys can be copied, by what the page sees: the corners of the hull that no other key lies on. Null beyond the plane. */
function copyCorners(keys, corners) {
  if (keys[0].length > 2) return null;
  const count = new Map();
  for (const key of keys) count.set(String(key), (count.get(String(key)) ?? 0) + 1);
  const found = keys.map(() => false);
  for (const row of corners) found[row] = count.get(String(keys[row])) === 1;
  return found;
}

/** Things to drag: the chosen keys, or all where there are few. */
function copyHandles(picture, state, view, { moveKey, nameOf }) {
  const rows = state.keys.length <= COPY_MOVED ? state.keys.map((_, row) => row) : state.chosen;
  return new Map(rows.map((row) => {
    const mark = make("g", {}, make("circle", { r: 15, class: "halo" }), make("path", { d: COPY_DOT, class: "role-a copy-shape" }),
      make("text", { y: -10, "text-anchor": "middle" }, nameOf(row)));
    draggable(mark, picture, () => view.where, {
      label: `key ${nameOf(row)}`,
      at: () => view.flat(state.keys[row]),
      move: (point, done) => moveKey(row, point, done),
    });
    return [row, mark];
  }));
}

/** Draw the mixtures that prove that something cannot be: they are one point, of other keys and of the chosen ones. */
function copyProof(proof, certificate, at) {
  proof.replaceChildren();
  if (certificate?.kind !== "blocked") return;
  const shares = certificate.inside_weights.map(copyFraction);
  const points = certificate.inside.map(at);
  const here = [0, 1].map((k) => points.reduce((sum, point, place) => sum + shares[place] * point[k], 0));
  const line = ([x, y], share, look) =>
    make("line", { x1: here[0], y1: here[1], x2: x, y2: y, "stroke-width": 1 + 6 * Math.min(Math.abs(share), 1), "stroke-opacity": 0.6, ...look });
  proof.append(
    ...(points.length > 1 ? points.map((point, place) => line(point, shares[place], { class: "line-a copy-own", "stroke-dasharray": "7 4" })) : []),
    ...certificate.rows.map((row, place) => line(at(row), copyFraction(certificate.weights[place]), { class: "line-b copy-other" })),
    make("circle", { class: "wanted copy-mixture", cx: here[0], cy: here[1], r: 9 }));
}

/** Keys that are too many for marks of their own: dots, and crosses for those that cannot be copied. */
function copyCrowd(dots, crosses, keys, can, at) {
  const paths = ["", ""];
  keys.forEach((_, row) => {
    const [x, y] = at(row).map((entry) => entry.toFixed(1));
    if (!can || can[row]) paths[0] += `M${x} ${y}m-1.5 0h3v3h-3z`;
    else paths[1] += `M${x} ${y}m-2.5-2.5l5 5m0-5l-5 5`;
  });
  put(dots, { d: paths[0] });
  put(crosses, { d: paths[1] });
}

/** The picture; what it gives brings parts of it up to date. `view` may change its plane, then `all()` is called. */
export function copyKeysPicture(picture, state, view, moves) {
  const hull = make("polygon", { class: "hull" });
  const proof = make("g", {});
  const [dots, crosses] = [make("path", { class: "role-rest" }), make("path", { class: "line-b" })];
  const points = make("g", {});
  const arrow = make("line", { class: "line-ink", "stroke-width": 2 });
  const tip = make("g", {}, make("circle", { r: 15, class: "halo" }), make("circle", { r: 7, class: "ink" }),
    make("text", { y: -11, "text-anchor": "middle" }, "q"));
  const middle = view.where.to([0, 0]);
  picture.replaceChildren(
    make("path", { class: "faint", d: `M0 ${middle[1]}H${COPY_SIZE}M${middle[0]} 0V${COPY_SIZE}` }), hull, proof, dots, crosses, points, arrow, tip);
  const few = state.keys.length <= COPY_MOVED;
  const at = (row) => view.where.to(view.flat(state.keys[row]));
  const marks = copyHandles(picture, state, view, moves);
  points.append(...marks.values());
  draggable(tip, picture, () => view.where, { label: "query", at: () => view.flat(state.query), move: moves.moveQuery });
  let known = null;
  const drawn = {
    place: (row) => marks.get(row)?.setAttribute("transform", `translate(${at(row).map((x) => x.toFixed(2)).join(" ")})`),
    query() {
      const [x, y] = view.where.to(view.flat(state.query));
      put(arrow, { x1: middle[0], y1: middle[1], x2: x.toFixed(2), y2: y.toFixed(2) });
      put(tip, { transform: `translate(${x.toFixed(2)} ${y.toFixed(2)})` });
    },
    /** Draw the hull, and a cross for keys that cannot be copied: from Python's verdicts, or in the plane by what is seen. */
    hull(verdicts) {
      known = verdicts;
      const corners = hullOf(state.keys.map((key) => view.flat(key)));
      hull.setAttribute("points", corners.map((row) => at(row).map((x) => x.toFixed(1)).join(",")).join(" "));
      const can = verdicts?.map((verdict) => verdict === "possible") ?? copyCorners(state.keys, corners);
      for (const [row, mark] of marks) {
        const good = can?.[row] ?? true;
        put(mark.querySelector(".copy-shape"), { d: good ? COPY_DOT : COPY_CROSS, class: `copy-shape ${good ? "role-a" : "role-b"}` });
        mark.setAttribute("aria-description", good ? "can be copied" : "cannot be copied");
      }
      if (!few) copyCrowd(dots, crosses, state.keys, can, at);
    },
    proof: (certificate) => copyProof(proof, certificate, at),
    all() {
      for (const row of marks.keys()) drawn.place(row);
      drawn.hull(known);
      drawn.query();
    },
  };
  return drawn;
}
