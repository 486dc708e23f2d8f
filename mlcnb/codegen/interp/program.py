"""run_prim_func: a PrimFunc executed on NumPy arrays, element by element.

The reference: what it does is what a program means. Every access is checked against its buffer's
shape, and can be recorded.

A program in block form means its loops, those over GPU threads as well; that the threads would race
is an error all the same (`racing`). Without blocks, or where
threads wait for each other, it means what a GPU does (`kernel`); `simulate=True` asks that of a
program in block form.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from mlcnb.arith import Analyzer
from mlcnb.codegen.interp.blocks import BlockCompiler
from mlcnb.codegen.interp.expressions import Frame, Returned
from mlcnb.codegen.interp.kernel import KernelCompiler
from mlcnb.codegen.interp.launching import (
    launcher,
    on_racing_threads,
    on_threads,
    runs_on_threads,
)
from mlcnb.codegen.interp.memory import View, compact_strides, element_shape, flat_argument
from mlcnb.codegen.interp.numerics import to_dtype
from mlcnb.codegen.interp.parallel import ParallelCompiler, may_race
from mlcnb.core.errors import DataRaceError, ExecutionError, MLCError, RuntimeInputError
from mlcnb.core.recursion import deep, with_room
from mlcnb.ir.expr import PrimExpr, Var
from mlcnb.tir.analysis.carried import ORDERED
from mlcnb.tir.analysis.kernels import uses_threads
from mlcnb.tir.buffer import Buffer
from mlcnb.tir.constants import refuse_stores_to_constants
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.index_check import IndexCheckError
from mlcnb.tir.stmt import ForKind
from mlcnb.tir.transform.init_of_empty import init_of_empty
from mlcnb.tir.transform.plan_buffer_allocation import plan_buffer_allocation

_programs: WeakKeyDictionary[PrimFunc, dict[bool, Program]] = WeakKeyDictionary()


#: nested calls that a program may need: two for each level of an expression
_DEPTH = 8_000


@deep(_DEPTH)
def run_prim_func(
    func: PrimFunc,
    args: Sequence[Any],
    record: Any = None,
    *,
    simulate: bool | None = None,
    order: int | None = None,
    kernels: Mapping[str, PrimFunc] | None = None,
) -> Any:
    """Run a PrimFunc, in block form or lowered to any stage.

    Args:
        func: the function.
        args: one for each parameter: NumPy arrays (outputs are written in place) and numbers.
        record: a list that every access is appended to as (buffer name, flat element index,
            "r" or "w", {loop variable: value}), or a function called with these four.
        simulate: run loops over threads as a GPU does; None: unless the function is in block form.
        order: a seed, to run blocks and threads in another order than that of their numbers.
        kernels: functions that the host's part of a program launches, by name.

    Returns:
        What the function returns with `tir.ret`, else None.

    Raises:
        RuntimeInputError: number, dtype or shape of the arguments does not fit.
        ExecutionError: an access out of bounds, a division by zero, a failed assertion.
        DataRaceError: two threads touch an element, one writes it, and nothing orders them.
        BarrierError: threads wait where others do not come by.
    """
    chosen = runs_on_threads(func) if simulate is None else simulate
    on_gpu = chosen and uses_threads(func)
    meant = _as_threads(func, args) if simulate is None and kernels is None else None
    try:
        program = _program_of(func, on_gpu, record, kernels)
    except RecursionError:  # what runs it nests less deep than what makes it
        rest = partial(_run, func, args, on_gpu, record, order, kernels)
        return with_room(rest, "run_prim_func")
    value = _run_program(program, func, args, order)
    if meant is not None:
        _settle(args, meant)
    return value


def _program_of(func: PrimFunc, on_gpu: bool, record: Any, kernels: Any) -> Program:
    known = _programs.setdefault(func, {}) if record is None and kernels is None else {}
    if on_gpu not in known:
        known[on_gpu] = _new_program(func, on_gpu, record, kernels)
    return known[on_gpu]


def _new_program(func: PrimFunc, on_gpu: bool, record: Any, kernels: Any) -> Program:
    made = on_threads(func) if on_gpu else init_of_empty(func)
    return Program(made, record, KernelCompiler if on_gpu else BlockCompiler, kernels)


def _run(
    func: PrimFunc, args: Sequence[Any], on_gpu: bool, record: Any, order: Any, kernels: Any
) -> Any:
    """Make a program and run it; one that needs room is not kept for where there is none."""
    return _run_program(_new_program(func, on_gpu, record, kernels), func, args, order)


def _run_program(program: Program, func: PrimFunc, args: Sequence[Any], order: Any) -> Any:
    try:
        return program.run(args, order)
    except ExecutionError as error:
        if isinstance(error, IndexCheckError):
            names = [func.buffer_map.get(v, v).name for v in func.params]
            error.tell(dict(zip(names, args, strict=True)))
        if error.where is not None and error.root is None:
            error.root = program.func
        raise


_racing: WeakKeyDictionary[PrimFunc, Program | None] = WeakKeyDictionary()


def _as_threads(func: PrimFunc, args: Sequence[Any]) -> list[Any] | None:
    """What a program makes of copies of its arguments as its threads run it, to see them race.

    None where there are no threads, or they stop for another reason: that is left to the run that
    counts.

    Raises:
        DataRaceError: they do race.
    """
    if func not in _racing:
        _racing[func] = _watched(func)
    program = _racing[func]
    if program is None:
        return None
    copies = [x.copy() if isinstance(x, np.ndarray) else x for x in args]
    try:
        program.run(copies)
    except DataRaceError as error:
        if error.where is not None and error.root is None:
            error.root = program.func
        raise
    except MLCError:
        return None
    return copies


def _settle(args: Sequence[Any], meant: Sequence[Any]) -> None:
    """Threads that wait for each other have the last word over loops that run one by one.

    A thread reads what another has written before a barrier; in a loop, a later round writes it.
    """
    for given, made in zip(args, meant, strict=True):
        if isinstance(given, np.ndarray):
            given[...] = made


def _watched(func: PrimFunc) -> Program | None:
    """The program in which threads are watched; None where there are none, or they cannot race.

    None also where threads cannot run it, as with a warp's memory that is made outside of a kernel.
    A buffer that each round fills before it reads is its own, where lowering allocates it.
    """
    try:
        if uses_threads(func):
            threaded = None if runs_on_threads(func) else on_racing_threads(func)
            return None if threaded is None else Program(threaded, None, KernelCompiler)
        if not may_race(func):
            return None
        planned = plan_buffer_allocation(func, (*ORDERED, ForKind.PARALLEL))
        return Program(planned, None, ParallelCompiler) if may_race(planned) else None
    except MLCError:
        return None


class Program:
    """A PrimFunc compiled to closures."""

    def __init__(
        self,
        func: PrimFunc,
        record: Any,
        compiler: type[BlockCompiler] = BlockCompiler,
        kernels: Mapping[str, PrimFunc] | None = None,
    ) -> None:
        self.func = func
        refuse_stores_to_constants(func)
        self.compiler = compiler(record)
        self.compiler.kernels = {
            name: launcher(name, kernel, run_prim_func) for name, kernel in (kernels or {}).items()
        }
        self.params = tuple(func.params)
        self.buffers = dict(func.buffer_map)
        for buffer in func.buffers:
            self.compiler.declared.add(buffer)
        self.body, _ = self.compiler.stmt(func.body)
        pointers = [b.data for b in func.buffers] + [p for p in self.params if p.dtype.is_handle]
        self.declare = [self.compiler.declare_implicit(data) for data in pointers]
        self.bind = [self._binder(p) for p in self.params]

    def run(self, args: Sequence[Any], order: int | None = None) -> Any:
        """Bind the arguments, run, and give what the function returns."""
        if len(args) != len(self.params):
            raise RuntimeInputError(
                f"{len(self.params)} arguments are needed, {len(args)} were given"
            )
        frame: Frame = [None] * len(self.compiler.slots)
        if isinstance(self.compiler, KernelCompiler):
            frame[self.compiler.order] = order
        checks: list[Callable[[], None]] = []
        copies: list[tuple[np.ndarray, np.ndarray]] = []
        with np.errstate(all="ignore"):
            for bind, arg in zip(self.bind, args, strict=True):
                bind(frame, arg, checks, copies)
            for check in checks:
                check()
            for declare in self.declare:
                declare(frame)
            try:
                self.body(frame)
                result = None
            except Returned as returned:
                result = returned.value
        for target, flat in copies:
            target[...] = flat.reshape(target.shape)
        return result

    def _binder(self, param: Var) -> Callable[..., None]:
        buffer = self.buffers.get(param)
        if buffer is not None:
            return self._buffer_binder(buffer)
        slot, kind = self.compiler.slot(param), param.dtype

        def bind(f: Frame, arg: Any, checks: list, copies: list) -> None:
            if kind.is_handle:
                if not isinstance(arg, np.ndarray):
                    raise RuntimeInputError(
                        f"argument {param.name} must be an array, got {type(arg).__name__}"
                    )
                f[slot] = arg.reshape(-1)
                return
            if not isinstance(arg, int | float | np.number | np.bool_):
                raise RuntimeInputError(
                    f"argument {param.name} must be a number, got {type(arg).__name__}"
                )
            f[slot] = _in_range(param, arg)

        return bind

    def _buffer_binder(self, buffer: Buffer) -> Callable[..., None]:
        slot, data = self.compiler.slot(buffer), self.compiler.slot(buffer.data)
        dims = [self.dimension(buffer, axis, n) for axis, n in enumerate(buffer.shape)]
        strides = [self.dimension(buffer, None, n) for n in buffer.strides]
        offset = buffer.elem_offset
        offsets = [] if offset is None else [self.dimension(buffer, None, offset)]

        def bind(f: Frame, arg: Any, checks: list, copies: list) -> None:
            flat, target = flat_argument(buffer, arg)
            if target is not None:
                copies.append((target, flat))
            shape = element_shape(buffer, arg.shape)
            for dim, size in zip(dims, shape, strict=True):
                dim(f, size, checks, shape)
            for dim, step in zip(strides, compact_strides(shape), strict=bool(strides)):
                dim(f, step, checks, shape)
            for dim in offsets:
                dim(f, 0, checks, shape)
            f[data] = flat
            f[slot] = View(buffer, flat, shape)

        return bind

    def dimension(self, buffer: Buffer, axis: int | None, dim: PrimExpr) -> Callable[..., None]:
        """Binds a symbolic dimension that is a variable; checks it, or anything else, later."""
        compiler = self.compiler
        what = f"dimension {axis}" if axis is not None else "a stride"
        closure = compiler.compile(dim)
        solve = _solver(dim)
        solved = None if solve is None else compiler.slot(solve[0])

        def check(f: Frame, size: int, shape: tuple[int, ...]) -> None:
            if solve is not None and solved is not None and f[solved] is None:
                f[solved] = solve[1](size)
            expected = closure(f)
            if expected != size:
                raise RuntimeInputError(
                    f"argument {buffer.name} has shape {shape}: {what} is {size}, "
                    f"but must be {expected}"
                )

        def bind(f: Frame, size: int, checks: list, shape: tuple[int, ...]) -> None:
            if isinstance(dim, Var) and solved is not None and f[solved] is None:
                if not dim.dtype.holds(size):
                    raise RuntimeInputError(
                        f"argument {buffer.name} has shape {shape}: {what} is {size}, "
                        f"which {dim.name}, an {dim.dtype}, cannot hold",
                        hint="declare the size as T.int64()",
                    )
                f[solved] = size
            else:
                checks.append(lambda: check(f, size, shape))

        return bind


def _in_range(param: Var, arg: Any) -> int | float | bool:
    """A number as one of the parameter's dtype: floats are rounded, integers must fit."""
    if param.dtype.is_float:
        return to_dtype(param.dtype)(float(arg))
    value = int(arg)
    if param.dtype.is_bool:
        return bool(value)
    if not param.dtype.min_value <= value <= param.dtype.max_value:
        raise RuntimeInputError(f"argument {param.name} must be {param.dtype}, got {value}")
    return value


def _solver(dim: PrimExpr) -> tuple[Var, Callable[[int], int]] | None:
    """(n, size -> value of n) for a dimension such as n, n * 2 or n + 1."""
    if isinstance(dim, Var):
        return dim, int
    if dim.dtype not in ("int32", "int64"):
        return None
    poly = Analyzer().normal_form(dim)
    if len(poly.terms) != 1:
        return None
    ((atom, factor),) = poly.terms.items()
    if atom.kind != "var":
        return None
    var: Any = atom.expr
    return var, lambda size: (size - poly.const) // factor
