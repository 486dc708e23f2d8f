// The warp lens: 32 lanes in a row, and below them the sectors or banks that they ask for.
//
// A row of the lower grid is a line of global memory (32 words, a sector each 8), or one wavefront of
// shared memory (32 banks). Lanes and cells light each other; one request of each program at a time.

import { panel, el, button, stepper, tabs, table, arrows } from "./base.js";

const LANES = 32, WORD = 4, SECTOR = 32, LINE = 128, HUES = 8;

export default { render: panel(draw) };

function draw(root, view) {
  let at = 0, lane = 0;
  const build = () => open(root, view, { at, lane, moved: (p, l) => { at = p; lane = l; } });
  view.onData(build);
  build();
}

function open(root, view, kept) {
  const data = view.data;
  const count = Math.max(1, ...data.runs.map((run) => run.requests.length));
  let lane = kept.lane, at = Math.min(kept.at, count - 1), tellCursor = () => {};
  const runs = data.runs.map((run) => lens(run, (to) => pick(to), data.runs.length > 1));
  const steps = stepper({ count, at, label: "request", say: (p) => told(p), onStep: (p) => move(p) });
  steps.node.classList.add("warp-clock");
  const pages = [
    ["lanes", el("div", {},
      el("div", { class: "mlc-row warp-bar" }, steps.node,
        button("next finding", () => find(), { title: "go to the next request that is not coalesced or has a conflict" }),
        chooser(view, data.runs)),
      legend(),
      el("div", { class: data.runs.length > 1 ? "mlc-columns warp-pair" : "" }, runs.map((run) => run.node)))],
    ["totals", el("div", {}, data.runs.map(totals))],
  ];
  root.replaceChildren(
    el("h3", {}, data.title),
    ...(data.runs.length > 1 ? data.verdicts : data.runs[0].summaries).map((text) => el("p", { class: "warp-verdict" }, text)),
    tabs(pages, { label: "views of the warp" }).node,
    el("p", { class: "mlc-faint warp-small" }, data.assumed));

  function told(p) {
    const run = data.runs.find((r) => p < r.requests.length) || data.runs[0];
    const all = Math.max(...data.runs.map((r) => r.requests.length));
    return run.requests.length ? `${n(p + 1)} of ${n(all)}` : "none";
  }
  function move(p) {
    at = p;
    kept.moved(at, lane);
    for (const run of runs) run.show(p, lane);
    view.announce(runs.map((run) => run.sentence()).join(" — "));
    tellCursor(p);
  }
  function pick(to) {
    lane = to;
    kept.moved(at, lane);
    for (const run of runs) run.light(lane);
  }
  function find() {
    const waits = (p) => data.runs.some((run) => run.requests[p] && run.requests[p].taken > run.requests[p].ideal);
    for (let turn = 1; turn <= count; turn++) {
      const p = (at + turn) % count;
      if (waits(p)) return p === at ? move(p) : steps.go(p);
    }
    view.announce("every request that is shown takes the fewest sectors and wavefronts that it could");
  }
  for (const run of runs) run.show(at, lane);
  tellCursor = view.shared("cursor", (p) => steps.go(p));
}

/** One program: what it asks for now, its lanes, and the memory below them. */
function lens(run, onLane, several) {
  const now = el("p", { class: "warp-now" });
  const lanes = el("div", { class: "warp-lanes", role: "listbox", "aria-label": "lanes of the warp", tabindex: 0 });
  const cells = Array.from({ length: LANES }, (_, i) => el("div", { class: "warp-lane", role: "option", "aria-selected": "false",
    onpointerenter: () => onLane(i), onclick: () => onLane(i) }));
  lanes.append(...cells);
  lanes.addEventListener("keydown", (event) => {
    const to = arrows(event, here, LANES);
    if (to === null) return;
    event.preventDefault();
    event.stopPropagation();
    onLane(Math.max(0, Math.min(LANES - 1, to)));
  });
  const memory = el("div", { class: "warp-memory" }), label = el("b", {});
  const detail = el("p", { class: "warp-detail", "aria-live": "polite" });
  const node = el("section", { "aria-label": run.name },
    several ? el("h4", {}, run.name) : null,
    el("p", { class: "mlc-faint warp-small" }, `grid (${run.grid.join(", ")}), block (${run.size.join(", ")}); ${run.says}`),
    now, el("div", { class: "warp-scroll" }, el("div", { class: "warp-strip" }, label, lanes), memory), detail);
  let shown = null, here = 0, boxes = [];

  function show(p, lane) {
    const request = run.requests[p];
    shown = request ? placed(run.instructions[request.of], request) : null;
    if (!shown) {
      now.replaceChildren(run.requests.length ? `finished after ${n(run.requests.length)} requests` : "this warp asks for nothing that could be followed");
      cells.forEach((cell) => { cell.textContent = ""; cell.className = "warp-lane warp-idle"; cell.setAttribute("aria-label", "no request"); });
      memory.replaceChildren();
      detail.textContent = "";
      boxes = [];
      return;
    }
    const { of } = shown;
    const loops = request.loops.map(([name, value]) => `${name} = ${value}`).join(", ");
    const good = request.taken === request.ideal;
    now.replaceChildren(el("span", {}, `${of.verb} `), el("code", {}, of.text), loops ? ` at ${loops}: ` : ": ",
      el("b", { class: good ? "mlc-good" : "mlc-bad" }, request.says));
    label.textContent = of.memory === "shared" ? "its bank" : "its sector";
    cells.forEach((cell, i) => {
      cell.textContent = shown.words[i];
      cell.className = `warp-lane ${shown.looks[i]}`;
      cell.setAttribute("aria-label", shown.say(run, i));
    });
    const made = of.memory === "shared" ? banks(shown, onLane) : sectors(shown, onLane);
    memory.replaceChildren(made.node);
    boxes = made.boxes;
    light(lane);
  }
  function light(lane) {
    cells[here].setAttribute("aria-selected", "false");
    here = lane;
    cells[here].setAttribute("aria-selected", "true");
    for (const [box, whose] of boxes) box.classList.toggle("warp-lit", whose.has(lane));
    if (shown) detail.textContent = shown.say(run, lane);
  }
  return { node, show, light,
    sentence: () => (several ? `${run.name}: ` : "") + now.textContent };
}

/** A request with the address of each lane, and how its lanes look. */
function placed(of, request) {
  const at = [];
  let last = request.first;
  for (const step of request.moved) {
    if (step === null) at.push(-1);
    else at.push((last += step));
  }
  const shared = of.memory === "shared";
  const found = shared ? wavefronts(at, of.width) : null;
  const order = [...new Set(at.filter((a) => a >= 0).map((a) => Math.floor(a / SECTOR)))].sort((a, b) => a - b);
  const rank = (a) => order.indexOf(Math.floor(a / SECTOR));
  const words = at.map((a) => (a < 0 ? "·" : shared ? String(Math.floor(a / WORD) % LANES) : letter(rank(a))));
  const looks = at.map((a, i) => (a < 0 ? "warp-idle" : shared ? (found.turn[i] ? "warp-later" : "warp-first") : `warp-hue${rank(a) % HUES}`));
  return { of, at, words, looks, waves: found, rank, order,
    say(run, i) {
      const number = run.warp * LANES + i, [x, y] = run.size;
      const who = `lane ${i}, thread (${number % x}, ${Math.floor(number / x) % y}, ${Math.floor(number / (x * y))})`;
      if (at[i] < 0) return `${who}: takes no part`;
      const place = shared
        ? `bank ${Math.floor(at[i] / WORD) % LANES}, served in wavefront ${found.served[i] + 1} of ${found.rows.length}`
        : `sector ${letter(rank(at[i]))} (${n(Math.floor(at[i] / SECTOR))}), line ${n(Math.floor(at[i] / LINE))}`;
      return `${who}: ${element(of, at[i])}, byte ${n(at[i])}, ${place}`;
    } };
}

function letter(rank) { return "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"[rank % 62]; }

/** `A_shared[3, 0]` */
function element(of, byte) {
  let rest = Math.floor(byte / of.item);
  const found = of.strides.map((stride) => {
    const i = Math.floor(rest / stride);
    rest %= stride;
    return i;
  });
  return `${of.array}[${found.join(", ")}]`;
}

/** What the banks give in each wavefront: rows of 32 lists of lanes; halves and quarters of a warp one after the other. */
function wavefronts(at, width) {
  const words = Math.max(1, Math.floor(width / WORD)), size = LANES / words;
  const rows = [], served = new Array(LANES).fill(-1), turn = new Array(LANES).fill(0);
  for (let first = 0; first < LANES; first += size) {
    const banks = Array.from({ length: LANES }, () => []), begin = rows.length;
    for (let lane = first; lane < first + size; lane++) {
      if (at[lane] < 0) continue;
      const start = Math.floor(at[lane] / WORD);
      for (let word = start; word < start + words; word++) {
        const own = banks[word % LANES];
        let place = own.indexOf(word);
        if (place < 0) { place = own.length; own.push(word); }
        while (rows.length <= begin + place) rows.push(Array.from({ length: LANES }, () => []));
        rows[begin + place][word % LANES].push(lane);
        turn[lane] = Math.max(turn[lane], place);
        served[lane] = Math.max(served[lane], begin + place);
      }
    }
  }
  return { rows, served, turn };
}

/** Shared memory: a row for each wavefront, a column for each bank. */
function banks(shown, onLane) {
  const { rows } = shown.waves;
  const boxes = [];
  const lines = rows.map((row, i) => [`${i + 1}`, row.map((lanes) => {
    const box = el("i", { class: lanes.length ? (shown.waves.turn[lanes[0]] && lanes.every((l) => shown.waves.turn[l]) ? "warp-later" : "warp-first") : "" }, who(lanes));
    if (lanes.length) join(box, lanes, boxes, onLane);
    return box;
  })]);
  const word = `${rows.length === 1 ? "1 wavefront" : `${rows.length} wavefronts`}, a column for each of 32 banks; a number in a box is a lane`;
  return { node: grid(word, "wavefront", lines, false), boxes };
}

/** Global memory: a row for each line of 128 bytes, a column for each word, four sectors. */
function sectors(shown, onLane) {
  const { at, of } = shown, boxes = [], found = new Map();
  at.forEach((a, lane) => {
    if (a < 0) return;
    for (let word = Math.floor(a / WORD); word <= Math.floor((a + of.width - 1) / WORD); word++) {
      const line = Math.floor(word / LANES);
      if (!found.has(line)) found.set(line, Array.from({ length: LANES }, () => []));
      found.get(line)[word % LANES].push(lane);
    }
  });
  const lines = [...found.keys()].sort((a, b) => a - b).map((line) => [n(line), found.get(line).map((lanes, word) => {
    const sector = line * 4 + Math.floor(word / 8), rank = shown.order.indexOf(sector);
    const box = el("i", { class: lanes.length ? `warp-hue${rank % HUES}` : rank >= 0 ? "warp-moved" : "" }, who(lanes));
    if (lanes.length) join(box, lanes, boxes, onLane);
    return box;
  })]);
  const word = `${lines.length === 1 ? "1 line" : `${lines.length} lines`} of 128 bytes, a column for each word of 4; ${shown.order.length === 1 ? "1 sector is" : `${shown.order.length} sectors are`} touched; a number in a box is a lane`;
  return { node: grid(word, "line", lines, true), boxes };
}

function who(lanes) { return lanes.length > 1 ? `${lanes[0]}+` : lanes.length ? String(lanes[0]) : ""; }

function join(box, lanes, boxes, onLane) {
  boxes.push([box, new Set(lanes)]);
  box.addEventListener("pointerenter", () => onLane(lanes[0]));
}

function grid(word, unit, lines, bySector) {
  const head = el("div", { class: "warp-row warp-head" }, el("b", {}, unit), Array.from({ length: LANES }, (_, i) => el("i", {}, String(i))));
  return el("div", { class: `warp-grid${bySector ? " warp-bysector" : ""}${lines.length > 8 ? " warp-dense" : ""}`, role: "img", "aria-label": word }, head,
    lines.map(([name, boxes]) => el("div", { class: "warp-row" }, el("b", {}, name), boxes)),
    el("div", { class: "mlc-faint warp-small" }, word));
}

/** Which block and warp: a question to Python. */
function chooser(view, runs) {
  const run = runs[0], names = ["x", "y", "z"];
  const field = (label, value, most) => el("input", { type: "number", class: "warp-field", min: 0, max: most, value, "aria-label": label });
  const axes = names.map((axis, i) => field(`blockIdx.${axis}`, run.block[i], run.grid[i] - 1));
  const warp = field("warp", run.warp, run.warps - 1);
  const go = button("look", () => {
    const block = axes.map((a) => Number(a.value));
    view.ask("pick", { block, warp: Number(warp.value) }).then(
      () => view.announce(`warp ${warp.value} of block (${block.join(", ")})`),
      (error) => view.announce(error.message + (error.answer && error.answer.hint ? `: ${error.answer.hint}` : "")));
  }, { title: "look at this block and warp" });
  const inputs = [...axes, warp, go];
  for (const input of inputs) {
    input.addEventListener("keydown", (event) => {
      event.stopPropagation();
      if (event.key === "Enter" && input !== go) go.click();
    });
  }
  view.onLive((live) => inputs.forEach((input) => { input.disabled = !live; }));
  return el("div", { class: "mlc-row", role: "group", "aria-label": "which warp" },
    el("span", { class: "mlc-faint" }, "block"), axes.filter((_, i) => i < 2 || run.grid[2] > 1), el("span", { class: "mlc-faint" }, "warp"), warp, go);
}

function legend() {
  const key = (look, sign, text) => el("span", {}, el("i", { class: `warp-key ${look}`, "aria-hidden": "true" }, sign), ` ${text}`);
  return el("div", { class: "mlc-row warp-legend warp-small" },
    key("warp-hue0", "a", "a 32-byte sector"), key("warp-moved", "", "moved, not asked for"),
    key("warp-first", "0", "its bank, served at once"), key("warp-later", "0", "waits for another word of its bank"), key("warp-idle", "·", "takes no part"));
}

function totals(run) {
  const of = (memory, noun) => {
    const rows = run.instructions.filter((i) => i.memory === memory && i.total)
      .map((i) => [el("code", {}, i.text), i.verb, i.width, ...i.total.slice(0, 3).map(n), i.total[3], i.total[4]]);
    return rows.length ? table(["instruction", "kind", "bytes a lane", "requests", noun, "at best", "efficiency", "finding"], rows,
      { numeric: [2, 3, 4, 5, 6], caption: `${memory} memory` }) : null;
  };
  return el("section", { "aria-label": `totals of ${run.name}` },
    el("h4", {}, run.name),
    run.summaries.map((text) => el("p", {}, text)),
    el("p", { class: "mlc-faint warp-small" }, run.sample || "counted in all warps of all blocks"),
    of("global", "sectors"), of("shared", "wavefronts"),
    run.unseen.map(([text, reason]) => el("p", { class: "mlc-warn" }, "not counted: ", el("code", {}, text), `: ${reason}`)));
}

function n(x) { return x.toLocaleString("en-US"); }
