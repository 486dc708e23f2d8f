// Roofline trail: measured dots (filled) and predicted ones (hollow) of a program, stage by stage,
// under the measured ceilings of the machine. Both axes are logarithmic.
import { panel, el, svg, button, stepper, table, copyBox } from "./base.js";
import { roomy } from "./roomy.js";

const W = 720, H = 400, LEFT = 56, RIGHT = 16, TOP = 40, BOTTOM = 46;
const SLOPES = ["mlc-slope-0", "mlc-slope-1", "mlc-slope-2", "mlc-slope-3"];

export default {
  render: panel((root, view) => {
    const page = el("div", { class: "mlc-roofline" });
    root.append(page);
    draw(page, view);
    view.onData(() => draw(page, view));
  }),
};

function draw(page, view) {
  const d = view.data, dots = d.dots;
  let axis = liveliest(d), at = 0;
  const plot = el("div"), detail = el("div", { class: "mlc-detail", "aria-live": "off" });
  const steps = stepper({
    count: dots.length, at, label: "stage",
    say: (i) => `${i + 1} of ${dots.length}: step ${dots[i].step}`,
    onStep: (i) => { at = i; show(); view.announce(sentence(dots[i])); tellStep(dots[i].step); },
  });
  const pick = (i) => { steps.go(i); };
  const axes = d.axes.map(([, name, how], i) => button(`${name} (${how})`, () => { axis = i; show(); },
    { title: `FLOP per byte: ${name}, ${how}`, disabled: !dots.some((p) => p.x[i]) }));
  const calls = copyBox("steps of this stage");
  const rows = dots.map((p, i) => [
    button(String(p.step), () => pick(i), { title: `stage ${i + 1}, step ${p.step}` }), p.label, p.time, round(p.gflops), p.share,
    round(p.predicted), p.why, ...p.x.map(round)]);
  const twin = table(["step", "then", "time", "measured GFLOP/s", "of roof", "predicted GFLOP/s", "predicted limit",
    ...d.axes.map(([key]) => `FLOP/B, ${key}`)], rows,
  { caption: "the same in a table; FLOP/B of arguments are counted, the others predicted", numeric: [2, 3, 4, 5, 7, 8, 9, 10], spare: [4, 8, 9, 10] });
  page.replaceChildren(
    el("h3", {}, `${d.name} under the roof`),
    el("p", { class: "mlc-faint" }, `${dots.length} stages of a schedule on ${d.threads} thread${d.threads > 1 ? "s" : ""}; ` +
      `ceilings measured in ${d.dtype}: ${round(d.peak)} GFLOP/s, ` +
      d.levels.map(([name, speed]) => `${name} ${round(speed)} GB/s`).join(", ")),
    steps.node,
    el("div", { class: "mlc-row mlc-axes", role: "group", "aria-label": "horizontal axis" }, el("span", { class: "mlc-faint" }, "FLOP per byte, by"), ...axes),
    el("div", { class: "mlc-columns" }, el("div", { class: "mlc-plot" }, plot, legend()), el("div", { class: "mlc-side" }, detail, calls.node)),
    el("details", { class: "mlc-twin" }, el("summary", {}, "table"), roomy(twin)));
  let tellStep = () => {};
  show();
  tellStep = view.shared("step", (step) => steps.go(dots.findLastIndex((p) => p.step <= step)));

  function show() {
    axes.forEach((b, i) => b.setAttribute("aria-pressed", String(i === axis)));
    plot.replaceChildren(chart(d, axis, at, pick, tell));
    [...twin.querySelectorAll("tbody tr")].forEach((row, i) => row.classList.toggle("mlc-lit", i === at));
    tell(at);
    calls.set(dots[at].calls.join("\n") || "# as given");
  }
  function tell(i) {
    const p = dots[i], before = dots[i - 1];
    const gain = before && before.gflops && p.gflops ? p.gflops / before.gflops : 0;
    const change = Math.abs(gain - 1) < 0.05 ? ["mlc-faint", "as fast as the stage before, within 5 %"]
      : gain > 1 ? ["mlc-good", `▲ ${round(gain)}× faster than the stage before`]
        : ["mlc-bad", `▼ ${round(1 / gain)}× slower than the stage before`];
    const beyond = p.predicted && p.gflops > 1.1 * p.predicted;
    const pairs = [
      ["measured", p.gflops ? `${round(p.gflops)} GFLOP/s, ${p.time} a call` : "not measured"],
      ["of the roof", p.share ? `${p.share} (limit of the arguments: ${p.limit})` : ""],
      ["predicted", p.predicted ? `${round(p.predicted)} GFLOP/s at most, set by ${p.why}` +
        `${beyond ? "; it does better: LLVM made more of it than the program asks for" : ""}` : "no model"],
      ["intensity", p.x[axis] ? `${round(p.x[axis])} FLOP/B: ${p.flops} by ${p.bytes[axis]} (${d.axes[axis][2]})` : "not known"],
      ["hot loop", p.hot],
      ["result", i ? `differs from stage 1 by ${p.apart} of its largest element` : "what the others are compared with"],
    ].filter(([, v]) => v);
    detail.replaceChildren(
      el("h4", {}, `${i + 1}. ${p.label}`),
      ...(gain ? [el("p", { class: change[0] }, change[1])] : []),
      el("dl", {}, ...pairs.flatMap(([k, v]) => [el("dt", {}, k), el("dd", {}, v)])),
      ...(p.more ? [el("p", { class: "mlc-faint" }, `… ${p.more} more steps`)] : []));
  }
}

/** The horizontal axis along which the stages move most. */
function liveliest(d) {
  const spreads = d.axes.map((_, i) => {
    const xs = d.dots.map((p) => p.x[i]).filter(Boolean);
    return xs.length > 1 ? Math.max(...xs) / Math.min(...xs) : 1;
  });
  const most = Math.max(...spreads);
  return most > 1.2 ? spreads.indexOf(most) : 0;
}

function sentence(p) {
  return `step ${p.step}, ${p.label}: ${p.gflops ? `${round(p.gflops)} GFLOP/s measured` : "not measured"}` +
    `${p.share ? `, ${p.share} of the roof` : ""}${p.predicted ? `; predicted ${round(p.predicted)}, set by ${p.why}` : ""}`;
}

/** The picture: slopes, roof, the trail up to the stage, dots. */
function chart(d, axis, at, pick, tell) {
  const dots = d.dots.map((p, i) => ({ ...p, i, at: p.x[axis] })).filter((p) => p.at && p.gflops);
  const ridges = d.levels.map(([, speed]) => d.peak / speed);
  const xs = [...dots.map((p) => p.at), ...ridges], ys = [...dots.flatMap((p) => [p.gflops, p.predicted || p.gflops]), d.peak];
  const x0 = Math.min(...xs) / 2, x1 = Math.max(...xs) * 3, y0 = Math.min(...ys) / 2, y1 = Math.max(...ys) * 2;
  const X = (v) => LEFT + ((W - LEFT - RIGHT) * Math.log(v / x0)) / Math.log(x1 / x0);
  const Y = (v) => H - BOTTOM - ((H - TOP - BOTTOM) * Math.log(v / y0)) / Math.log(y1 / y0);
  const parts = [];
  for (const v of decades(x0, x1)) {
    parts.push(svg("line", { x1: X(v), x2: X(v), y1: TOP, y2: H - BOTTOM, class: "mlc-grid" }),
      svg("text", { x: X(v), y: H - BOTTOM + 15, class: "mlc-tick", "text-anchor": "middle" }, label(v)));
  }
  for (const v of decades(y0, y1)) {
    parts.push(svg("line", { x1: LEFT, x2: W - RIGHT, y1: Y(v), y2: Y(v), class: "mlc-grid" }),
      svg("text", { x: LEFT - 6, y: Y(v) + 4, class: "mlc-tick", "text-anchor": "end" }, label(v)));
  }
  const named = [];
  d.levels.forEach(([name, speed], i) => {
    const ridge = d.peak / speed, from = Math.max(x0, y0 / speed);
    const chosen = d.axes[axis][0] === name;
    if (from < ridge) {
      parts.push(svg("line", { x1: X(from), y1: Y(from * speed), x2: X(ridge), y2: Y(d.peak), class: `mlc-slope ${SLOPES[i % 4]} ${chosen ? "mlc-chosen" : ""}` }));
    }
    named.push([X(ridge) + 3, name]);
  });
  parts.push(svg("line", { x1: X(Math.max(x0, Math.min(...ridges))), x2: W - RIGHT, y1: Y(d.peak), y2: Y(d.peak), class: "mlc-roof" }),
    ...apart(named, `roof: ${round(d.peak)} GFLOP/s, measured`).map(([x, row, name]) => (
      svg("text", { x, y: Y(d.peak) - 5 - 12 * row, class: "mlc-tick mlc-level" }, name))));
  const past = dots.filter((p) => p.i <= at);
  parts.push(svg("polyline", { points: past.map((p) => `${X(p.at)},${Y(p.gflops)}`).join(" "), class: "mlc-trail" }));
  for (const p of dots) {
    const later = p.i > at, now = p.i === at;
    if (p.predicted && now) {
      const x = X(p.at), y = Y(p.predicted);
      parts.push(svg("line", { x1: x, x2: x, y1: Y(p.gflops), y2: y, class: "mlc-gapline" }),
        svg("path", { d: `M${x} ${y - 7}L${x + 7} ${y}L${x} ${y + 7}L${x - 7} ${y}Z`, class: "mlc-predicted" }));
    }
    const dot = svg("circle", { cx: X(p.at), cy: Y(p.gflops), r: now ? 8 : 5, class: `mlc-dot ${later ? "mlc-later" : ""} ${now ? "mlc-here" : ""}`,
      onclick: () => pick(p.i), onpointerenter: () => tell(p.i), onpointerleave: () => tell(at) },
    svg("title", {}, sentence(p)));
    parts.push(dot);
  }
  for (const p of spread(dots.filter((q) => q.i <= at), X, Y, Y(d.peak))) {
    parts.push(svg("text", { x: p.x, y: p.y, class: `mlc-name ${p.i === at ? "mlc-here" : ""}` }, `${p.i + 1}`));
  }
  parts.push(svg("text", { x: (LEFT + W - RIGHT) / 2, y: H - 8, class: "mlc-tick", "text-anchor": "middle" },
    `FLOP per byte: ${d.axes[axis][1]}, ${d.axes[axis][2]}`),
  svg("text", { x: 14, y: (TOP + H - BOTTOM) / 2, class: "mlc-tick", "text-anchor": "middle",
    transform: `rotate(-90 14 ${(TOP + H - BOTTOM) / 2})` }, "GFLOP/s, measured"));
  const here = d.dots[at];
  return svg("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": `roofline: ${sentence(here)}` }, ...parts);
}

/** Names above the roof at their places, each in the lowest row that is free there, and the roof's
 * own at the right end: [x, row, name]. */
function apart(named, roof) {
  const wide = (name) => 6.4 * name.length, ends = [];
  const all = [...named, [W - RIGHT - wide(roof), roof]];
  return all.sort((a, b) => a[0] - b[0]).map(([x, name]) => {
    const at = Math.min(x, W - RIGHT - wide(name));
    const row = [...ends, -Infinity].findIndex((end) => end + 6 < at);
    ends[row] = at + wide(name);
    return [at, row, name];
  });
}

/** Numbers beside dots; those that would cover each other step to the right. */
function spread(dots, X, Y, roof) {
  const taken = [];
  return dots.map((p) => {
    let x = X(p.at) + 10;
    const y = Math.max(Y(p.gflops) + 4, roof + 14); // below the roof: above it stand the names of levels
    while (taken.some(([a, b]) => Math.abs(a - x) < 15 && Math.abs(b - y) < 11)) x += 15;
    taken.push([x, y]);
    return { i: p.i, x, y };
  });
}

function legend() {
  return el("div", { class: "mlc-legend" },
    el("span", {}, el("span", { class: "mlc-key mlc-key-dot" }), " measured"),
    el("span", {}, el("span", { class: "mlc-key mlc-key-predicted" }), " predicted for the chosen stage"),
    el("span", {}, el("span", { class: "mlc-key mlc-key-later" }), " stages to come"),
    el("span", {}, el("span", { class: "mlc-key mlc-key-roof" }), " ceilings, measured"));
}

/** Powers of ten between two values, with 2 and 5 where there are few. */
function decades(low, high) {
  const tens = [], all = [];
  for (let e = Math.floor(Math.log10(low)); e <= Math.ceil(Math.log10(high)); e++) {
    tens.push(10 ** e);
    all.push(10 ** e, 2 * 10 ** e, 5 * 10 ** e);
  }
  const inside = (v) => v >= low && v <= high;
  return tens.filter(inside).length >= 3 ? tens.filter(inside) : all.filter(inside);
}

function label(v) {
  return v >= 1 ? String(Math.round(v)) : String(Number(v.toPrecision(2)));
}

function round(v) {
  return v === null || v === undefined ? "" : v >= 1000 ? Math.round(v).toLocaleString("en") : String(Number(v.toPrecision(3)));
}
