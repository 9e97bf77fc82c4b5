// What a panel hands out: its picture as SVG or PNG, its state as JSON, the Python lines that repeat it.

import { make, onceAFrame } from "./draw.js";

const LOOK = ["fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-linejoin", "paint-order", "opacity", "font-size", "font-family", "font-weight", "text-anchor"];

/** A copy of a picture that needs no style sheet. */
function standalone(picture) {
  const copy = picture.cloneNode(true);
  const pairs = [[picture, copy]];
  while (pairs.length) {
    const [from, to] = pairs.pop();
    const look = getComputedStyle(from);
    for (const name of LOOK) {
      const value = look.getPropertyValue(name);
      if (value && !(to.getAttribute(name) ?? "").startsWith("url(")) to.setAttribute(name, value.replace(/^url\("[^#]*#/, 'url("#'));
    }
    for (const name of ["class", "tabindex"]) to.removeAttribute(name);
    Array.from(from.children).forEach((child, place) => pairs.push([child, to.children[place]]));
  }
  const box = picture.viewBox.baseVal;
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("width", box.width);
  copy.setAttribute("height", box.height);
  return new XMLSerializer().serializeToString(copy);
}

function groundOf(body) {
  for (let element = body; element; element = element.parentElement) {
    const colour = getComputedStyle(element).backgroundColor;
    if (colour && colour !== "rgba(0, 0, 0, 0)" && colour !== "transparent") return colour;
  }
  return "white";
}

/** All pictures of a panel side by side in one. */
function together(body) {
  const pictures = [...body.querySelectorAll("svg.picture")].filter((one) => one.getBoundingClientRect().width > 0);
  let left = 0;
  let height = 0;
  const parts = pictures.map((picture) => {
    const box = picture.viewBox.baseVal;
    const part = standalone(picture).replace("<svg", `<svg x="${left}"`);
    left += box.width;
    height = Math.max(height, box.height);
    return part;
  });
  // One ground for all: pictures are of different heights.
  const ground = `<rect width="${left}" height="${height}" fill="${groundOf(body)}"/>`;
  return {
    text: `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${left} ${height}" width="${left}" height="${height}">${ground}${parts.join("")}</svg>`,
    width: left,
    height,
  };
}

function download(name, blob) {
  const link = make("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

async function png(drawn) {
  const image = new Image();
  const source = URL.createObjectURL(new Blob([drawn.text], { type: "image/svg+xml" }));
  try {
    image.src = source;
    await image.decode();
    const sheet = document.createElement("canvas");
    [sheet.width, sheet.height] = [2 * drawn.width, 2 * drawn.height];
    sheet.getContext("2d").drawImage(image, 0, 0, sheet.width, sheet.height);
    return await new Promise((done) => sheet.toBlob(done, "image/png"));
  } finally {
    URL.revokeObjectURL(source);
  }
}

/** The row of buttons under a panel; `follow()` keeps lines that are shown true to the state. */
export function exportsOf(panel, body, host) {
  const code = make("pre", { class: "code", hidden: true, tabindex: "0", "aria-label": "Python lines" });
  const button = (name, work) => make("button", { type: "button", onclick: work }, name);
  const write = () => { code.textContent = panel.code(host.state); };
  const soon = onceAFrame(() => { if (!code.hidden) write(); });
  const state = () => JSON.stringify({ panel: panel.name, state: host.state });
  const row = make(
    "div",
    { class: "exports", role: "group", "aria-label": "take it with you" },
    button("SVG", () => download(`${panel.name}.svg`, new Blob([together(body).text], { type: "image/svg+xml" }))),
    button("PNG", async () => download(`${panel.name}.png`, await png(together(body)))),
    button("JSON", () => download(`${panel.name}.json`, new Blob([state()], { type: "application/json" }))),
    button("Python", () => {
      code.hidden = !code.hidden;
      if (code.hidden) return;
      write();
      navigator.clipboard?.writeText(code.textContent).catch(() => {});
    }),
  );
  return { element: make("footer", {}, row, code), follow: () => { if (!code.hidden) soon(); } };
}
