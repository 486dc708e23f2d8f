import { panel, el, svg, button, stepper, code, copyBox, tabs, table } from "./base.js";

// One of everything that base.js has: what widgets are built from, tested by itself.

export default { render: panel((root, view) => {
  const said = el("p", { class: "kit-said" });
  const title = el("h3", {});
  const listing = code([], { label: "program", onPick: (line) => { said.textContent = `line ${line}`; } });
  const walk = stepper({
    count: view.data.steps.length, label: "step", say: (at) => view.data.steps[at].name, onStep: show,
  });
  const doubled = button("double", async () => {
    try {
      said.textContent = String((await view.ask("double", { n: walk.at })).n);
    } catch (error) {
      said.textContent = error.message;
    }
  });
  const copied = copyBox("the call");
  const picture = svg("svg", { width: 40, height: 10, role: "img", "aria-label": "a bar" },
    svg("rect", { width: 40, height: 10, fill: "var(--mlc-blue)" }));
  const pages = tabs([
    ["program", listing.node],
    ["facts", table(["name", "value"], view.data.facts, { caption: "facts", numeric: [1] })],
  ]);
  root.append(title, walk.node, doubled, pages.node, picture, copied.node, said);
  function show(at) {
    const { lines, marks, name } = view.data.steps[at];
    title.textContent = view.data.title;
    listing.show(lines, marks);
    copied.set(name);
    view.announce(`step ${at}: ${name}`);
  }
  view.onData(() => { walk.resize(view.data.steps.length, walk.at); show(walk.at); });
  show(0);
}) };
