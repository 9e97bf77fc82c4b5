// Elements, numbers in words, planes with things to drag, bars. Nothing here knows what is drawn.

const SVG = "http://www.w3.org/2000/svg";

/** Make an element; children may be elements or text, attributes that start with "on" are listeners. */
export function make(tag, attributes = {}, ...children) {
  const drawn = ["svg", "g", "path", "circle", "line", "rect", "text", "ellipse", "title", "polygon", "defs", "pattern"];
  const element = drawn.includes(tag) ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

/** Set attributes of an element. */
export function put(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
}

/** Four digits that count, as Python prints them. */
export function said(number) {
  if (!Number.isFinite(number)) return String(number);
  if (number === 0) return "0";
  const size = Math.abs(number);
  if (size < 1e-4 || size >= 1e4) return number.toExponential(3).replace(/\.?0+e/, "e");
  return String(Number(number.toPrecision(4)));
}

/** Number and error as Python prints them: as many digits as the error leaves, ten at most; what they leave out is added to it. */
export function estimated({ value, error }) {
  if (!(error > 0 && Number.isFinite(error))) return `${said(value)} ± ${said(error)}`;
  const room = Math.ceil(Math.log10(Math.max(Math.abs(value), error)) - Math.log10(error)) + 2;
  const shown = Number(value.toPrecision(Math.min(Math.max(room, 2), 10)));
  const whole = error + Math.abs(shown - value);
  const near = Number(whole.toPrecision(2));
  const upper = near >= whole ? near : Number((near + 10 ** (Math.floor(Math.log10(near)) - 1)).toPrecision(2));
  const brief = (x) => (x !== 0 && Math.abs(x) < 1e-4 ? x.toExponential() : String(x));
  return `${brief(shown)} ± ${brief(upper)}`;
}

/** The names of keys: a, b, then the numbers of the rest. */
export function keyName(row) {
  return row < 2 ? "ab"[row] : String(row + 1);
}

/** A coordinate system in an svg of some size: `to` turns (x, y) into pixels, `from` back. */
export function plane(width, height, reach) {
  const unit = Math.min(width, height) / (2 * reach);
  return {
    unit,
    reach,
    to: ([x, y]) => [width / 2 + unit * x, height / 2 - unit * y],
    from: ([px, py]) => [(px - width / 2) / unit, (height / 2 - py) / unit],
  };
}

/** An svg with a name that is read out; it shrinks with its place. */
export function canvas(width, height, label) {
  return make("svg", { viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": label, class: "picture" });
}

/**
 * Let a hand, a finger or the arrow keys move something in a plane, within its picture.
 * `at()` tells where it is, `move([x, y], done)` is called on every step, with done=true at the end of each gesture.
 */
export function draggable(element, picture, where, { label, at, move }) {
  element.setAttribute("tabindex", "0");
  element.setAttribute("role", "application");
  element.setAttribute("aria-roledescription", "point that moves with the arrow keys");
  element.classList.add("handle");
  const name = () => element.setAttribute("aria-label", `${label}: ${at().map(said).join(", ")}`);
  name();
  const within = (x) => Math.min(Math.max(x, -0.96 * where().reach), 0.96 * where().reach);
  const place = (event) => {
    const box = picture.getBoundingClientRect();
    const view = picture.viewBox.baseVal;
    return where().from([
      ((event.clientX - box.left) / box.width) * view.width,
      ((event.clientY - box.top) / box.height) * view.height,
    ]);
  };
  let away = null;
  let moved = false;
  // Only this keeps a finger from scrolling the page: touch-action has no effect on a part of an svg.
  element.addEventListener("touchstart", (event) => event.preventDefault(), { passive: false });
  element.addEventListener("pointerdown", (event) => {
    const [x, y] = place(event);
    const here = at();
    away = [here[0] - x, here[1] - y];
    moved = false;
    element.setPointerCapture(event.pointerId);
    element.focus({ preventScroll: true });
    event.preventDefault();
    event.stopPropagation();
  });
  element.addEventListener("pointermove", (event) => {
    if (away === null) return;
    const [x, y] = place(event);
    const [here, goal] = [at(), [within(x + away[0]), within(y + away[1])]];
    if (!moved && Math.hypot(goal[0] - here[0], goal[1] - here[1]) * where().unit < 0.5) return;
    moved = true;
    move(goal, false);
    name();
  });
  const stop = () => {
    if (away === null) return;
    away = null;
    if (!moved) return;
    move(at(), true);
    name();
  };
  element.addEventListener("pointerup", stop);
  element.addEventListener("pointercancel", stop);
  element.addEventListener("keydown", (event) => {
    const ways = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
    const way = ways[event.key];
    if (!way) return;
    event.preventDefault();
    const step = where().reach * (event.shiftKey ? 0.1 : 0.02);
    const [x, y] = at();
    move([x + step * way[0], y + step * way[1]], true);
    name();
  });
}

/** A slider with its name and its number; `change(value, done)`; logarithmic if asked for. */
export function slider({ label, low, high, value, change, log = false, whole = false }) {
  const turn = log ? Math.log10 : Number;
  const back = (x) => (log ? 10 ** x : x);
  const shown = make("output");
  const input = make("input", { type: "range", min: turn(low), max: turn(high), step: whole ? 1 : "any", "aria-label": label });
  const step = (done) => {
    const found = whole ? Math.round(back(Number(input.value))) : Number(back(Number(input.value)).toPrecision(4));
    shown.textContent = said(found);
    input.setAttribute("aria-valuetext", said(found));
    change(found, done);
  };
  if (!whole) {
    input.addEventListener("keydown", (event) => {
      const ways = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1 };
      if (!(event.key in ways)) return;
      event.preventDefault();
      input.value = Number(input.value) + (ways[event.key] * (turn(high) - turn(low))) / 50;
      step(true);
    });
  }
  input.addEventListener("input", () => step(false));
  input.addEventListener("change", () => step(true));
  const element = make("label", { class: "slider" }, make("span", {}, label), input, shown);
  // What is found may lie beyond the ends; then they give way, or the next step of the hand would jump.
  const set = (number) => {
    if (turn(number) < Number(input.min)) input.min = turn(number);
    if (turn(number) > Number(input.max)) input.max = turn(number);
    input.value = turn(number);
    shown.textContent = said(number);
    input.setAttribute("aria-valuetext", said(number));
  };
  set(value);
  return { element, set };
}

/** One path for any number of bars; `heights` between 0 and 1. */
export function barsPath(heights, { left, top, width, height }, chosen = () => true) {
  const step = width / heights.length;
  const wide = Math.max(step * 0.78, 0.4);
  let path = "";
  for (let i = 0; i < heights.length; i++) {
    if (!chosen(i)) continue;
    const high = Math.min(Math.max(heights[i], 0), 1) * height;
    path += `M${(left + i * step + (step - wide) / 2).toFixed(2)} ${top + height}h${wide.toFixed(2)}v${(-high).toFixed(2)}h${(-wide).toFixed(2)}z`;
  }
  return path;
}

/** An ellipse of one standard deviation as a path: mean, covariance (2 by 2), in a plane. */
export function ellipsePath(mean, [[a, b], [, d]], where) {
  const middle = (a + d) / 2;
  const spread = Math.hypot((a - d) / 2, b);
  const angle = 0.5 * Math.atan2(2 * b, a - d);
  const axes = [middle + spread, middle - spread].map((size) => Math.sqrt(Math.max(size, 0)));
  let path = "";
  for (let k = 0; k <= 72; k++) {
    const turn = (k / 72) * 2 * Math.PI;
    const [x, y] = [axes[0] * Math.cos(turn), axes[1] * Math.sin(turn)];
    const point = where.to([
      mean[0] + x * Math.cos(angle) - y * Math.sin(angle),
      mean[1] + x * Math.sin(angle) + y * Math.cos(angle),
    ]);
    path += `${k ? "L" : "M"}${point[0].toFixed(2)} ${point[1].toFixed(2)}`;
  }
  return `${path}z`;
}

/** Call `work` at most once a frame, with the latest arguments. */
export function onceAFrame(work) {
  let waiting = null;
  return (...given) => {
    if (waiting === null) {
      requestAnimationFrame(() => {
        const latest = waiting;
        waiting = null;
        work(...latest);
      });
    }
    waiting = given;
  };
}

/** Call `work` when nothing has been asked for during some milliseconds. */
export function afterPause(work, pause = 150) {
  let timer = 0;
  return (...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => work(...given), pause);
  };
}

/** A Python literal of numbers in lists. */
export function python(data) {
  return JSON.stringify(data).replaceAll(",", ", ").replaceAll("null", "None");
}
