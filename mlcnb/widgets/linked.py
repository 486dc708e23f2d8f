"""Linked source: Python, TensorIR, LLVM IR and assembly of a kernel, line by line.

    mlc.explore(ex.kernels["conv2d"])              one kernel
    mlc.explore(ex)                                all of an executable, one of them open
    mlc.explore(kernel, schedule=sch)              with the steps that made its program

A line chosen in one pane lights the lines of the others that belong to it. The page holds four
levels of optimisation and a few machines; others it asks for.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from functools import cached_property
from json import dumps
from typing import Any

from mlcnb.codegen.llvm.assembly import KINDS
from mlcnb.codegen.llvm.linked import MACHINES, Code, Form, Linked
from mlcnb.codegen.llvm.listing import Listing
from mlcnb.core.errors import MLCError
from mlcnb.core.render import Text
from mlcnb.view import linked as static
from mlcnb.view import survey
from mlcnb.view.highlight import ASSEMBLY, LLVM, PLAIN, PYTHON, Language
from mlcnb.view.kernels import table
from mlcnb.view.parts import Fold, Part, Title
from mlcnb.view.registry import find
from mlcnb.view.words import at_ones, clip, flops, percent, plural
from mlcnb.widgets.base import Interactive, Lines
from mlcnb.widgets.registry import explores, page_of

#: lines of one listing that travel with the page; what is hot comes first
MOST = 700
#: lines of the difference that one pass made, and differences of how many passes
DIFF_LINES, DIFFS = 24, 80
#: bytes that a kernel may take in the page, deflated: what is least asked for is left out
BUDGET = 180_000
#: lines of IR and assembly after which no more are compiled before the page is shown
LENGTH = 5000
#: machines whose code travels with the page; the others take a process of their own
SHIPPED = ("x86-64-v3 (AVX2)", "x86-64-v4 (AVX-512)", "aarch64 (NEON)")


@explores("mlcnb.codegen.llvm.backend:CompiledKernel", "mlcnb.codegen.llvm.linked:Linked")
class LinkedSource(Interactive):
    """The page of one kernel, or of the kernels of an executable."""

    module = "linked"
    traits = ("selection",)

    def __init__(self, kernel: Any, schedule: Any = None) -> None:
        made = kernel if isinstance(kernel, Linked) else Linked(kernel, schedule)
        self.kernels: Mapping[str, Any] = {made.kernel.name: made.kernel}
        self.calls: Mapping[str, Sequence[str]] = {}
        self._linked = {made.kernel.name: made}

    @cached_property
    def first(self) -> str:
        """The kernel that is open at first: the one with the most work."""
        names = [n for n, k in self.kernels.items() if k.is_native]
        return max(names, key=lambda n: (_work(self.kernels[n]), n)) if names else ""

    def linked(self, name: str) -> Linked:
        """The forms of a kernel.

        Raises:
            MLCError: there is no such kernel.
        """
        if name not in self.kernels:
            raise MLCError(f"no kernel {name!r}", hint=f"there are {', '.join(self.kernels)}")
        if name not in self._linked:
            self._linked[name] = Linked(self.kernels[name])
        return self._linked[name]

    def snapshot(self) -> dict[str, Any]:
        """The kernels, and all of the one that is open."""
        return {
            "kernels": [self._row(name) for name in self.kernels],
            "open": self.first,
            "detail": {self.first: self.detail(self.first)},
            "machines": list(MACHINES),
            "kinds": KINDS,
        }

    def _row(self, name: str) -> dict[str, Any]:
        kernel = self.kernels[name]
        done = survey.work(kernel.func)
        calls = self.calls.get(name, ())
        return {
            "name": name,
            "made": " + ".join(survey.parts_of(kernel.func)),
            "work": flops(done, told=False),
            "calls": len(calls),
            "from": clip(", ".join(calls), 400),
            "asm": kernel.is_native,
        }

    def detail(self, name: str) -> dict[str, Any]:
        """All that the page shows of one kernel, within `BUDGET`."""
        made = self.linked(name)
        page = _Page(made)
        made.begin()
        page.add_forms()
        extra = [(made.host, level) for level in (0, 1, 2, 3) if level != made.level]
        extra += [(machine, made.level) for machine in SHIPPED]
        page.add_code(made.code())
        for machine, level in extra:
            if page.size() > BUDGET or page.length > LENGTH:
                break
            try:
                page.add_code(made.code(machine, level))
            except MLCError:  # a program with instructions of this machine alone
                continue
        page.add_remarks()
        page.add_passes()
        return page.data

    # -- questions of the page -------------------------------------------------------------------

    def on_open(self, name: str) -> dict[str, Any]:
        """All of another kernel."""
        return self.detail(str(name))

    def on_code(self, name: str, machine: str, level: int) -> dict[str, Any]:
        """The code of a kernel for another machine or level."""
        if machine not in MACHINES and machine != self.linked(name).host:
            raise MLCError(f"no machine {machine!r}", hint=f"one of {', '.join(MACHINES)}")
        page = _Page(self.linked(str(name)))
        page.add_code(self.linked(str(name)).code(str(machine), int(level)))
        return {"table": page.lines.table, "code": page.data["codes"][0]}

    # -- without script --------------------------------------------------------------------------

    def parts(self) -> Sequence[Part]:
        """The kernels, and all of the one that is open."""
        opened: list[Part] = []
        if self.first:
            made = self.linked(self.first)
            view = find(made)
            opened = list(view(made)) if view else []
        if len(self.kernels) == 1:
            return opened
        title = f"Linked source of {plural(len(self.kernels), 'kernel')}; open: {clip(self.first)}"
        fold = Fold("kernels", [table(self.kernels)], "ex.kernels", True, True)
        return [Title(title), fold, *opened]


def _work(kernel: Any) -> int:
    return at_ones(survey.work(kernel.func)) or 0


def of_executable(ex: Any, schedule: Any = None) -> Interactive:
    """The page of an executable's code: of its only kernel, or of all."""
    if len(ex.kernels) == 1:
        page = page_of(ex.kernels[0], schedule=schedule)
        return page or LinkedSource(ex.kernels[0], schedule)
    return LinkedKernels(ex.kernels, ex.mod)


@explores("mlcnb.runtime.executable:Kernels")
class LinkedKernels(LinkedSource):
    """The kernels of an executable; one is open, the others a click away."""

    def __init__(self, kernels: Any, mod: Any = None) -> None:
        self.kernels = dict(kernels)
        self.calls = {} if mod is None else origins(mod)
        self._linked = {}
        if not any(k.is_native for k in self.kernels.values()):
            raise MLCError(
                "explore: no kernel here has assembly of a CPU", hint='compile with target="llvm"'
            )


def origins(mod: Any) -> dict[str, list[str]]:
    """For each kernel of a graph what its calls were in the model."""
    found: dict[str, list[str]] = {}
    for _, function in survey.graph_functions(mod):
        if not hasattr(function, "ret_struct_info"):
            continue
        for call in survey.calls_of(function):
            name = survey.kernel_of(call)
            if name is not None:
                told = call.span.name if call.span is not None else "a call"
                found.setdefault(name, []).append(told)
    return found


class _Page:
    """One kernel for the page: listings as numbers of lines, each line kept once."""

    def __init__(self, made: Linked) -> None:
        self.made = made
        self.lines = Lines()
        self.data: dict[str, Any] = {
            "name": made.kernel.name,
            "host": made.host,
            "level": made.level,
            "codes": [],
            "table": self.lines.table,
        }

    @property
    def length(self) -> int:
        """Lines of IR and assembly of the codes in it, those that are cut off counted too."""
        parts = [part for code in self.data["codes"] for part in (code["ir"], code["asm"])]
        return sum(len(part["lines"]) + part["left"] for part in parts)

    def size(self) -> int:
        """Bytes of it, deflated."""
        return len(zlib.compress(dumps(self.data, separators=(",", ":")).encode()))

    def add_forms(self) -> None:
        """The forms from Python to the lowered program, and what the kernel came from."""
        made = self.made
        self.data |= {
            "title": static.told_of(made, made.code()),
            "facts": [list(pair) for pair in static.facts(made)],
            "source": self._form(made.source, PYTHON),
            "trace": self._form(made.trace, PYTHON),
            "scheduled": self._form(made.scheduled),
            "lowered": self._form(made.lowered),
            "emitted": self._listing(made.emitted, LLVM),
            "ends": _ends(made),
        }

    def _form(self, form: Form | None, language: Language | None = None) -> dict[str, Any] | None:
        if form is None:
            return None
        rows = form.lines if language is None else [language.tokens(t) for t in form.texts]
        links = [sorted(x) for x in form.links][:MOST]
        return {"lines": self.lines.add(rows[:MOST]), "links": links, "first": form.first,
                "left": max(0, len(rows) - MOST)}  # fmt: skip

    def _listing(self, part: Listing, language: Language) -> dict[str, Any]:
        first = 0
        if part.hot and part.hot[1] >= MOST:
            first = max(0, min(part.hot[0] - 40, part.hot[1] - MOST))
        end = first + MOST
        rows: Sequence[Sequence[Text]] = [language.tokens(t) for t in part.lines[first:end]]
        places = [list(p) if p else 0 for p in part.places[first:end]]
        hot = [n - first for n in part.hot] if part.hot else None
        return {
            "lines": self.lines.add(rows),
            "places": places,
            "kinds": part.kinds[first:end],
            "hot": hot,
            "code": "".join("01"[is_code] for is_code in part.code[first:end]),
            "first": first + 1,
            "left": len(part.lines) - len(rows),
        }

    def add_code(self, code: Code) -> None:
        """LLVM IR and assembly for one machine at one level."""
        language = PLAIN if code.cpu.arch == "nvptx64" else ASSEMBLY
        self.data["codes"].append(
            {
                "machine": code.machine,
                "level": code.level,
                "told": _told(code),
                "ir": self._listing(code.ir, LLVM),
                "asm": self._listing(code.assembly, language),
            }
        )

    def add_remarks(self) -> None:
        """What LLVM says, or why that is not known."""
        try:
            found = self.made.remarks
        except MLCError as error:
            self.data |= {"remarks": [], "silent": error.message}
            return
        rows = [[r.line, r.text, r.times] for r in found[:200]]
        self.data |= {"remarks": rows, "silent": ""}

    def add_passes(self) -> None:
        """What each pass changed; of long differences the beginning."""
        try:
            found = self.made.passes
        except MLCError:
            found = []
        self.data["passes"] = []
        for one in found:
            plus, minus = one.counts
            diff = one.diff if len(self.data["passes"]) < DIFFS else []
            rows = [LLVM.tokens(line[1:]) for line in diff[:DIFF_LINES]]
            self.data["passes"].append(
                {
                    "name": one.name,
                    "unit": one.unit,
                    "counts": [plus, minus, len(one.after)],
                    "signs": "".join(line[0] for line in diff[:DIFF_LINES]),
                    "lines": self.lines.add(rows),
                    "left": max(0, len(diff) - DIFF_LINES),
                }
            )


def _told(code: Code) -> str:
    """One sentence on the code."""
    if not code.facts:
        return f"{plural(sum(code.assembly.code), 'instruction')}, for one thread: no loop is bound"
    facts = code.facts.hottest
    hot = facts.hot or facts.total
    found, all_ = code.assembly.located(*(code.assembly.hot or ()))
    share = f"; {percent(found / all_)} of them have a line" if all_ else ""
    return (
        f"{'hot loop' if facts.hot else 'no loop'}: {plural(hot.instructions, 'instruction')}, "
        f"{percent(hot.vector_share)} vector, {hot.fma} FMA, {plural(hot.spills, 'spill')}{share}"
    )


def _ends(made: Linked) -> list[list[int]]:
    """[line, column, end] of the expressions in the lowered program that have code."""
    found: dict[tuple[int, int], int] = {}
    for places in made.page.places.values():
        for line, column, last, end in places:
            if line == last:
                found[line, column] = max(found.get((line, column), 0), end)
    used = {
        p for code in (made.code(),) for part in (code.ir, code.assembly) for p in part.places if p
    }
    return [[*key, found[key]] for key in sorted(used & found.keys())]
