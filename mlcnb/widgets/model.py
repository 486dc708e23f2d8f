"""The page of a model: its graph; of each operator its origin, what it made, and its kernel.

    mlc.explore(mod)                         operators: origin, shapes, bytes, work
    mlc.explore(mod, inputs=x)               also the values of every tensor on this input
    mlc.explore(ex, inputs=x, profile=mlc.profile(ex, x))     kernels: also time, loops, assembly

The graph is laid out here and drawn by the page. A network of images shows its stages first, all
operators on a click. Above 400 nodes it is folded; with a kernel running, a fold opens on a click,
and a search opens what it finds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from mlcnb.core import display
from mlcnb.core.errors import MLCError
from mlcnb.ir.module import IRModule
from mlcnb.relax import expr as rx
from mlcnb.relax.analysis import call_flops
from mlcnb.runtime.executable import Executable
from mlcnb.script.printer import document
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.schedule.schedule import Schedule
from mlcnb.view import survey
from mlcnb.view.graph import COLOURS, MAX_NODES, Graph, paint
from mlcnb.view.graph import graph as graph_of
from mlcnb.view.graph.fold import is_stage
from mlcnb.view.graph.kinds import LOOKS
from mlcnb.view.graph.model import Model, Node
from mlcnb.view.highlight import ASSEMBLY, code
from mlcnb.view.module import summary
from mlcnb.view.parts import Column, Facts, Part, Title, filled, heads
from mlcnb.view.words import clip, flops, percent, plural, seconds, short, size, tensor
from mlcnb.widgets import linked
from mlcnb.widgets.base import Interactive, Lines, spans
from mlcnb.widgets.explorer import Explorer
from mlcnb.widgets.graphs import drawing
from mlcnb.widgets.registry import explores
from mlcnb.widgets.values import machine_of, values_of

#: lines of a kernel's loops, and of its hot loop in assembly
MOST_LINES = 80
#: origins of one node that are told
MOST_ORIGINS = 8
#: kernels whose loops, and whose assembly, travel with the page
MOST_KERNELS, MOST_ASSEMBLY = 120, 6


@explores("mlcnb.runtime.executable:Executable")
def of_executable(ex: Executable, **options: Any) -> Interactive:
    """The page of an executable: of its graph; where it has none, of its code."""
    has_graph = any(isinstance(f, rx.Function) for f in ex.mod.functions.values())
    return ModelPage(ex, **options) if has_graph else linked.of_executable(ex, **options)


@explores("mlcnb.ir.module:IRModule")
def of_module(mod: IRModule, **options: Any) -> Interactive:
    """The page of a module: of its graph; where it has none, of a schedule of its loops."""
    if any(isinstance(f, rx.Function) for f in mod.functions.values()):
        return ModelPage(mod, **options)
    return Explorer(Schedule(mod), **options)


@explores("mlcnb.relax.expr:Function")
class ModelPage(Interactive):
    """The page of a model. See the module's text.

    Args:
        obj: a module, a graph function or an executable.
        inputs: an array, several, or several by name: what the values are of.
        profile: what `mlcnb.profile(ex, …)` gave: the time of each call.
        function: which graph function.
        max_nodes: a graph with more is folded.

    Raises:
        MLCError: there is no graph function; inputs that do not fit; the profile of another
            program.
    """

    module = "model"
    traits = ("selection",)

    def __init__(
        self,
        obj: Any,
        *,
        inputs: Any = None,
        profile: Any = None,
        function: str = "main",
        max_nodes: int = MAX_NODES,
    ) -> None:
        self.ex = obj if isinstance(obj, Executable) else None
        given = obj.mod if isinstance(obj, Executable) else obj
        whole = given if isinstance(given, IRModule) else IRModule.from_expr(given)
        self.mod = whole.held_by(self, "mod")
        self.profile, self.max_nodes = profile, max_nodes
        drawn = graph_of(self.mod, function, profile=profile)
        self.name = drawn.full.name
        self.full = paint.with_bytes(drawn.full)
        self.time = {n.id: n.amount for n in drawn.full.nodes} if profile is not None else {}
        self.values = {} if inputs is None else self._run(inputs)
        self.lines = Lines()
        self.opened: frozenset[int] = frozenset()

    def _run(self, inputs: Any) -> dict[str, dict[str, Any]]:
        vm = machine_of(self.mod) if self.ex is None else self.ex.vm
        return values_of(vm, self.name, inputs)

    @property
    def function(self) -> rx.Function:
        """The graph function that is shown."""
        return self.mod[self.name]

    @property
    def title(self) -> str:
        """What it is, in one line."""
        what = "executable" if self.ex is not None else "model"
        told = [f"{what} {clip(self.name, 40)}: {plural(self.full.operators, 'operator')}"]
        told.append(flops(survey.work(self.function, self.mod.functions)))
        if self.profile is not None:
            told.append(f"{seconds(sum(self.time.values()))} a run")
        return "; ".join(t for t in told if t)

    # the text twin and the static view -----------------------------------------------------------

    def explain(self) -> str:
        """The title, and a line for each node: what it takes, where it came from, what it made."""
        drawn = Graph(self.full, self.max_nodes)
        lines = [self.title]
        for line, node in zip(
            drawn.explain(len(drawn.model.nodes)).splitlines(), drawn.model.nodes, strict=True
        ):
            told = "; ".join(self._words(node)) if len(node.members) == 1 else ""
            lines.append(f"{line}; {told}" if told else line)
        return "\n".join(lines)

    def _words(self, node: Node) -> list[str]:
        """What is known of one node, in words."""
        told = self._detail(node)
        origins = ", ".join(name for _, name, _ in told["from"])
        words = [f"from {origins}"] if origins else []
        words += [f"kernel {told['kernel']}"] if told.get("kernel") else []
        words += [told["time"]] if told.get("time") else []
        found = told.get("value", {})
        if "range" in found:
            low, high = found["range"]
            words.append(f"{low:g} .. {high:g}, mean {found['mean']:g}, NaN {found['nan']}")
        return words

    def parts(self) -> Sequence[Part]:
        """The graph, and a row for each operator."""
        drawn = Graph(self.full, min(self.max_nodes, 120))
        columns = heads("node: code | from: code | result: code")
        columns += [Column(name, "number") for name in ("bytes", "work", "time", "range", "NaN")]
        rows = [self._row(n) for n in self.full.nodes if isinstance(n.origin, rx.Call)]
        facts = Facts(summary(self.mod, self.function))
        table = filled(columns, rows, 40, "print(mlc.explore(…))")
        return [Title(self.title), facts, *drawn.parts("mod.graph()"), table]

    def _row(self, node: Node) -> tuple[str, ...]:
        told = self._detail(node)
        found = told.get("value", {})
        low_high = " .. ".join(f"{v:g}" for v in found.get("range", ()))
        origin = ", ".join(clip(name, 40) for _, name, _ in told["from"][:2])
        figures = (told["bytes"], told.get("work", ""), told.get("time", ""), low_high)
        result = short(getattr(node.var, "struct_info", None))
        return (clip(node.lines[0], 40), origin, result, *figures, str(found.get("nan", "")))

    # the snapshot --------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, Any]:
        """The graph as it is folded now, and all that is known of each node and kernel."""
        return {
            "title": self.title,
            "facts": [list(pair) for pair in summary(self.mod, self.function)],
            "see": "ex" if self.ex is not None else "mod",
            "drawn": self.drawn,
            "stages": self.stages,
            "kinds": [
                [s, LOOKS[s].words] for s in LOOKS if any(n.sort == s for n in self.full.nodes)
            ],
            "nodes": [self._detail(n) for n in self.full.nodes],
            "kernels": self._kernels,
            "lines": list(self.lines.table),
        }

    @property
    def drawn(self) -> dict[str, Any]:
        """The graph folded, with what was opened left open, and its colours."""
        nodes = [replace(n, found=n.id in self.opened) for n in self.full.nodes]
        model = Model(self.full.name, nodes, self.full.edges, self.full.clusters)
        return self._drawn(Graph(model, max(self.max_nodes, 2 * len(self.opened))))

    @property
    def stages(self) -> dict[str, Any] | None:
        """A network of images by stages, which the page shows first; None of any other."""
        drawn = Graph(self.full, self.max_nodes, overview=True)
        return self._drawn(drawn) if any(map(is_stage, drawn.model.nodes)) else None

    def _drawn(self, drawn: Graph) -> dict[str, Any]:
        told: dict[str, Any] = {"members": [list(n.members) for n in drawn.model.nodes]}
        told["colours"] = {how: self._coloured(drawn.model, how) for how in COLOURS[1:]}
        try:
            told["graph"] = drawing(drawn)
        except MLCError as error:
            told["error"] = error.message
        return told

    def _coloured(self, model: Model, how: str) -> dict[str, Any] | None:
        """The colour and the note of each drawn node; None where nothing is known."""
        if how == "provenance":
            painted = paint.by_origin(model)
        elif how == "bytes":
            painted = paint.by_amount(model, "bytes")
        elif self.time:
            times = [sum(self.time[m] for m in n.members) for n in model.nodes]
            timed = [replace(n, amount=t) for n, t in zip(model.nodes, times, strict=True)]
            painted = paint.by_amount(Model(model.name, timed, model.edges), "time")
        else:
            return None
        return {
            "at": [n.paint for n in painted.nodes],
            "notes": [n.lines[-1] if n.paint is not None else "" for n in painted.nodes],
            "legend": [[p.fill, p.words] for p in painted.paints],
        }

    def _detail(self, node: Node) -> dict[str, Any]:
        """All that is known of one node of the whole graph."""
        call = node.origin if isinstance(node.origin, rx.Call) else None
        info = getattr(node.var, "struct_info", None)
        told: dict[str, Any] = {
            "name": clip(getattr(node.var, "name_hint", ""), 60),
            "what": [clip(line, 40) for line in node.lines],
            "info": tensor(info) if info is not None else "",
            "bytes": size(paint.bytes_of(node)),
            "from": [[s.source, clip(s.name, 80), s.kind] for s in paint.spans_of(node)][
                :MOST_ORIGINS
            ],
        }
        if call is not None:
            told["call"] = clip(display.text(call), 300)
            told |= self._work(node, call)
        found = self.values.get(getattr(node.var, "name_hint", ""))
        return {**told, "value": found} if found is not None else told

    def _work(self, node: Node, call: rx.Call) -> dict[str, Any]:
        """Kernel, FLOPs and time of a call."""
        name = survey.kernel_of(call)
        callee = survey.callee_of(call, self.mod.functions)
        done = call_flops(call) if callee is None else survey.work(callee, self.mod.functions)
        told: dict[str, Any] = {"work": flops(done, told=False)}
        if name is not None:
            told["kernel"] = clip(name, 80)
        if self.time.get(node.id):
            share = self.time[node.id] / (sum(self.time.values()) or 1.0)
            told["time"] = f"{seconds(self.time[node.id])} · {percent(share)}"
        return told

    @cached_property
    def _kernels(self) -> dict[str, Any]:
        """Of each kernel that the graph calls: what it is made of, and its loops; of those that
        take the most time (or work) also the hot loop.
        """
        called = survey.kernel_calls(self.function, self.mod.functions)
        names = [n for n, _ in called.most_common(MOST_KERNELS) if n in self.mod]
        names = [n for n in names if isinstance(self.mod[n], PrimFunc)]
        made = {n: self._kernel(n, called[n]) for n in names}
        for name in sorted(names, key=self._cost, reverse=True)[:MOST_ASSEMBLY]:
            made[name] |= self._assembly(name)
        return {clip(n, 80): told for n, told in made.items()}

    def _cost(self, name: str) -> float:
        """The time of all calls of a kernel, else the work of one."""
        if self.profile is not None:
            return sum(row.seconds for row in self.profile.rows if row.kernel == name)
        done = survey.work(self.mod[name])
        return float(done) if isinstance(done, int) else 0.0

    def _kernel(self, name: str, times: int) -> dict[str, Any]:
        func = self.mod[name]
        loops = document(func, header=False, name=name).lines[:MOST_LINES]
        return {
            "made": clip(" + ".join(survey.parts_of(func)), 120),
            "work": flops(survey.work(func)),
            "times": times,
            "loops": self.lines.add(loops),
            "key": repr(name),
        }

    def _assembly(self, name: str) -> dict[str, Any]:
        """The hot loop of a compiled kernel; nothing of one that is interpreted."""
        made = self.ex.kernels[name] if self.ex is not None and name in self.ex.kernels else None
        if made is None or not made.is_native:
            return {}
        hottest = made.facts.hottest
        listing = "\n".join((hottest.hot_text or hottest.text).splitlines()[:MOST_LINES])
        hot = [spans(line) for line in code(listing, ASSEMBLY).lines]
        return {"code": clip(str(hottest), 200), "hot": hot}

    # questions of the page -----------------------------------------------------------------------

    def on_open(self, nodes: Iterable[int]) -> dict[str, Any]:
        """The graph with these nodes out of their folds."""
        self.opened = self.opened | {n for n in nodes if 0 <= n < len(self.full.nodes)}
        return self.drawn

    def on_assembly(self, kernel: str) -> dict[str, Any]:
        """The hot loop of a kernel."""
        names = {clip(n, 80): n for n in (self.ex.kernels if self.ex is not None else ())}
        return self._assembly(names.get(kernel, kernel))

    def on_close(self) -> dict[str, Any]:
        """The graph as folded as at first."""
        self.opened = frozenset()
        return self.drawn

    def on_find(self, text: str) -> dict[str, Any]:
        """The graph with what has this text out of its folds."""
        found = [n.id for n in paint.find(self.full, text).nodes if n.found]
        if not found:
            raise MLCError(f"nothing has {clip(text, 40)!r} in its name, kernel or origin")
        return self.on_open(found[: self.max_nodes // 2])
