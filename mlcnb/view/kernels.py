"""Compiled kernels: a table of all, and one with everything that it went through.

Kernel fused_conv2d_add_relu: 44.2 MFLOP; 3,412 B of code
  instructions  834: hot loop 98, 96 % vector (512-bit), 56 FMA, 14 loads, 0 stores, 0 spills
scheduled loops, 58 lines: kernel.scheduled
LLVM IR, 240 lines: kernel.llvm_ir
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mlcnb.codegen.llvm.inspect import Facts as Strip
from mlcnb.codegen.llvm.inspect import facts, strip
from mlcnb.tir.function import PrimFunc
from mlcnb.view import survey
from mlcnb.view.highlight import ASSEMBLY, LLVM, PYTHON, Language, code
from mlcnb.view.loops import loop_tree, parameters
from mlcnb.view.parts import Column, Facts, Fold, Part, Table, Title
from mlcnb.view.program import listing
from mlcnb.view.registry import shows
from mlcnb.view.words import clip, dims, flops, listed, percent, plural, seconds, size

#: rows of the table of kernels that are shown unfolded
ROWS = 16


@shows("mlcnb.runtime.executable:Kernels")
def kernels(all_: Any) -> list[Part]:
    """A row for each kernel; of one alone, all of it."""
    made = list(all_.values())
    if len(made) == 1:
        return [Title("Kernels: 1 kernel"), *kernel_parts(made[0], "ex.kernels[0]")]
    code_bytes = sum({k.symbol: k.object_size for k in made if hasattr(k, "compiled")}.values())
    total = f", {size(code_bytes)} of object code" if code_bytes else ""
    return [Title(f"Kernels: {plural(len(made), 'kernel')}{total}"), table(all_)]


def table(all_: Any) -> Table:
    """A row for each kernel: what it is made of, its result, work, size, time to compile."""
    columns = [Column("kernel", "code"), Column("made of"), Column("result")]
    columns += [Column(n, "number") for n in ("work", "object", "LLVM")]
    rows = [_row(name, kernel) for name, kernel in all_.items()]
    return Table(columns, rows, ROWS, "ex.kernels[NAME]")


def _row(name: str, kernel: Any) -> tuple[str, ...]:
    func: PrimFunc = kernel.func
    result = ", ".join(f"{b.dtype} {dims(b.shape)}" for b in survey.outputs_of(func))
    done = survey.work(func)
    told = (clip(name, 48), clip(" + ".join(survey.parts_of(func)), 48), clip(result, 48))
    work = flops(done) if done else ""
    if not hasattr(kernel, "compiled"):
        return (*told, work, "", "")
    return (*told, work, size(kernel.object_size), seconds(kernel.compile_seconds))


@shows("mlcnb.codegen.llvm.backend:CompiledKernel", "mlcnb.runtime.interpreted:InterpretedKernel")
def kernel(k: Any) -> list[Part]:
    """All of one kernel."""
    return kernel_parts(k, "kernel")


def kernel_parts(k: Any, name: str) -> list[Part]:
    """What a kernel computes, what its machine code is like, and each form it went through.

    name: how the kernel is written in hints.
    """
    done = survey.work(k.func)
    told = [f"Kernel {clip(k.name)}", *([flops(done)] if done else [])]
    if not hasattr(k, "compiled"):
        title = Title("; ".join([*told, "run by the reference interpreter"]))
        return [title, parameters(k.func), _loops("loops", lambda: k.func, f"{name}.func")]
    told.append(f"{size(k.object_size)} of object code for {k.compiled.cpu.cpu}")
    parts: list[Part] = [Title("; ".join(told)), Facts(_machine(k)), parameters(k.func)]
    return [*parts, *_forms(k, name)]


def _machine(k: Any) -> list[tuple[str, str]]:
    """What the assembly says, and what compiling took."""
    times = ", ".join(f"{step} {seconds(t)}" for step, t in k.compiled.seconds.items())
    cached = " (from the cache)" if k.compiled.cached else ""
    found = list(facts(k.compiled).values())
    busiest = max(found, key=_weight, default=None)
    pairs = strip_of(busiest) if busiest is not None else []
    if len(found) > 1:
        pairs.append(("functions", listed([f.name for f in found], 6)))
    calls = sorted({c for f in found for c in f.calls if c not in {g.name for g in found}})
    if calls:
        pairs.append(("calls", listed(calls, 6)))
    return [*pairs, ("compiled in", f"{times}{cached}")]


def _weight(strip: Strip) -> tuple[int, int]:
    hot = strip.hot or strip.total
    return hot.fma, hot.instructions


def strip_of(strip: Strip) -> list[tuple[str, str]]:
    """The facts of one function's machine code."""
    code_size = "" if strip.code_bytes is None else f", {size(strip.code_bytes)}"
    pairs = [("instructions", f"{strip.total.instructions:,}{code_size}")]
    hot = strip.hot or strip.total
    width = f", {strip.vector_bits}-bit registers" if strip.vector_bits else ""
    pairs += [
        ("hot loop" if strip.hot else "no loop", plural(hot.instructions, "instruction")),
        ("vector", f"{percent(hot.vector_share)} of them{width}"),
        ("FMA", f"{hot.fma}; {plural(hot.loads, 'load')}, {plural(hot.stores, 'store')}"),
        ("spills", str(hot.spills)),
    ]
    return pairs


def _forms(k: Any, name: str) -> list[Part]:
    """Each form of the kernel, folded, from loops to assembly."""
    schedule = [_trace(k, name)] if getattr(k.schedule, "trace", None) is not None else []
    arch = k.compiled.cpu.arch
    return [
        _loops("loops before scheduling", lambda: k.func, f"{name}.func"),
        *schedule,
        _loops("loops after scheduling", lambda: k.scheduled, f"{name}.scheduled"),
        _text("LLVM IR before optimisation", k.llvm_ir, LLVM, f"{name}.llvm_ir"),
        _text("LLVM IR after optimisation", k.llvm_ir_optimized, LLVM, f"{name}.llvm_ir_optimized"),
        _text("assembly", strip(k.asm, arch), ASSEMBLY, f"{name}.asm"),
    ]


def _loops(title: str, func: Callable[[], PrimFunc], see: str) -> Fold:
    def body() -> list[Part]:
        return [loop_tree(func()), listing(func(), f"{see}.show()")]

    return Fold(title, body, f"{see}.show()")


def _trace(k: Any, name: str) -> Fold:
    trace = k.schedule.trace
    see = f"{name}.schedule.trace"
    return Fold(f"schedule, {plural(len(trace), 'step')}", [code(repr(trace), PYTHON, see)], see)


def _text(title: str, text: str, language: Language, see: str) -> Fold:
    lines = text.count("\n") + 1
    return Fold(
        f"{title}, {plural(lines, 'line')}",
        [code(text, language, f"print({see})")],
        f"print({see})",
    )
