// What the panels that ask for a design share: the leak that is allowed, and the verdict in words.

import { make } from "./draw.js";

const DESIGN_LEAKS = ["0.1", "0.01", "0.001", "1e-6"];
const DESIGN_WORDS = { possible: ["good", "✓"], impossible: ["bad", "✗"], undecided: ["unsure", "?"] };

/** The leak of a given state if it is one of those that can be chosen. */
export function designLeak(given, usual) {
  return DESIGN_LEAKS.some((size) => Number(size) === given) ? given : usual;
}

/** A list of leaks that keeps the choice in the state. */
export function designLeaks(host, changed) {
  const select = make("select", { "aria-label": "weight that may leak" }, ...DESIGN_LEAKS.map((size) => make("option", { value: size }, `leak ${size}`)));
  select.value = DESIGN_LEAKS.find((size) => Number(size) === host.state.leak);
  select.addEventListener("change", () => {
    host.change({ leak: Number(select.value) });
    changed();
  });
  return select;
}

/** What Python says of a design; `worded` turns its words into those of the page. */
export function designVerdict(found, worded, ...more) {
  const [tone, sign] = DESIGN_WORDS[found.verdict];
  const claim = found.certificate?.claim;
  const proved = claim === found.reason ? "This was checked in exact arithmetic." : `Checked in exact arithmetic: ${worded(claim ?? "")}`;
  return make("div", { class: `verdict ${tone}` },
    make("p", {}, make("span", { class: `word-${tone}` }, `${sign} ${found.verdict}`), ": ", worded(found.reason)),
    claim ? make("p", { class: "quiet" }, proved) : null,
    ...more);
}
