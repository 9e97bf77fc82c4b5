// The lab as a page: its state is in the address, and a server answers if the page came from one.

import lab from "./lab.js";

const pagePlace = document.getElementById("lab");
const pageFacts = {
  page: true,
  server: document.documentElement.hasAttribute("data-server"),
  // Without Python the titles of the parts stand in the file itself.
  parts: JSON.parse(pagePlace.dataset.parts ?? "null"),
};
lab.render({ model: { get: (name) => pageFacts[name] }, el: pagePlace });
