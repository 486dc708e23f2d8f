"""Can a program touch memory that is not its own? Proved, refused, or left to checks that run.

for i in range(9):
    B[i] = A[i]          A has 8 elements   refused: A[8] is read at i = 8
    B[i] = A[I[i]]                          checked: InstrumentBoundCheckers stops it where I[i] is
    B[i] = A[k]                             checked   outside of A

Memory is a program's own where a parameter, or an allocation in it, brings it. What the program
makes of it in other ways is refused unless it is seen to fit:

view        a buffer on the memory of another one, or with strides or an offset, must lie within it
pointer     one that comes from a number, from arithmetic or from a parameter without a size
call        a function in C or an LLVM intrinsic that gets a pointer; C functions that are no
            mathematics
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from math import prod
from typing import Any

from mlcnb.arith import Analyzer
from mlcnb.arith.isl import is_missing
from mlcnb.core import display
from mlcnb.core.errors import MLCError, WellFormedError
from mlcnb.core.node import Node, walk
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.tir import stmt as s
from mlcnb.tir.access.inside import OutOfBounds, check_bounds
from mlcnb.tir.analysis.structure import allocations, statements
from mlcnb.tir.analysis.wrapping import may_wrap
from mlcnb.tir.buffer import Buffer, BufferLoad
from mlcnb.tir.constants import refuse_stores_to_constants
from mlcnb.tir.function import PrimFunc

#: what a compiler does about accesses
BOUNDS = ("prove", "check", "trust")
#: attribute of a function whose accesses have to be checked while it runs
CHECKED = "tir.bounds"
#: its value where the checks are there: in loops that stand for threads, fragments and tiles are
#: pointers, of which nobody knows the size any more
DONE = "done"
#: instructions that get pointers
_TOLD = ("tir.ptx_cp_async", "tir.ptx_cp_async_bulk", "tir.ptx_ldmatrix")
_TRUST = 'compile with bounds="trust" if you know better'
_CALLS = frozenset(
    "tir." + name
    for name in ("call_extern call_pure_extern call_llvm_intrin call_llvm_pure_intrin").split()
)
#: LLVM's intrinsics that do more than compute
_UNSAFE = re.compile(
    r"trap|assume|unreachable|stack|frame|address|\.eh\.|deopt|coro|\.va_|jmp|thread|invariant|"
    r"lifetime|memcpy|memmove|memset|masked|gather|scatter|load|store|prefetch|clear|gc\."
)


def secured(func: PrimFunc, bounds: str = "check", functions: Iterable[str] = ()) -> PrimFunc:
    """The function as it may be compiled; marked (`CHECKED`) where accesses must be checked.

    Args:
        bounds: "prove" refuses what is not proved, "check" has it checked in the kernel, "trust"
            looks at nothing.
        functions: names of functions in C that take and give numbers only.

    Raises:
        WellFormedError: an access that leaves its buffer, memory of unknown size, a call that gets
            a pointer.
    """
    if bounds not in BOUNDS:
        raise MLCError(f"no bounds {bounds!r}", hint=", ".join(map(repr, BOUNDS)))
    refuse_stores_to_constants(func)
    if bounds == "trust":
        return _attributed(func, None)
    _Memory(func).check(frozenset(functions))
    if bounds == "check" and is_missing():
        return _attributed(func, "check")
    problems = [x for x in check_bounds(func) if _is_told(x)]
    wrapped = may_wrap(func)
    for x in sorted(problems, key=lambda x: not x.certain):
        if bounds == "prove" or (x.certain and wrapped is None):
            raise WellFormedError(x.message, where=x.access.node, root=func, hint=x.hint)
    if wrapped is not None and bounds == "prove":
        raise WellFormedError(
            f"{wrapped} may leave {wrapped.dtype}, so nothing is proved of what depends on it",
            where=wrapped,
            root=func,
            hint='use int64, or compile with bounds="check"',
        )
    return _attributed(func, "check" if problems or wrapped is not None else None)


def _is_told(x: OutOfBounds) -> bool:
    """True for what loads and stores touch, and instructions of which it is known; for others
    `verify_gpu_code` asks.
    """
    node, is_known = x.access.node, x.access.indices is not None
    return isinstance(node, BufferLoad | s.Stmt) or (is_known and node.op in _TOLD)


def _attributed(func: PrimFunc, value: str | None) -> PrimFunc:
    """The function with the mark, or without it."""
    made: Any = func.without_attr(CHECKED) if value is None else func.with_attr(CHECKED, value)
    return made  # type: ignore[no-any-return]


class _Memory:
    """The memory that a function has, and what it makes of it."""

    def __init__(self, func: PrimFunc) -> None:
        self.func = func
        self.analyzer = Analyzer()
        #: pointer -> bytes behind it
        self.sizes: dict[e.Var, e.PrimExpr] = {b.data: _bytes(b) for b in func.buffers}
        #: pointers of match_buffers, whose accesses are accesses of the buffer outside
        self.matched: set[e.Var] = set()
        for n in statements(func.body):
            if isinstance(n, s.Block):
                self.sizes.update({b.data: self.allocated(b) for b in n.alloc_buffers})
                self.matched.update(match.buffer.data for match in n.match_buffers)
        sizes = {n.buffer_var: _product(n.extents, n.dtype.nbytes) for n in allocations(func.body)}
        self.sizes.update(sizes)

    def allocated(self, buffer: Buffer) -> e.PrimExpr:
        """The bytes of a buffer that a block allocates: as many as its strides need."""
        return _wide(span(buffer)) * buffer.dtype.nbytes if buffer.strides else _bytes(buffer)

    def check(self, functions: frozenset[str]) -> None:
        """Refuse views, pointers and calls that may reach other memory."""
        seen: dict[Buffer, Any] = dict.fromkeys(self.func.buffers)
        for n in walk(self.func.body):
            if isinstance(n, BufferLoad | s.BufferStore | s.DeclBuffer):
                seen.setdefault(n.buffer, n)
            elif isinstance(n, e.Call):
                self.call(n, functions)
            elif isinstance(n, e.Cast) and n.dtype.is_handle:
                raise self.refused("a pointer is made from a number", n)
        for buffer, where in seen.items():
            if buffer.data not in self.matched:
                self.view(buffer, where)

    def view(self, buffer: Buffer, where: Any) -> None:
        """Refuse a buffer that is not seen to lie within the memory behind its pointer."""
        size = self.sizes.get(buffer.data)
        if size is None:
            raise self.refused(
                f"{buffer.name} lies behind {buffer.data.name}, of which no size is known", where
            )
        plain = not buffer.strides and buffer.elem_offset is None
        if plain and any(buffer is b for b in self.func.buffers):
            return
        wanted = _wide(span(buffer)) * buffer.dtype.nbytes
        offset = () if buffer.elem_offset is None else (buffer.elem_offset,)
        if not all(self.analyzer.can_prove(x >= 0) for x in (*buffer.strides, *offset)):
            raise self.refused(
                f"{buffer.name} has strides or an offset that are not known to be positive", where
            )
        if not self.analyzer.can_prove(wanted <= size):
            needed, there = self.told(wanted), self.told(size)
            raise self.refused(
                f"{buffer.name} needs {needed} bytes behind {buffer.data.name}, which has {there}",
                where,
            )

    def told(self, size: e.PrimExpr) -> str:
        """A number of bytes in words."""
        known = self.analyzer.simplify(size)
        number = p.as_int(known)
        return display.text(known) if number is None else str(number)

    def call(self, n: e.Call, functions: frozenset[str]) -> None:
        """Refuse a call that may do anything to memory."""
        if n.dtype.is_handle and n.op == "tir.reinterpret" and not p.is_const(n.args[0], 0):
            raise self.refused("a pointer is made from a number", n)
        if n.op not in _CALLS:
            return
        name = getattr(n.args[0], "value", "") if n.args else ""
        if any(a.dtype.is_handle for a in n.args[1:]) or n.dtype.is_handle:
            raise self.refused(f"{name!r} gets a pointer, and may do anything with it", n)
        known = name in functions if "llvm" not in str(n.op) else not _UNSAFE.search(str(name))
        if not known:
            raise self.refused(f"{name!r} is a function of which nothing is known", n)

    def refused(self, message: str, where: Any) -> WellFormedError:
        """What to raise."""
        root = self.func if isinstance(where, Node) else None
        return WellFormedError(message, where=where, root=root, hint=_TRUST)


def _wide(x: e.PrimExpr) -> e.PrimExpr:
    return p.cast("int64", x)


def _product(extents: Iterable[e.PrimExpr], nbytes: int) -> e.PrimExpr:
    sizes = list(extents)
    known = [p.as_int(x) for x in sizes]
    if None not in known:
        return p.const(min(prod(known) * nbytes, 2**62), "int64")  # type: ignore[arg-type]
    return p.product_of(map(_wide, sizes), p.const(nbytes, "int64"))


def _bytes(buffer: Buffer) -> e.PrimExpr:
    """The bytes of an array of a buffer's shape."""
    return _product(buffer.shape, buffer.dtype.nbytes)


def span(buffer: Buffer) -> e.PrimExpr:
    """The elements from the pointer to the last element of a buffer."""
    start = p.const(0, "int64") if buffer.elem_offset is None else _wide(buffer.elem_offset)
    if not buffer.strides:
        return start + _product(buffer.shape, 1)
    total = start + 1
    for extent, stride in zip(buffer.shape, buffer.strides, strict=True):
        total = total + (_wide(extent) - 1) * _wide(stride)
    return total
