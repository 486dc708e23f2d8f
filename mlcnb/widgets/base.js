// What every widget is built from. Python joins this file and a widget's own into one ES module.
//
//   export default { render: panel((root, view) => { root.append(el("p", {}, view.data.title)); }) };
//
// Text reaches the page by `textContent` and attributes only, so names from a model stay text.
// No state lives in the module: a host may load it once for many widgets.

const SVG = "http://www.w3.org/2000/svg";
const KINDS = {
  k: "keyword", b: "builtin", t: "type", f: "function", n: "number", s: "string", c: "comment",
};
// which version of which page this is: its style sheet holds for no other (base.py fills it in)
const PAGE = "";
const ANSWER_WITHIN = 120000; // ms
const LEVELS_AFTER = 300; // ms: a notebook that is drawn changes thousands of times
const HELLOS = 8; // while a cell runs, the first ones may wait for its end
const HEARD_WITHIN = 3000; // ms: who asks before a page has heard of a kernel waits so long
const LONGEST_PRESS = 5000; // ms: who presses longer wants no click

/** An anywidget `render` around `draw(root, view)`; what `draw` returns is called at the end. */
export function panel(draw) {
  return async ({ model, el: host }) => {
    const status = el("div", { class: "mlc-status", role: "status", "aria-live": "polite" });
    const root = el("div", { class: "mlc-body" });
    const frame = el("section", { class: "mlcnb", "data-page": PAGE, "aria-label": model.get("label") }, root, status);
    frame.addEventListener("keydown", keep);
    host.append(frame);
    const room = new ResizeObserver(() => { frame.dataset.room = roomOf(frame.clientWidth); });
    room.observe(frame);
    const stopLevels = levels(frame);
    const presses = between(frame);
    const view = connect(model, (text) => { status.textContent = text; }, presses.soon);
    view.data = await unpack(model.get("packed"));
    let finish = null;
    try {
      finish = await draw(root, view);
    } catch (error) {
      root.replaceChildren(el("p", { class: "mlc-bad" }, `This page could not be drawn: ${error.message}`));
      console.error(error);
    }
    view.hello();
    return () => { view.close(); presses.end(); room.disconnect(); stopLevels(); if (finish) finish(); frame.remove(); };
  };
}

/** How much room a page has, for its style sheet: what is beside and what below, which columns. */
function roomOf(width) { return width < 620 ? "narrow" : width < 1000 ? "medium" : "wide"; }

/** Keep the headings of a page one step below the notebook's, which may be rendered after the page,
 * moved or edited; the function that ends it. */
function levels(frame) {
  let timer = null;
  const soon = () => { timer ??= setTimeout(() => { timer = null; level(frame); }, LEVELS_AFTER); };
  const own = new MutationObserver(() => level(frame)), around = new MutationObserver(soon);
  own.observe(frame, { childList: true, subtree: true });
  around.observe(document.body, { childList: true, subtree: true });
  return () => { own.disconnect(); around.disconnect(); clearTimeout(timer); };
}

/** Headings one step deeper than the last one before the page: it may lie anywhere in a notebook. */
function level(frame) {
  if (!frame.isConnected) return; // out of the document nothing lies above
  let above = 2;
  for (const h of document.querySelectorAll("h1, h2, h3, h4, h5, h6")) {
    if (frame.compareDocumentPosition(h) & Node.DOCUMENT_POSITION_FOLLOWING) break;
    if (!h.closest(".mlcnb") && h.getClientRects().length) above = Number(h.tagName[1]);
  }
  const own = [...frame.querySelectorAll("h3, h4")];
  for (const h of own) {
    const wanted = String(above + 1 + Number(h.tagName[1]) - Number(own[0].tagName[1]));
    if (h.getAttribute("aria-level") !== wanted) h.setAttribute("aria-level", wanted);
  }
}

/** Plain keys are the page's: a notebook would take arrows for a walk, and `d d` deletes a cell. */
function keep(event) {
  const plain = !event.ctrlKey && !event.metaKey && !event.altKey && !event.shiftKey;
  if (plain && event.key !== "Escape") event.stopPropagation();
}

/** What comes from a kernel, between presses: what draws anew under a pointer that is down takes the
 * click away. `soon(f)` calls now or when it is up; sliders are dragged, and nothing waits for them. */
function between(frame) {
  let late = [], timer = null;
  const down = (event) => {
    if (event.target.closest("input, textarea, select")) return;
    clearTimeout(timer);
    timer = setTimeout(done, LONGEST_PRESS);
  };
  const up = () => { if (timer !== null) { clearTimeout(timer); timer = setTimeout(done, 0); } }; // its click comes first
  function done() {
    timer = null;
    const now = late;
    late = [];
    for (const f of now) f();
  }
  frame.addEventListener("pointerdown", down, true);
  for (const name of ["pointerup", "pointercancel"]) document.addEventListener(name, up, true);
  return {
    soon(f) { if (timer === null) f(); else late.push(f); },
    end() {
      clearTimeout(timer);
      for (const name of ["pointerup", "pointercancel"]) document.removeEventListener(name, up, true);
    },
  };
}

/** The line to Python: the snapshot, questions and answers, and whether a kernel is there.
 * What comes goes through `soon`. */
function connect(model, announce, soon) {
  const waiting = new Map(), onData = [], onLive = [], places = new Map();
  let asked = 0, hellos = 0, heard = () => {}, put = null, order = Promise.resolve();
  const first = new Promise((resolve) => { heard = resolve; setTimeout(resolve, HEARD_WITHIN); });
  const view = {
    data: null,
    live: false,
    announce,
    /** Call `f(data)` with every new snapshot. */
    onData(f) { onData.push(f); },
    /** Call `f(live)` when a kernel is found or lost. */
    onLive(f) { onLive.push(f); f(view.live); },
    /** Ask Python's `on_<kind>`; the promise fails with its message and hint. */
    async ask(kind, fields = {}) {
      if (!view.live) await first;
      if (!view.live) throw new Error("no kernel is running: run the cell again");
      return send(kind, fields);
    },
    /** Call `f()` when a kernel is heard of: what was chosen before; only the last is kept. */
    later(f) { put = f; },
    /** A trait that cells and other widgets have too: `take(value)` is called with what they set,
     * at once with what is set already; gives the function by which the page says where it is. */
    shared(name, take) {
      const heard = () => { const to = model.get(name); if (to !== null && to !== undefined) take(to); };
      model.off(`change:${name}`, places.get(name));
      places.set(name, heard);
      model.on(`change:${name}`, heard);
      heard();
      return (value) => {
        if (!model.set || model.get(name) === value) return;
        model.set(name, value);
        model.save_changes();
      };
    },
    hello() { hellos += 1; send("hello", {}).then(() => live(true), () => {}).then(heard); },
    close() {
      model.off("msg:custom", received);
      model.off("change:packed", changed);
      model.off("comm:close", lost);
      for (const [name, heard] of places) model.off(`change:${name}`, heard);
    },
  };
  function send(kind, fields) {
    const id = ++asked;
    return new Promise((resolve, reject) => {
      const late = () => {
        waiting.delete(id);
        reject(new Error("the kernel does not answer: is it busy with another cell?"));
      };
      waiting.set(id, { resolve, reject, timer: setTimeout(late, ANSWER_WITHIN) });
      try {
        model.send({ ask: kind, id, fields });
      } catch (error) {
        reject(error);
      }
    });
  }
  // one after the other, as Python sent them: a snapshot takes its time to unpack
  function next(f) { order = order.then(f).catch((error) => console.error(error)); }
  function received(message) { next(() => soon(() => answered(message))); }
  function answered(message) {
    const one = waiting.get(message.reply);
    if (!one) return;
    waiting.delete(message.reply);
    clearTimeout(one.timer);
    const problem = message.answer && message.answer.error;
    if (!problem) return one.resolve(message.answer);
    one.reject(Object.assign(new Error(problem), { answer: message.answer }));
  }
  function changed() {
    const packed = model.get("packed");
    next(async () => {
      const data = await unpack(packed);
      soon(() => fresh(data));
    });
  }
  function fresh(data) {
    view.data = data;
    if (!view.live && hellos < HELLOS) view.hello(); // what sends data is a kernel
    for (const f of onData) f(data);
  }
  function live(is) {
    view.live = is;
    for (const f of onLive) f(is);
    if (!is || !put) return;
    const f = put;
    put = null;
    f();
  }
  function lost() { next(() => soon(ended)); }
  function ended() {
    live(false);
    for (const one of waiting.values()) {
      clearTimeout(one.timer);
      one.reject(new Error("the kernel has ended: run the cell again"));
    }
    waiting.clear();
  }
  model.on("msg:custom", received);
  model.on("change:packed", changed);
  model.on("comm:close", lost);
  return view;
}

/** A snapshot as Python packed it: JSON, or JSON deflated in base64. */
async function unpack(packed) {
  if (!packed.startsWith("z")) return JSON.parse(packed);
  const bytes = Uint8Array.from(atob(packed.slice(1)), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
}

/** An element: `el("button", { class: "x", "aria-label": "y", onclick: f }, "text", child)`. */
export function el(tag, props = {}, ...children) {
  return dress(document.createElement(tag), props, children);
}

/** An SVG element. */
export function svg(tag, props = {}, ...children) {
  return dress(document.createElementNS(SVG, tag), props, children);
}

function dress(node, props, children) {
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") node.addEventListener(name.replace(/^on/, ""), value);
    else if (name === "dataset") Object.assign(node.dataset, value);
    else if (/^(on|href$|src$|srcdoc$|id$)/.test(name)) throw new Error(`attribute ${name} is not for here`);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.flat().filter((c) => c !== null && c !== undefined && c !== false));
  return node;
}

/** A button; `title` is shown on hover and read where the label is only a sign. */
export function button(label, onclick, props = {}) {
  const named = props.title && !props["aria-label"] ? { "aria-label": props.title } : {};
  return el("button", { type: "button", class: "mlc-button", ...named, ...props, onclick }, label);
}

/** A slider with its label: `{ node, input, set(value) }`. */
export function slider({ label, min = 0, max, value = min, onInput }) {
  const input = el("input", {
    type: "range", class: "mlc-slider", min, max, value, "aria-label": label,
    oninput: () => onInput(Number(input.value)),
  });
  return { node: input, input, set(to) { input.value = to; } };
}

/** Steps: buttons, a slider and the arrow keys. `say(at)` names a step. */
export function stepper({ count, at = 0, label = "step", say = (i) => `${i}`, onStep }) {
  const text = el("span", { class: "mlc-at" }); // the slider says it to a screen reader
  const range = slider({ label, max: Math.max(0, count - 1), value: at, onInput: go });
  const back = button("‹", () => go(at - 1), { title: `previous ${label}` });
  const next = button("›", () => go(at + 1), { title: `next ${label}` });
  const node = el("div", { class: "mlc-stepper", role: "group", "aria-label": label },
    back, range.node, next, text);
  node.addEventListener("keydown", (event) => {
    const to = arrows(event, at, count);
    if (to === null) return;
    event.preventDefault();
    event.stopPropagation();
    go(to);
  });
  function go(to) {
    const kept = Math.max(0, Math.min(count - 1, to));
    const moved = kept !== at;
    at = kept;
    draw();
    if (moved) onStep(at);
  }
  function draw() {
    range.input.max = Math.max(0, count - 1);
    range.set(at);
    range.input.setAttribute("aria-valuetext", say(at));
    text.textContent = say(at);
    back.disabled = at <= 0;
    next.disabled = at >= count - 1;
  }
  draw();
  return { node, go, get at() { return at; },
    /** Another number of steps, without a call of onStep. */
    resize(to, now) { count = to; at = Math.max(0, Math.min(to - 1, now)); draw(); } };
}

/** Where an arrow key, Home or End leads from `at` of `count`, or null. */
export function arrows(event, at, count) {
  if (event.altKey || event.ctrlKey || event.metaKey) return null;
  switch (event.key) {
    case "ArrowLeft": case "ArrowUp": return at - 1;
    case "ArrowRight": case "ArrowDown": return at + 1;
    case "Home": return 0;
    case "End": return count - 1;
    default: return null;
  }
}

/**
 * A listing. `lines`: each a list of [kind, text]; `marks`: "+", "-", "~" or "" for each line.
 * With `onPick`, lines are chosen by click, or by arrows and Enter; `onHover(line or null)` follows
 * pointer and focus. Lines count from 0.
 */
export function code(lines, { label = "program", marks = [], numbers = true, onPick, onHover } = {}) {
  const chosen = Boolean(onPick || onHover);
  const node = el("div", {
    class: "mlc-code", tabindex: 0, "aria-label": label, role: chosen ? "listbox" : "region",
  });
  let rows = [], here = -1;
  const made = { node, show, light, mark: (to) => { marks = to; show(lines); }, get rows() { return rows; },
    /** Bring a line into the window of the listing, without moving the page. */
    reveal(line) {
      const row = rows[line];
      if (!row) return;
      const above = row.getBoundingClientRect().top - node.getBoundingClientRect().top;
      node.scrollTop = Math.max(0, node.scrollTop + above - node.clientHeight / 3);
    } };
  function show(to, signs = marks) {
    lines = to;
    marks = signs;
    rows = lines.map((spans, i) => line(spans, i));
    node.replaceChildren(...rows);
    here = -1;
  }
  function line(spans, i) {
    const sign = marks[i] || "";
    const name = { "+": "added", "-": "removed", "~": "moved" }[sign];
    const row = el("div", { class: "mlc-line", role: chosen ? "option" : null,
      "aria-selected": chosen ? "false" : null, "data-mark": sign || null,
      "aria-label": chosen && !spans.some(([, text]) => text.trim()) ? "empty line" : null });
    if (numbers) row.append(el("span", { class: "mlc-number", "aria-hidden": "true" }, String(i + 1)));
    if (marks.length) {
      row.append(el("span", { class: "mlc-sign", title: name || null }, sign || " "));
    }
    row.append(tokens(spans));
    if (onPick) row.addEventListener("click", () => { move(i); onPick(i); });
    if (onHover) row.addEventListener("pointerenter", () => onHover(i));
    return row;
  }
  function move(to) {
    if (!rows.length) return;
    if (rows[here]) rows[here].setAttribute("aria-selected", "false");
    here = Math.max(0, Math.min(rows.length - 1, to));
    rows[here].setAttribute("aria-selected", "true");
    if (rows[here].scrollIntoView) rows[here].scrollIntoView({ block: "nearest" });
    if (onHover) onHover(here);
  }
  /** Mark these lines (a Set or list of numbers) with a class, and no others. */
  function light(which, name = "mlc-lit") {
    const set = new Set(which);
    rows.forEach((row, i) => row.classList.toggle(name, set.has(i)));
  }
  if (chosen) {
    node.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") {
        if (onPick && here >= 0) { event.preventDefault(); onPick(here); }
        return;
      }
      const to = arrows(event, here, rows.length);
      if (to === null) return;
      event.preventDefault();
      event.stopPropagation();
      move(to);
    });
    if (onHover) node.addEventListener("pointerleave", () => onHover(null));
  }
  show(lines);
  return made;
}

/** One line of code as coloured spans. */
export function tokens(spans) {
  return el("span", { class: "mlc-text" },
    ...spans.map(([kind, text]) => (kind ? el("span", { class: `mlc-${KINDS[kind] || "name"}` }, text) : text)));
}

/** A box with text to copy: `{ node, set(text) }`. */
export function copyBox(label, text = "") {
  const area = el("textarea", { class: "mlc-copy", readonly: true, rows: 1, "aria-label": label, spellcheck: "false" });
  const press = button("copy", async () => {
    area.select();
    try {
      await navigator.clipboard.writeText(area.value);
      press.textContent = "copied";
    } catch {
      press.textContent = "selected: press Ctrl+C";
    }
    setTimeout(() => { press.textContent = "copy"; }, 1500);
  }, { title: `copy ${label}` });
  const made = { node: el("div", { class: "mlc-copybox" }, area, press), set };
  function set(to) {
    area.value = to;
    area.rows = Math.min(12, Math.max(1, to.split("\n").length));
  }
  set(text);
  return made;
}

/** Tabs: `tabs([["name", node], …])`; left and right arrows move between them. */
export function tabs(pages, { label = "views", at = 0, onTab = () => {} } = {}) {
  const heads = pages.map(([name], i) => el("button", {
    type: "button", class: "mlc-tab", role: "tab", onclick: () => go(i) }, name));
  const bodies = pages.map(([name, body]) => el("div", { class: "mlc-page", role: "tabpanel", "aria-label": name }, body));
  const list = el("div", { class: "mlc-tabs", role: "tablist", "aria-label": label,
    onkeydown: (event) => {
      const to = arrows(event, at, heads.length);
      if (to === null) return;
      event.preventDefault();
      event.stopPropagation();
      go((to + heads.length) % heads.length);
      heads[at].focus();
    } }, ...heads);
  function go(to) {
    at = to;
    heads.forEach((head, i) => {
      head.setAttribute("aria-selected", String(i === at));
      head.tabIndex = i === at ? 0 : -1;
      bodies[i].hidden = i !== at;
    });
    onTab(at);
  }
  go(at);
  return { node: el("div", { class: "mlc-tabbed" }, list, ...bodies), go };
}

/** A table: `table(["name", "ms"], rows, { caption })`; cells are text or nodes. `numeric`: columns to
 *  the right; `spare`: those that wait where there is little room (see `roomy`). */
export function table(header, rows, { caption, numeric = [], spare = [] } = {}) {
  const look = (i) => [numeric.includes(i) ? "mlc-right" : "", spare.includes(i) ? "mlc-spare" : "mlc-essential"].join(" ").trim();
  const cell = (tag, value, i) => el(tag, { class: look(i), scope: tag === "th" ? "col" : null },
    value === null || value === undefined ? "" : value);
  return el("table", { class: "mlc-table" },
    caption ? el("caption", {}, caption) : null,
    el("thead", {}, el("tr", {}, ...header.map((h, i) => cell(h ? "th" : "td", h, i)))),
    el("tbody", {}, ...rows.map((row) => el("tr", {}, ...row.map((c, i) => cell("td", c, i))))));
}

/** True where the reader asked for less motion. */
export function calm() {
  return matchMedia("(prefers-reduced-motion: reduce)").matches;
}
