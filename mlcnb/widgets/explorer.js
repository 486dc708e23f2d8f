// The schedule explorer: steps, program, loop tree, what is legal at a place, branches side by side.
// A card alone is the page of a refused step.

import {
  panel, el, svg, button, stepper, code, copyBox, table, arrows,
} from "./base.js";

const CONTEXT = 3; // unchanged lines shown around a change
const FOLD_FROM = 60; // lines from which a program is folded at first
const FIRST = "split reorder fuse parallel vectorize unroll compute_at reverse_compute_at compute_inline"
  + " reverse_compute_inline cache_read cache_write decompose_reduction rfactor bind";
const QUIET = "No kernel is running: all steps replay. Run the cell again to change the schedule.";

export default {
  render: panel((root, view) => {
    if (view.data.card) root.append(cardOf(view.data.card, {}));
    else explorer(root, view);
  }),
};

// -- programs and differences -------------------------------------------------------------------

/** A flat list of indentation and line number as lines: `{ key, indent, spans }`. */
function linesOf(flat, lines) {
  const out = [];
  for (let i = 0; i < flat.length; i += 2) {
    out.push({ key: flat[i + 1], indent: flat[i], spans: lines[flat[i + 1]] });
  }
  return out;
}

/** A loop tree: `{ depth, line, name, kind, extent, times, memory, note }` for each place. */
function treeOf(flat, rows) {
  const out = [];
  for (let i = 0; i < flat.length; i += 3) {
    const [name, kind, extent, times, memory, note] = rows[flat[i + 1]];
    out.push({ depth: flat[i], line: flat[i + 2], name, kind, extent, times, memory, note });
  }
  return out;
}

/** Both programs as one list: `{ mark, line, spans, at }`; `at` is the line of the new one, or -1. */
function differences(old, now) {
  const out = [];
  let head = 0, tail = 0;
  const most = Math.min(old.length, now.length);
  while (head < most && old[head].key === now[head].key) head += 1;
  while (tail < most - head && old[old.length - 1 - tail].key === now[now.length - 1 - tail].key) tail += 1;
  const same = (i, j) => out.push(kept(old[i], now[j], j));
  for (let n = 0; n < head; n += 1) same(n, n);
  middle(old.slice(head, old.length - tail), now.slice(head, now.length - tail), head, out);
  for (let n = tail; n > 0; n -= 1) same(old.length - n, now.length - n);
  return out;
}

/** A line that both have: `before` is the old one, which may be indented otherwise. */
function kept(before, line, at) {
  return { mark: before.indent === line.indent ? "" : "~", line, before, at };
}

/** The lines between: longest common subsequence, or all replaced where that is too much work. */
function middle(old, now, shift, out) {
  const n = old.length, m = now.length;
  const gone = (i) => out.push({ mark: "-", line: old[i], at: -1 });
  const come = (j) => out.push({ mark: "+", line: now[j], at: shift + j });
  if (n * m > 400000) {
    for (let i = 0; i < n; i += 1) gone(i);
    for (let j = 0; j < m; j += 1) come(j);
    return;
  }
  const best = Array.from({ length: n + 1 }, () => new Uint16Array(m + 1));
  for (let i = n - 1; i >= 0; i -= 1) {
    for (let j = m - 1; j >= 0; j -= 1) {
      best[i][j] = old[i].key === now[j].key ? best[i + 1][j + 1] + 1 : Math.max(best[i + 1][j], best[i][j + 1]);
    }
  }
  let i = 0, j = 0;
  while (i < n || j < m) {
    if (i < n && j < m && old[i].key === now[j].key) {
      out.push(kept(old[i], now[j], shift + j));
      i += 1; j += 1;
    } else if (i < n && (j >= m || best[i + 1][j] >= best[i][j + 1])) { gone(i); i += 1; } else { come(j); j += 1; }
  }
}

/** Long unchanged stretches as one row: `{ hidden }`. */
function folded(rows) {
  const near = new Set();
  rows.forEach((row, i) => {
    if (row.mark === "+" || row.mark === "-") for (let k = i - CONTEXT; k <= i + CONTEXT; k += 1) near.add(k);
  });
  const out = [];
  rows.forEach((row, i) => {
    if (near.has(i)) return out.push(row);
    const last = out[out.length - 1];
    if (last && last.hidden) last.hidden.push(row);
    else out.push({ hidden: [row] });
  });
  return out.flatMap((row) => (row.hidden && row.hidden.length < 3 ? row.hidden : [row]));
}

/** The spans of a row, indented. */
function spansOf(row) {
  if (row.hidden) {
    const moved = row.hidden.some((x) => x.mark === "~");
    return [["c", `… ${row.hidden.length} ${moved ? "lines indented anew" : "unchanged lines"}`]];
  }
  return row.line.indent ? [["", " ".repeat(row.line.indent)], ...row.line.spans] : row.line.spans;
}

function changed(rows) {
  const count = (mark) => rows.filter((row) => row.mark === mark).length;
  return `+${count("+")} −${count("-")} lines`;
}

// -- words --------------------------------------------------------------------------------------

function amount(n) {
  for (const [factor, letter] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (n >= factor && n >= 10000) return `${(n / factor).toPrecision(3)} ${letter}`;
  }
  return n.toLocaleString("en");
}

/** How a number changes: the new one, and by what factor; fewer or more is better. */
function delta(before, after, fewer) {
  if (before === after) return el("span", { class: "mlc-faint" }, `${amount(after)} =`);
  if (Math.abs(after - before) < 0.01 * before) return el("span", { class: "mlc-faint" }, `${amount(after)} ≈`);
  const up = after > before;
  const ratio = up ? after / Math.max(before, 1) : before / Math.max(after, 1);
  const shown = ratio >= 100 ? amount(Math.round(ratio)) : Number(ratio.toFixed(ratio >= 10 ? 0 : ratio >= 1.95 ? 1 : 2));
  return el("span", { class: up === fewer ? "mlc-warn" : "mlc-good" },
    `${amount(after)} `, el("b", {}, `${up ? "▲ ×" : "▼ ÷"}${shown}`));
}

function tasksOf(cost) {
  return cost.gpu ? cost.gpu[0] * cost.gpu[1] : cost.tasks;
}

/** The badges of a step: how it is known, and how far its numbers are off. */
function badges([kind, proof, error, way]) {
  const words = { proved: "✓ proved", rule: "✓ rule", numeric: "✓ numeric", trusted: "! trusted" };
  const made = [];
  if (words[kind]) {
    const look = kind === "trusted" ? "mlc-warn" : "mlc-good";
    const [sign, word] = words[kind].split(" ");
    made.push(el("span", { class: `mlc-badge ${look}`, title: proof, "aria-label": words[kind] }, sign, el("span", { class: "x-word" }, ` ${word}`)));
  }
  if (error !== null) {
    const near = error < 1e-4;
    const text = error === 0 ? "= 0" : `${near ? "≈" : "≠"} ${error.toPrecision(1)}`;
    made.push(el("span", { class: `mlc-badge ${near ? "mlc-good" : "mlc-bad"}`,
      title: `largest difference from the program as given, relative (${way})` }, text));
  } else if (way) {
    made.push(el("span", { class: "mlc-badge mlc-faint", title: way }, "not run"));
  }
  return made;
}

// -- the page -----------------------------------------------------------------------------------

function explorer(root, view) {
  const s = { branch: "main", at: 0, fn: 0, place: null, answer: null, compare: "", open: new Set(),
    preview: null, unfolded: false, card: null };
  const ui = { title: el("h3"), target: el("p", { class: "mlc-faint" }), branches: el("div", { class: "mlc-row x-branches" }),
    tools: el("div", { class: "mlc-row" }), steps: el("div", { class: "x-steps", role: "listbox", "aria-label": "steps" }),
    tree: el("div", { class: "x-tree", role: "listbox", "aria-label": "loops and blocks" }),
    head: el("div", { class: "mlc-row x-head" }), main: el("div", { class: "x-main" }),
    place: el("div", { class: "x-place" }), card: el("div"), quiet: el("p", { class: "mlc-faint" }) };
  let shown = []; // the rows of the listing
  const branch = (name = s.branch) => view.data.branches.find((b) => b.name === name) || view.data.branches[0];
  const steps = () => (view.data ? branch().steps : []);
  const number = (at = s.at, b = branch()) => (b.steps[at] ? b.steps[at][2][s.fn] : -1);
  const program = (at, b) => view.data.programs[number(at, b)];
  const places = () => (program() ? treeOf(program().tree, view.data.rows) : []);
  const textOf = (p) => (p ? linesOf(p.text, view.data.lines) : []);
  const atHead = () => s.at === branch().at;
  const copy = copyBox("the steps as Python");
  const codeNode = el("div", {}, el("h4", {}, "the cell so far"), copy.node);
  const walk = stepper({ count: 1, label: "step", say: (i) => `step ${i} of ${steps().length - 1}`, onStep: (i) => look(i) });
  const listing = code([], { label: "program", marks: [" "], numbers: false, onPick: pickRow, onHover: hoverRow });
  root.append(ui.title, ui.target, ui.branches, el("div", { class: "mlc-row" }, walk.node, ui.tools), ui.quiet,
    el("div", { class: "x-columns" },
      el("div", { class: "x-side" }, el("h4", {}, "steps ", el("span", { class: "mlc-faint x-right" }, "predicted cost")), ui.steps, el("h4", {}, "loops and blocks ", el("span", { class: "mlc-faint x-right" }, "runs · touches")), ui.tree),
      el("div", { class: "x-wide" }, ui.head, ui.main)),
    ui.card, ui.place, codeNode);

  roving(ui.steps, (i) => look(i));
  roving(ui.tree, (i) => choose(i));
  view.onData(() => fresh());
  view.onLive((is) => {
    draw();
    wonder();
    if (is && s.place !== null && !s.answer) choose(s.place); // chosen before a kernel was heard of
  });
  s.at = branch().at;
  fresh();
  const set = {};
  set.branch = view.shared("branch", (name) => { if (name !== s.branch && view.data.branches.some((b) => b.name === name)) look(branch(name).at, name); });
  set.step = view.shared("step", (at) => { if (at !== s.at && steps()[at]) look(at); });
  set.loop = view.shared("loop", (name) => {
    const row = places().findIndex((x) => x.name === name);
    if (row >= 0 && row !== s.place) choose(row);
  });

  /** A new snapshot: stay on the branch, and with its schedule if there; what was asked is asked again only where it still holds. */
  function fresh() {
    const b = branch();
    if (s.stood === s.at && s.branch === b.name) s.at = b.at;
    s.branch = b.name;
    s.stood = b.at;
    s.at = Math.min(s.at, b.steps.length - 1);
    s.fn = Math.min(s.fn, Math.max(0, view.data.functions.length - 1));
    if (s.compare && !view.data.branches.some((x) => x.name === s.compare)) s.compare = "";
    s.preview = null;
    const known = s.place === null ? null : asked(s.place);
    if (known) s.answer = known.answer;
    else if (s.key !== keyNow()) forget();
    draw();
  }

  /** What was asked of a place of this step (of any place, where none is given). */
  function asked(row = null) {
    return view.data.legal.find((x) => x.branch === s.branch && x.at === s.at
      && x.name === view.data.functions[s.fn] && (row === null || x.row === row));
  }

  function keyNow() {
    return JSON.stringify([s.branch, s.at, s.fn, steps().slice(0, s.at + 1).map((x) => x[0])]);
  }

  /** Another program: no place is chosen, or the one that was asked of it. */
  function forget() {
    const known = asked();
    s.place = known ? known.row : null;
    s.answer = known ? known.answer : null;
    s.key = keyNow();
  }

  /** Look at a step; the schedule stays where it stands. */
  function look(at, name = s.branch) {
    s.branch = name;
    s.at = Math.max(0, Math.min(at, branch(name).steps.length - 1));
    s.card = null;
    s.preview = null;
    forget();
    draw();
    tell();
    say();
    wonder();
  }

  function say() { view.announce(`step ${s.at}: ${steps()[s.at][0]}; ${changed(rowsNow())}`); }

  /** Have told what is not known yet of the program that is looked at: its costs, its misses line by line. */
  function wonder() {
    const p = program();
    if (view.live && p && (!p.cost || p.missed === null)) view.ask("costs", { branch: s.branch, at: s.at }).catch(refused);
  }

  /** Choose a loop or block: what is legal there. */
  async function choose(row) {
    const name = view.data.functions[s.fn];
    const known = asked(row);
    s.place = row;
    s.answer = known ? known.answer : null;
    s.key = keyNow(); // a snapshot of the same program that comes meanwhile keeps the choice
    s.preview = null;
    draw();
    tell();
    if (!view.live) return;
    const asks = { branch: s.branch, at: s.at, name, row };
    const stays = () => asks.branch === s.branch && asks.at === s.at && asks.row === s.place;
    try {
      if (!known) {
        const answer = await view.ask("legal", asks);
        if (!stays()) return;
        s.answer = answer;
        view.announce(`${answer.steps.length} legal calls at ${answer.where}`);
        draw();
      }
      await weigh(asks, stays);
    } catch (error) {
      if (!stays()) return;
      if (!s.answer) s.place = null; // it can be chosen again
      refused(error);
      draw();
    }
  }

  /** What each call is predicted to do: asked for when the calls are shown, some at a time. */
  async function weigh(asks, stays) {
    for (let costs = [0]; stays() && s.answer && costs.length;) {
      const first = s.answer.steps.findIndex((x) => x.cost === undefined);
      if (first < 0) return;
      ({ costs } = await view.ask("weigh", { ...asks, first }));
      if (!stays() || !s.answer) return;
      costs.forEach((cost, n) => { s.answer.steps[first + n].cost = cost; });
      if (!s.answer.steps.some((x) => x.cost === undefined)) drawPlace();
    }
  }

  /** Say to cells and linked widgets where the reader is. */
  function tell() {
    if (!set.loop) return;
    const place = places()[s.place];
    set.branch(s.branch);
    set.step(s.at);
    if (place) set.loop(place.name);
  }

  /** Ask for something that changes the schedule, and go where it then stands. */
  async function act(kind, fields, told) {
    s.preview = null;
    s.card = null;
    for (const b of ui.place.querySelectorAll("button")) b.disabled = true; // they are of the program before
    try {
      const to = await view.ask(kind, { branch: s.branch, ...fields });
      if (to.at === s.at && to.branch === s.branch && s.place !== null) { draw(); say(); } // there, and gone on
      else look(to.at, to.branch);
      if (told) view.announce(told);
    } catch (error) {
      refused(error);
      draw();
    }
  }

  function refused(error) {
    const answer = error.answer || {};
    s.card = answer.card || { message: error.message, hint: answer.hint || "", instead: [] };
    view.announce(`refused: ${error.message}`);
  }

  function rowsNow() {
    const now = textOf(program());
    if (!s.at) return now.map((line, at) => ({ mark: "", line, at }));
    const rows = differences(textOf(program(s.at - 1)), now);
    if (program() && program().more) while (rows.length && "+-".includes(rows[rows.length - 1].mark || " ")) rows.pop();
    return rows;
  }

  // -- drawing

  function draw() {
    const d = view.data;
    ui.title.textContent = d.title;
    ui.target.textContent = `predicted for ${d.target}`;
    ui.quiet.textContent = view.live ? "" : QUIET;
    ui.quiet.hidden = view.live;
    walk.resize(steps().length, s.at);
    drawBranches();
    drawTools();
    drawSteps();
    drawTree();
    drawMain();
    drawPlace();
    ui.card.replaceChildren(...(s.card ? [cardOf(s.card, { close: () => { s.card = null; draw(); },
      repair: view.live && atHead() ? (n) => act("repair", { name: d.functions[s.fn], n }) : null })] : []));
    copy.set(branch().code.slice(0, branch().heads[s.at]).join("\n") || "# no steps yet");
  }

  function drawBranches() {
    const d = view.data;
    const parts = d.branches.map((b) => button(b.name, () => look(b.at, b.name), {
      "aria-pressed": String(b.name === s.branch),
      title: b.from ? `branch ${b.name}, from step ${b.from[1]} of ${b.from[0]}` : `branch ${b.name}: the schedule itself` }));
    const name = el("input", { type: "text", size: 12, maxlength: 40, "aria-label": "name of a new branch", placeholder: "new branch" });
    const make = button("branch from here", () => act("branch", { at: s.at, name: name.value || `from step ${s.at}` }));
    make.disabled = name.disabled = !view.live;
    const against = el("select", { "aria-label": "compare with", onchange: (e) => { s.compare = e.target.value; draw(); } },
      el("option", { value: "" }, s.compare ? "no comparison" : "compare with …"),
      ...d.branches.filter((b) => b.name !== s.branch).map((b) => el("option", { value: b.name, selected: b.name === s.compare }, `${s.compare === b.name ? "beside " : ""}${b.name}`)));
    const drop = s.branch !== "main" ? button("drop", () => act("drop", {}), { title: `drop branch ${s.branch}`, disabled: !view.live }) : null;
    if (s.compare === s.branch) s.compare = "";
    ui.branches.replaceChildren(el("span", { class: "mlc-faint" }, "branch"), ...parts, ...(drop ? [drop] : []), name, make,
      ...(d.branches.length > 1 ? [against] : []), ...functionSelect());
  }

  function functionSelect() {
    const d = view.data;
    if (d.functions.length + d.others.length < 2) return [];
    const option = (x, i) => el("option", { value: i < 0 ? x : String(i), selected: i === s.fn }, x);
    return [el("select", { "aria-label": "function", onchange: (e) => {
      const at = Number(e.target.value);
      if (d.functions[at] !== undefined) { s.fn = at; forget(); return draw(); }
      return act("function", { name: e.target.value });
    } }, ...d.functions.map(option), ...(view.live ? d.others.map((x) => option(x, -1)) : []))];
  }

  function drawTools() {
    const b = branch(), last = b.steps.length - 1, off = !view.live;
    ui.tools.replaceChildren(
      button("undo", () => act("goto", { at: b.at - 1 }, "undone"), { disabled: off || b.at === 0, title: "undo the last step" }),
      button("redo", () => act("goto", { at: b.at + 1 }, "done again"), { disabled: off || b.at === last, title: "redo" }),
      button("go to this step", () => act("goto", { at: s.at }), { disabled: off || atHead() }),
      button("check numbers", () => act("check", {}, "checked"), { disabled: off || last === 0,
        title: "check numbers: run every step on the same arrays as the program as given" }));
  }

  function drawSteps() {
    const b = branch();
    const costs = b.steps.map((_, i) => (program(i) && program(i).cost ? program(i).cost.cycles : 0));
    const told = (cost) => (cost ? `predicted cost ${amount(cost)} cycles` : "not predicted yet: go there");
    const most = Math.max(1, ...costs);
    fill(ui.steps, b.steps.map(([call, badge], i) => el("div", {
      class: `x-step${i > b.at ? " x-undone" : ""}`, role: "option", "aria-selected": String(i === s.at), tabindex: i === s.at ? 0 : -1,
      onclick: () => look(i) },
      el("span", { class: "x-number" }, i === b.at ? `▶ ${i}` : String(i)),
      el("span", { class: "x-call", title: call }, call),
      ...badges(badge), i > b.at ? el("span", { class: "mlc-faint" }, "undone") : null,
      el("span", { class: "x-bar", title: told(costs[i]), role: "img", "aria-label": told(costs[i]) },
        el("span", { style: `width:${costs[i] ? Math.max(1, Math.round(100 * costs[i] / most)) : 0}%` })))));
  }

  function drawTree() {
    fill(ui.tree, places().map((x, i) => el("div", {
      class: `x-loop x-${x.kind}`, role: "option", "aria-selected": String(i === s.place), tabindex: i === (s.place ?? 0) ? 0 : -1,
      onclick: () => choose(i), onpointerenter: () => point(x.line), onpointerleave: () => point(here()) },
      el("span", { class: "x-indent", style: `width:${Math.min(12, x.depth) * 10}px` }),
      x.kind === "block" ? el("span", { class: "x-name" }, "▪ ", el("b", {}, x.name), ` ${x.note}`)
        : el("span", { class: "x-name" }, el("b", {}, x.name), ` in ${x.extent}`, x.kind === "serial" ? "" : ` · ${x.kind}`, x.note ? ` · ${x.note}` : ""),
      el("span", { class: "x-cost", title: x.kind === "block" ? "how often it runs" : "how often its body runs; bytes that one run of it touches" },
        `${x.times}×${x.memory ? ` · ${x.memory}` : ""}`))));
  }

  /** What the program's lines cost, beside them: runs, and bytes that one run touches. */
  function drawMargin() {
    const margin = s.preview || !program() ? [] : program().margin;
    for (let i = 0; i < margin.length; i += 2) {
      const row = shown.findIndex((x) => x.at === margin[i] && x.mark !== "-"), [cost, told] = view.data.margins[margin[i + 1]];
      const [runs, touches] = cost.split(" · ");
      if (row >= 0 && cost) listing.rows[row].append(el("span", { class: "x-margin", title: told }, runs, touches ? el("span", {}, ` · ${touches}`) : ""));
    }
  }

  /** Mark the rows of the listing that show a line of the program. */
  function point(line) {
    listing.light(shown.flatMap((row, i) => (row.at === line ? [i] : [])), "x-here");
  }

  /** The line of the chosen place, or none. */
  function here() {
    const place = s.preview ? null : places()[s.place];
    return place ? place.line : -2;
  }

  function drawMain() {
    if (s.compare) return drawComparison();
    let rows = s.preview || rowsNow();
    const folds = rows.length > FOLD_FROM && rows.some((row) => row.mark === "+" || row.mark === "-");
    if (folds && !s.unfolded) rows = folded(rows);
    shown = rows;
    listing.show(rows.map(spansOf), rows.map((row) => row.mark || " "));
    drawMargin();
    const more = program() ? program().more : 0;
    const told = s.preview ? `preview: ${s.label}` : s.at === 0 ? "program as given" : `step ${s.at}: ${steps()[s.at][0]}`;
    ui.head.replaceChildren(el("h4", { class: s.preview ? "x-preview" : "" }, told),
      el("span", { class: "mlc-faint" }, s.at || s.preview ? changed(rows) : ""),
      ...(folds ? [button(s.unfolded ? "only changes" : "all lines", () => { s.unfolded = !s.unfolded; drawMain(); })] : []),
      ...(more ? [el("span", { class: "mlc-warn" }, `${more} more lines are not shown`)] : []),
      ...(!s.preview && program() && program().missed ? [el("span", { class: "mlc-faint x-right" }, `misses by line are not counted: ${program().missed}`)] : []));
    if (!ui.main.contains(listing.node)) ui.main.replaceChildren(listing.node);
    ui.main.classList.toggle("x-ghost", Boolean(s.preview));
    if (!s.preview) listing.node.style.height = `${Math.min(440, 18 * rows.length + 80)}px`; // so that nothing moves under the pointer
    point(here());
    if (s.preview || s.at) listing.reveal(rows.findIndex((row) => row.mark === "+" || row.mark === "-"));
  }

  /** This step beside the other branch: equal lines at one height. */
  function drawComparison() {
    const other = branch(s.compare);
    const both = [program(), program(other.at, other)];
    const rows = differences(textOf(both[0]), textOf(both[1]));
    const left = [], right = [];
    for (const row of rows) {
      if (row.mark === "-") left.push(row);
      else if (row.mark === "+") right.push(row);
      else {
        while (left.length < right.length) left.push(null);
        while (right.length < left.length) right.push(null);
        left.push({ mark: "", line: row.before });
        right.push({ mark: "", line: row.line });
      }
    }
    const column = (title, list) => el("div", {}, el("h4", {}, title), code(
      list.map((row) => (row ? spansOf(row) : [["", " "]])), { label: title, marks: list.map((row) => (row && row.mark) || " "), numbers: false }).node);
    const names = [`${s.branch}, step ${s.at}`, `${other.name}, step ${other.at}`];
    ui.head.replaceChildren(costTable(names, both.map((p) => p && p.cost), view.data.width));
    ui.main.replaceChildren(el("div", { class: "mlc-columns" }, column(names[0], left), column(names[1], right)));
    ui.main.classList.remove("x-ghost");
  }

  function drawPlace() {
    const place = places()[s.place];
    if (!place) {
      ui.place.replaceChildren(el("p", { class: "mlc-faint" }, "Choose a loop or block, in the program or in the tree, to see what is legal there."));
      return;
    }
    const title = el("h4", {}, `legal at ${s.answer ? s.answer.where : place.name}`);
    if (!s.answer) {
      const told = view.live ? "asking …" : "The legal steps here were not asked for while a kernel ran.";
      ui.place.replaceChildren(title, el("p", { class: "mlc-faint" }, told));
      return;
    }
    const why = !view.live || atHead() ? "" : `The schedule stands at step ${branch().at}: go to this step, or branch from here, to do one.`;
    const rows = offerRows();
    const head = ["step", "L1 misses", "L2 misses", "vector lanes", "parallel tasks", "known"];
    const offers = table(head, rows, { numeric: [1, 2, 3, 4], caption: "effects are predicted, not measured; point at a step to preview it" });
    offers.addEventListener("pointerleave", () => preview(null));
    ui.place.replaceChildren(title, ...(why ? [el("p", { class: "mlc-warn" }, why)] : []), offers, ownSplit(place), refusals());
  }

  /** A row for each primitive: its best call, and the others below when opened. */
  function offerRows() {
    const groups = new Map();
    for (const x of s.answer.steps) groups.set(x.primitive, [...(groups.get(x.primitive) || []), x]);
    const rank = (name) => { const at = FIRST.split(" ").indexOf(name); return at < 0 ? 99 : at; };
    const names = [...groups.keys()].sort((a, b) => rank(a) - rank(b));
    return names.flatMap((name) => {
      const sorted = groups.get(name).slice().sort((a, b) => (
        !a.cost || !b.cost || Math.abs(a.cost.cycles - b.cost.cycles) < 0.01 * a.cost.cycles ? a.n - b.n : a.cost.cycles - b.cost.cycles));
      const open = s.open.has(name);
      const rows = (open ? sorted : sorted.slice(0, 1)).map((x) => offerRow(x));
      if (sorted.length > 1) {
        rows[0][0].append(button(open ? "fewer" : `${sorted.length - 1} more`, () => {
          if (open) s.open.delete(name); else s.open.add(name);
          drawPlace();
        }, { class: "mlc-button x-more", "aria-expanded": String(open), title: open ? `fewer calls of ${name}` : `${sorted.length - 1} more calls of ${name}` }));
      }
      return rows;
    });
  }

  function offerRow(x) {
    const press = button(x.label, () => act("apply", { name: view.data.functions[s.fn], row: s.place, n: x.n }, `done: ${x.label}`),
      { class: "mlc-button x-offer", disabled: !view.live || !atHead() });
    const cell = el("div", { class: "mlc-row", onpointerenter: () => preview(x), onfocusin: () => preview(x), onfocusout: () => preview(null) }, press);
    const then = x.cost, now = program().cost || then;
    if (!then) return [cell, "…", "…", "…", "…", x.proof];
    const width = (cost) => Math.min(cost.lanes, view.data.width);
    const vector = delta(width(now), width(then), false);
    if (then.lanes > width(then)) vector.title = `${then.lanes} elements: ${then.lanes / width(then)} vectors`;
    if (then.strided.length) vector.append(el("span", { class: "mlc-warn", title: "a vector gathers elements that do not lie together" }, ` gathers ${then.strided.join(", ")}`));
    return [cell, delta(now.misses[0], then.misses[0], true), delta(now.misses[1], then.misses[1], true), vector,
      delta(tasksOf(now), tasksOf(then), false), x.proof];
  }

  /** Show what a call would make of the program. */
  function preview(x) {
    if (s.compare) return;
    if (!x || !x.ghost) {
      if (s.preview) { s.preview = null; drawMain(); }
      return;
    }
    const { now, lines } = s.answer, [head, tail, between] = x.ghost;
    const flat = [...now.slice(0, 2 * head), ...between, ...now.slice(now.length - 2 * tail)];
    s.label = x.label;
    s.preview = differences(linesOf(now, lines), linesOf(flat, lines));
    drawMain();
  }

  function ownSplit(place) {
    if (place.kind === "block") return el("span");
    const input = el("input", { type: "number", min: 1, value: 8, size: 5, class: "x-factor", "aria-label": "factor of a split" });
    const name = view.data.functions[s.fn];
    const press = button(`split ${place.name} by this`, () => act("do", { name, row: s.place, primitive: "split",
      arguments: { factors: [null, Number(input.value)] } }), { disabled: !view.live || !atHead() });
    input.disabled = press.disabled;
    return el("div", { class: "mlc-row" }, el("span", { class: "mlc-faint" }, "a factor of your own"), input, press);
  }

  function refusals() {
    const name = view.data.functions[s.fn];
    const free = Object.entries(s.answer.free).map(([primitive, what]) => el("li", {}, el("code", {}, `${primitive}(…)`), ` with ${what} of your choice, in a cell`));
    const items = s.answer.refused.map((x) => el("li", {}, el("code", {}, x.label), ` ${x.why} `,
      button("show why", () => act("apply", { name, row: s.place, n: x.n }), { disabled: !view.live || !atHead(), title: `show why ${x.label} is refused` })));
    const kept = { open: Boolean(s.told), ontoggle: (event) => { s.told = event.target.open; } }; // costs that arrive draw this anew
    return el("details", kept, el("summary", {}, `${items.length} refused here${free.length ? `, ${free.length} that need an argument` : ""}`), el("ul", {}, ...items, ...free));
  }

  function pickRow(i) {
    const row = shown[i];
    if (!row) return;
    if (row.hidden) { s.unfolded = true; drawMain(); return; }
    const found = placesAt(row.at);
    if (!found.length) return;
    const next = found.indexOf(s.place) + 1; // of several loops on one line, each click takes the next
    choose(found[next % found.length]);
  }

  /** The places whose line this is; inside a block, the block. */
  function placesAt(line) {
    if (line < 0) return [];
    const all = places(), here = all.flatMap((x, i) => (x.line === line ? [i] : []));
    if (here.length) return here;
    const above = all.flatMap((x, i) => (x.line < line && x.kind === "block" ? [i] : []));
    return above.slice(-1);
  }

  function hoverRow(i) {
    const row = i === null ? null : shown[i];
    const found = new Set(row && !row.hidden && !s.preview ? placesAt(row.at) : []);
    [...ui.tree.children].forEach((node, n) => node.classList.toggle("mlc-lit", found.has(n)));
  }
}

/** Arrow keys, Home, End and Enter in a list of options; `pick(i)` chooses one. */
function roving(list, pick) {
  list.addEventListener("keydown", (event) => {
    const items = [...list.children], at = items.indexOf(list.ownerDocument.activeElement);
    if (event.key === "Enter" || event.key === " ") {
      if (at >= 0) { event.preventDefault(); pick(at); focusOn(at); }
      return;
    }
    const to = arrows(event, at, items.length);
    if (to === null || to < 0 || to >= items.length) return;
    event.preventDefault();
    event.stopPropagation();
    if (list.classList.contains("x-steps")) pick(to);
    focusOn(to);
  });
  function focusOn(i) {
    [...list.children].forEach((node, n) => { node.tabIndex = n === i ? 0 : -1; });
    if (list.children[i]) list.children[i].focus();
  }
}

/** New rows for a list that keeps its place and the focus. */
function fill(list, rows) {
  const active = list.ownerDocument.activeElement;
  const at = [...list.children].indexOf(active), top = list.scrollTop;
  list.replaceChildren(...rows);
  list.scrollTop = top;
  const chosen = rows.find((row) => row.getAttribute("aria-selected") === "true");
  if (at >= 0) (chosen || rows[Math.min(at, rows.length - 1)] || list).focus();
  if (chosen) {
    const low = chosen.offsetTop - list.offsetTop;
    if (low < list.scrollTop || low + chosen.offsetHeight > list.scrollTop + list.clientHeight) list.scrollTop = low - list.clientHeight / 2;
  }
}

function costTable(names, costs, width) {
  const rows = costs.map((c, i) => (c ? [names[i], amount(c.misses[0]), amount(c.misses[1]), String(Math.min(c.lanes, width)), amount(tasksOf(c))] : [names[i]]));
  return table(["predicted", "L1 misses", "L2 misses", "vector lanes", "parallel tasks"], rows, { numeric: [1, 2, 3, 4] });
}

// -- the card of a refused step -----------------------------------------------------------------

function cardOf(card, { close, repair }) {
  const parts = [el("div", { class: "x-card-head" }, el("h4", { class: "mlc-bad" }, `✗ refused: ${card.message}`),
    close ? button("close", close, { title: "close the card" }) : null)];
  const columns = [];
  if (card.excerpt) columns.push(excerptOf(card.excerpt));
  if (card.grids && card.grids.length) columns.push(gridsOf(card));
  if (columns.length) parts.push(el("div", { class: "mlc-columns x-card-columns" }, ...columns));
  if (card.change) parts.push(el("p", {}, card.change));
  if (card.values) parts.push(valuesOf(card));
  if (card.hint) parts.push(el("p", { class: "x-hint" }, `hint: ${card.hint}`));
  if (card.instead.length) parts.push(insteadOf(card.instead, repair));
  return el("section", { class: "x-card", "aria-label": "refused step" }, ...parts);
}

/** Lines around the place, the place itself marked. */
function excerptOf({ lines, line }) {
  const shown = code(lines, { label: "the place in the program", numbers: false });
  shown.light([line], "x-fault");
  return el("div", {}, shown.node);
}

function valuesOf(card) {
  const shapes = card.smallest ? `smallest shapes that fail: ${card.smallest}` : card.shapes ? `run on ${card.shapes}`
    : card.cut ? `run with each loop cut to its first ${card.cut} iterations` : "";
  return el("div", { class: "mlc-row x-values" }, el("code", {}, card.element),
    el("span", {}, "expected ", el("b", { class: "mlc-good" }, card.values[0])),
    el("span", {}, "got ", el("b", { class: "mlc-bad" }, card.values[1])), el("span", { class: "mlc-faint" }, shapes));
}

function insteadOf(instead, repair) {
  const rows = instead.map((x) => (repair
    ? button(x.label, () => repair(x.n), { title: `${x.text} (${x.proof})`, "aria-label": `do ${x.label} instead` })
    : el("li", {}, el("code", {}, x.text), el("span", { class: "mlc-faint" }, ` ${x.proof}`))));
  return el("div", {}, el("h4", {}, "legal instead"), repair ? el("div", { class: "mlc-row" }, ...rows) : el("ul", { class: "x-lines" }, ...rows));
}

const CELL = 26;

/** The iterations as grids, 1 and 2 marked, and the arrow between them. */
function gridsOf(card) {
  const ends = {}, parts = [];
  let left = 0, height = 0;
  for (const grid of card.grids) {
    const width = gridOf(grid, left, parts, ends);
    height = Math.max(height, 44 + grid.rows[1].length * CELL);
    left += width + 30;
  }
  if (ends[1] && ends[2]) parts.push(arrow(ends[1], ends[2]));
  const label = `iterations: ${(card.events || []).map((text, i) => `${i + 1} ${text}`).join("; ")}`;
  return el("div", { class: "x-grids" },
    svg("svg", { width: left, height, viewBox: `0 0 ${left} ${height}`, role: "img", "aria-label": label }, ...parts),
    el("ol", {}, ...(card.events || []).map((text) => el("li", {}, text))));
}

function gridOf(grid, left, parts, ends) {
  const [rowName, rows] = grid.rows, [columnName, columns] = grid.columns;
  const x0 = left + (rowName ? 20 + 7 * Math.min(rowName.length, 16) + 8 : 4), y0 = 42;
  const write = (x, y, text, look = "", anchor = "middle") => parts.push(svg("text", { x, y, class: `x-svg ${look}`, "text-anchor": anchor }, text));
  write(left + 4, 11, grid.title, "x-svg-faint", "start");
  write(x0, 25, columnName, "x-svg-bold", "start");
  write(left + 4, y0 + 17, rowName.slice(0, 16), "x-svg-bold", "start");
  columns.forEach((value, c) => write(x0 + (c + 0.5) * CELL, y0 - 5, value === null ? "…" : String(value), "x-svg-faint"));
  rows.forEach((value, r) => {
    if (rowName) write(x0 - 6, y0 + r * CELL + 17, value === null ? "…" : String(value), "x-svg-faint", "end");
    columns.forEach((column, c) => {
      const mark = grid.marks.find(([mr, mc]) => mr === r && mc === c);
      const x = x0 + c * CELL, y = y0 + r * CELL;
      if (value === null || column === null) return write(x + CELL / 2, y + 17, "…", "x-svg-faint");
      parts.push(svg("rect", { x, y, width: CELL - 2, height: CELL - 2, rx: 2, class: `x-cell${mark ? ` x-cell-${mark[2]}` : ""}` }));
      if (!mark) return null;
      ends[mark[2]] = [x + CELL / 2 - 1, y + CELL / 2 - 1];
      return write(x + CELL / 2 - 1, y + 17, String(mark[2]), "x-svg-mark");
    });
  });
  return x0 - left + Math.max(columns.length * CELL, 7 * grid.title.length);
}

/** A curve from one cell to the next, its head at the second. */
function arrow([x1, y1], [x2, y2]) {
  const length = Math.hypot(x2 - x1, y2 - y1) || 1;
  const ux = (x2 - x1) / length, uy = (y2 - y1) / length;
  const bend = Math.min(24, 16 + length / 8), mx = (x1 + x2) / 2 + uy * bend, my = (y1 + y2) / 2 - ux * bend;
  const from = Math.hypot(mx - x1, my - y1) || 1, to = Math.hypot(x2 - mx, y2 - my) || 1;
  const a = [x1 + (mx - x1) / from * 9, y1 + (my - y1) / from * 9];
  const vx = (x2 - mx) / to, vy = (y2 - my) / to, b = [x2 - vx * 9, y2 - vy * 9];
  const tip = [3.5, -3.5].map((k) => `${b[0] - 7 * vx + k * vy} ${b[1] - 7 * vy - k * vx}`).join(" L");
  return svg("g", { class: "x-arrow" }, svg("path", { d: `M${a[0]} ${a[1]} Q${mx} ${my} ${b[0]} ${b[1]}`, fill: "none" }),
    svg("path", { d: `M${b[0]} ${b[1]} L${tip} z`, class: "x-tip" }));
}
