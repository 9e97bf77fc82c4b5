// Maps of numbers to edit: cells that take typing, arrows and steps.

import { make, said } from "./draw.js";

export const MATRICES_LARGEST = 1e6;
export const MATRICES_STEP = 0.5;

/** Twelve digits: enough for what was typed, without the dust of a product. */
export function matricesClean(number) {
  return Number(number.toPrecision(12)) + 0;
}

/** A number as a person types it: a comma for a point, a fraction, any minus; null if it is none. */
function matricesTyped(text) {
  const parts = text.trim().replaceAll(",", ".").replaceAll("−", "-").split("/");
  if (parts.length > 2 || parts.some((part) => part.trim() === "")) return null;
  const number = parts.length === 2 ? Number(parts[0]) / Number(parts[1]) : Number(parts[0]);
  return Number.isFinite(number) && Math.abs(number) <= MATRICES_LARGEST ? number : null;
}

/** What keys do in a cell: arrows move, + and - step, Enter ends; digits after - make a negative number. */
function matricesKeys(input, { step, go, end, back }) {
  let minus = false;
  input.addEventListener("focus", () => { minus = false; });
  input.addEventListener("keydown", (event) => {
    const ways = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
    const steps = { "+": 1, "-": -1, PageUp: 1, PageDown: -1 };
    const whole = input.value !== "" && input.selectionStart === 0 && input.selectionEnd === input.value.length;
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key in ways) go(ways[event.key]);
    else if (event.key === "Enter") end();
    else if (event.key === "Escape") back();
    else if (event.key in steps && (whole || event.key.startsWith("Page"))) {
      step(steps[event.key]);
      minus = event.key === "-";
      event.preventDefault();
      return;
    } else if (minus && whole && /^[\d.,]$/.test(event.key)) {
      input.value = `-${event.key}`;
      input.dispatchEvent(new Event("input"));
    } else {
      minus = false;
      return;
    }
    minus = false;
    event.preventDefault();
  });
}

/** One number of a map, in an input; `set(number, largest)` shows it, null is an empty place. */
function matricesCell({ label, change, go, chosen, refused }) {
  const input = make("input", { type: "text", inputmode: "decimal", class: "matrices-cell", "aria-label": label, autocomplete: "off", tabindex: "-1" });
  let value = null;
  let before = null;
  let typed = false;
  const full = () => { input.value = value === null ? "" : String(matricesClean(value)); };
  const set = (number, largest) => {
    value = number;
    const sign = number === null || number === 0 ? "" : number > 0 ? " matrices-more" : " matrices-less";
    input.className = `matrices-cell${sign}`;
    input.style.setProperty("--size", largest > 0 && number !== null ? `${Math.round((45 * Math.abs(number)) / largest)}%` : "0%");
    if (typed) return;
    if (document.activeElement === input) {
      full();
      input.select();
    } else input.value = number === null ? "" : said(number);
  };
  const settle = () => {
    // What is no number as a whole does not leave its first digits behind.
    const wrong = typed && matricesTyped(input.value) === null;
    const [text, goal] = [input.value, wrong ? before ?? 0 : value];
    const moved = typed && value !== before;
    typed = false;
    input.removeAttribute("aria-invalid");
    if (moved) change(goal, true);
    before = value;
    if (wrong) refused(`${label}: a number from −1e6 to 1e6 must stand here, but ${text.trim() ? `“${text}” was typed` : "nothing was typed"}; it is ${said(value ?? 0)} as before.`);
  };
  const end = () => {
    settle();
    full();
    input.select();
  };
  const step = (way) => {
    typed = false;
    change(matricesClean((value ?? 0) + way * MATRICES_STEP), true);
    before = value;
  };
  const cell = { input, set, step, sign: () => { change(-(value ?? 0) + 0, true); before = value; } };
  input.addEventListener("focus", () => {
    before = value;
    full();
    input.select();
    chosen(cell, label);
  });
  // The browser collapses the selection after the click is over.
  input.addEventListener("click", () => setTimeout(() => { if (!typed) input.select(); }));
  input.addEventListener("input", () => {
    typed = true;
    const number = matricesTyped(input.value);
    if (number === null) input.setAttribute("aria-invalid", "true");
    else {
      input.removeAttribute("aria-invalid");
      change(number, false);
    }
  });
  input.addEventListener("blur", () => {
    settle();
    input.value = value === null ? "" : said(value);
  });
  const back = () => {
    typed = false;
    input.removeAttribute("aria-invalid");
    if (value !== before && before !== null) change(before, true);
    full();
    input.select();
  };
  matricesKeys(input, { step, go, end, back });
  return cell;
}

/** A map of numbers as a table of cells; `change(row, column, number, done)`; `extra(row)` may stand behind a row. */
export function matricesGrid({ name, about, rows, columns, change, chosen, refused, extra = () => null }) {
  const cells = rows.map((row, i) => columns.map((column, j) =>
    matricesCell({
      label: `${name}, row ${row}, column ${column}`,
      change: (number, done) => change(i, j, number, done),
      refused,
      go: ([down, right]) => reach(i + down, j + right),
      chosen: (cell, label) => {
        for (const one of cells.flat()) one.input.tabIndex = -1;
        cell.input.tabIndex = 0;
        chosen(cell, label);
      },
    })));
  const reach = (i, j) => cells[i]?.[j]?.input.focus();
  cells[0][0].input.tabIndex = 0;
  const head = make("tr", {}, make("td"), ...columns.map((column) => make("th", { scope: "col" }, column)));
  const lines = cells.map((line, i) => make("tr", {}, make("th", { scope: "row" }, rows[i]), ...line.map((cell) => make("td", {}, cell.input)), extra(i)));
  const caption = make("caption", {}, make("b", {}, name), about ? ` ${about}` : "");
  return {
    element: make("div", { class: "wide matrices-map" }, make("table", { class: "matrices-grid" }, caption, make("thead", {}, head), make("tbody", {}, ...lines))),
    set(matrix) {
      const largest = Math.max(...matrix.flat().map((x) => Math.abs(x ?? 0)));
      matrix.forEach((row, i) => cells[i].forEach((cell, j) => cell.set(row ? row[j] : null, largest)));
    },
  };
}
