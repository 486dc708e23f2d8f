"""A kernel called on NumPy arrays with next to no delay: all that can be known before, is.

    direct = DirectCall.of(kernel, func)     None: it has sizes, scalars or a result of its own
    direct.entry(a, b, c)                    NotImplemented: the arrays are not just what it takes
    if not direct.run((a, b, c)):            or False; then
        kernel_call.run(kernel, …)           which converts, or says what is wrong

    calls = DirectCalls(kernel, func)        one for each set of sizes that was met, if any are open
    calls.of(args)

    of_any(kernel)                           one for all sizes, which reads them off the arrays

`entry` checks and runs natively (entry_call.py); `run` does so from Python, where there is no
`entry` or another thread is inside. A small product takes as long as finding out where three arrays
lie, so the checks are one comparison each: type, dtype, shape, contiguity, what may be written, and
what overlaps. Whatever is not as it should be goes the long way, which names the argument.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, lru_cache
from typing import Any, NoReturn

import numpy as np
from numpy import ndarray

from mlcnb.core.errors import RuntimeInputError
from mlcnb.ir.expr import IntImm
from mlcnb.ir.memory import address_of, array_at
from mlcnb.runtime import kernel_call
from mlcnb.runtime.entry_call import Given, entry
from mlcnb.runtime.native_graph import CANCELLED, NativeProgram
from mlcnb.runtime.shapes import Dims, evaluate, open_sizes
from mlcnb.runtime.tensor import aligned_empty
from mlcnb.tir.analysis.structure import work
from mlcnb.tir.buffer import Buffer
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.stmt import Evaluate, Stmt

#: sets of open sizes whose calls are kept
MOST = 64
#: iterations that are over before anybody could press Ctrl-C, however slow they are
SHORT = 1 << 22

_begin: Any = ctypes.c_char.from_buffer
_address = ctypes.addressof


class DirectCall:
    """The calls of one kernel whose parameters are arrays, of shapes that are known.

    Args:
        kernel, func: what is called.
        dims: the value of each size that the function leaves open.
    """

    def __init__(self, kernel: Any, func: PrimFunc, dims: Dims | None = None) -> None:
        self._kernel = kernel
        params = kernel.signature.params
        written = set(kernel_call.written(func))
        sizes_of = dims or {}
        self._params = [
            (p.dtype.numpy, tuple(evaluate(n, sizes_of) for n in p.shape), i in written)
            for i, p in enumerate(params)
        ]
        self._count = len(params)
        self._dims = open_sizes(kernel.signature, sizes_of)
        self._is_short = iterations(func.body) <= SHORT
        sizes = [math.prod(shape) * kind.itemsize for kind, shape, _ in self._params]
        pairs = _exclusive(func, written, len(params))
        self._apart = [(i, sizes[i], j, sizes[j]) for i, j in pairs]
        #: programs that nobody is running, with their slots; each has the workspace of one call
        self._idle: list[tuple[NativeProgram, memoryview]] = []

    @staticmethod
    def of(kernel: Any, func: PrimFunc) -> DirectCall | None:
        """The calls of a compiled kernel; None where they need more than addresses."""
        if not _takes_arrays(kernel) or kernel.signature.dims:
            return None
        return DirectCall(kernel, func) if _has_elements(kernel, {}) else None

    @cached_property
    def entry(self) -> Callable[..., Any] | None:
        """The native way in; None where there is none."""
        program, _ = self._program()
        given = [
            Given(kind, shape, (i,), is_written)
            for i, (kind, shape, is_written) in enumerate(self._params)
        ]
        pairs = [(i, j) for i, _, j, _ in self._apart]

        def fail(status: int) -> NoReturn:
            if status == CANCELLED:
                program.cancelled()
            raise kernel_call.failure(self._kernel, status, self._arguments(program))

        return entry(program, given, [], fail, pairs=pairs, is_short=self._is_short)

    def run(self, args: Sequence[Any]) -> bool:
        """Run the kernel on the arrays; False where they are not just what it takes.

        Raises:
            ExecutionError: the kernel stopped: an assertion, an index out of bounds, a cancelled
                call.
        """
        addresses = self._addresses(args)
        if addresses is None:
            return False
        try:
            ready = self._idle.pop()
        except IndexError:
            ready = self._program()
        program, slots = ready
        for slot, address in enumerate(addresses):
            slots[slot] = address
        status = program.run_briefly() if self._is_short else program.run()
        self._idle.append(ready)
        if status:
            raise kernel_call.failure(self._kernel, status, args)
        return True

    def _arguments(self, program: NativeProgram) -> list[Any]:
        """The arrays of the last call, where its slots say that they lie."""
        return [
            array_at(int(program.arena[program.slot(0, i)]), shape, np.dtype(kind))
            for i, (kind, shape, _) in enumerate(self._params)
        ]

    def _addresses(self, args: Sequence[Any]) -> list[int] | None:
        """Where the arrays begin, if they are what the kernel takes."""
        if len(args) != self._count:
            return None
        found = []
        for array, (kind, shape, is_written) in zip(args, self._params, strict=False):
            if type(array) is not ndarray or array.shape != shape:
                return None
            if array.dtype is not kind and array.dtype != kind:
                return None
            flags = array.flags
            if not flags.c_contiguous:
                return None
            if flags.writeable:
                found.append(_address(_begin(array)))  # type: ignore[arg-type]
            elif is_written:
                return None
            else:
                found.append(array.ctypes.data)
        for i, size_i, j, size_j in self._apart:
            if found[i] < found[j] + size_j and found[j] < found[i] + size_i:
                return None
        return found

    def _program(self) -> tuple[NativeProgram, memoryview]:
        """One call, and its slots: the first of them are the addresses of its arrays."""
        kernel, slots, keep = self._kernel, [0] * self._count + self._dims, []
        if kernel.signature.workspace:
            keep.append(aligned_empty((kernel.signature.workspace,), np.dtype("uint8")))
            slots.append(keep[0].ctypes.data)
        program = NativeProgram([kernel.address], [slots], (kernel.library, keep))
        arena: Any = program.arena
        return program, memoryview(arena)


class OpenCall(DirectCall):
    """The calls of one kernel with arrays of any sizes, each of which is a dimension of one."""

    def __init__(self, kernel: Any, func: PrimFunc) -> None:
        self._kernel, self._open = kernel, kernel.signature.dims
        params, written = kernel.signature.params, set(kernel_call.written(func))
        self._arrays: list[tuple[Any, tuple[Any, ...], bool]] = [
            (
                p.dtype.numpy,
                tuple(n.value if isinstance(n, IntImm) else n for n in p.shape),
                i in written,
            )
            for i, p in enumerate(params)
        ]
        self._count = len(params)
        self._dims = [0] * len(self._open) + [*kernel.signature.sizes]
        self._is_short = False
        self._pairs = list(_exclusive(func, written, len(params)))
        self._idle = []

    @staticmethod
    def of(kernel: Any, func: PrimFunc) -> OpenCall | None:
        """The calls of a compiled kernel; None where they need more than addresses and sizes."""
        if not _takes_arrays(kernel) or not kernel.signature.dims:
            return None
        told = {n for p in kernel.signature.params for n in p.shape}
        return OpenCall(kernel, func) if told.issuperset(kernel.signature.dims) else None

    def _addresses(self, args: Sequence[Any]) -> list[int] | None:
        """Where the arrays begin, and what their sizes are, if they are what the kernel takes."""
        if len(args) != self._count:
            return None
        found: list[int] = []
        dims: Dims = {}
        later: list[tuple[int, Any]] = []
        for array, (kind, shape, is_written) in zip(args, self._arrays, strict=True):
            if type(array) is not ndarray or len(array.shape) != len(shape):
                return None
            if array.dtype is not kind and array.dtype != kind:
                return None
            for got, wanted in zip(array.shape, shape, strict=True):
                if type(wanted) is int:
                    if got != wanted:
                        return None
                elif wanted not in self._open:
                    later.append((got, wanted))
                elif dims.setdefault(wanted, got) != got or not wanted.dtype.holds(got):
                    return None
            flags = array.flags
            if not flags.c_contiguous or (is_written and not flags.writeable):
                return None
            found.append(address_of(array))
        if any(evaluate(wanted, dims) != got for got, wanted in later):
            return None
        for i, j in self._pairs:
            ends = found[i] + args[i].nbytes, found[j] + args[j].nbytes
            if found[i] < ends[1] and found[j] < ends[0]:
                return None
        return found + [dims[n] for n in self._open]


def of_any(kernel: Any) -> DirectCall | None:
    """The calls of a kernel with all shapes that it takes; None where there is no short way."""
    return OpenCall.of(kernel, kernel.func) or DirectCall.of(kernel, kernel.func)


class DirectCalls:
    """The calls of one kernel by the shapes of its arrays; of open sizes those that were met."""

    def __init__(self, kernel: Any, func: PrimFunc) -> None:
        self._kernel, self._func = kernel, func
        self._fixed = DirectCall.of(kernel, func)
        self._is_open = bool(kernel.signature.dims) and _takes_arrays(kernel)
        self._met: dict[tuple[Any, ...], DirectCall] = {}

    def of(self, args: Sequence[Any]) -> DirectCall | None:
        """The calls with arrays of these shapes; None where there is no short way."""
        if not self._is_open:
            return self._fixed
        if not all(type(a) is ndarray for a in args):
            return None
        shapes = tuple([a.shape for a in args])
        found = self._met.get(shapes)
        if found is None:
            try:
                dims = kernel_call.check(self._kernel, args)
            except RuntimeInputError:
                return None
            if not _has_elements(self._kernel, dims):
                return None
            if len(self._met) >= MOST:
                self._met.clear()
            found = self._met[shapes] = DirectCall(self._kernel, self._func, dims)
        return found


def _exclusive(func: PrimFunc, written: set[int], count: int) -> Iterator[tuple[int, int]]:
    """Parameters that may not share memory, each with one that is written to before it."""
    exclusive = written if func.attrs.get("tir.noalias") else set()
    for i in sorted(exclusive):
        yield from ((i, j) for j in range(count) if i != j and not (j in exclusive and j < i))


def _takes_arrays(kernel: Any) -> bool:
    """Its parameters are arrays whose elements lie one behind the other, as many as their types
    say, of types of NumPy's own; and it gives nothing."""
    if kernel.signature.result is not None or not hasattr(kernel, "address"):
        return False
    return all(isinstance(p, Buffer) and _is_plain(p) for p in kernel.signature.params)


def _is_plain(buffer: Buffer) -> bool:
    return (
        not buffer.strides
        and buffer.elem_offset is None
        and buffer.dtype.lanes == 1
        and buffer.dtype.numpy.isbuiltin == 1
    )


def _has_elements(kernel: Any, dims: Dims) -> bool:
    """Each array has some."""
    return all(evaluate(n, dims) > 0 for p in kernel.signature.params for n in p.shape)


@lru_cache(maxsize=256)
def iterations(n: Stmt) -> float:
    """How often the innermost statements run, at most; infinite where that is not known."""
    return work(n, math.inf, lambda x: math.inf if isinstance(x, Evaluate) else 1)
