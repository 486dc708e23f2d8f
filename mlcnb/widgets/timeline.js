// The page of a run of passes: what each did, before and after, and the run without one of its rules.

import { button, code, el, panel, stepper, table, tabs } from "./base.js";
import { graphView } from "./graph.js";
import { roomy } from "./roomy.js";

const NUMBERS = ["time", "operators", "temporaries", "rules"];
// columns of passes that wait where there is little room: bars, bytes, rules
const SPARE = [3, 5, 6, 7];

export default { render: panel(draw) };

function draw(root, view) {
  const data = view.data;
  const changed = data.steps.map((s, i) => (s.changed ? i : -1)).filter((i) => i >= 0);
  const same = data.steps.map((s, i) => (s.changed ? -1 : i)).filter((i) => i >= 0);
  const list = el("div", { class: "mlc-passes" });
  const detail = el("div", { class: "mlc-step" });
  let at = changed.length ? changed[0] : 0;
  const rows = [];
  root.append(el("h3", {}, data.title), legend());
  const steps = stepper({ count: changed.length, label: "pass that changed something",
    say: (i) => (changed.length ? `${i + 1} of ${changed.length}: ${data.steps[changed[i]].name}` : "none"),
    onStep: (i) => show(changed[i]) });
  root.append(steps.node, list, detail);
  passes();
  let tellStep = () => {};
  if (data.steps.length) show(at);
  tellStep = view.shared("step", (i) => { if (i !== at && data.steps[i]) show(i); });

  function passes() {
    const most = Math.max(...data.steps.map((s) => s.ms), 1e-9);
    const large = Math.max(...data.steps.flatMap((s) => s.shares), 1);
    const row = (i) => passRow(data.steps[i], i, most, large, () => { show(i); });
    const head = el("tr", {}, ...["", "pass", "time", "", "operators", "temporaries", "", "rules", "what it did"]
      .map((t) => (t ? el("th", { scope: "col", class: NUMBERS.includes(t) ? "mlc-right" : null }, t) : el("td", {}))));
    SPARE.forEach((i) => head.children[i].classList.add("mlc-spare"));
    head.lastChild.classList.add("mlc-essential");
    const bodies = [changed, same].map((which) => el("tbody", {}, ...which.map((i) => {
      rows[i] = row(i);
      return rows[i];
    })));
    bodies[1].hidden = changed.length > 0;
    const toggle = button("", () => { bodies[1].hidden = !bodies[1].hidden; label(); }, { "aria-expanded": "false" });
    const label = () => {
      toggle.textContent = `${bodies[1].hidden ? "▸" : "▾"} ${same.length} ${same.length === 1 ? "pass" : "passes"} changed nothing`;
      toggle.setAttribute("aria-expanded", String(!bodies[1].hidden));
    };
    label();
    list.append(roomy(el("table", { class: "mlc-table mlc-passtable" }, el("thead", {}, head), ...bodies)), same.length ? toggle : "");
  }

  function show(i) {
    at = i;
    rows.forEach((row, k) => row.setAttribute("aria-current", String(k === i)));
    if (changed.includes(i)) steps.resize(changed.length, changed.indexOf(i));
    detail.replaceChildren(...stepParts(view, i, data.steps[i]));
    view.announce(`${data.steps[i].name}: ${data.steps[i].what}`);
    tellStep(i);
  }
}

function legend() {
  const sign = (mark, word) => el("span", {}, el("b", { class: "mlc-key", "data-sign": mark }, mark === "-" ? "−" : mark), ` ${word}`);
  return el("p", { class: "mlc-row mlc-faint mlc-legend" }, sign("+", "new"), sign("-", "gone"), sign("~", "changed"),
    el("span", {}, "dashed frame: becomes one, or is one kernel"), el("span", {}, "bars at the sides: runs as a kernel"));
}

/** One pass as a row; the whole row and its button choose it. */
function passRow(s, i, most, large, choose) {
  const bar = (share, name) => el("span", { class: `mlc-bar ${name}`, style: `width:${Math.max(1, Math.round(64 * share))}px` });
  const two = ([a, b]) => (a === b ? `${b}` : `${a} → ${b}`);
  const rules = s.rules ? s.rules.reduce((n, [, count]) => n + count, 0) : 0;
  const cell = (value, name) => el("td", { class: name || null }, value);
  const made = el("tr", { class: "mlc-pass", onclick: choose },
    cell(String(i), "mlc-right mlc-faint"),
    cell(button(`${"  ".repeat(s.depth)}${s.name}`, choose, { class: "mlc-passname" })),
    cell(milliseconds(s.ms), "mlc-right"), cell(bar(s.ms / most, "mlc-time")),
    cell(two(s.ops), "mlc-right"), cell(two(s.bytes), "mlc-right"), cell(bar(s.shares[1] / large, "mlc-bytes")),
    cell(rules ? `${rules}×` : "", "mlc-right"), cell(s.what, "mlc-what mlc-essential"));
  SPARE.forEach((k) => made.children[k].classList.add("mlc-spare"));
  return made;
}

function milliseconds(ms) {
  return ms >= 100 ? `${ms.toFixed(0)} ms` : ms >= 1 ? `${ms.toFixed(1)} ms` : `${(1000 * ms).toFixed(0)} µs`;
}

/** What a step did: rules, graphs, text. */
function stepParts(view, i, s) {
  const parts = [el("h3", {}, `${s.name}: ${s.what}`), el("p", { class: "mlc-faint" }, s.why)];
  if (!s.changed) return [...parts, el("p", {}, "The module is the same before and after.")];
  const panes = sides(view, s);
  return [...parts, rules(view, i, s, panes), panes.node];
}

/** The two panes, as graphs and as text. `instead(step, name)` puts another result at the right. */
function sides(view, s) {
  const other = (side, i) => (now.partner ? (side ? now.partner.indexOf(i) : now.partner[i]) : -1);
  const follow = (view, i) => { if (i >= 0) { view.pick(i, false); view.reveal(i); } };
  const left = graphView("before", { onPick: (i) => follow(right, other(0, i)) });
  const right = graphView("after", { onPick: (i) => follow(left, other(1, i)) });
  const heads = [el("h4", {}, "before"), el("h4", {}, "after")];
  const both = el("div", { class: "mlc-columns" }, el("div", {}, heads[0], left.node), el("div", {}, heads[1], right.node));
  const text = el("div", {});
  let now = s, drawn = null;
  const pages = tabs([["graph", both], ["text", text]], { label: "how it is shown", onTab: (k) => { if (k === 0) graphs(); } });
  function graphs() {
    if (drawn === now || !both.isConnected) return;
    drawn = now;
    const [a, b] = now.graphs || [null, null];
    left.show(a, now.signs ? now.signs[0] : []);
    right.show(b, now.signs ? now.signs[1] : []);
    for (const [k, pane] of [left, right].entries()) {
      if (now.signs) pane.reveal(now.signs[k].findIndex(Boolean));
    }
  }
  function show(step, name) {
    now = step;
    heads[1].textContent = name ? `after, without ${name}` : "after";
    text.replaceChildren(...beside(view.data.lines, step.text || []));
    graphs();
  }
  show(s, "");
  requestAnimationFrame(graphs);
  return { node: pages.node, show: (step, name) => show(step, name), back: () => show(s, ""), left, right, get now() { return now; } };
}

/** A row for each rule: how often, where it is written, its source, and the run without it. */
function rules(view, i, s, panes) {
  if (!s.rules.length) return el("p", { class: "mlc-faint" }, "No rewrite rule: this pass works on the whole program.");
  const source = el("div", {}), result = el("div", { class: "mlc-instead" });
  const pressed = [];
  const rows = s.rules.map(([name, count], k) => {
    const about = view.data.rules[name];
    const where = button(`×${count}`, () => light(k), { title: `light the ${count === 1 ? "place" : `${count} places`} of ${name}`, "aria-pressed": "false" });
    pressed[k] = where;
    const without = button("run without this rule", () => run(name, without), { disabled: !view.live });
    view.onLive((live) => {
      without.disabled = !live;
      without.title = live ? `run ${s.name} again without ${name}` : "needs a kernel: run the cell again";
    });
    const joints = name.split(/(?<=[._])/).flatMap((part) => [el("wbr", {}), part]).slice(1);
    return [el("b", {}, ...joints), where, about.summary, button(about.source, () => listing(name), { title: `source of ${name}` }), without];
  });
  const shown = table(["rule", "applied", "what it does", "written in", "without it"], rows, { spare: [3] });
  return el("div", { class: "mlc-rules" }, roomy(shown), source, result);

  function light(k) {
    const on = pressed[k].getAttribute("aria-pressed") === "true";
    pressed.forEach((b) => b.setAttribute("aria-pressed", "false"));
    pressed[k].setAttribute("aria-pressed", String(!on));
    panes.left.light(on ? [] : (s.lit ? s.lit[k] : []));
    view.announce(on ? "all nodes" : `${s.rules[k][0]} was applied to the lit nodes`);
  }
  function listing(name) {
    const about = view.data.rules[name];
    const open = source.dataset.name === name;
    source.dataset.name = open ? "" : name;
    source.replaceChildren(...(open || !about.code.length ? [] : [
      el("h4", {}, about.source), code(about.code.map((n) => view.data.lines[n]), { label: `source of ${name}`, numbers: false }).node]));
  }
  async function run(name, press) {
    press.disabled = true;
    result.replaceChildren(el("p", { class: "mlc-faint" }, `running ${s.name} without ${name} …`));
    view.announce(`running without ${name}`);
    try {
      const answer = await view.ask("without", { step: i, rule: name });
      view.data.lines.splice(answer.from, Infinity, ...answer.lines);
      result.replaceChildren(...told(s, name, answer, () => { panes.back(); result.replaceChildren(); }));
      panes.show(answer.step.changed ? answer.step : { ...answer.step, graphs: s.graphs && [s.graphs[0], s.graphs[0]], signs: [[], []], text: [] }, name);
      view.announce(`without ${name}: ${answer.step.what}`);
    } catch (error) {
      result.replaceChildren(el("p", { class: "mlc-bad", role: "alert" }, error.message));
    }
    press.disabled = !view.live;
  }
}

/** What the run without a rule came to, beside the one with it. */
function told(s, name, answer, back) {
  const end = answer.end;
  const rows = [[`after ${s.name}`, ...pairs(answer.instead)]];
  if (!end.error) rows.push(["at the end of the pipeline", ...pairs(end)], ["kernels called at the end", end.calls[0], end.calls[1], "", ""]);
  return [
    el("h4", {}, `without ${name}: ${answer.step.changed ? answer.step.what : "the pass changes nothing"}`),
    table(["when", "operators with", "without", "temporaries with", "without"], rows, { numeric: [1, 2, 3, 4] }),
    end.error ? el("p", { class: "mlc-warn" }, `the rest of the pipeline: ${end.error}`) : "",
    button("back to the run with all rules", back),
  ];
}

function pairs(figures) {
  return [figures.ops[0], figures.ops[1], figures.bytes[0], figures.bytes[1]];
}

/** The functions that differ, each as two listings that scroll together. */
function beside(lines, functions) {
  if (!functions.length) return [el("p", { class: "mlc-faint" }, "The text is the same.")];
  return functions.map((f) => {
    if (f.more) return el("p", { class: "mlc-faint" }, `and ${f.more.length} functions more: ${f.more.slice(0, 12).join(", ")}${f.more.length > 12 ? ", …" : ""}`);
    const text = (n) => (n >= 0 ? lines[n] : [["c", n < -1 ? `⋯ ${-1 - n} unchanged lines` : " "]]);
    const marks = (sign) => [...f.signs].map((s) => (s === sign || s === "~" ? sign : ""));
    const left = code(f.left.map(text), { label: `${f.name} before`, marks: marks("-"), numbers: false });
    const right = code(f.right.map(text), { label: `${f.name} after`, marks: marks("+"), numbers: false });
    together(left.node, right.node);
    const columns = { added: [right.node], removed: [left.node], changed: [left.node, right.node] }[f.kind];
    return el("details", { open: f.kind === "changed" }, el("summary", {}, `${f.name}: ${f.kind}`), el("div", { class: "mlc-columns" }, ...columns));
  });
}

/** Two panes that scroll together. */
function together(a, b) {
  for (const [from, to] of [[a, b], [b, a]]) {
    from.addEventListener("scroll", () => {
      if (to.scrollTop !== from.scrollTop) to.scrollTop = from.scrollTop;
      if (to.scrollLeft !== from.scrollLeft) to.scrollLeft = from.scrollLeft;
    });
  }
}
