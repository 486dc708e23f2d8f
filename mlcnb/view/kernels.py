"""Compiled kernels: a table of all, and one with everything that it went through.

Kernel fused_conv2d_add_relu; 44.2 MFLOP; 2.4 kB of object code for znver4
  machine code  bytes  instructions  hot loop  vector  register  FMA  loads  stores  spills
  matmul.par1   1,492           227       170  97.1 %  512 bits  108     57       0       0
LLVM IR after optimisation, 565 lines: print(kernel.llvm_ir_optimized)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mlcnb.codegen.families import SIZE
from mlcnb.codegen.llvm.inspect import Facts as Strip
from mlcnb.codegen.llvm.inspect import facts, strip
from mlcnb.core.errors import CodegenError, MissingDependencyError
from mlcnb.tir.function import PrimFunc
from mlcnb.view import survey
from mlcnb.view.highlight import ASSEMBLY, CUDA, LLVM, PYTHON, Language, code
from mlcnb.view.loops import loop_tree, parameters
from mlcnb.view.parts import Column, Facts, Fold, Part, Table, Title, filled, heads
from mlcnb.view.program import listing
from mlcnb.view.registry import shows
from mlcnb.view.words import clip, dims, flops, listed, percent, plural, seconds, size

#: rows of the table of kernels that are shown unfolded
ROWS = 16
#: why there is no code of a kernel yet
WAITS = "compiled when asked for"


@shows("mlcnb.runtime.executable:Kernels")
def kernels(all_: Any) -> list[Part]:
    """A row for each kernel; of one alone, all of it."""
    made = list(all_.values())
    if len(made) == 1:
        return [Title("Kernels: 1 kernel"), *kernel_parts(made[0], "ex.kernels[0]")]
    code_bytes = sum({k.symbol: k.object_size for k in made if _has_code(k)}.values())
    total = f", {size(code_bytes)} of object code" if code_bytes else ""
    waiting = sum(not k.is_made for k in made)
    idle = f"; {waiting} never called, {WAITS}" if waiting else ""
    shared = [k.symbol for k in made if _has_code(k) and k.signature.sizes]
    alike = f"; {len(shared)} share the code of {len(set(shared))}" if shared else ""
    return [Title(f"Kernels: {plural(len(made), 'kernel')}{total}{alike}{idle}"), table(all_)]


def _has_code(k: Any) -> bool:
    """True of machine code that is there: to ask for it would compile it."""
    return k.is_native and k.is_made


def table(all_: Any) -> Table:
    """A row for each kernel: what it is made of, its result, work, size, time to compile."""
    columns = heads("kernel: code | made of | result")
    columns += [Column(n, "number") for n in (work_title(all_), "object", "LLVM")]
    rows = [_row(name, kernel) for name, kernel in all_.items()]
    return Table(columns, rows, ROWS, "ex.kernels[NAME]")


def work_title(all_: Any) -> str:
    """The head of the column of work, which says so where sizes are not known."""
    known = all(isinstance(survey.work(k.func), int | None) for k in all_.values())
    return "work" if known else "work (sizes = 1)"


def _row(name: str, kernel: Any) -> tuple[str, ...]:
    func: PrimFunc = kernel.func
    result = ", ".join(f"{b.dtype} {dims(b.shape)}" for b in survey.outputs_of(func))
    done = survey.work(func)
    told = (clip(name, 48), clip(" + ".join(survey.words_of(func)), 48), clip(result, 48))
    work = flops(done, told=False)
    if not _has_code(kernel):
        return (*told, work, "" if kernel.is_made else "not called", "")
    took = seconds(kernel.compile_seconds)
    if kernel.signature.sizes:
        took = f"shared, {_sizes(kernel)}"
    return (*told, work, size(kernel.object_size), took)


def _sizes(kernel: Any) -> str:
    """What a kernel calls its code of any size with."""
    return ", ".join(f"{SIZE} = {number}" for number in kernel.signature.sizes)


@shows(
    "mlcnb.codegen.llvm.backend:CompiledKernel",
    "mlcnb.codegen.cuda.backend:CudaKernel",
    "mlcnb.codegen.interp.backend:InterpretedKernel",
)
def kernel(k: Any) -> list[Part]:
    """All of one kernel."""
    return kernel_parts(k, "kernel")


def kernel_parts(k: Any, name: str) -> list[Part]:
    """What a kernel computes, what its machine code is like, and each form it went through.

    name: how the kernel is written in hints.
    """
    done = survey.work(k.func)
    told = [f"Kernel {clip(k.name)}", *filter(None, [flops(done)])]
    if hasattr(k, "device_functions"):
        return _gpu_parts(k, name, told)
    if not k.is_native:
        title = Title("; ".join([*told, "run by the reference interpreter"]))
        return [title, parameters(k.func), _loops("loops", lambda: k.func, f"{name}.func")]
    told.append(f"{size(k.object_size)} of object code for {k.compiled.cpu.cpu}")
    told.append(
        f"compiled in {seconds(k.compile_seconds)}{' (cached)' if k.compiled.cached else ''}"
    )
    if k.signature.sizes:
        told.append(f"for any {SIZE}, shared with others; here {_sizes(k)}")
    found = list(facts(k.compiled).values())
    parts: list[Part] = [Title("; ".join(told)), machine_code(found), *_calls(found)]
    return [*parts, parameters(k.func), *_forms(k, name)]


@shows("mlcnb.codegen.llvm.inspect:MachineCode")
def strips(code_: Any) -> list[Part]:
    """The strip alone."""
    return [machine_code(list(code_.values()))]


def _gpu_parts(k: Any, name: str, told: list[str]) -> list[Part]:
    """A function for a GPU: its launches, its resources where NVRTC is there, its CUDA C++."""
    told.append(f"{plural(len(k.device_functions), 'launch', 'launches')} of CUDA C++ for {k.arch}")
    columns = heads("kernel: code | grid: code | block: code")
    columns += [Column(x, "number") for x in ("registers", "spills", "shared memory")]
    columns += [Column(x, "number") for x in ("instructions", "on tensor cores")]
    rows = [_launch_row(k, symbol) for symbol in k.sources]
    return [
        Title("; ".join(told)),
        Table(columns, rows, ROWS, f"{name}.resources"),
        parameters(k.func),
        _loops("loops before scheduling", lambda: k.func, f"{name}.func"),
        _loops("loops after scheduling", lambda: k.scheduled, f"{name}.scheduled"),
        _text("CUDA C++", k.source, CUDA, f"{name}.source"),
    ]


def _launch_row(k: Any, symbol: str) -> tuple[str, ...]:
    source = k.sources[symbol]
    head = (clip(symbol, 48), source.grid, source.block)
    try:
        found = k.resources[symbol]
    except MissingDependencyError:
        return (*head, *[""] * 5)
    spills = size(found.spill_stores + found.spill_loads)
    shared = size(found.shared + source.dynamic_shared)
    return (*head, str(found.registers), spills, shared, *_counts(k, symbol))


def _counts(k: Any, symbol: str) -> tuple[str, str]:
    """Instructions of a kernel, and those of them on tensor cores, where nvdisasm is there."""
    try:
        code = k.disassembly[symbol]
    except (MissingDependencyError, CodegenError):
        return "", ""
    return f"{code.instructions:,}", f"{code.tensor_instructions:,}"


def machine_code(found: list[Strip]) -> Table:
    """A row for each function of a kernel; all but the first three figures are of its hot loop."""
    columns = heads(
        "machine code: code | bytes: number | instructions: number | hot loop: number | "
        "vector: number | register: number"
    )
    columns += [Column(name, "number") for name in ("FMA", "loads", "stores", "spills")]
    return filled(columns, [strip_of(f) for f in found], 8, "kernel.asm")


def strip_of(f: Strip) -> tuple[str, ...]:
    """The figures of one function; where nothing loops they are of all of it."""
    hot = f.hot or f.total
    return (
        clip(f.name, 60),
        "" if f.code_bytes is None else f"{f.code_bytes:,}",
        f"{f.total.instructions:,}",
        f"{f.hot.instructions:,}" if f.hot else "none",
        percent(hot.vector_share),
        f"{f.vector_bits} bits" if f.vector_bits else "",
        *(str(n) for n in (hot.fma, hot.loads, hot.stores, hot.spills)),
    )


def _calls(found: list[Strip]) -> list[Part]:
    """What the code calls outside of itself."""
    own = {f.name for f in found}
    calls = sorted({name for f in found for name in f.calls} - own)
    return [Facts([("calls", listed(calls, 6))])] if calls else []


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
