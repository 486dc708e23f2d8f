"""What instructions that get pointers read and write: a part of `Reading`.

T.ptx_cp_async("float16", S, at, A.data, from, 16)      read A[from:from + 8], write S[at:at + 8]
T.ptx_ldmatrix(…, F, at, S, row)                        read the rows that the lanes of a warp name
T.ptx_wgmma(…, F, at, S, from, …)                       read the tiles that begin there
T.ptx_cp_async_bulk_tensor(…, S, at, A.data, 64, 96, …)  read A[:64 * 96], write the box at S[at]
T.call_intrin(…, "tir.atomic_add", T.address_of(B[i]))  update B[i]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mlcnb.core.node import walk
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.expr import PrimExpr, Range, Var
from mlcnb.tir import stmt as s
from mlcnb.tir.analysis.bulk import BOX, BULK, Matrix, bytes_of
from mlcnb.tir.analysis.effects import POINTERS
from mlcnb.tir.analysis.mma import ROW, WARP
from mlcnb.tir.analysis.wgmma import OPERANDS, SUMS, Product
from mlcnb.tir.buffer import Buffer, BufferLoad
from mlcnb.tir.functor import substitute

if TYPE_CHECKING:
    from mlcnb.tir.access.read import Reading


def _atomic(reading: Reading, n: e.Call) -> None:
    """`atomic_add` of an element, which it reads and writes at once."""
    address, *values = n.args
    load: Any = address.args[0] if isinstance(address, e.Call) and address.args else None
    if getattr(address, "op", None) != "tir.address_of" or not isinstance(load, BufferLoad):
        reading._visit_all(n.args)
        return
    reading._visit_all((*load.indices, *values))
    reading._access(load, True, is_atomic=True)


def _prefetch(reading: Reading, n: e.Call) -> None:
    """`prefetch` touches nothing: it only computes where."""
    for arg in n.args:
        is_address = isinstance(arg, e.Call) and arg.op == "tir.address_of"
        load: Any = arg.args[0] if is_address else None  # type: ignore[attr-defined]
        reading._visit_all(load.indices if isinstance(load, BufferLoad) else (arg,))


def _async_copy(reading: Reading, n: e.Call) -> None:
    """`ptx_cp_async`: bytes here are read, if a condition holds, and as many there are written."""
    to, at, source, start, size, *holds = n.args
    reading._visit_all((at, start, size, *holds))
    outer = reading._scope
    for condition in holds:
        reading._scope = reading._scope.under(n, condition)
    _elements(reading, source, start, p.as_int(size), n, False)
    reading._scope = outer
    _elements(reading, to, at, p.as_int(size), n, True)


def _instruction(reading: Reading, n: e.Call) -> None:
    """What gets pointers, and is known to read or to write what is behind them."""
    known = {at: (reads, writes) for at, reads, writes in POINTERS[str(n.op)]}
    for at, arg in enumerate(n.args):
        if at in known and isinstance(arg, Var):
            reads, writes = known[at]
            reading._whole(arg, n, [False] * reads + [True] * writes)
        else:
            reading._visit(arg)


def _matrices(reading: Reading, n: e.Call) -> None:
    """`ptx_ldmatrix`: any lane of the warp reads what any of them names."""
    own, at, memory, row = n.args[3:7]
    reading._visit_all((at, row))
    lane = _lane(reading.root)
    buffer = reading._behind(reading.pointer(memory)) if isinstance(memory, Var) else None
    steps = None if buffer is None else _steps(buffer)
    if lane is None or steps is None or buffer.dtype != n.dtype:  # type: ignore[union-attr]
        _instruction(reading, n)
        return
    other, place = Var("lane", lane.dtype), Var("element", row.dtype)
    first = substitute(row, {lane: other})
    _read_over(
        reading, n, buffer, steps, first + place, {other: WARP, place: ROW // n.dtype.nbytes}
    )
    if isinstance(own, Var):
        reading._whole(own, n, (True,))


def _warpgroup(reading: Reading, n: e.Call) -> None:
    """`ptx_wgmma`: tiles of both operands, from where they begin on."""
    made = Product.of(n)
    reading._visit_all(n.args[at + 1] for at in (SUMS, *OPERANDS))
    for first, operand in zip(OPERANDS, (made.a, made.b), strict=True):
        memory, begin = n.args[first : first + 2]
        _over(reading, memory, begin, operand.reach(made.count), n, False)
    reading._whole(n.args[SUMS], n, (False, True))  # type: ignore[arg-type]


def _bulk_copy(reading: Reading, n: e.Call) -> None:
    """`ptx_cp_async_bulk`, and of a box: of the matrix any element may be read."""
    to, at, source = n.args[:3]
    reading._visit_all(x for x in n.args[1:] if x is not source)
    count = bytes_of(n) // n.dtype.nbytes
    begin, many = n.args[3], count
    if n.op == BOX:
        made = Matrix.of(n)
        begin, many = p.const(0), made.height * made.width
    _over(reading, source, begin, many, n, False)
    _over(reading, to, at, count, n, True)


def _over(
    reading: Reading, pointer: Any, first: PrimExpr, count: int, n: e.Call, is_write: bool
) -> None:
    """So many elements from an offset on."""
    if not isinstance(pointer, Var):
        reading._visit(pointer)
        return
    buffer = reading._behind(reading.pointer(pointer))
    steps = None if buffer is None else _steps(buffer)
    if buffer is None or steps is None or buffer.dtype != n.dtype or not count:
        reading._whole(pointer, n, (is_write,))
        return
    place = Var("element", first.dtype)
    _read_over(reading, n, buffer, steps, first + place, {place: count}, is_write)


def _read_over(
    reading: Reading,
    n: e.Call,
    buffer: Any,
    steps: Sequence[int],
    place: PrimExpr,
    counted: Mapping[Var, int],
    is_write: bool = False,
) -> None:
    """A call reads (or writes) elements, counted by variables that are not the program's."""
    outer = reading._scope
    for var, extent in counted.items():
        domain = Range(p.const(0, var.dtype), p.const(extent, var.dtype))
        loop = s.For(var, domain.min, domain.extent, s.ForKind.SERIAL, s.Evaluate(p.const(0)))
        reading._scope = reading._scope.loop(loop, var, domain)
        reading._path.append(0)
    indices = []
    for step in steps:
        indices.append(p.floordiv(place, step))
        place = p.floormod(place, step)
    reading._note(buffer, n, tuple(indices), is_write)
    del reading._path[-len(counted) :]
    reading._scope = outer


def _elements(
    reading: Reading, pointer: Any, first: PrimExpr, size: int | None, n: e.Call, is_write: bool
) -> None:
    """So many bytes from an offset on."""
    lanes = (size or 0) // n.dtype.nbytes
    buffer = reading._behind(reading.pointer(pointer)) if isinstance(pointer, Var) else None
    if buffer is None or buffer.ndim != 1 or buffer.dtype != n.dtype or not lanes:
        _over(reading, pointer, first, lanes, n, is_write)
        return
    index = first if lanes == 1 else e.Ramp(first, p.const(1, first.dtype), lanes)
    reading._note(buffer, n, (index,), is_write)


def _lane(root: Any) -> Var | None:
    """What counts the lanes of a warp, where threadIdx.x does."""
    for n in walk(root):
        if isinstance(n, s.AttrStmt) and isinstance(n.node, s.IterVar):
            if n.node.thread_tag == "threadIdx.x" and p.is_const(n.value, WARP):
                return n.node.var
    return None


def _steps(buffer: Buffer) -> list[int] | None:
    """How far neighbours along each dimension lie apart; None where that is not known, or is less
    than what the dimensions behind it reach over.
    """
    if buffer.elem_offset is not None and not p.is_const(buffer.elem_offset, 0):
        return None
    extents = [p.as_int(x) or 0 for x in buffer.shape]
    steps = [p.as_int(x) or 0 for x in buffer.strides]
    reach, made = 1, []
    for extent, step in zip(reversed(extents), reversed(steps or [0] * len(extents)), strict=True):
        step = step if steps else reach
        if extent < 1 or step < reach:
            return None
        made.append(step)
        reach += (extent - 1) * step
    return made[::-1] if made and made[0] == 1 else None


#: what each of them does to a reading
INSTRUCTIONS: dict[str, Callable[[Reading, Any], None]] = {
    "tir.atomic_add": _atomic,
    "tir.prefetch": _prefetch,
    "tir.ptx_cp_async": _async_copy,
    BULK: _bulk_copy,
    BOX: _bulk_copy,
    "tir.ptx_ldmatrix": _matrices,
    "tir.ptx_mma": _instruction,
    "tir.ptx_wgmma": _warpgroup,
}
