// Linked source of a kernel for a GPU: a listing for each form; a line lights those that belong to it.
//
// All links go through lines of the lowered program: a row belongs to some of them, and lights every
// row elsewhere that belongs to one of the same.

import { panel, el, code } from "./base.js";

export default {
  render: panel((root, view) => {
    open(root, view);
    view.onData(() => open(root, view));
  }),
};

function open(root, view) {
  const data = view.data;
  const say = el("p", { class: "mlc-say" }, "Point at a line, or choose one with the arrow keys; Enter or a click keeps it, Escape lets it go.");
  let pinned = null;
  const panes = data.panes.map((pane) => {
    const made = { ...pane };
    made.listing = code(pane.lines.map((n) => data.table[n]), {
      label: pane.name,
      onHover: (row) => { if (!pinned) choose(made, row); },
      onPick: (row) => {
        const again = pinned && pinned[0] === made && pinned[1] === row;
        pinned = again ? null : [made, row];
        choose(made, row, true);
        view.announce(again ? "let go" : say.textContent);
      },
    });
    made.listing.rows.forEach((row, i) => {
      row.firstChild.textContent = String(pane.first + i);
      row.classList.toggle("src-linked", pane.links[i].length > 0);
    });
    if (pane.left) made.listing.node.append(el("div", { class: "mlc-faint" }, `… ${pane.left} more lines are not in this page`));
    return made;
  });

  function choose(from, row, reveal = false) {
    const none = row === null || row === undefined;
    const of = new Set(none ? [] : from.links[row]);
    const told = [];
    for (const pane of panes) {
      const lit = pane.links.flatMap((links, i) => (links.some((n) => of.has(n)) || (pane === from && i === row) ? [i] : []));
      pane.listing.light(lit);
      if (pane === from || !lit.length) continue;
      told.push(lit.length > 6 ? `${lit.length} lines of ${pane.name}` : `${pane.name} ${lit.map((i) => pane.first + i).join(", ")}`);
      if (reveal || !pinned) pane.listing.reveal(lit[0]);
    }
    if (!none) say.textContent = `${from.name}, line ${from.first + row} ↔ ${told.join("; ") || "nothing of its own elsewhere"}`;
  }
  root.replaceChildren(
    el("h3", {}, data.title),
    ...data.notes.map((text) => el("p", { class: "mlc-warn" }, text)),
    say,
    el("div", { class: "src-panes" }, panes.map((pane) => el("section", { "aria-label": pane.name },
      el("h4", {}, pane.name), pane.listing.node))));
  root.onkeydown = (event) => {
    if (event.key !== "Escape" || !pinned) return;
    pinned = null;
    view.announce("let go");
  };
}
