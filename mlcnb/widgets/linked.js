// Linked source: four panes, one choice. All links go through lines of the lowered program: a row of
// a pane belongs to some of them, and lights every row elsewhere that belongs to one of the same.
import { panel, el, svg, button, code, stepper, table, tabs } from "./base.js";

export default {
  render: panel((root, view) => {
    const page = el("div", { class: "mlc-linked" });
    root.append(page);
    start(page, view);
    view.onData(() => start(page, view));
  }),
};

/** The list of kernels, where there are several, and the one that is open. */
function start(page, view) {
  const data = view.data, body = el("div");
  const made = new Map(Object.entries(data.detail));
  const several = data.kernels.length > 1;
  let wanted = data.open; // an answer to an older choice comes too late
  const pick = async (name) => {
    wanted = name;
    if (!made.has(name)) {
      view.announce(`asking for ${name} …`);
      try {
        made.set(name, await view.ask("open", { name }));
      } catch (error) {
        view.announce(`${name}: ${error.message}`);
        if (!view.live) view.later(() => { if (wanted === name && body.isConnected) pick(name); });
        return;
      }
      if (wanted !== name) return;
    }
    body.replaceChildren();
    draw(body, view, made.get(name));
    for (const b of page.querySelectorAll("[data-kernel]")) {
      b.setAttribute("aria-pressed", String(b.dataset.kernel === name));
    }
    view.announce(`${name} is open`);
    tellSelection(name);
  };
  let tellSelection = () => {};
  const rows = data.kernels.map((k) => [
    button(k.name, () => pick(k.name), { disabled: !k.asm, "data-kernel": k.name, "aria-pressed": String(k.name === data.open) }),
    k.made, k.work, String(k.calls || ""), k.from]);
  const list = several ? el("details", { class: "mlc-kernels" },
    el("summary", {}, `${data.kernels.length} kernels; open another`),
    el("div", { class: "mlc-scroll" },
      table(["kernel", "made of", "work", "calls", "from"], rows, { numeric: [2, 3] }))) : null;
  page.replaceChildren(...(list ? [list] : []), body);
  if (made.has(data.open)) draw(body, view, made.get(data.open));
  let shown = data.open;
  const tell = view.shared("selection", (name) => { if (name !== shown && data.kernels.some((k) => k.name === name && k.asm)) { shown = name; pick(name); } });
  tellSelection = (name) => { shown = name; tell(name); };
}

/** One kernel. */
function draw(body, view, kernel) {
  const lines = (numbers, own) => numbers.map((n) => (own || kernel.table)[n]);
  const panes = [];
  const say = el("p", { class: "mlc-say" }, "Point at a line, or choose one with the arrow keys; Enter or a click keeps it, Escape lets it go.");
  let pinned = null, underline = null, current = null;

  // -- panes ----------------------------------------------------------------------------------
  function pane(name, options = {}) {
    const made = { name, rows: new Map(), links: [], first: 1, ...options };
    made.listing = code([], {
      label: name,
      onHover: (row) => { if (!pinned) choose(made, row); },
      onPick: (row) => {
        const again = pinned && pinned[0] === made && pinned[1] === row;
        pinned = again ? null : [made, row];
        choose(made, row, true);
        view.announce(again ? "let go" : say.textContent);
      },
    });
    /** Other text: each row with the lowered lines that it belongs to. */
    made.fill = (text, links, first = 1, marks = [], left = 0) => {
      made.links = links;
      made.first = first;
      made.listing.show(text, marks);
      made.rows = new Map();
      links.forEach((of, row) => of.forEach((n) => {
        if (!made.rows.has(n)) made.rows.set(n, []);
        made.rows.get(n).push(row);
      }));
      made.listing.rows.forEach((row, i) => {
        row.firstChild.textContent = String(first + i);
        row.classList.toggle("mlc-linkable", links[i].length > 0);
      });
      if (left) made.listing.node.append(el("div", { class: "mlc-left" }, `… ${left} more lines are not in this page`));
    };
    panes.push(made);
    return made;
  }
  const forms = { source: "Python", trace: "schedule", scheduled: "scheduled", lowered: "lowered" };
  const made = {};
  for (const [key, name] of Object.entries(forms)) {
    if (!kernel[key]) continue;
    made[key] = pane(name);
    made[key].fill(lines(kernel[key].lines), kernel[key].links, kernel[key].first, [], kernel[key].left);
  }
  const ofPlaces = (places) => places.map((p) => (p ? [p[0]] : []));
  const emitted = pane("LLVM IR as emitted", { places: kernel.emitted.places, code: kernel.emitted.code });
  emitted.fill(lines(kernel.emitted.lines), ofPlaces(kernel.emitted.places), 1, [], kernel.emitted.left);
  const ir = pane("LLVM IR after optimisation"), asm = pane("assembly", { kinds: "" });

  // -- choosing -------------------------------------------------------------------------------
  function choose(from, row, reveal = false) {
    const none = row === null || row === undefined;
    current = none ? null : [from, row];
    const exact = new Set(none ? [] : from.links[row]);
    const inside = none ? new Set() : within(from, row, exact);
    for (const p of panes) {
      const rowsOf = (set) => [...set].flatMap((n) => p.rows.get(n) || []);
      const lit = new Set(rowsOf(exact));
      if (!none && p === from) lit.add(row);
      const soft = new Set(rowsOf(inside).filter((r) => !lit.has(r)));
      p.listing.light(lit, "mlc-lit");
      p.listing.light(soft, "mlc-within");
      p.target = Math.min(...(lit.size ? lit : soft));
      if (reveal && p !== from) see(p);
    }
    mark(none || !from.places ? null : from.places[row]);
    strip.light(none ? new Set() : exact);
    if (!none) say.textContent = words(from, row, exact, inside);
  }
  /** Bring what is lit in a pane into its window. */
  function see(p) {
    if (current && Number.isFinite(p.target)) p.listing.reveal(p.target);
  }
  /** The lines inside of what begins on a row: those below that stand deeper. */
  function within(from, row, exact) {
    const found = new Set();
    if (from.places) return found;
    const depth = (i) => {
      const text = from.listing.rows[i].querySelector(".mlc-text").textContent;
      return text.trim() ? text.length - text.trimStart().length : Infinity;
    };
    const own = depth(row);
    if (from === made.trace) return found;
    for (let i = row + 1; i < from.links.length && depth(i) > own; i++) {
      for (const n of from.links[i]) if (!exact.has(n)) found.add(n);
    }
    return found;
  }
  /** A line under the expression of the lowered program that an instruction computes. */
  function mark(place) {
    if (underline) underline.remove();
    underline = null;
    const row = place && made.lowered.listing.rows[place[0] - 1];
    const end = row && kernel.ends.find((e) => e[0] === place[0] && e[1] === place[1]);
    if (!end) return;
    underline = el("span", { class: "mlc-under", "aria-hidden": "true",
      style: `left: ${end[1] - 1}ch; width: ${Math.max(1, end[2] - end[1])}ch` });
    row.querySelector(".mlc-text").append(underline);
  }
  /** What is chosen, in words. */
  function words(from, row, exact, inside) {
    const at = `${from.name}, line ${from.first + row}`;
    if (!exact.size && !inside.size) {
      const isCode = from.code && from.code[row] === "1";
      return `${at}: ${isCode ? "no line: LLVM made, merged or moved this instruction" : "no code of its own"}`;
    }
    const set = exact.size ? exact : inside;
    const told = [];
    for (const p of panes) {
      if (p === from) continue;
      const rows = [...new Set([...set].flatMap((n) => p.rows.get(n) || []))].sort((a, b) => a - b);
      if (!rows.length) continue;
      told.push(p.places ? `${rows.length} of ${p.name}${p.kinds ? kindsOf(p, rows) : ""}`
        : `${p.name} ${ranges(rows.map((r) => r + p.first))}`);
    }
    return `${at}${exact.size ? "" : " and what is inside"} ↔ ${told.join("; ") || "nothing else"}`;
  }
  function kindsOf(p, rows) {
    const counts = {};
    for (const r of rows) if (p.kinds[r] && p.kinds[r] !== " ") counts[p.kinds[r]] = (counts[p.kinds[r]] || 0) + 1;
    const found = Object.entries(view.data.kinds).filter(([k]) => counts[k]).map(([k, name]) => `${counts[k]} ${name}`);
    return found.length ? ` (${found.join(", ")})` : "";
  }

  // -- the code of one machine at one level ---------------------------------------------------
  const strip = stripOf(view.data.kinds, (row) => { if (!pinned) choose(asm, row); },
    (row) => { pinned = [asm, row]; choose(asm, row, true); asm.listing.reveal(row); });
  const told = el("span", { class: "mlc-faint" });
  const codes = new Map(kernel.codes.map((c) => [`${c.machine} ${c.level}`, c]));
  let machine = kernel.host, level = kernel.level, first = true;
  let wanted = [machine, level]; // an answer to an older choice comes too late
  async function show(toMachine, toLevel) {
    const key = `${toMachine} ${toLevel}`, own = wanted = [toMachine, toLevel];
    if (!codes.has(key)) {
      view.announce(`compiling for ${toMachine} at O${toLevel} …`);
      try {
        const answer = await view.ask("code", { name: kernel.name, machine: toMachine, level: toLevel });
        codes.set(key, { ...answer.code, table: answer.table });
      } catch (error) {
        view.announce(`${toMachine} at O${toLevel}: ${error.message}`);
        if (own !== wanted) return;
        if (!view.live) view.later(() => { if (own === wanted && body.isConnected) show(...own); });
        controls();
        return;
      }
      if (own !== wanted) return;
    }
    machine = toMachine;
    level = toLevel;
    const c = codes.get(key);
    Object.assign(ir, { places: c.ir.places, code: c.ir.code });
    ir.fill(lines(c.ir.lines, c.table), ofPlaces(c.ir.places), c.ir.first, [], c.ir.left);
    Object.assign(asm, { places: c.asm.places, code: c.asm.code, kinds: c.asm.kinds });
    const letters = [...c.asm.kinds].map((k) => (k === " " ? "" : k));
    asm.fill(lines(c.asm.lines, c.table), ofPlaces(c.asm.places), c.asm.first, letters, c.asm.left);
    asm.listing.rows.forEach((row, i) => {
      row.classList.toggle("mlc-hot", Boolean(c.asm.hot && i >= c.asm.hot[0] && i <= c.asm.hot[1]));
      const sign = row.querySelector(".mlc-sign");
      if (sign && letters[i]) sign.title = view.data.kinds[letters[i]];
    });
    strip.show(c.asm);
    told.textContent = c.told;
    pinned = null;
    controls();
    choose(asm, busiest(c.asm), true);
    see(asm);
    if (body.isConnected && !first) view.announce(`${machine} at O${level}: ${c.told}`);
    first = false;
  }
  const select = el("select", { "aria-label": "machine", onchange: () => show(select.value, wanted[1]) },
    ...[kernel.host, ...view.data.machines].map((m) => el("option", { value: m }, m === kernel.host ? `${m} (the kernel's)` : m)));
  const levels = [0, 1, 2, 3].map((n) => button(`O${n}`, () => show(wanted[0], n), { title: `optimisation level ${n}` }));
  function controls() {
    select.value = machine;
    levels.forEach((b, n) => b.setAttribute("aria-pressed", String(n === level)));
  }

  // -- the page -------------------------------------------------------------------------------
  const of = (...names) => names.filter((k) => made[k])
    .map((k) => [forms[k][0].toUpperCase() + forms[k].slice(1), made[k].listing.node]);
  const top = of("source", "trace");
  const quarter = (title, pages, at = 0) => el("section", { class: "mlc-quarter", "aria-label": title },
    el("h4", {}, title),
    tabs(pages, { label: title, at, onTab: (n) => panes.filter((p) => p.listing.node === pages[n][1]).forEach(see) }).node);
  const remarks = el("div", { class: "mlc-scroll" }, remarksOf(kernel, (n) => {
    pinned = [made.lowered, n - 1];
    choose(made.lowered, n - 1, true);
    made.lowered.listing.reveal(n - 1);
  }));
  const quarters = [
    ...(top.length ? [quarter("Python", top)] : []),
    quarter("TensorIR", of("scheduled", "lowered"), 1),
    quarter("LLVM IR", [["Optimised", ir.listing.node], ["As emitted", emitted.listing.node],
      [`Passes (${kernel.passes.length})`, passesOf(kernel, lines)]]),
    quarter("Machine code", [["Assembly", asm.listing.node], [`Remarks (${kernel.remarks.length})`, remarks]]),
  ];
  const facts = kernel.facts.map(([k, v]) => el("div", {}, el("span", { class: "mlc-faint" }, `${k} `), v));
  body.append(
    el("h3", {}, kernel.name), el("p", {}, kernel.title), el("div", { class: "mlc-facts" }, ...facts),
    el("div", { class: "mlc-row mlc-controls" }, el("label", { class: "mlc-faint" }, "machine ", select),
      el("div", { class: "mlc-row", role: "group", "aria-label": "optimisation level" }, ...levels), told),
    strip.node, say, el("div", { class: "mlc-panes" }, ...quarters));
  body.onkeydown = (event) => {
    if (event.key !== "Escape" || !pinned) return;
    event.stopPropagation();
    pinned = null;
    choose(asm, null);
    view.announce("let go");
  };
  show(machine, level);
}

/** The first row of the line that has most of the hot loop, or null. */
function busiest(asm) {
  const [from, to] = asm.hot || [0, asm.places.length - 1], counts = new Map();
  for (let i = from; i <= to; i++) {
    const line = asm.places[i] ? asm.places[i][0] : 0;
    if (line) counts.set(line, [...(counts.get(line) || []), i]);
  }
  const best = [...counts.values()].sort((a, b) => b.length - a.length)[0];
  return best ? best[0] : null;
}

/** The hot loop as a row of letters: what each instruction is. */
function stripOf(names, onHover, onPick) {
  const cells = el("div", { class: "mlc-strip", onpointerleave: () => onHover(null) });
  const legend = el("div", { class: "mlc-legend" });
  const node = el("div", { class: "mlc-strips" }, cells, legend);
  let lined = [];
  function show(asm) {
    const [from, to] = asm.hot || [0, Math.min(asm.kinds.length, 300) - 1];
    const rows = [...Array(Math.max(0, to - from + 1)).keys()].map((i) => i + from)
      .filter((i) => asm.kinds[i] && asm.kinds[i] !== " ");
    const counts = {};
    for (const i of rows) counts[asm.kinds[i]] = (counts[asm.kinds[i]] || 0) + 1;
    lined = rows.map((i) => [asm.places[i] ? asm.places[i][0] : 0, el("span", {
      class: "mlc-cell", "data-mark": asm.kinds[i], title: names[asm.kinds[i]],
      onpointerenter: () => onHover(i), onclick: () => onPick(i) }, asm.kinds[i])]);
    cells.replaceChildren(...lined.map(([, cell]) => cell));
    const told = Object.entries(names).filter(([k]) => counts[k]).map(([k, name]) => [k, `${counts[k]} ${name}`]);
    cells.setAttribute("role", "img");
    cells.setAttribute("aria-label", `${asm.hot ? "hot loop" : "code"}: ${told.map(([, t]) => t).join(", ")}`);
    legend.replaceChildren(el("span", {}, asm.hot ? "hot loop:" : rows.length ? "code:" : ""),
      ...told.map(([k, text]) => el("span", {}, el("span", { class: "mlc-cell", "data-mark": k }, k), ` ${text}`)));
    node.hidden = !rows.length;
  }
  return { node, show, light(set) { for (const [n, cell] of lined) cell.classList.toggle("mlc-on", set.has(n)); } };
}

/** What LLVM says about lines; a line number leads to the line. */
function remarksOf(kernel, go) {
  if (!kernel.remarks.length) return el("p", { class: "mlc-faint" }, kernel.silent || "no remarks");
  const rows = kernel.remarks.map(([line, text, times]) => [
    line ? button(String(line), () => go(line), { title: `lowered line ${line}` }) : "", text, `×${times}`]);
  return table(["line", "remark of LLVM", "times"], rows);
}

/** LLVM's passes one by one: how long the function is after each, and what the pass changed. */
function passesOf(kernel, lines) {
  if (!kernel.passes.length) return el("p", { class: "mlc-faint" }, kernel.silent || "no pass changed the function");
  const most = Math.max(...kernel.passes.map((p) => p.counts[2])), wide = 100 / kernel.passes.length;
  const machine = kernel.passes.findIndex((p) => /Instruction Selection|IRTranslator/.test(p.name));
  const bars = kernel.passes.map((p, i) => svg("rect", {
    x: i * wide, width: wide * 0.8, y: 40 - (38 * p.counts[2]) / most, height: (38 * p.counts[2]) / most,
    class: machine >= 0 && i >= machine ? "mlc-bar-machine" : "mlc-bar", onclick: () => steps.go(i) }));
  const chart = svg("svg", { viewBox: "0 0 100 40", preserveAspectRatio: "none", class: "mlc-bars", role: "img",
    "aria-label": `lines of the function after each of ${kernel.passes.length} passes` }, ...bars);
  const title = el("p", {}), listing = code([], { label: "what the pass changed", numbers: false });
  const left = el("p", { class: "mlc-faint" });
  const steps = stepper({ count: kernel.passes.length, label: "pass", say: (i) => `${i + 1} of ${kernel.passes.length}`, onStep: show });
  function show(i) {
    const p = kernel.passes[i];
    bars.forEach((b, n) => b.classList.toggle("mlc-now", n === i));
    title.replaceChildren(el("strong", {}, p.name), ` on ${p.unit}: +${p.counts[0]} −${p.counts[1]}, ${p.counts[2]} lines after`);
    listing.show(lines(p.lines), [...p.signs].map((s) => (s === " " || s === "@" ? " " : s)));
    [...p.signs].forEach((s, n) => { if (s === "@") listing.rows[n].classList.add("mlc-gap"); });
    left.textContent = p.left ? `… ${p.left} more lines: Linked(kernel).passes[${i}].diff` : "";
  }
  show(0);
  return el("div", {}, chart, steps.node, title, listing.node, left);
}

/** `1-3, 5` */
function ranges(numbers) {
  const told = [];
  for (const n of numbers) {
    const last = told[told.length - 1];
    if (last && last[1] === n - 1) last[1] = n;
    else told.push([n, n]);
  }
  return told.map(([a, b]) => (a === b ? `${a}` : `${a}–${b}`)).join(", ");
}
