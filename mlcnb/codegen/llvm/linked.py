"""One kernel in all its forms, and which lines of them belong together.

    found = Linked(kernel)
    found.lowered.lines[11]           "        C_1[i] = A_1[i] * T.float32(2.0)"
    found.lowered.links[11]           {12}: lines of the lowered program count from 1
    found.scheduled.links[7]          the lowered lines that came out of line 8
    found.code().assembly.places[30]  (12, 16): line and column of the lowered program
    found.code(cpu, level=0)          the same program for another machine, or less optimised
    found.remarks, found.passes       what LLVM says, and what each of its passes changed

The lowered program is what all links go through: LLVM's debug locations speak of its lines, and its
statements know which scheduled one they are from; these know the text that they were read from and
the step of the schedule that made them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from mlcnb.codegen.llvm import apart
from mlcnb.codegen.llvm.backend import CompiledKernel
from mlcnb.codegen.llvm.emit.debug import Located, emit_located, lowered_page
from mlcnb.codegen.llvm.engine import Options, read
from mlcnb.codegen.llvm.inspect import MachineCode, facts_of_text
from mlcnb.codegen.llvm.listing import Listing, assembly_listing, ir_listing
from mlcnb.codegen.llvm.symbols import symbol_of
from mlcnb.codegen.llvm.target_machine import Cpu
from mlcnb.core import display
from mlcnb.core.doc import Page
from mlcnb.core.node import walk
from mlcnb.core.render import Text
from mlcnb.ir.span import nodes_of, titled
from mlcnb.script.parser.source import text_of
from mlcnb.script.places import Origin, Placed, origin, placed
from mlcnb.tir import stmt as s
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.transform.lower import lower

Links = tuple[frozenset[int], ...]

#: machines to read code for: name -> CPU, bits of a vector, in a process of its own
MACHINES: Mapping[str, tuple[Cpu, int, bool]] = {
    "x86-64-v3 (AVX2)": (Cpu("x86_64-unknown-linux-gnu", "x86-64-v3"), 256, False),
    "x86-64-v4 (AVX-512)": (Cpu("x86_64-unknown-linux-gnu", "x86-64-v4"), 512, False),
    "aarch64 (NEON)": (Cpu("aarch64-unknown-linux-gnu", "generic"), 128, False),
    "riscv64 (RVV)": (
        Cpu("riscv64-unknown-linux-gnu", "generic-rv64", "+m,+a,+f,+d,+c,+v,+zvl128b"), 128, True,
    ),
    "PTX (one thread)": (Cpu("nvptx64-nvidia-cuda", "sm_80", "+ptx80"), 128, True),
}  # fmt: skip


@dataclass(frozen=True)
class Form:
    """A program as lines of tokens; for each line the lines of the lowered program behind it."""

    lines: Sequence[Sequence[Text]]
    links: Links
    #: the number of the first line
    first: int = 1

    @property
    def texts(self) -> list[str]:
        """The plain text of each line."""
        return ["".join(token.text for token in line) for line in self.lines]


@dataclass(frozen=True)
class Code:
    """LLVM IR and assembly of a kernel for one machine at one level."""

    machine: str
    cpu: Cpu
    level: int
    ir: Listing
    assembly: Listing
    facts: MachineCode = field(repr=False)


class ProgramForms(display.Shown):
    """The forms of a kernel's program, above what a backend makes of it.

    Args:
        kernel: one of `ex.kernels`.
        schedule: the Schedule that made its program, where the kernel does not know it.
    """

    def __init__(self, kernel: Any, schedule: Any = None) -> None:
        self.kernel = kernel
        self.schedule = kernel.schedule if schedule is None else schedule

    @cached_property
    def _placed(self) -> Placed:
        return placed(self.kernel.scheduled)

    @cached_property
    def func(self) -> PrimFunc:
        """The lowered function, whose statements know their scheduled line."""
        return lower(self._placed.func)

    @cached_property
    def page(self) -> Page:
        """The listing of the lowered function."""
        return lowered_page(self.func)

    @cached_property
    def lowered(self) -> Form:
        """Plain loops over flat buffers: each line stands for itself."""
        lines = self.page.lines
        return Form(lines, tuple(frozenset({n}) for n in range(1, len(lines) + 1)))

    @cached_property
    def scheduled(self) -> Form:
        """The program with its blocks."""
        lines = self._placed.page.lines
        behind: dict[int, set[int]] = {}
        for came, found in self._behind.items():
            behind.setdefault(came.line, set()).update(found)
        return Form(lines, _links(len(lines), behind))

    @cached_property
    def _behind(self) -> dict[Origin, set[int]]:
        """For each statement of the scheduled program the lowered lines that came out of it."""
        behind: dict[Origin, set[int]] = {}
        for n in walk(self.func.body):
            came, where = origin(n), self.page.places.get(id(n))
            if came and where:
                behind.setdefault(came, set()).add(min(where)[0])
        return behind

    @cached_property
    def _came_of(self) -> list[tuple[Any, set[int]]]:
        """Loops, blocks and stores of the scheduled program, each with its lowered lines."""
        found = {came.number: lines for came, lines in self._behind.items()}
        kinds, numbers = (s.For, s.Block, s.BufferStore), self._placed.numbers
        nodes = (n for n in walk(self.kernel.scheduled.body) if isinstance(n, kinds))
        return [(n, found.get(numbers.get(id(n), -1), set())) for n in nodes]

    @cached_property
    def model(self) -> Form | None:
        """The nodes of the model that the program was made from, where that is known: a block of a
        fused program knows its own.
        """
        number, behind = self._placed.numbers, {c.number: at for c, at in self._behind.items()}
        found: dict[str, set[int]] = {}
        for block in walk(self.kernel.scheduled.body):
            for node in nodes_of(block.span) if isinstance(block, s.Block) else ():
                lines = found.setdefault(titled(node), set())
                lines.update(*(behind.get(number.get(id(n), -1), ()) for n in walk(block)))
        whole = nodes_of(self.kernel.func.span)
        if not found and len(whole) == 1:
            found = {titled(whole[0]): set(range(1, len(self.page.lines) + 1))}
        if not found:
            return None
        return Form([[Text(name)] for name in found], tuple(map(frozenset, found.values())))

    @cached_property
    def source(self) -> Form | None:
        """The Python text that the program was read from, where that is known."""
        lines: dict[str, dict[int, set[int]]] = {}
        for n, found in self._came_of:
            span = n.span
            if span is not None and span.source.startswith("script:") and text_of(span.source):
                lines.setdefault(span.source, {}).setdefault(span.line, set()).update(found)
        if not lines:
            return None
        of = max(lines, key=lambda name: len(lines[name]))
        text = text_of(of) or []
        first, last = _definition(text, min(lines[of]), max(lines[of]))
        links = _links(last, lines[of])[first - 1 :]
        return Form([[Text(line)] for line in text[first - 1 : last]], links, first)

    @cached_property
    def trace(self) -> Form | None:
        """The steps of the schedule as Python, each with the loops and blocks that it made."""
        trace = getattr(self.schedule, "trace", None)
        if trace is None or not len(trace):
            return None
        lines = str(trace).splitlines()
        head = len(lines) - len(trace)
        number = {id(inst): head + n for n, inst in enumerate(trace, 1)}
        behind: dict[int, set[int]] = {}
        made = self._made_by()
        for n, found in self._came_of:
            for inst in made.get(_key(n), ()):
                behind.setdefault(number.get(id(inst), 0), set()).update(found)
        return Form([[Text(line)] for line in lines], _links(len(lines), behind))

    def _made_by(self) -> dict[Any, list[Any]]:
        """For each loop variable and block: the steps that made it, or changed what it is."""
        seen: dict[Any, Any] = {}
        made: dict[Any, list[Any]] = {}
        name = self.schedule.func_working_on
        for step in self.schedule.steps[: self.schedule.position + 1]:
            func = step.mod.functions.get(name)
            if not isinstance(func, PrimFunc):
                continue
            for n in walk(func.body):
                key = _key(n)
                if key is None or seen.get(key) == _what(n):
                    continue
                if step.instruction is not None:
                    made.setdefault(key, []).append(step.instruction)
                seen[key] = _what(n)
        return made


class Linked(ProgramForms):
    """The forms of a kernel that the llvm backend compiled. All is made when first asked for."""

    kernel: CompiledKernel

    def __init__(self, kernel: CompiledKernel, schedule: Any = None) -> None:
        super().__init__(kernel, schedule)
        self._codes: dict[tuple[str, int], Code] = {}
        self._emitted: dict[int | None, Located] = {}

    @property
    def host(self) -> str:
        """What the kernel was compiled for."""
        return self.kernel.compiled.cpu.cpu

    @property
    def level(self) -> int:
        """How hard LLVM worked on the kernel."""
        return self.kernel.compiled.options.level

    def located(self, vector_bits: int | None = None) -> Located:
        """The IR before optimisation, with debug locations.

        vector_bits: of another machine, which may not have this one's instructions; by default the
        IR is that of the kernel.
        """
        if vector_bits not in self._emitted:
            target, name = self.kernel.target, symbol_of(self.kernel.name)
            bits = vector_bits or target.vector_bits
            own = (target.features, self.kernel.compiled.cpu.tuning)
            rest = (frozenset(), "") if vector_bits else own
            self._emitted[vector_bits] = emit_located(self.func, name, bits, self.page, *rest)
        return self._emitted[vector_bits]

    @cached_property
    def is_exact(self) -> bool:
        """Whether the IR, but for its locations, is that of the kernel that runs."""
        return self.located().plain == self.kernel.llvm_ir

    def code(self, machine: str = "", level: int | None = None) -> Code:
        """LLVM IR and assembly for a machine.

        Args:
            machine: one of `MACHINES`; by default what the kernel was compiled for.
            level: 0 to 3; by default that of the kernel.

        Raises:
            CodegenError: LLVM makes no code of this program for that machine.
        """
        name, at = machine or self.host, self.level if level is None else level
        if (name, at) not in self._codes:
            self._codes[name, at] = self._compiled(name, at)
        return self._codes[name, at]

    def _compiled(self, name: str, level: int) -> Code:
        here = self.kernel.compiled.cpu, None, False
        cpu, bits, is_apart = MACHINES.get(name, here)
        ir = self.located(bits).kernel.ir
        if is_apart:
            after, assembly = apart.read_apart(ir, cpu, level)
        else:
            _say_unknown()
            after, assembly = read(ir, cpu, Options(level=level))
        facts = MachineCode() if cpu.arch == "nvptx64" else facts_of_text(assembly, cpu.arch)
        shown = assembly_listing(assembly, cpu.arch)
        first = facts.hottest.name if facts else ""
        return Code(name, cpu, level, ir_listing(after, first), shown, facts)

    @cached_property
    def emitted(self) -> Listing:
        """The LLVM IR that goes into LLVM."""
        return ir_listing(self.located().kernel.ir)

    @cached_property
    def _observed(self) -> Future[tuple[list[apart.Remark], list[apart.PassChange]]]:
        """LLVM's remarks and passes, from a process that works beside this one."""
        hot = self.code().facts.hottest.name
        ir, cpu = self.located().kernel.ir, self.kernel.compiled.cpu
        pool = ThreadPoolExecutor(1, "mlcnb-observe")
        asked = pool.submit(apart.observe, ir, cpu, self.level, [hot, f"{hot}.body"])
        pool.shutdown(wait=False)
        return asked

    def begin(self) -> None:
        """Have LLVM watched from now on: remarks and passes are there when they are asked for."""
        assert self._observed

    @property
    def remarks(self) -> list[apart.Remark]:
        """What LLVM's vectorisers, unroller and register allocator say about lines.

        Raises:
            CodegenError: there is no second process to watch LLVM in.
        """
        return self._observed.result()[0]

    @property
    def passes(self) -> list[apart.PassChange]:
        """What each of LLVM's passes changed in the function with the hot loop.

        Raises:
            CodegenError: there is no second process to watch LLVM in.
        """
        return self._observed.result()[1]

    @property
    def hot_located(self) -> tuple[int, int]:
        """How many instructions of the hot loop have a line, and how many there are."""
        assembly = self.code().assembly
        return assembly.located(*assembly.hot) if assembly.hot else assembly.located()


def _links(count: int, behind: Mapping[int, set[int]]) -> Links:
    return tuple(frozenset(behind.get(n, ())) for n in range(1, count + 1))


def _key(n: Any) -> Any:
    """What a loop or a block is known by while a schedule goes on."""
    if isinstance(n, s.For):
        return n.loop_var
    return ("block", n.name_hint) if isinstance(n, s.Block) and n.iter_vars else None


def _what(n: Any) -> Any:
    """What a step may change about a loop or block that stays itself."""
    if isinstance(n, s.For):
        return n.kind, n.thread_binding, repr(dict(n.annotations))
    return repr(dict(n.annotations))


def _definition(text: Sequence[str], first: int, last: int) -> tuple[int, int]:
    """The first and last line of the function that holds these lines, decorators included."""
    start = next((n for n in range(first, 0, -1) if text[n - 1].lstrip().startswith("def ")), first)
    inside = len(text[start - 1]) - len(text[start - 1].lstrip())
    while start > 1 and text[start - 2].lstrip().startswith("@"):
        start -= 1
    end = last
    for n in range(last + 1, len(text) + 1):
        line = text[n - 1]
        if line.strip() and len(line) - len(line.lstrip()) <= inside:
            break
        end = n if line.strip() else end
    return start, end


_said: list[bool] = []


def _say_unknown() -> None:
    """Have LLVM say where it knows no line: else an instruction has that of the one before it.

    This is one of LLVM's global options; it changes nothing but `.loc` lines.
    """
    if not _said:
        import llvmlite.binding as llvm

        llvm.set_option("mlcnb", "-use-unknown-locations=Enable")
        _said.append(True)
