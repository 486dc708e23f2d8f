// The access replay: touches of arrays as grids, on a clock of accesses; one program or two.
//
// A position of the clock lies in a stretch; a stretch begins with the state of the cache there.
// Playing forwards applies touches one by one; any other way begins at its stretch again.

import { panel, el, svg, button, stepper, tabs, table, calm } from "./base.js";
import { palette, onTheme } from "./theme.js";
import { roomy } from "./roomy.js";

const TRAIL = 24;
const SPEEDS = [1, 4, 15, 60, 250, 1000, 5000, 20000]; // touches a second
const SIDE = [300, 230, 122]; // pixels of a grid's longer side, of 1 array, of one program, of two
const OUTCOMES = { h: "hit", M: "miss", E: "miss that drives a line out" };

export default { render: panel(draw) };

function draw(root, view) {
  let page = null;
  const build = () => {
    if (page) page.stop();
    page = open(root, view);
  };
  view.onData(build);
  build();
  return () => page.stop();
}

function open(root, view) {
  const data = view.data;
  const clock = times(data);
  const runs = data.runs.map((run) => player(run, data, clock));
  let at = 0, timer = null, last = 0, owed = 0, speed = 3;
  const steps = stepper({ count: clock.length, label: "access", say: (p) => `${n(clock.at(p) + 1)} of ${n(data.clock)}`,
    onStep: (p) => { halt(); move(p); } });
  steps.node.classList.add("acc-clock");
  const play = button("▶ play", () => (timer === null ? start() : halt()), { "aria-pressed": "false" });
  const pace = el("input", { type: "range", class: "mlc-slider acc-speed", min: 0, max: SPEEDS.length - 1, value: speed,
    "aria-label": "speed", oninput: () => { speed = Number(pace.value); told(); } });
  const paceText = el("span", { class: "mlc-faint acc-pace" });
  const told = () => {
    const words = calm() ? "in twenty steps" : `${n(SPEEDS[speed])} a second`;
    paceText.textContent = words;
    pace.setAttribute("aria-valuetext", words);
  };
  const controls = el("div", { class: "mlc-row", role: "group", "aria-label": "playing" },
    play,
    button("next miss", () => { halt(); jump((run, p) => run.missesAt(p)); }, { title: "go to the next miss" }),
    el("span", { class: "mlc-faint" }, "speed"), pace, paceText);
  const stage = el("div", { class: "mlc-columns" }, runs.map((run) => run.node));
  const pages = [
    ["replay", el("div", {}, el("div", { class: "mlc-row acc-bar" }, steps.node, controls), legend(), stage)],
    ["where it misses", el("div", { class: "mlc-columns" }, runs.map((run) => run.heat()))],
    ["reuse distance", el("div", { class: "mlc-columns" }, runs.map((run) => reuse(run.run, data)))],
    ["loads and stores", el("div", {}, runs.map((run) => sites(run.run, data)))],
  ];
  const book = tabs(pages, { label: "views of the accesses", onTab: (i) => { if (i === 1) runs.forEach((r) => r.paintHeat()); } });
  root.replaceChildren(
    el("h3", {}, data.title),
    ...data.verdicts.map((text) => el("p", { class: "acc-verdict" }, text)),
    book.node,
    el("p", { class: "mlc-faint acc-small" }, `${data.says}. ${data.assumed}`));
  root.onkeydown = (event) => {
    if (event.key !== " " || /^(BUTTON|INPUT|TEXTAREA)$/.test(event.target.tagName)) return;
    event.preventDefault();
    play.click();
  };

  function move(p, quietly = false) {
    at = p;
    for (const run of runs) run.go(p);
    if (quietly) return;
    view.announce(runs.map((run) => run.sentence()).join(" — "));
    tellCursor(clock.at(p));
  }
  function jump(wanted) {
    for (let p = at + 1; p < clock.length; p++) {
      if (runs.some((run) => wanted(run, p))) return steps.go(p);
    }
    view.announce("there is no further miss among the accesses that are played");
  }
  function start() {
    if (at >= clock.length - 1) steps.go(0);
    play.textContent = "❚❚ pause";
    play.setAttribute("aria-pressed", "true");
    last = performance.now();
    owed = 0;
    timer = calm() ? setInterval(leap, 1000) : requestAnimationFrame(frame);
  }
  function halt() {
    if (timer === null) return;
    if (calm()) clearInterval(timer);
    else cancelAnimationFrame(timer);
    timer = null;
    play.textContent = "▶ play";
    play.setAttribute("aria-pressed", "false");
    view.announce(runs.map((run) => run.sentence()).join(" — "));
    tellCursor(clock.at(at));
  }
  function leap() { advance(Math.ceil(clock.length / 20)); }
  function frame(now) {
    owed += (Math.max(0, Math.min(now - last, 100)) * SPEEDS[speed]) / 1000;
    last = now;
    const whole = Math.floor(owed);
    owed -= whole;
    timer = requestAnimationFrame(frame);
    if (whole) advance(whole);
  }
  function advance(by) {
    const to = Math.min(at + by, clock.length - 1);
    steps.resize(clock.length, to);
    move(to, true);
    if (to === clock.length - 1) halt();
  }
  told();
  let tellCursor = () => {};
  move(0, true);
  tellCursor = view.shared("cursor", (access) => { halt(); steps.go(clock.near(access)); });
  const again = new ResizeObserver(() => runs.forEach((run) => run.paint()));
  again.observe(root);
  const still = onTheme(() => runs.forEach((run) => run.repaint()));
  return { stop() { halt(); again.disconnect(); still(); } };
}

/** Positions that can be shown, and the access that each is. */
function times(data) {
  const lengths = data.starts.map((start) => Math.max(0, Math.min(data.span, data.clock - start)));
  const before = lengths.map((_, i) => lengths.slice(0, i).reduce((a, b) => a + b, 0));
  const length = lengths.reduce((a, b) => a + b, 0);
  const stretch = (p) => Math.min(Math.floor(p / data.span), lengths.length - 1);
  return { length, stretch, offset: (p) => p - before[stretch(p)],
    near: (access) => {
      const i = Math.max(0, data.starts.findLastIndex((start) => start <= access));
      return before[i] + Math.max(0, Math.min(lengths[i] - 1, access - data.starts[i]));
    },
    at: (p) => (length ? data.starts[stretch(p)] + p - before[stretch(p)] : -1) };
}

/** One program: its grids, counts and line of miss rates, at a place of the clock. */
function player(run, data, clock) {
  const width = data.levels.length + 1;
  const decoded = new Map();
  const grids = run.arrays.map((array) => grid(array, data));
  const state = { stretch: -1, offset: -1, resident: new Set(), seen: [], counts: [], out: [], trail: [] };
  const now = el("p", { class: "acc-now" });
  const rows = run.arrays.map((array) => counted(array.name, width));
  const all = counted("all", width);
  const line = rates(run, data);
  const drawn = el("div", { class: "acc-grids" }, grids.map((g) => g.node));
  const node = el("section", { "aria-label": run.name },
    data.runs.length > 1 ? el("h4", {}, run.name) : null, now, el("div", { class: "acc-board" }, drawn, el("div", { class: "acc-told" }, line.node,
    roomy(el("table", { class: "mlc-table acc-counts" },
      el("caption", {}, "up to here"),
      el("thead", {}, el("tr", {}, ["array", "touched", "hits", `${data.levels[0]} misses`, "rate", "driven out",
        ...data.levels.slice(1).map((l) => `${l} misses`)].map((h, i) => el("th", { scope: "col", class: i ? `mlc-right ${room(i)}` : null }, h)))),
      el("tbody", {}, rows.map((r) => r.node), all.node))))));

  function touches(index) {
    if (!decoded.has(index)) decoded.set(index, decode(run, run.stretches[index], data.line));
    return decoded.get(index);
  }
  function begin(index) {
    const from = run.stretches[index];
    let line = 0;
    state.resident = new Set(from.resident.map((d) => (line += d)));
    state.seen = from.seen.map((runs) => expanded(runs));
    state.counts = from.counts.slice();
    state.out = from.out.slice();
    state.trail = [];
    state.stretch = index;
    state.offset = -1;
  }
  function apply(touch) {
    const g = grids[touch.array];
    state.counts[touch.array * width + touch.served]++;
    if (touch.served > 0) {
      state.resident.add(touch.line);
      g.mark(state.seen[touch.array], touch.line);
      if (touch.victim >= 0) {
        state.resident.delete(touch.victim);
        const owner = ownerOf(run, data, touch.victim);
        if (owner >= 0) state.out[owner]++;
      }
    }
    state.trail.push(touch);
    if (state.trail.length > TRAIL) state.trail.shift();
  }
  function go(p) {
    const index = clock.stretch(p), offset = clock.offset(p);
    if (index !== state.stretch || offset < state.offset) begin(index);
    const list = touches(index);
    for (let i = state.offset + 1; i <= offset && i < list.length; i++) apply(list[i]);
    state.offset = offset;
    rows.forEach((row, i) => row.set(state.counts.slice(i * width, (i + 1) * width), state.out[i]));
    const total = new Array(width).fill(0);
    state.counts.forEach((c, i) => { total[i % width] += c; });
    all.set(total, state.out.reduce((a, b) => a + b, 0));
    line.to(clock.at(p));
    now.replaceChildren(...spoken());
    paint();
  }
  function touchNow() {
    const list = state.stretch < 0 ? [] : touches(state.stretch);
    return list[Math.min(state.offset, list.length - 1)];
  }
  function isOver() { return state.stretch >= 0 && state.offset >= touches(state.stretch).length; }
  function spoken() {
    const touch = touchNow();
    if (isOver()) return [`finished after ${n(run.total)} accesses`];
    if (!touch) return ["no access"];
    return [el("b", { class: `acc-badge acc-${letter(touch)}` }, letter(touch)), ` ${sentenceOf(touch)}`];
  }
  function sentenceOf(touch) {
    const array = run.arrays[touch.array], site = run.sites[touch.site];
    const where = touch.served ? `missed, found in ${data.levels[touch.served] || "memory"}` : `hit in ${data.levels[0]}`;
    const gone = touch.victim < 0 ? "" : `, drives out ${named(run, data, touch.victim)}`;
    return `${site[1] ? "writes" : "reads"} ${array.name}[${place(array, touch.address)}]: ${where}${gone}`;
  }
  function paint() {
    grids.forEach((g, i) => g.paint(state.resident, state.seen[i], state.trail.filter((t) => t.array === i),
      state.trail.length ? state.trail[state.trail.length - 1] : null, isOver()));
  }
  const heats = run.arrays.map((array) => grid(array, data));
  return {
    run, node, go, paint,
    sentence: () => (touchNow() && !isOver() ? sentenceOf(touchNow()) : "finished"),
    missesAt(p) {
      const touch = touches(clock.stretch(p))[clock.offset(p)];
      return Boolean(touch && touch.served > 0);
    },
    heat() {
      const arrays = data.runs.flatMap((r) => r.arrays);
      const most = Math.max(1, ...arrays.map((a) => a.heat.reduce((m, v, i) => (i % 2 ? m : Math.max(m, v)), 0)));
      run.arrays.forEach((a, i) => heats[i].hot(a.heat, most));
      return el("section", { "aria-label": `where ${run.name} misses` },
        data.runs.length > 1 ? el("h4", {}, run.name) : null,
        el("div", { class: "acc-grids" }, heats.map((h) => h.node)));
    },
    paintHeat() { heats.forEach((h) => h.paintHot()); },
    repaint() {
      [...grids, ...heats].forEach((g) => g.forget());
      paint();
      heats.forEach((h) => h.paintHot());
    },
  };
}

/** The touches of a stretch: array, site, address, line, level, the line that it drove out. */
function decode(run, from, size) {
  const last = run.sites.map(() => 0);
  let victim = 0, misses = 0;
  return from.sites.map((site, i) => {
    const [array, , item] = run.sites[site];
    last[site] += from.moved[i];
    const served = from.served.charCodeAt(i) - 48;
    if (served > 0) victim += from.victims[misses++];
    const address = run.arrays[array].base + last[site] * item;
    return { array, site, address, line: Math.floor(address / size), served, victim: served > 0 ? victim : -1 };
  });
}

function ownerOf(run, data, line) {
  let found = -1;
  run.arrays.forEach((a, i) => { if (Math.floor(a.base / data.line) <= line) found = i; });
  return found;
}

/** `B[3, 16…31]`: the elements of a line. */
function named(run, data, line) {
  const array = run.arrays[ownerOf(run, data, line)];
  if (!array) return `line ${line}`;
  const first = Math.max(line * data.line, array.base);
  const end = Math.min((line + 1) * data.line, array.base + array.nbytes) - array.item;
  return first === end ? `${array.name}[${place(array, first)}]` : `${array.name}[${place(array, first)}] … [${place(array, end)}]`;
}

/** The indices of an element. */
function place(array, address) {
  let rest = Math.floor((address - array.base) / array.item);
  const found = [];
  for (let axis = array.shape.length - 1; axis >= 0; axis--) {
    found.unshift(axis ? rest % array.shape[axis] : rest);
    rest = Math.floor(rest / array.shape[axis]);
  }
  return found.join(", ");
}

function letter(touch) { return touch.served === 0 ? "h" : touch.victim < 0 ? "M" : "E"; }

function expanded(runs) {
  const out = [];
  for (let i = 0; i < runs.length; i += 2) for (let k = 0; k < runs[i + 1]; k++) out.push(runs[i]);
  return out;
}

function sideOf(data) { return SIDE[data.runs.length > 1 ? 2 : data.runs[0].arrays.length > 1 ? 1 : 0]; }

/** An array on a canvas. */
function grid(array, data) {
  const rows = Math.ceil(array.cells / array.columns);
  const size = Math.max(1.5, Math.min(22, sideOf(data) / Math.max(array.columns, rows, 4)));
  const w = Math.ceil(array.columns * size), h = Math.ceil(rows * size);
  const canvas = el("canvas", { role: "img", "aria-label": `${array.name}: ${array.kind}`, class: "acc-canvas" });
  canvas.style.width = `${w}px`;
  canvas.style.height = `${h}px`;
  const small = document.createElement("canvas");
  small.width = array.columns;
  small.height = rows;
  const note = el("figcaption", { class: "mlc-faint acc-small" });
  const node = el("figure", { class: "acc-figure" },
    el("figcaption", {}, el("b", {}, array.name), ` ${array.kind}`), canvas,
    array.says ? el("div", { class: "mlc-faint acc-small" }, array.says) : null, note);
  const colours = palette(canvas);
  let values = null, most = 1;

  const cellOf = (address) => Math.floor((address - array.base) / array.unit);
  const lineOf = (cell) => Math.floor((array.base + cell * array.unit) / data.line);
  const cellsOf = (line) => {
    const first = Math.max(0, cellOf(line * data.line));
    const end = Math.min(array.cells - 1, cellOf((line + 1) * data.line - 1));
    return [first, end];
  };
  function context() {
    const ratio = window.devicePixelRatio || 1;
    if (canvas.width !== Math.round(w * ratio)) {
      canvas.width = Math.round(w * ratio);
      canvas.height = Math.round(h * ratio);
    }
    const c = canvas.getContext("2d");
    c.setTransform(ratio, 0, 0, ratio, 0, 0);
    c.imageSmoothingEnabled = false;
    return c;
  }
  function fill(colourOf) {
    const c = context(), pixels = small.getContext("2d"), image = pixels.createImageData(array.columns, rows);
    for (let cell = 0; cell < array.cells; cell++) {
      const colour = colourOf(cell);
      image.data.set(colour, cell * 4);
    }
    pixels.putImageData(image, 0, 0);
    c.clearRect(0, 0, w, h);
    c.drawImage(small, 0, 0, array.columns * size, rows * size);
    if (size >= 7) net(c);
    return c;
  }
  function net(c) {
    c.strokeStyle = colours("--mlc-line");
    c.lineWidth = 0.5;
    c.beginPath();
    for (let x = 0; x <= array.columns; x++) { c.moveTo(x * size, 0); c.lineTo(x * size, rows * size); }
    for (let y = 0; y <= rows; y++) { c.moveTo(0, y * size); c.lineTo(array.columns * size, y * size); }
    c.stroke();
  }
  function paint(resident, seen, trail, last, isOver) {
    const inside = colours.bytes("--acc-in"), gone = colours.bytes("--acc-gone"), never = colours.bytes("--mlc-paper");
    const held = array.unit <= data.line ? (cell) => resident.has(lineOf(cell)) : groups(resident);
    const c = fill((cell) => (held(cell) ? inside : seen[cell] ? gone : never));
    if (size >= 7) dots(c, resident, seen, held);
    if (isOver) return;
    trail.forEach((touch, i) => sign(c, cellOf(touch.address), letter(touch), touch === last ? 1 : 0.15 + (0.5 * i) / trail.length, touch === last));
    if (last && last.victim >= 0) {
      const [first, end] = cellsOf(last.victim);
      if (end >= 0 && first < array.cells && first <= end && last.victim >= lineOf(0)) frame(c, first, end);
    }
  }
  /** Of cells of several lines: whether one of them is in the cache. */
  function groups(resident) {
    const found = new Set();
    for (const line of resident) {
      const cell = cellOf(line * data.line);
      if (cell >= 0 && cell < array.cells) found.add(cell);
    }
    return (cell) => found.has(cell);
  }
  /** A dot on what is in the cache, so that it shows without colour. */
  function dots(c, resident, seen, held) {
    c.fillStyle = colours("--mlc-faint");
    for (let cell = 0; cell < array.cells; cell++) {
      if (!held(cell)) continue;
      c.fillRect((cell % array.columns) * size + size / 2 - 1, Math.floor(cell / array.columns) * size + size / 2 - 1, 2, 2);
    }
  }
  function sign(c, cell, kind, alpha, strong) {
    const r = Math.max(strong ? 6 : 3, size * 0.42);
    const within = (at, most) => Math.min(Math.max(at, r * 1.15), Math.max(r * 1.15, most - r * 1.15)); // whole, at an edge too
    const x = within(((cell % array.columns) + 0.5) * size, w), y = within((Math.floor(cell / array.columns) + 0.5) * size, h);
    c.globalAlpha = alpha;
    c.fillStyle = c.strokeStyle = colours(kind === "h" ? "--acc-hit" : "--acc-miss");
    c.lineWidth = 2;
    c.beginPath();
    if (kind === "h") c.arc(x, y, r, 0, 2 * Math.PI);
    else { c.moveTo(x, y - r * 1.15); c.lineTo(x + r * 1.15, y); c.lineTo(x, y + r * 1.15); c.lineTo(x - r * 1.15, y); c.closePath(); }
    c.fill();
    if (strong) {
      c.strokeStyle = colours("--mlc-ink");
      c.stroke();
      c.fillStyle = "#ffffff";
      c.font = `bold ${Math.round(r * 1.3)}px sans-serif`;
      c.textAlign = "center";
      c.textBaseline = "middle";
      c.fillText(kind, x, y + 0.5);
    }
    c.globalAlpha = 1;
  }
  function frame(c, first, end) {
    c.strokeStyle = colours("--acc-out");
    c.lineWidth = 2.5;
    c.setLineDash([4, 2]);
    for (let row = Math.floor(first / array.columns); row <= Math.floor(end / array.columns); row++) {
      const from = Math.max(first, row * array.columns), to = Math.min(end, (row + 1) * array.columns - 1);
      c.strokeRect((from % array.columns) * size, row * size, Math.max(3, (to - from + 1) * size), Math.max(3, size));
    }
    c.setLineDash([]);
  }
  return {
    node, paint, forget: colours.forget,
    /** What is touched in a line has been in the cache. */
    mark(seen, line) {
      const [first, end] = cellsOf(line);
      for (let cell = first; cell <= end; cell++) seen[cell] = 1;
    },
    hot(heat, to) {
      values = expanded(heat);
      most = to;
      const each = values.length ? [values.reduce((a, b) => Math.min(a, b)), values.reduce((a, b) => Math.max(a, b))] : [0, 0];
      const range = each[0] === each[1] ? n(each[0]) : `${n(each[0])} to ${n(each[1])}`;
      note.textContent = `${range} ${each[1] === 1 ? "miss" : "misses"} a ${array.says ? "cell" : "line"}`;
    },
    paintHot() {
      if (!values) return;
      const none = colours.bytes("--mlc-paper"), full = colours.bytes("--acc-miss");
      const share = (v) => Math.log1p(v) / Math.log1p(most);
      const c = fill((cell) => none.map((a, i) => (i === 3 ? 255 : Math.round(a + (full[i] - a) * share(values[cell])))));
      if (size < 18) return;
      c.font = "9px sans-serif";
      c.textAlign = "center";
      c.textBaseline = "middle";
      const ink = colours("--mlc-ink");
      values.forEach((v, cell) => {
        c.fillStyle = share(v) > 0.45 ? "#ffffff" : ink;
        c.fillText(v > 999 ? "…" : String(v), ((cell % array.columns) + 0.5) * size, (Math.floor(cell / array.columns) + 0.5) * size);
      });
    },
  };
}

/** Hits, and lines driven out, wait where there is little room. */
function room(column) { return column === 2 || column === 5 ? "mlc-spare" : "mlc-essential"; }

/** A row of counts up to now. */
function counted(name, width) {
  const cells = Array.from({ length: width + 3 }, (_, i) => el("td", { class: `mlc-right ${room(i + 1)}` }));
  return {
    node: el("tr", {}, el("th", { scope: "row" }, name), cells),
    set(counts, out) {
      const total = counts.reduce((a, b) => a + b, 0);
      const missed = counts.map((_, i) => counts.slice(i).reduce((a, b) => a + b, 0)).slice(1);
      const values = [n(total), n(counts[0]), n(missed[0]), total ? percent(missed[0] / total) : "–", n(out), ...missed.slice(1).map(n)];
      values.forEach((value, i) => { cells[i].textContent = value; });
    },
  };
}

/** Misses of a thousand accesses along the clock, and where it is now. */
function rates(run, data) {
  const w = 320, h = 44, most = Math.max(1, ...data.runs.flatMap((r) => r.rates));
  const x = (t) => (data.clock ? (t / data.clock) * w : 0);
  const parts = data.runs.reduce((m, r) => Math.max(m, r.rates.length), 1);
  const y = (rate) => h - 2 - (rate / most) * (h - 6);
  const path = run.rates.map((rate, i) => `${i ? "L" : "M"}${((i * w) / parts).toFixed(1)} ${y(rate).toFixed(1)}L${(((i + 1) * w) / parts).toFixed(1)} ${y(rate).toFixed(1)}`).join("");
  const hand = svg("line", { x1: 0, x2: 0, y1: 0, y2: h, class: "acc-hand" });
  const word = `misses of each access over time, at most ${percent(most / 1000)}`;
  const played = data.starts.length * data.span >= data.clock ? [] : data.starts.map((s) => svg("rect", { x: x(s), y: h - 2, width: Math.max(1, x(data.span)), height: 2, class: "acc-played" }));
  return {
    node: el("div", { class: "acc-rates" },
      svg("svg", { viewBox: `0 0 ${w} ${h}`, role: "img", "aria-label": word, preserveAspectRatio: "none" },
        svg("path", { d: path, class: "acc-line" }), played, hand),
      el("div", { class: "mlc-faint acc-small" }, `miss rate over time, top: ${percent(most / 1000)}${played.length ? "; marks below: what is played" : ""}`)),
    to(t) {
      const now = x(Math.min(Math.max(t, 0), run.total));
      hand.setAttribute("x1", now);
      hand.setAttribute("x2", now);
    },
  };
}

function legend() {
  const key = (kind) => el("span", {}, el("b", { class: `acc-badge acc-${kind}` }, kind), ` ${OUTCOMES[kind]}`);
  const box = (name, text) => el("span", {}, el("i", { class: `acc-box ${name}`, "aria-hidden": "true" }), ` ${text}`);
  return el("div", { class: "mlc-row acc-legend acc-small" }, key("h"), key("M"), key("E"),
    box("acc-is-in", "in the nearest cache"), box("acc-is-gone", "was in it"), box("acc-is-out", "driven out now"));
}

/** The histogram of reuse distances. */
function reuse(run, data) {
  const most = Math.max(1, run.cold, ...run.reuse.map((r) => r[2]));
  const bar = (count) => el("span", { class: "acc-bar-cell" }, el("i", { style: `width:${((100 * count) / most).toFixed(2)}%` }));
  const fits = (low, high) => {
    for (let i = 0; i < data.levels.length; i++) {
      if (high < data.holds[i]) return `fits ${data.levels[i]}`;
      if (low < data.holds[i]) return `some fit ${data.levels[i]}`;
    }
    return "fits nowhere";
  };
  const rows = run.reuse.map(([low, high, count]) => [low === high ? n(low) : `${n(low)}–${n(high)}`, n(count), bar(count), fits(low, high)]);
  rows.push(["never before", n(run.cold), bar(run.cold), "always a miss"]);
  const holds = data.levels.map((name, i) => `${name} ${n(data.holds[i])}`).join(", ");
  return el("section", { "aria-label": `reuse distances of ${run.name}` },
    data.runs.length > 1 ? el("h4", {}, run.name) : null,
    table(["other lines in between", "touches", "share", "what holds it"], rows, { numeric: [0, 1], caption: `a cache holds lines: ${holds}` }));
}

function sites(run, data) {
  const rows = run.sites.map(([, write, , text, block], i) => {
    const counts = run.bySite[i], missed = counts.map((_, k) => counts.slice(k).reduce((a, b) => a + b, 0));
    return [el("code", {}, text), write ? "write" : "read", block, ...missed.map(n)];
  });
  return el("section", { "aria-label": `loads and stores of ${run.name}` },
    data.runs.length > 1 ? el("h4", {}, run.name) : null,
    table(["access", "kind", "in block", "times", ...data.levels.map((l) => `${l} misses`)], rows, { numeric: [3, ...data.levels.map((_, i) => 4 + i)] }));
}

function n(x) { return x.toLocaleString("en-US"); }
function percent(x) { return `${(100 * x).toFixed(1)} %`; }
