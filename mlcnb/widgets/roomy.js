// Tables with columns that wait where there is little room.

import { el, button } from "./base.js";

/** A table whose cells of class `mlc-spare` wait behind a button where there is no room for them. */
export function roomy(node) {
  const frame = el("div", { class: "mlc-roomy" });
  const more = button("more columns", () => {
    const all = frame.classList.toggle("mlc-all");
    more.textContent = all ? "fewer columns" : "more columns";
    more.setAttribute("aria-expanded", String(all));
  }, { class: "mlc-button mlc-morecolumns", "aria-expanded": "false" });
  frame.append(el("div", { class: "mlc-wide" }, node), more);
  return frame;
}
