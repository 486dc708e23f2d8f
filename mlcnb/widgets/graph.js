// A graph that Python laid out (widgets/graphs.py), drawn as SVG and walked by arrow keys.
//
//   const view = graphView("before", { onPick: (i) => …, say: (node, i) => "conv2d, …" });
//   view.show(drawing, signs); view.light([3, 4]); view.pick(3); view.find((node, i) => …)

import { arrows, button, el, svg } from "./base.js";

const SIGNS = { "+": ["+", "new"], "-": ["−", "gone"], "~": ["~", "changed"] };
const ZOOMS = [0.1, 0.2, 0.35, 0.5, 0.7, 0.85, 1, 1.25, 1.6];

/** A pane with a graph, its zoom, and the node that is picked. */
export function graphView(label, { onPick = () => {}, onOpen = null, say = words } = {}) {
  const pane = el("div", { class: "mlc-graph", role: "listbox", "aria-label": label });
  const zoomed = el("output", { class: "mlc-faint mlc-zoom" });
  const map = minimap(pane);
  const node = el("div", { class: "mlc-graphbox" }, el("div", { class: "mlc-row mlc-tools" },
    button("−", () => zoom(-1), { title: `${label}: smaller` }),
    button("+", () => zoom(1), { title: `${label}: larger` }),
    button("fit", fit, { title: `${label}: all of it` }), zoomed), el("div", { class: "mlc-stage" }, pane, map.node));
  let graph = null, groups = [], near = null, signs = [], at = -1, scale = 1, picture = null;

  function show(drawing, marks = []) {
    graph = drawing;
    signs = marks;
    at = -1;
    if (!graph) {
      pane.replaceChildren(el("p", { class: "mlc-faint" }, "no graph: the text says the same"));
      map.show(null, []);
      groups = [];
      return;
    }
    groups = graph.n.map(group);
    near = svg("g", { class: "mlc-near" });
    picture = svg("svg", { viewBox: `-8 -8 ${graph.w + 16} ${graph.h + 16}`, role: "presentation" },
      ...graph.c.map(frame), edges(), ...graph.c.map(caption), near, ...groups);
    pane.replaceChildren(picture);
    map.show(graph, signs);
    if (groups[0]) groups[0].setAttribute("tabindex", "0");
    const wide = pane.clientWidth || 420;
    const whole = (highest() - 24) / (graph.h + 16); // a little smaller, if that shows all of it
    resize(Math.min(1, Math.max(0.45, (wide - 24) / (graph.w + 16)), whole > 0.75 ? whole : 1));
  }
  function resize(to) {
    scale = to;
    picture.setAttribute("width", Math.round((graph.w + 16) * scale));
    picture.setAttribute("height", Math.round((graph.h + 16) * scale));
    zoomed.textContent = `${Math.round(100 * scale)} %`;
    map.follow();
  }
  function zoom(by) {
    if (!graph) return;
    const next = by > 0 ? ZOOMS.find((z) => z > scale + 0.01) : ZOOMS.findLast((z) => z < scale - 0.01);
    if (next) { resize(next); reveal(at); }
  }
  function fit() {
    if (graph) resize(Math.min(1, (pane.clientWidth - 24) / (graph.w + 16), (highest() - 24) / (graph.h + 16)));
  }
  /** The height that the pane may have: it is no higher than its picture. */
  function highest() {
    return parseFloat(getComputedStyle(pane).maxHeight) || pane.clientHeight;
  }
  function edges() {
    const lines = graph.e.map((e) => e[3]).join("");
    return svg("g", {}, svg("path", { class: "mlc-edge", d: lines }),
      svg("path", { class: "mlc-tip", d: graph.e.map((e) => tip(e[3])).join("") }));
  }
  function group(n, i) {
    const [x, y, w, h, sort, lines, flags] = n;
    const sign = SIGNS[signs[i]];
    const shape = svg("path", { d: outline(n),
      class: `mlc-shape mlc-sort-${sort}${flags.includes("d") ? " mlc-several" : ""}` });
    const texts = lines.map((line, k) => svg("text", {
      x: x + w / 2, y: y + h / 2 + (k - (lines.length - 1) / 2) * 14 + 4,
      class: k ? "mlc-label" : "mlc-label mlc-first" }, line));
    const badge = !sign ? [] : [svg("circle", { class: "mlc-signbox", cx: x, cy: y, r: 8 }),
      svg("text", { class: "mlc-signtext", x, y: y + 4 }, sign[0])];
    const made = svg("g", { class: "mlc-node", role: "option", tabindex: -1, "aria-selected": "false",
      "aria-label": say(n, i, sign ? sign[1] : ""), "data-sign": signs[i] || null,
      onclick: () => pick(i, true), ondblclick: () => open(i), onkeydown: (event) => key(event, i) },
      shape, ...texts, ...badge);
    if (flags.includes("f")) made.classList.add("mlc-found");
    return made;
  }
  function key(event, i) {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    if (event.key === "Enter" || event.key === " ") { event.preventDefault(); open(i); return; }
    const to = step(event, i);
    if (to === null) return;
    event.preventDefault();
    event.stopPropagation();
    if (to >= 0 && to < groups.length) pick(to, true);
  }
  /** Down and up go along edges, left and right to what stands beside, Home and End to the ends. */
  function step(event, i) {
    switch (event.key) {
      case "ArrowDown": return graph.e.find((e) => e[0] === i)?.[1] ?? i;
      case "ArrowUp": return graph.e.find((e) => e[1] === i)?.[0] ?? i;
      case "ArrowLeft": return beside(i, -1);
      case "ArrowRight": return beside(i, 1);
      default: return arrows(event, i, groups.length);
    }
  }
  function beside(i, way) {
    const [x, y, , h] = graph.n[i];
    const there = graph.n.map((n, k) => [k, (n[0] - x) * way, Math.abs(n[1] - y)])
      .filter(([k, away, down]) => k !== i && away > 4 && down < h * 2);
    there.sort((a, b) => a[1] + 2 * a[2] - b[1] - 2 * b[2]);
    return there.length ? there[0][0] : i + way;
  }
  function pick(i, told) {
    if (!groups[i]) return;
    if (groups[at]) { groups[at].setAttribute("aria-selected", "false"); groups[at].setAttribute("tabindex", "-1"); }
    groups[0].setAttribute("tabindex", "-1");
    at = i;
    groups[i].setAttribute("aria-selected", "true");
    groups[i].setAttribute("tabindex", "0");
    near.replaceChildren(...graph.e.filter((e) => e[0] === i || e[1] === i).flatMap(nearby));
    if (told) { groups[i].focus({ preventScroll: true }); reveal(i); onPick(i); }
  }
  function open(i) {
    pick(i, true);
    if (onOpen) onOpen(i);
  }
  function reveal(i) {
    if (!groups[i]) return;
    const [x, y, w, h] = graph.n[i].map((v) => v * scale);
    const inside = (low, size, start, room) => (low < start + 20 || low + size > start + room - 20
      ? Math.max(0, low + size / 2 - room / 2) : start);
    pane.scrollTop = inside(y, h, pane.scrollTop, pane.clientHeight);
    pane.scrollLeft = inside(x, w, pane.scrollLeft, pane.clientWidth);
  }
  /** Light these nodes and dim the others; none: all as they are. */
  function light(which) {
    const set = new Set(which);
    pane.classList.toggle("mlc-dim", set.size > 0);
    groups.forEach((g, i) => g.classList.toggle("mlc-on", set.has(i)));
    if (which.length) reveal(which[0]);
  }
  /** Mark the nodes for which `test` holds; their numbers. */
  function find(test) {
    const found = graph ? graph.n.map((n, i) => i).filter((i) => test(graph.n[i], i)) : [];
    groups.forEach((g, i) => g.classList.toggle("mlc-found", found.includes(i)));
    return found;
  }
  /** Fill every node anew, with a note beside each. */
  function paint(colour, note) {
    groups.forEach((g, i) => {
      g.querySelector(".mlc-shape").setAttribute("style", colour(i) ? `fill:${colour(i)}` : "");
      for (const old of g.querySelectorAll(".mlc-note")) old.remove();
      const [x, y, w, h] = graph.n[i];
      if (note(i)) g.append(svg("text", { class: "mlc-note", x: x + w + 5, y: y + h / 2 + 4 }, note(i)));
    });
  }
  return { node, pane, show, light, pick, find, fit, paint, reveal, get at() { return at; }, get graph() { return graph; } };
}

/** All of a graph, small, with a frame around what the pane shows of it: for pointers, where there is
 * more than the pane shows (keys walk the nodes themselves). */
function minimap(pane) {
  const node = svg("svg", { class: "mlc-minimap", "aria-hidden": "true" }), frame = svg("rect", { class: "mlc-window" });
  let graph = null;
  const follow = () => {
    const [wide, tall] = [pane.clientWidth, pane.clientHeight];
    const isWhole = !graph || !wide || (pane.scrollWidth < wide * 1.5 && pane.scrollHeight < tall * 1.5);
    node.toggleAttribute("hidden", isWhole);
    if (isWhole) return;
    const size = Math.min(96 / graph.w, (tall - 20) / graph.h);
    node.setAttribute("width", Math.max(12, graph.w * size));
    node.setAttribute("height", Math.max(12, graph.h * size));
    const at = pane.firstElementChild.getBoundingClientRect(), of = pane.getBoundingClientRect();
    const scale = at.width / (graph.w + 16);
    const cut = (from, size, most) => [Math.max(0, from), Math.max(0, Math.min(most, from + size) - Math.max(0, from))];
    const [x, width] = cut((of.left - at.left) / scale - 8, wide / scale, graph.w), [y, height] = cut((of.top - at.top) / scale - 8, tall / scale, graph.h);
    for (const [name, value] of Object.entries({ x, y, width, height })) frame.setAttribute(name, value);
  };
  const go = (event) => {
    const box = node.getBoundingClientRect(), [wide, tall] = [pane.clientWidth, pane.clientHeight];
    pane.scrollTop = ((event.clientY - box.top) / box.height) * pane.scrollHeight - tall / 2;
    pane.scrollLeft = ((event.clientX - box.left) / box.width) * pane.scrollWidth - wide / 2;
  };
  node.addEventListener("pointerdown", (event) => { event.preventDefault(); node.setPointerCapture(event.pointerId); go(event); });
  node.addEventListener("pointermove", (event) => { if (event.buttons) go(event); });
  pane.addEventListener("scroll", follow);
  new ResizeObserver(follow).observe(pane);
  return { node, follow, show(to, signs) {
    graph = to;
    if (graph) {
      node.setAttribute("viewBox", `0 0 ${graph.w} ${graph.h}`);
      node.replaceChildren(...graph.n.map(([x, y, width, height, sort], i) => svg("rect", { x, y, width, height,
        class: `mlc-speck mlc-sort-${sort}`, "data-sign": signs[i] || null })), frame);
    }
    follow();
  } };
}

function words(n, i, sign) {
  return `${sign ? `${sign}: ` : ""}${n[5].join(", ")}`;
}

function frame([x, y, width, height]) {
  return svg("rect", { class: "mlc-frame", x, y, width, height, rx: 6 });
}

/** The title of a frame stands before the lines that go into it. */
function caption([x, y, , , title]) {
  return svg("text", { class: "mlc-frametitle", x: x + 6, y: y + 13 }, title);
}

/** An edge of the picked node, with what goes along it. */
function nearby([, , label, path]) {
  const points = numbers(path);
  const k = 2 * Math.floor(points.length / 4);
  return [svg("path", { class: "mlc-nearedge", d: path }),
    label ? svg("text", { class: "mlc-edgelabel", x: points[k] + 5, y: points[k + 1] + 3 }, label) : null];
}

function numbers(path) {
  return path.match(/-?[\d.]+/g).map(Number);
}

/** The triangle at the end of an edge. */
function tip(path) {
  const p = numbers(path);
  const [ax, ay, bx, by] = p.slice(-4);
  const d = Math.hypot(bx - ax, by - ay) || 1, ux = (bx - ax) / d, uy = (by - ay) / d;
  const cx = bx - 6 * ux, cy = by - 6 * uy;
  return `M${bx} ${by}L${cx - 3 * uy} ${cy + 3 * ux}L${cx + 3 * uy} ${cy - 3 * ux}Z`;
}

/** The outline of a node: its shape tells what sort of work it does, two bars that it is a kernel. */
function outline([x, y, w, h, sort, , flags]) {
  const r = { input: h / 2, output: h / 2, elementwise: 6 }[sort] || 0;
  const corner = (s) => ({
    movement: [[x + s, y], [x + w, y], [x + w - s, y + h], [x, y + h]],
    normalise: [[x + s, y], [x + w - s, y], [x + w, y + h / 2], [x + w - s, y + h], [x + s, y + h], [x, y + h / 2]],
    reduction: [[x, y], [x + w, y], [x + w - s, y + h], [x + s, y + h]],
    control: [[x + s, y], [x + w - s, y], [x + w, y + s], [x + w, y + h - s], [x + w - s, y + h], [x + s, y + h], [x, y + h - s], [x, y + s]],
  }[sort === "other" ? "control" : sort] || [[x, y], [x + w, y], [x + w, y + h], [x, y + h]]);
  const shape = r ? `M${x + r} ${y}h${w - 2 * r}a${r} ${r} 0 0 1 ${r} ${r}v${h - 2 * r}a${r} ${r} 0 0 1 ${-r} ${r}h${2 * r - w}a${r} ${r} 0 0 1 ${-r} ${-r}v${2 * r - h}a${r} ${r} 0 0 1 ${r} ${-r}Z`
    : `M${corner(6).map((p) => p.join(" ")).join("L")}Z`;
  return flags.includes("k") ? `${shape}M${x + 8} ${y}v${h}M${x + w - 8} ${y}v${h}` : shape;
}

/** A small box that looks like the nodes of a sort, for a legend. */
export function swatch(sort) {
  const shape = svg("path", { class: `mlc-shape mlc-sort-${sort}`, d: outline([1, 1, 22, 11, sort, [], ""]) });
  return svg("svg", { width: 24, height: 13, "aria-hidden": "true" }, shape);
}
