// The page of a model: its graph, and what is known of the operator that is picked.

import { button, code, copyBox, el, panel, svg } from "./base.js";
import { graphView, swatch } from "./graph.js";

const COLOURS = [["kind", "kind of work"], ["provenance", "part of the model"], ["bytes", "bytes of the result"], ["time", "time"]];
const LEVELS = "0123456789abcdefghijklmnopqrstuvwxyz";

export default { render: panel(draw) };

function draw(root, view) {
  const data = view.data;
  let all = data.drawn, drawn = data.stages || all, at = -1, colour = "kind", found = [], turn = -1, live = false, tellSelection = () => {};
  const pane = graphView(`graph of ${data.title}`, { onPick: pick, onOpen: open, say });
  const side = el("div", { class: "mlc-detail", role: "region", "aria-label": "the operator that is picked" });
  const search = el("input", { type: "search", placeholder: "search: conv, layer1, lv12 …", "aria-label": "search operators, kernels and origins",
    oninput: () => look(search.value), onkeydown: (event) => { if (event.key === "Enter") { event.preventDefault(); next(event.shiftKey ? -1 : 1); } } });
  const hits = el("output", { class: "mlc-faint", "aria-live": "polite" });
  const opener = button("open folds", () => ask("find", { text: search.value }, "what was found is open"), { hidden: true });
  const closer = button("fold again", () => ask("close", {}, "folded"), { hidden: true });
  const whole = button("", () => { show(inStages() ? all : data.stages); view.announce(whole.textContent); }, { hidden: !data.stages });
  const colours = el("select", { "aria-label": "what colours say", onchange: () => { colour = colours.value; paint(); } });
  const legend = el("p", { class: "mlc-row mlc-faint mlc-legend" });
  const problem = el("p", { class: "mlc-bad", role: "alert" });
  pane.node.classList.add("mlc-main");
  root.append(el("h3", {}, data.title), facts(),
    el("div", { class: "mlc-row" }, whole, search, hits, opener, closer, el("label", { class: "mlc-row" }, "colour by", colours)), legend, problem,
    el("div", { class: "mlc-model" }, pane.node, side));
  show(drawn);
  view.onLive((is) => {
    const changes = is !== live;
    live = is;
    folds();
    if (changes && at >= 0) pick(at); // what is picked offers more, or less
  });
  requestAnimationFrame(() => { // in the page now, with a width; one may have been picked already
    const picked = pane.at;
    show(drawn);
    if (picked >= 0) pane.pick(picked, true);
    tellSelection = view.shared("selection", (name) => {
      const i = drawn.members.findIndex((m) => m.some((n) => data.nodes[n].name === name));
      if (i >= 0 && i !== at) pane.pick(i, true);
    });
  });

  /** Whether the picture is of stages: each opens without a kernel, since all operators came too. */
  function inStages() { return drawn === data.stages; }
  function facts() {
    const rows = data.facts.map(([name, text]) => el("tr", {}, el("th", { scope: "row" }, name), el("td", {}, text)));
    return el("details", { class: "mlc-facts" }, el("summary", {}, "inputs, output, operators"), el("table", { class: "mlc-table" }, el("tbody", {}, ...rows)));
  }

  // the graph ------------------------------------------------------------------------------------

  function show(to) {
    drawn = to;
    at = -1;
    if (!inStages()) all = to;
    whole.textContent = inStages() ? "all operators" : "stages";
    problem.textContent = drawn.error || "";
    pane.show(drawn.graph || null, []);
    const known = COLOURS.filter(([name]) => name === "kind" || drawn.colours[name]);
    colours.replaceChildren(...known.map(([name, words]) => el("option", { value: name, selected: name === colour }, words)));
    paint();
    look(search.value);
    overview();
    closer.hidden = !(drawn.graph && drawn.graph.n.some((n) => n[6].includes("f")));
  }
  function paint() {
    const chosen = colour === "kind" ? null : drawn.colours[colour];
    pane.paint((i) => (chosen && chosen.at[i] !== null ? chosen.legend[chosen.at[i]][0] : ""), (i) => (chosen ? chosen.notes[i] : ""));
    const used = chosen ? new Set(chosen.at) : new Set();
    legend.replaceChildren(...(chosen ? chosen.legend.map(([fill, words], k) => (words && used.has(k)
      ? el("span", {}, el("span", { class: "mlc-swatch", style: `background:${fill}` }), ` ${words}`) : null)).filter(Boolean)
      : [...data.kinds.map(kind), el("span", {}, "dashed: several, folded; bars at the sides: a kernel")]));
  }
  function texts(i) {
    return drawn.members[i].flatMap((m) => {
      const node = data.nodes[m];
      return [...node.what, node.name, node.kernel || "", ...node.from.flatMap(([, name, kind]) => [name, kind])];
    }).join("\n").toLowerCase();
  }
  function look(text) {
    const wanted = text.trim().toLowerCase();
    if (wanted && inStages()) { show(all); return; }
    found = pane.find((n, i) => wanted !== "" && texts(i).includes(wanted));
    turn = -1;
    hits.textContent = wanted ? `${found.length} found${found.length ? ": Enter goes to the next" : ""}` : "";
    folds();
  }
  function folds() {
    opener.hidden = !(live && found.some((i) => drawn.members[i].length > 1));
  }
  function next(way) {
    if (!found.length) return;
    turn = (turn + way + found.length) % found.length;
    pane.pick(found[turn], false);
    pane.reveal(found[turn]);
    pick(found[turn]);
    hits.textContent = `${turn + 1} of ${found.length} found`;
  }
  function say(n, i) {
    const members = data.drawn === drawn || drawn.members ? drawn.members[i] : [i];
    const node = data.nodes[members[0]];
    if (members.length > 1) return `${members.length} operators, folded: ${n[5].join(", ")}`;
    return [n[5].join(" "), node.info, node.time].filter(Boolean).join(", ");
  }
  function open(i) {
    const members = drawn.members[i];
    if (members.length < 2) return;
    if (inStages()) {
      show(all);
      pane.pick(all.members.findIndex((m) => m.includes(members[0])), true);
      return;
    }
    const unfold = () => ask("open", { nodes: members }, `${members.length} operators are open`);
    if (live) { unfold(); return; }
    problem.textContent = "a fold opens with a kernel running: run the cell again";
    view.later(unfold);
  }
  async function ask(kind, fields, told) {
    problem.textContent = "";
    const kept = at >= 0 ? drawn.members[at][0] : -1;
    try {
      show(await view.ask(kind, fields));
      const first = fields.nodes ? fields.nodes[0] : kept;
      const i = drawn.members.findIndex((m) => m.includes(first));
      if (i >= 0) { pane.pick(i, true); }
      view.announce(told);
    } catch (error) {
      problem.textContent = error.message;
    }
  }

  // what is picked -------------------------------------------------------------------------------

  function overview() {
    side.replaceChildren(el("h4", { class: "mlc-none" }, "pick an operator"), el("p", { class: "mlc-faint" }, "Click one, or walk with the arrow keys: where it came from, what it made, its kernel."));
  }
  function pick(i) {
    at = i;
    const members = drawn.members[i];
    side.scrollTop = 0;
    if (members.length > 1) several(i, members);
    else single(i, data.nodes[members[0]]);
    view.announce(say(drawn.graph.n[i], i));
    tellSelection(data.nodes[members[0]].name);
  }
  function several(i, members) {
    const rows = members.slice(0, 60).map((m) => {
      const node = data.nodes[m];
      return el("tr", {}, el("td", {}, node.what.join(" ")), el("td", {}, node.from.map(([, name]) => name).join(", ")), el("td", { class: "mlc-right" }, node.time || node.bytes));
    });
    const more = members.length > 60 ? `and ${members.length - 60} more` : "";
    side.replaceChildren(el("h4", {}, `${members.length} operators, folded`),
      live || inStages() ? button(inStages() ? "go to its operators" : "open this fold", () => open(i)) : el("p", { class: "mlc-faint" }, "With a kernel running it opens on a double click or Enter."),
      el("table", { class: "mlc-table" }, el("tbody", {}, ...rows)), more);
  }
  function single(i, node) {
    const kernel = node.kernel && data.kernels[node.kernel];
    side.replaceChildren(el("h4", {}, node.what.join(" "), node.time ? el("span", { class: "mlc-badge" }, node.time) : ""),
      chain(node), node.value ? values(node.value) : noValues(node), edges(i), node.call ? el("p", { class: "mlc-callline" }, node.call) : "",
      ...(kernel ? loops(node, kernel) : []));
  }
  /** From the ONNX node over the call to the kernel: the way of this operator. */
  function chain(node) {
    const row = (head, ...parts) => el("tr", {}, el("th", { scope: "row" }, head), el("td", {}, ...parts));
    const origins = node.from.map(([source, name, kind]) => el("div", {}, el("b", {}, kind || source), ` ${name}`));
    const rows = [
      origins.length ? row("came from", ...origins) : null,
      node.name ? row("variable", node.name) : null,
      node.info ? row("result", `${node.info}, ${node.bytes}`) : null,
      node.work ? row("work", node.work) : null,
      node.kernel ? row("kernel", node.kernel) : null,
    ];
    return el("table", { class: "mlc-table mlc-chain" }, el("tbody", {}, ...rows.filter(Boolean)));
  }
  function noValues(node) {
    if (!node.call || data.nodes.some((n) => n.value)) return "";
    return el("p", { class: "mlc-faint" }, `Values: mlc.explore(${data.see}, inputs=x) shows every tensor on your input.`);
  }
  function edges(i) {
    const to = (k, sign) => button(`${sign} ${drawn.graph.n[k][5][0]}`, () => { pane.pick(k, true); }, { title: `go to ${drawn.graph.n[k][5].join(" ")}` });
    const ends = (mine, other) => [...new Set(drawn.graph.e.filter((e) => e[mine] === i).map((e) => e[other]))];
    return el("div", { class: "mlc-row" }, ...ends(1, 0).map((k) => to(k, "↑")), ...ends(0, 1).map((k) => to(k, "↓")));
  }
  function loops(node, kernel) {
    const listing = (title, lines, open) => el("details", { open }, el("summary", {}, title), code(lines, { label: title, numbers: false }).node);
    return [
      el("h4", {}, `kernel: ${kernel.made}`),
      el("p", { class: "mlc-faint" }, [kernel.work, `called ${kernel.times}×`, kernel.code].filter(Boolean).join("; ")),
      listing("TensorIR", kernel.loops.map((n) => data.lines[n]), true),
      assembly(node, kernel, listing),
      data.see === "ex" ? copyBox("the call that links source, loops, LLVM IR and assembly", `mlc.explore(ex.kernels[${kernel.key}])`).node : "",
    ];
  }
  /** The hot loop, if it travelled with the page; else a button that asks for it. */
  function assembly(node, kernel, listing) {
    if (kernel.hot) return listing("assembly of its hot loop", kernel.hot, false);
    if (data.see !== "ex") return "";
    const place = el("div", {});
    const press = button("assembly of its hot loop", async () => {
      try {
        Object.assign(kernel, await view.ask("assembly", { kernel: node.kernel }));
        place.replaceChildren(kernel.hot ? listing("assembly of its hot loop", kernel.hot, true) : "it is interpreted: there is no assembly");
      } catch (error) {
        place.replaceChildren(el("p", { class: "mlc-bad", role: "alert" }, error.message));
      }
    }, { disabled: !live, title: live ? null : "needs a kernel: run the cell again" });
    place.append(press);
    return place;
  }
}

/** A small box in the colour and shape of a sort of work, with its words. */
function kind([sort, words]) {
  return el("span", {}, swatch(sort), ` ${words}`);
}

/** The figures of a tensor and its heat map. */
function values(value) {
  const rows = [["values", value.shape]];
  if (value.range) rows.push(["range", `${value.range[0]} .. ${value.range[1]}`], ["mean", `${value.mean}, standard deviation ${value.std}`]);
  if (value.nan !== undefined) rows.push(["zeros", String(value.zeros)], ["NaN", `${value.nan}${value.inf ? `; infinite ${value.inf}` : ""}`]);
  const bad = value.nan || value.inf;
  return el("div", { class: bad ? "mlc-values mlc-alarm" : "mlc-values" },
    bad ? el("p", { class: "mlc-bad" }, "⚠ not all values are numbers") : "",
    el("table", { class: "mlc-table mlc-chain" }, el("tbody", {}, ...rows.map(([head, text]) => el("tr", {}, el("th", { scope: "row" }, head), el("td", {}, text))))),
    value.heat ? heat(value.heat) : "");
}

function heat({ rows, low, high, of }) {
  const side = Math.max(5, Math.min(14, Math.floor(260 / rows[0].length)));
  const wide = rows[0].length * side, tall = rows.length * side;
  const cells = rows.flatMap((row, y) => [...row].map((letter, x) => cell(letter, x, y, side)));
  const scale = Array.from({ length: 9 }, (_, k) => svg("rect", { x: 12 * k, y: tall + 6, width: 12, height: 8, fill: shade(k / 8) }));
  const told = `heat map of ${of}; from ${low} (pale) to ${high} (dark)`;
  return el("figure", { class: "mlc-heat" }, svg("svg", { width: Math.max(wide, 108), height: tall + 16, role: "img", "aria-label": told }, ...cells, ...scale),
    el("figcaption", { class: "mlc-faint" }, told));
}

function cell(letter, x, y, side) {
  const box = { x: x * side, y: y * side, width: side, height: side };
  if (letter !== ".") return svg("rect", { ...box, fill: shade(LEVELS.indexOf(letter) / (LEVELS.length - 1)) });
  return svg("g", {}, svg("rect", { ...box, class: "mlc-nan" }), svg("text", { x: (x + 0.5) * side, y: (y + 0.5) * side + 3, class: "mlc-nantext" }, "×"));
}

/** From pale yellow over green to dark blue: told apart by lightness alone too. */
function shade(share) {
  const stops = [[253, 246, 200], [127, 205, 187], [44, 127, 184], [8, 29, 88]];
  const at = share * (stops.length - 1), i = Math.min(Math.floor(at), stops.length - 2);
  return `rgb(${stops[i].map((a, k) => Math.round(a + (stops[i + 1][k] - a) * (at - i))).join(",")})`;
}
