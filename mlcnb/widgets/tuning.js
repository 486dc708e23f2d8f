// A search while it goes on, and what it found: best so far, predicted against measured, decisions,
// races, why the winner won. What is drawn again keeps the tab, the chosen trial and what is open.
import { panel, el, svg, button, stepper, table, tabs, code, copyBox } from "./base.js";
import { roomy } from "./roomy.js";

const W = 560, H = 250, LEFT = 46, RIGHT = 12, TOP = 14, BOTTOM = 34;
const CLAMP = 4; // slower ones are drawn here
const [NUMBER, AT, RATIO, PREDICTED, TIME, CHOICES, REASON] = [0, 1, 2, 3, 4, 5, 6];

export default {
  render: panel((root, view) => {
    const page = el("div", { class: "mlc-tuning" });
    root.append(page);
    let task = null, trial = null, open = new Set();
    const title = el("h3"), line = el("p", { class: "mlc-faint" }), choose = el("div", { class: "mlc-row" });
    const stop = button("Stop", halt, { title: "stop the search and keep what was measured" });
    const plots = el("div", { class: "mlc-plots" }), detail = el("div", { class: "mlc-detail" });
    const steps = stepper({ count: 1, label: "trial", say: (i) => sayTrial(i), onStep: (i) => {
      trial = i === current().trials.length - 1 && current().running ? null : current().trials[i][NUMBER];
      draw();
      view.announce(sentence(chosen()));
    } });
    const tree = el("div"), race = el("div"), why = el("div"), all = el("div");
    const pages = tabs([["decisions", tree], ["race", race], ["why it won", why], ["trials", all]], { label: "of this search" });
    page.append(el("div", { class: "mlc-head" }, title, stop), line, choose, plots, steps.node, detail, pages.node);
    view.onData(() => draw());
    view.onLive((is) => { stop.disabled = !is; });
    draw();

    function current() {
      const tasks = view.data.tasks;
      return tasks[task === null ? tasks.length - 1 : Math.min(task, tasks.length - 1)];
    }
    function chosen() {
      const t = current(), wanted = trial === null ? t.best : trial;
      return t.trials.find((x) => x[NUMBER] === wanted) || t.trials[0];
    }
    function sayTrial(i) {
      const t = view.data && current();
      return t && t.trials[i] ? `${t.trials[i][NUMBER]}: ${t.trials[i][CHOICES]}`.slice(0, 70) : "none yet";
    }
    async function halt() {
      stop.disabled = true;
      try {
        const { stopping } = await view.ask("stop");
        view.announce(stopping ? "the search stops: the best few are raced once more" : "no search goes on");
      } catch (error) {
        view.announce(`${error.message}; or interrupt the kernel, which stops the search too`);
        stop.disabled = false;
      }
    }
    function pick(number) {
      trial = number;
      draw();
    }
    function draw() {
      const t = view.data.tasks.length ? current() : { name: "", running: true, trials: [] };
      title.textContent = t.name ? `${t.running ? "tuning" : "tuned"} ${t.name}` : "tuning";
      stop.hidden = !view.data.tasks.some((x) => x.running);
      choose.replaceChildren(...(view.data.tasks.length > 1 ? [tasksTable(view.data.tasks, current(), (i) => {
        task = i === view.data.tasks.length - 1 ? null : i;
        trial = null;
        draw();
      })] : []));
      for (const part of [plots, steps.node, detail, pages.node]) part.hidden = !t.trials.length;
      if (!t.trials.length) { line.textContent = "the default schedule is compiled and timed …"; return; }
      line.textContent = t.line.replace(/^tune .*?: (?=[\d.]+ s, )/, "") + (t.running ? ` (of ${Math.round(t.budget)} s)` : t.stopped ? " (stopped)" : "");
      const here = chosen();
      plots.replaceChildren(
        el("figure", {}, el("figcaption", {}, "best so far: time, where the default's is 1"), progress(t, here, pick)),
        el("figure", {}, el("figcaption", {}, "predicted against measured: shaded where they are within 20 %"), foretold(t, here, pick)));
      steps.resize(t.trials.length, t.trials.indexOf(here));
      detail.replaceChildren(...about(here, t));
      drawTree(t);
      race.replaceChildren(el("p", { class: "mlc-faint" }, "a row for each race, the first at the top; the last ones are the best few in turns with the default, with 95 % of the ratio"), ladder(t, here, pick));
      why.replaceChildren(...reasons(t));
      all.replaceChildren(trials(t, pick));
    }
    function drawTree(t) {
      const fold = (key, head, ...body) => {
        const node = el("details", { open: open.has(key) }, el("summary", {}, head), ...body);
        node.addEventListener("toggle", () => { if (node.open) open.add(key); else open.delete(key); });
        return node;
      };
      if (!open.size) open.add(`0 ${t.tree[0].rule[0]}`);
      tree.replaceChildren(
        el("p", { class: "mlc-faint" }, "of all trials that went a way the best time, where the default's is 1; what was rejected, and why"),
        ...t.tree.map(({ rule, decisions }) => fold(`0 ${rule[0]}`, option(rule),
          ...decisions.map(([name, of]) => fold(`1 ${rule[0]} ${name}`, `${name}: ${of.length} of its ways tried, best ${of[0][0]}`,
            ...of.map(option))))));
    }
  }),
};

/** One way that a decision went. */
function option([label, tried, best, why]) {
  const meter = best === null ? null : el("span", { class: `mlc-meter ${best > 1.005 ? "mlc-slower" : ""}`, style: `width:${Math.round(24 * Math.min(best, 2.5))}px` });
  const rejected = why.reduce((sum, [, n]) => sum + n, 0);
  return el("div", { class: "mlc-option" },
    el("span", {}, label),
    el("span", { class: best === null ? "mlc-faint" : "" }, meter, best === null ? "not timed" : best.toFixed(3)),
    el("span", { class: "mlc-faint" }, `${tried} tried`, rejected ? `, ${rejected} rejected: ${why.map(([text, n]) => (n > 1 ? `${text} (${n} times)` : text)).join("; ")}` : ""));
}

/** One trial in words. */
function about(x, t) {
  const measured = x[RATIO] === null ? "not timed"
    : `${x[TIME]}, ${x[RATIO].toFixed(3)} of the default's time (${x[PREDICTED].toFixed(2)} was predicted)`;
  const fate = x[REASON] ? ["mlc-bad", `rejected: ${x[REASON]}`]
    : [x[RATIO] !== null && x[RATIO] < 0.995 ? "mlc-good" : "", measured];
  return [el("p", {}, el("b", {}, `trial ${x[NUMBER]}${x[NUMBER] === t.best ? ", the best" : ""}: `), x[CHOICES]),
    el("p", { class: fate[0] }, fate[1])];
}

function sentence(x) {
  return `trial ${x[NUMBER]}, ${x[CHOICES]}: ${x[REASON] ? `rejected, ${x[REASON]}` : x[RATIO] === null ? "not timed" : `${x[RATIO].toFixed(3)} of the default's time`}`;
}

/** Where values lie: linear across, logarithmic up; `nice` ticks of both. */
function frame(x0, x1, y0, y1, { across, up, logX = false, label }) {
  const lx = (v) => (logX ? Math.log(v) : v), span = lx(x1) - lx(x0) || 1, high = Math.log(y1 / y0) || 1;
  const X = (v) => LEFT + (W - LEFT - RIGHT) * Math.min(1, Math.max(0, (lx(v) - lx(x0)) / span));
  const Y = (v) => H - BOTTOM - (H - TOP - BOTTOM) * Math.min(1, Math.max(0, Math.log(v / y0) / high));
  const parts = [];
  for (const v of ticks(y0, y1)) {
    parts.push(svg("line", { x1: LEFT, x2: W - RIGHT, y1: Y(v), y2: Y(v), class: "mlc-grid" }),
      svg("text", { x: LEFT - 5, y: Y(v) + 4, class: "mlc-tick", "text-anchor": "end" }, short(v)));
  }
  for (const v of logX ? ticks(x0, x1) : evenly(x0, x1)) {
    parts.push(svg("text", { x: X(v), y: H - BOTTOM + 14, class: "mlc-tick", "text-anchor": "middle" }, short(v)));
  }
  parts.push(svg("text", { x: (LEFT + W - RIGHT) / 2, y: H - 4, class: "mlc-tick", "text-anchor": "middle" }, across));
  if (up) parts.push(svg("text", { x: LEFT + 4, y: TOP - 3, class: "mlc-tick" }, up));
  return { X, Y, parts, node: () => svg("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": label }, ...parts) };
}

/** Up to where ratios are drawn as they are: beyond lies what is far slower than most. */
function roof(ratios, least = []) {
  const sorted = [...ratios].sort((a, b) => a - b), middle = sorted[Math.floor(sorted.length / 2)] || 1;
  return Math.min(CLAMP, Math.max(1.2, 1.3 * middle, ...least)) * 1.04;
}

const RATIOS = [
  [0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.1, 1.2, 1.3, 1.4, 1.5, 1.75, 2, 2.5, 3, 3.5, 4],
  [0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1, 1.25, 1.5, 2, 3, 4],
  [0.05, 0.1, 0.2, 0.5, 1, 2, 4],
];

/** Ratios between two, seven at most. */
export function ticks(low, high) {
  const inside = RATIOS.map((all) => all.filter((v) => v >= low && v <= high));
  return inside.find((all) => all.length <= 7) || inside[2];
}

/** Round values from the first on, the same apart, six at most. */
export function evenly(low, high) {
  const wide = (high - low) / 5, ten = 10 ** Math.floor(Math.log10(wide));
  const step = [1, 2, 5, 10].find((k) => k * ten >= wide * 0.999) * ten;
  return Array.from({ length: Math.floor((high - low) / step + 0.001) + 1 }, (_, k) => low + k * step);
}

function short(v) { return String(Number(v.toPrecision(3))); }

function timed(t) { return t.trials.filter((x) => x[RATIO] !== null && x[NUMBER] > 0); }

function dot(x, cx, cy, here, pick) {
  return svg("circle", { cx, cy, r: x === here ? 6 : 3.4, class: `mlc-point ${x === here ? "mlc-here" : ""}`, onclick: () => pick(x[NUMBER]) },
    svg("title", {}, sentence(x)));
}

/** Each trial by its second and ratio, the best so far as a line, and what it is compared with. */
function progress(t, here, pick) {
  const found = timed(t), ratios = [...found.map((x) => x[RATIO]), ...t.levels.map(([, r]) => r)];
  const end = Math.max(t.running ? t.budget : 0.1, ...t.trials.map((x) => x[AT]));
  const f = frame(0, end, Math.min(0.9, ...ratios) * 0.95, roof(found.map((x) => x[RATIO]), t.levels.map(([, r]) => r)),
    { across: "seconds", label: `best so far: ${t.line}` });
  const taken = [];
  t.levels.forEach(([name, ratio], i) => {
    const y = f.Y(ratio);
    let at = y - 4;
    while (taken.some((other) => Math.abs(other - at) < 12)) at += 12;
    taken.push(at);
    f.parts.push(svg("line", { x1: LEFT, x2: W - RIGHT, y1: y, y2: y, class: `mlc-levelline mlc-levelline-${i % 4}` }),
      svg("text", { x: W - RIGHT - 4, y: at, class: "mlc-leveltext", "text-anchor": "end" }, name));
  });
  const path = t.steps.map(([at, ratio], i) => (i ? `H${f.X(at)}V${f.Y(ratio)}` : `M${f.X(at)} ${f.Y(ratio)}`));
  f.parts.push(svg("path", { d: `${path.join("")}H${f.X(Math.max(...t.trials.map((x) => x[AT])))}`, class: "mlc-beststep" }));
  for (const x of t.trials) {
    if (x[REASON]) f.parts.push(svg("path", { d: `M${f.X(x[AT]) - 3} ${TOP + 2}l6 6m0 -6l-6 6`, class: "mlc-lost", onclick: () => pick(x[NUMBER]) }, svg("title", {}, sentence(x))));
  }
  for (const x of found) f.parts.push(dot(x, f.X(x[AT]), f.Y(x[RATIO]), here, pick));
  return f.node();
}

/** Each trial by what was predicted and what was measured; within 20 % of each other is shaded. */
function foretold(t, here, pick) {
  const found = timed(t), both = found.flatMap((x) => [x[RATIO], x[PREDICTED]]);
  const low = Math.min(0.8, ...both) * 0.95, high = roof(both);
  const f = frame(low, high, low, high, { across: "predicted", up: "measured", logX: true,
    label: `${found.length} trials, predicted and measured` });
  const edge = [[low, low * 1.2], [high / 1.2, high], [high, high], [high, high / 1.2], [low * 1.2, low], [low, low]];
  f.parts.unshift(svg("polygon", { points: edge.map(([x, y]) => `${f.X(x)},${f.Y(y)}`).join(" "), class: "mlc-band" }));
  f.parts.push(svg("line", { x1: f.X(low), y1: f.Y(low), x2: f.X(high), y2: f.Y(high), class: "mlc-grid" }));
  for (const x of found) f.parts.push(dot(x, f.X(x[PREDICTED]), f.Y(x[RATIO]), here, pick));
  return f.node();
}

/** A row for each race. */
function ladder(t, here, pick) {
  const runs = t.ladder.flatMap(([, of]) => of), xs = runs.map(([, x]) => x);
  const x0 = Math.min(0.9, ...xs) * 0.97, x1 = roof(xs);
  const row = Math.max(7, Math.min(16, 260 / Math.max(1, t.ladder.length))), tall = TOP + BOTTOM + row * t.ladder.length;
  const X = (v) => LEFT + (W - LEFT - RIGHT) * Math.min(1, Math.max(0, Math.log(v / x0) / Math.log(x1 / x0)));
  const parts = ticks(x0, x1).flatMap((v) => [
    svg("line", { x1: X(v), x2: X(v), y1: TOP, y2: tall - BOTTOM, class: "mlc-grid" }),
    svg("text", { x: X(v), y: tall - BOTTOM + 14, class: "mlc-tick", "text-anchor": "middle" }, short(v))]);
  parts.push(svg("line", { x1: X(1), x2: X(1), y1: TOP, y2: tall - BOTTOM, class: "mlc-levelline" }),
    svg("text", { x: (LEFT + W - RIGHT) / 2, y: tall - 4, class: "mlc-tick", "text-anchor": "middle" }, "time, where the default's is 1"));
  t.ladder.forEach(([last, of], i) => {
    const y = TOP + row * (i + 0.5);
    if (i === 0 || last !== t.ladder[i - 1][0]) parts.push(svg("text", { x: LEFT - 5, y: y + 4, class: "mlc-tick", "text-anchor": "end" }, last ? "last" : "tries"));
    for (const [number, ratio, bounds] of of) {
      if (bounds) parts.push(svg("line", { x1: X(bounds[0]), x2: X(bounds[1]), y1: y, y2: y, class: "mlc-interval" }));
      const x = t.trials.find((one) => one[NUMBER] === number);
      if (x) parts.push(dot(x, X(ratio), y, here, pick));
    }
  });
  return svg("svg", { viewBox: `0 0 ${W} ${tall}`, role: "img", "aria-label": `${t.ladder.length} races` }, ...parts);
}

/** Why the winner won. */
function reasons(t) {
  const w = t.why;
  if (!w) return [el("p", { class: "mlc-faint" }, "known when the search is over")];
  if (t.kept) return [el("p", {}, "Nothing was surely faster: the default stays.")];
  const percent = (x) => `${x > 0 ? "+" : ""}${(100 * x).toFixed(1)} %`;
  const listing = code(w.diff.map((text) => [["", text.slice(2)]]), { label: "default and winner",
    marks: w.diff.map((text) => ("+-~".includes(text[0]) ? text[0] : "")), numbers: false });
  const own = code(w.lines, { label: "the winner as Python" }), copied = copyBox("the winner's steps", w.python);
  return [
    table(["decision of the winner", "worth, as the model learned"], [...w.terms.map(([name, worth]) => [name, percent(worth)]),
      ["all together, predicted", percent(w.predicted - 1)], ["measured", percent(w.measured - 1)]],
    { caption: "less is faster", numeric: [1] }),
    el("h4", {}, "what it does otherwise than the default"), w.diff.length ? listing.node : el("p", {}, "the steps are the same"),
    el("details", {}, el("summary", {}, "the winner as Python"), own.node, copied.node)];
}

function trials(t, pick) {
  const rows = [...t.trials].sort((a, b) => (a[RATIO] ?? 99) - (b[RATIO] ?? 99)).slice(0, 60).map((x) => [
    button(String(x[NUMBER]), () => pick(x[NUMBER]), { title: `choose trial ${x[NUMBER]}` }), x[TIME],
    x[RATIO] === null ? "" : x[RATIO].toFixed(3), x[PREDICTED].toFixed(2), x[CHOICES], x[REASON]]);
  return roomy(table(["trial", "time", "ratio", "predicted", "decided otherwise", "rejected"], rows,
    { caption: `the fastest of ${t.trials.length}`, numeric: [1, 2, 3], spare: [1, 3] }));
}

/** A row for each search of a model. */
function tasksTable(all, now, go) {
  const rows = all.map((t, i) => {
    const press = button(t.name.slice(0, 48) || "…", () => go(i), { "aria-pressed": String(t === now) });
    if (!t.trials.length) return [press, t.calls, "", "", "", "begins"];
    const best = t.kept ? 1 : t.why ? t.why.measured : Math.min(...t.steps.map((s) => s[1]));
    return [press, t.calls, t.default, best.toFixed(3), t.trials.length, t.running ? "goes on" : t.stopped ? "stopped" : "done"];
  });
  return table(["kernel", "calls", "default", "ratio", "tried", "search"], rows, { numeric: [1, 2, 3, 4] });
}
