"""LLVM IR text becomes object bytes, and object bytes become functions in this process.

    text --parse, verify--> module --O3--> optimised module --emit--> object --link--> addresses
    Compiled.ir                            .ir_after, .assembly       .object          Library["f"]

One module per kernel. `compile_many` takes the texts of a whole program as they are made, compiles
each distinct one once, looks into a cache first, and works on several threads: each module has its
own LLVM context, so the two slow calls are made without llvmlite's global lock. What is only for
reading (IR after, assembly) is kept as bitcode and printed when asked for.
"""

from __future__ import annotations

import ctypes
import os
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from time import perf_counter
from typing import Any

from mlcnb.codegen.llvm import cache as disk
from mlcnb.codegen.llvm.apart import read_apart
from mlcnb.codegen.llvm.beside import compile_beside, is_safe
from mlcnb.codegen.llvm.symbols import defines, needs
from mlcnb.codegen.llvm.target_machine import Cpu, check_intrinsics, machines
from mlcnb.core.errors import CodegenError


@dataclass(frozen=True, slots=True)
class Options:
    """How hard LLVM works. The defaults are what programs are run with.

    Args:
        level: 0 to 3, as in `-O3`.
        loop_vectorize: turn scalar loops into vector loops where LLVM can prove it right.
        slp_vectorize: join neighbouring scalar instructions into vector ones.
        loop_unroll: unroll loops of few iterations.
    """

    level: int = 3
    loop_vectorize: bool = True
    slp_vectorize: bool = True
    loop_unroll: bool = True


DEFAULT = Options()


class Compiled:
    """One module, compiled: what went in, what came out, and how long it took.

    Attributes:
        object: the object file, ELF or Mach-O.
        bitcode: the module after optimisation.
        defines, needs: global names that the object has, and those it wants from outside.
        seconds: time by step (`parse`, `optimize`, `emit`) when it was compiled.
        cached: whether it came from the disk cache this time.
    """

    def __init__(
        self,
        ir: str,
        cpu: Cpu,
        options: Options,
        parts: Sequence[bytes],
        seconds: Mapping[str, float],
        cached: bool = False,
    ) -> None:
        self._ir = zlib.compress(ir.encode(), 1)  # of Inception v2's kernels 0.3 MB, not 5
        self.cpu, self.options = cpu, options
        self.object, self.bitcode = parts
        self.seconds = dict(seconds)
        self.cached = cached
        self.defines = defines(self.object)
        self.needs = needs(self.object)

    @property
    def ir(self) -> str:
        """The IR text that was given."""
        return zlib.decompress(self._ir).decode()

    def __repr__(self) -> str:
        total = 1000 * sum(self.seconds.values())
        return f"Compiled({', '.join(self.defines)}: {len(self.object)} B, {total:.1f} ms)"

    @cached_property
    def ir_after(self) -> str:
        """The IR text after optimisation."""
        with _module_of(self.bitcode) as module:
            return str(module)

    @cached_property
    def assembly(self) -> str:
        """The assembly text, made from the optimised module when first asked for."""
        if not is_safe(self.ir, self.cpu):
            return read_apart(self.ir, self.cpu, self.options.level)[1]
        borrowed = machines.borrow(self.cpu, self.options.level)
        with borrowed as machine, _module_of(self.bitcode) as module:
            return machine.emit_assembly(module)

    def blob(self) -> bytes:
        """All that a cache must keep, beside the key."""
        times = " ".join(f"{name}={value:.6f}" for name, value in self.seconds.items())
        return disk.pack([times.encode(), self.object, self.bitcode])


def compile_ir(
    ir: str, cpu: Cpu | None = None, options: Options = DEFAULT, *, store: disk.Store | None = None
) -> Compiled:
    """Compile one module for `cpu` (the host by default).

    Raises:
        CodegenError: malformed IR (with line and column), an intrinsic the CPU lacks, an unknown
            target.
    """
    return compile_many([ir], cpu, options, store=store)[0]


def compile_many(
    irs: Iterable[str | Compiled],
    cpu: Cpu | None = None,
    options: Options = DEFAULT,
    *,
    store: disk.Store | None = None,
    jobs: int | None = None,
    on_done: Callable[[Compiled], None] | None = None,
) -> list[Compiled]:
    """Compile modules, each distinct text once; equal texts give the same `Compiled`.

    Args:
        irs: IR texts, or what was compiled elsewhere. What makes them one by one works beside the
            threads that compile the first.
        cpu: the host by default.
        store: a cache to look into and to fill; none by default.
        jobs: threads to compile on; the number of cores (at most 8) by default.
        on_done: called on the caller's thread with each distinct result, in order.

    Raises:
        CodegenError: the first error, in the order of `irs`.
    """
    cpu = cpu or Cpu.host()
    order: list[str] = []
    done: dict[str, Compiled | Future[Compiled]] = {}
    pool = ThreadPoolExecutor(jobs or min(os.cpu_count() or 1, 8), "mlcnb-compile")
    try:
        for each in irs:
            ir = each if isinstance(each, str) else each.ir
            order.append(ir)
            if ir not in done and isinstance(each, Compiled):
                done[ir] = each
                _put(store, each)
            elif ir not in done:
                kept = _from_store(ir, cpu, options, store)
                done[ir] = kept or pool.submit(_compile, ir, cpu, options)
        for ir, found in done.items():
            compiled = found if isinstance(found, Compiled) else found.result()
            if found is not compiled:
                _put(store, compiled)
            done[ir] = compiled
            if on_done is not None:
                on_done(compiled)
    finally:
        pool.shutdown(cancel_futures=True)
    return [done[ir] for ir in order]  # type: ignore[misc]


def _put(store: disk.Store | None, made: Compiled) -> None:
    if store is not None:
        store.put(_key(made.ir, made.cpu, made.options), made.blob())


def _compile(ir: str, cpu: Cpu, options: Options) -> Compiled:
    """A module, compiled here, or where LLVM may end on it in a process beside this one."""
    check_intrinsics(ir, cpu)
    parts, seconds = (compile_here if is_safe(ir, cpu) else compile_beside)(ir, cpu, options)
    return Compiled(ir, cpu, options, parts, seconds)


def compile_here(ir: str, cpu: Cpu, options: Options) -> tuple[list[bytes], dict[str, float]]:
    """The way of one module through LLVM: (object and bitcode, seconds by step)."""
    start = perf_counter()
    with machines.borrow(cpu, options.level) as machine, _parse(ir) as module:
        parsed = perf_counter()
        _optimize(module, machine, options)
        bitcode = module.as_bitcode()
        optimized = perf_counter()
        obj = _emit_object(machine, module)
        emitted = perf_counter()
    seconds = {"parse": parsed - start, "optimize": optimized - parsed, "emit": emitted - optimized}
    return [obj, bitcode], seconds


def read(ir: str, cpu: Cpu, options: Options = DEFAULT) -> tuple[str, str]:
    """The IR text after optimisation and the assembly of a module that nobody will run.

    No object is made, so it serves for CPUs that LLVM writes only text for.
    """
    check_intrinsics(ir, cpu)
    with machines.borrow(cpu, options.level) as machine, _parse(ir) as module:
        _optimize(module, machine, options)
        with _module_of(module.as_bitcode()) as kept:  # the way of `Compiled.assembly`
            return str(kept), machine.emit_assembly(kept)


@contextmanager
def _parse(ir: str) -> Iterator[Any]:
    """A verified module in a context of its own.

    Module and context end here, in this order: the garbage collector, which keeps none, would
    sometimes free the context first and then the module once more.
    """
    import llvmlite.binding as llvm

    with llvm.create_context() as context:
        try:
            module = llvm.parse_assembly(ir, context)
        except RuntimeError as error:
            raise _ir_error(ir, str(error)) from error
        with module:
            try:
                module.verify()
            except RuntimeError as error:
                raise _ir_error(ir, str(error)) from error
            yield module


def _ir_error(ir: str, message: str) -> CodegenError:
    """LLVM's complaint as a typed error, with the line of IR it speaks of."""
    found = re.search(r"<string>:(\d+):(\d+): (?:error: )?(.*)", message)
    if found is None:
        return CodegenError(f"LLVM refuses the module: {' '.join(message.split())}")
    line, column, what = int(found[1]), int(found[2]), found[3]
    text = ir.splitlines()[line - 1] if line <= len(ir.splitlines()) else ""
    return CodegenError(
        f"LLVM refuses line {line}, column {column} of the module: {what}\n"
        f"    {text}\n    {' ' * (column - 1)}^"
    )


def _optimize(module: Any, machine: Any, options: Options) -> None:
    """Run the default pipeline of `options.level`. A pass manager serves once, then it is spent."""
    import llvmlite.binding as llvm

    tuning = llvm.create_pipeline_tuning_options(speed_level=options.level)
    tuning.loop_vectorization = options.loop_vectorize
    tuning.slp_vectorization = options.slp_vectorize
    tuning.loop_unrolling = options.loop_unroll
    builder = llvm.create_pass_builder(machine, tuning)
    _unlocked("LLVMPY_RunNewModulePassManager")(builder.getModulePassManager(), module, builder)


def _emit_object(machine: Any, module: Any) -> bytes:
    from llvmlite.binding import ffi

    with ffi.OutputString() as error:
        buffer = _unlocked("LLVMPY_TargetMachineEmitToMemory")(machine, module, 1, error)
        if not buffer:
            raise CodegenError(f"LLVM cannot emit this module: {error}")
    try:
        size = ffi.lib.LLVMPY_GetBufferSize(buffer)
        return ctypes.string_at(ffi.lib.LLVMPY_GetBufferStart(buffer), size)
    finally:
        ffi.lib.LLVMPY_DisposeMemoryBuffer(buffer)


@cache
def _unlocked(name: str) -> Any:
    """An entry point of llvmlite's library without the lock that llvmlite holds in every call.

    LLVM itself needs no lock between modules of different contexts with machines of their own.
    """
    from llvmlite.binding import ffi

    locked = getattr(ffi.lib, name)
    free = getattr(ctypes.CDLL(ffi.lib._name), name)
    free.argtypes, free.restype = locked.argtypes, locked.restype
    return free


@contextmanager
def _module_of(bitcode: bytes) -> Iterator[Any]:
    import llvmlite.binding as llvm

    with llvm.create_context() as context, llvm.parse_bitcode(bitcode, context) as module:
        yield module


def _key(ir: str, cpu: Cpu, options: Options) -> str:
    return f"object\n{cpu}\n{options}\n{ir}"


def _from_store(ir: str, cpu: Cpu, options: Options, store: disk.Store | None) -> Compiled | None:
    """What the cache has for this text, or None."""
    if store is None:
        return None
    blob = store.get(_key(ir, cpu, options))
    parts = disk.unpack(blob) if blob is not None else None
    if parts is None or len(parts) != 3:
        return None
    times = (item.split("=") for item in parts[0].decode().split())
    return Compiled(
        ir, cpu, options, parts[1:], {name: float(value) for name, value in times}, cached=True
    )
