// The lab as a page: its state is in the address, and a server answers if the page came from one.

import lab from "./lab.js";

const pageFacts = { page: true, server: document.documentElement.hasAttribute("data-server") };
lab.render({ model: { get: (name) => pageFacts[name] }, el: document.getElementById("lab") });
