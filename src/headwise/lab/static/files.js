// Files that are dropped or chosen: a state that a panel has handed out, or keys and values for the first panel.

import { make } from "./draw.js";

const FILE_MOST = 4 * 2 ** 20;

/** The state in a text that a panel has handed out; null for any other text. */
function fileState(text, panels) {
  try {
    const { panel, state } = JSON.parse(text) ?? {};
    return panels.includes(panel) && state !== null && typeof state === "object" ? { panel, state } : null;
  } catch {
    return null;
  }
}

/** Which panel a file opens, and on what; `ask` is null where there is no Python. The answer is null if it was given up. */
export async function fileRead(file, panels, ask) {
  if (file.size > FILE_MOST) throw new Error(`${file.name}: a file may have 4 MB here, but it has ${(file.size / 2 ** 20).toFixed(1)}.`);
  const found = /\.json$/i.test(file.name) ? fileState(await file.text(), panels) : null;
  if (found) return found;
  if (!ask) throw new Error(`${file.name}: only what the button JSON has written opens here. Keys and values need Python: run headwise lab.`);
  const answer = await ask("file", file);
  return answer && { panel: "copy", state: answer.arrays };
}

/** Take files that are dropped on a place; elsewhere in it nothing else happens to them. */
export function fileDrops(place, take) {
  const held = (event) => event.dataTransfer?.types.includes("Files");
  const over = (event) => { if (held(event)) event.preventDefault(); };
  const drop = (event) => {
    if (!held(event)) return;
    event.preventDefault();
    take(event.dataTransfer.files[0]);
  };
  place.addEventListener("dragover", over);
  place.addEventListener("drop", drop);
  return () => {
    place.removeEventListener("dragover", over);
    place.removeEventListener("drop", drop);
  };
}

/** A button that lets choose a file. */
export function fileButton(take) {
  const input = make("input", { type: "file", accept: ".npy,.npz,.csv,.json,.safetensors", hidden: true, "aria-label": "file of keys and values" });
  input.addEventListener("change", () => {
    take(input.files[0]);
    input.value = ""; // the same file may be chosen again
  });
  return make("span", {}, input, make("button", { type: "button", onclick: () => input.click() }, "open a file"));
}
