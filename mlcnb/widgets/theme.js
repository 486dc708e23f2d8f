// Colours of the theme, for what is drawn on a canvas.

import { el } from "./base.js";

/** Reads colours of the style sheet as they are now: `colours(name)` is what a canvas draws with,
 *  `colours.bytes(name)` its red, green, blue and alpha. Whatever CSS allows as a colour is one: the
 *  browser resolves it on a pixel. */
export function palette(node) {
  const probe = el("span", { hidden: true }), found = new Map();
  const pen = el("canvas", { width: 1, height: 1 }).getContext("2d", { willReadFrequently: true });
  const bytes = (name) => {
    if (!node.isConnected) return [136, 136, 136, 255]; // no style sheet holds for it yet
    if (!found.has(name)) found.set(name, resolve(name));
    return found.get(name);
  };
  function resolve(name) {
    const host = node.closest(".mlcnb") || node;
    probe.style.color = `var(${name})`;
    host.append(probe);
    pen.clearRect(0, 0, 1, 1);
    pen.fillStyle = getComputedStyle(probe).color;
    probe.remove();
    pen.fillRect(0, 0, 1, 1);
    return [...pen.getImageData(0, 0, 1, 1).data];
  }
  const colours = (name) => {
    const [r, g, b, a] = bytes(name);
    return `rgba(${r}, ${g}, ${b}, ${a / 255})`;
  };
  /** Forget what was read: the theme has changed. */
  return Object.assign(colours, { bytes, forget: () => found.clear() });
}

/** Call `f` whenever the page around changes between light and dark; gives the way to stop it. */
export function onTheme(f) {
  const watch = new MutationObserver(f);
  for (const node of [document.body, document.documentElement]) {
    watch.observe(node, { attributes: true, attributeFilter: ["class", "theme", "data-theme", "data-jp-theme-light"] });
  }
  return () => watch.disconnect();
}
