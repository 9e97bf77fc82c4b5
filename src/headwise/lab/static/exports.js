// What a panel hands out: its picture as SVG or PNG, its state as JSON, the Python lines that repeat it.

import { make } from "./draw.js";

const LOOK = ["fill", "stroke", "stroke-width", "stroke-dasharray", "opacity", "font-size", "font-family", "font-weight", "text-anchor"];

/** A copy of a picture that needs no style sheet. */
export function standalone(picture) {
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
  const ground = make("rect", { width: box.width, height: box.height, fill: groundOf(picture) });
  copy.prepend(ground);
  return new XMLSerializer().serializeToString(copy);
}

function groundOf(picture) {
  for (let element = picture; element; element = element.parentElement) {
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
  return {
    text: `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${left} ${height}" width="${left}" height="${height}">${parts.join("")}</svg>`,
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

/** The row of buttons under a panel. */
export function exportsOf(panel, body, host) {
  const code = make("pre", { class: "code", hidden: true, tabindex: "0", "aria-label": "Python lines" });
  const button = (name, work) => make("button", { type: "button", onclick: work }, name);
  const row = make(
    "div",
    { class: "exports", role: "group", "aria-label": "take it with you" },
    button("SVG", () => download(`${panel.name}.svg`, new Blob([together(body).text], { type: "image/svg+xml" }))),
    button("PNG", async () => download(`${panel.name}.png`, await png(together(body)))),
    button("JSON", () => download(`${panel.name}.json`, new Blob([JSON.stringify(host.state)], { type: "application/json" }))),
    button("Python", () => {
      code.hidden = !code.hidden;
      code.textContent = panel.code(host.state);
      if (!code.hidden) navigator.clipboard?.writeText(code.textContent).catch(() => {});
    }),
  );
  return make("footer", {}, row, code);
}
