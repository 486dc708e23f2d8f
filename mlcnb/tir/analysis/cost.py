"""What a function costs: arithmetic operations, bytes touched, bytes allocated.

All figures are ints where the function's shapes are static, else expressions of its symbolic
dimensions.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any, ClassVar

import numpy as np

from mlcnb.arith import Analyzer
from mlcnb.arith.emission import atom_expr
from mlcnb.arith.evaluate import Unknown, evaluate
from mlcnb.core.node import rewrite, walk
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.dtype import dtype
from mlcnb.ir.expr import PrimExpr, Range, Var
from mlcnb.ir.module import IRModule
from mlcnb.tir import stmt as s
from mlcnb.tir.analysis.access import Boxes
from mlcnb.tir.analysis.kernels import is_launch, launch_of, numbered
from mlcnb.tir.analysis.mma import MMA, flops_of_thread, operands_of
from mlcnb.tir.analysis.structure import allocated_buffers, blocks_of, statements
from mlcnb.tir.analysis.wgmma import WGMMA, Product
from mlcnb.tir.buffer import Buffer, BufferLoad
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.functor import StmtFunctor, bodies

_COUNTED = (e.Add, e.Sub, e.Mul, e.Div, e.Mod, e.FloorDiv, e.FloorMod, e.Min, e.Max)
#: threads and blocks over which a sum is made one by one
MOST_THREADS = 1 << 22
_FREE_CALLS = ("tir.likely", "tir.reinterpret", "tir.address_of", "tir.tvm_access_ptr")


def flops(func: PrimFunc | IRModule) -> Any:
    """Arithmetic operations on values in one call; index arithmetic is not counted.

    Of a module, those of one call of each of its loop functions, as TVM's `estimate_tir_flops`;
    what a graph function does in one run is `relax.analysis.flops`.

    Each + - * / % min max and each intrinsic counts one for each lane; casts and comparisons count
    nothing; of two branches the dearer one counts; `init` is not looked at. A block that has a
    predicate runs at most once for each value of its axes. Where the block of a launch decides how
    long a loop is, each of them counts with its own.
    """
    if isinstance(func, IRModule):
        return sum(map(flops, func.of_kind(PrimFunc).values()), 0)
    return plain(_Flops().visit_stmt(func.body, number(1)))


def tensor_flops(func: PrimFunc) -> dict[str, Any]:
    """Those of `flops` that tensor cores do: the products and sums of `ptx_mma` and `ptx_wgmma`, by
    what their operands are ("float16", "tf32", "int8").
    """
    calls = [n for n in walk(func.body) if isinstance(n, e.Call) and _mma_flops(n)]
    found = dict[str, Any]()
    for kind in dict.fromkeys(map(_operands, calls)):
        own = {id(n) for n in calls if _operands(n) == kind}

        def without(n: Any, own: set[int] = own) -> Any:
            return p.const(0) if id(n) in own else None

        rest = func.with_body(rewrite(func.body, without))
        found[kind] = plain(Analyzer().simplify(p.as_expr(flops(func)) - p.as_expr(flops(rest))))
        func = rest
    return found


def block_flops(func: PrimFunc) -> dict[s.Block, Any]:
    """Block -> operations of all its instances in one call, its inner blocks' included."""
    return {n: count for n, count in nested_flops(func.body).items() if isinstance(n, s.Block)}


def nested_flops(body: s.Stmt) -> dict[s.Stmt, Any]:
    """Loop or block -> operations of all its runs in one run of `body`, inner ones included."""
    counter = _Flops()
    counter.visit_stmt(body, number(1))
    return {n: plain(count) for n, count in counter.nested.items()}


def find_anchor_block(obj: PrimFunc | IRModule) -> s.Block | None:
    """The block that most of the work is in: the one to schedule first, the others around it.

    That is the reduction block of most operations; where nothing is reduced, the block of most
    operations, the last of them. None where there is no block.
    """
    functions = obj.functions.values() if isinstance(obj, IRModule) else [obj]
    found: list[tuple[bool, float, s.Block]] = []
    for func in functions:
        if isinstance(func, PrimFunc):
            work = block_flops(func)
            for realize in blocks_of(func):
                if not any(isinstance(n, s.BlockRealize) for n in statements(realize.block.body)):
                    count = work.get(realize.block, 0)
                    size = count if isinstance(count, int) else float("inf")
                    found.append((realize.block.init is not None, size, realize.block))
    return max(reversed(found), key=lambda x: x[:2])[2] if found else None


def plain(x: PrimExpr) -> Any:
    """An int where it is one."""
    value = p.as_int(x)
    return x if value is None else value


class _Flops(StmtFunctor):
    """Counts statement by statement, each as often as it runs."""

    def __init__(self) -> None:
        self.analyzer = Analyzer()
        #: variables of loops, and of launches
        self.loops: set[Var] = set()
        self.axes: set[Var] = set()
        #: operations of each loop and block
        self.nested: dict[s.Stmt, PrimExpr] = {}
        #: threads of a block of a launch, and their numbers on its axes
        self.block: tuple[int, dict[Var, Any]] = 0, {}
        #: how often the block around runs
        self.outer = number(1)

    def visit_inside(self, n: Any, runs: PrimExpr) -> PrimExpr:
        """Operations of what stands in a statement that runs that often."""
        return self.total(self.visit_stmt(part, runs) for part in bodies(n))

    def visit_block_(self, n: s.Block, runs: PrimExpr) -> PrimExpr:
        """A block by itself: what starts a reduction does not count."""
        return self.visit_stmt(n.body, runs)  # type: ignore[no-any-return]

    def visit_if_then_else_(self, n: s.IfThenElse, runs: PrimExpr) -> PrimExpr:
        """The dearer side counts; of products on tensor cores those of the warps that come by."""
        found = [self.visit_stmt(side, runs) for side in bodies(n)]
        threads, axes = self.block
        holds = evaluate(n.condition, axes, None) if axes and _on_tensor_cores(n) else None
        if holds is not None:
            come = int(np.count_nonzero(np.broadcast_to(holds, threads)))
            parts = zip(found, (come, threads - come), strict=False)
            return self.total(p.floordiv(x * count, threads) for x, count in parts)
        return self.analyzer.simplify(p.maximum(*found, *[number(0)] * (2 - len(found))))

    def visit_buffer_store_(self, n: s.BufferStore, runs: PrimExpr) -> PrimExpr:
        """The value that is stored."""
        return self.repeated(number(value_flops(n.value)), runs)

    def visit_let_stmt_(self, n: s.LetStmt, runs: PrimExpr) -> PrimExpr:
        """The value, and the body."""
        own = self.repeated(number(value_flops(n.value)), runs)
        return self.total([own, self.visit_stmt(n.body, runs)])

    def visit_evaluate_(self, n: s.Evaluate, runs: PrimExpr) -> PrimExpr:
        """A call."""
        of: Any = _mma_flops if isinstance(n.value, e.Call) else value_flops
        return self.repeated(number(of(n.value)), runs)

    def visit_attr_stmt_(self, n: s.AttrStmt, runs: PrimExpr) -> PrimExpr:
        """Threads are as many runs; where they decide how long a loop is, the sum over them."""
        if not is_launch(n):
            return self.visit_inside(n, runs)
        self.analyzer.bind(n.node.var, Range(p.const(0, n.node.var.dtype), n.value))
        self.axes.add(n.node.var)
        outer = self.block
        self.block = outer if outer[1] else numbered(launch_of(n))
        found = self.visit_inside(n, self.repeated(n.value, runs))
        found = self.over_launch(n, found, runs)
        self.block = outer
        return found

    def over_launch(self, n: s.AttrStmt, found: PrimExpr, runs: PrimExpr) -> PrimExpr:
        """What is found, summed over the axes that it depends on, if it depends on nothing else."""
        launch = launch_of(n)
        wanted = {v for v in walk(found) if isinstance(v, Var)}
        deciding = [x for x in launch.axes.values() if x.var in wanted]
        sizes = [p.as_int(x.dom.extent) or MOST_THREADS + 1 for x in deciding]
        if len(deciding) < len(wanted) or not deciding or prod(sizes) > MOST_THREADS:
            return found
        for axis in launch.axes.values():
            if axis not in deciding:
                runs = self.repeated(axis.dom.extent, runs)
        each = self.visit_stmt(launch.body, runs)
        places = [x.reshape(-1) for x in np.indices(sizes)]
        try:
            counts = evaluate(each, {x.var: at for x, at in zip(deciding, places, strict=True)})
        except Unknown:
            return found
        return number(int(np.sum(counts)))

    def visit_for_(self, n: s.For, runs: PrimExpr) -> PrimExpr:
        """A loop; an extent that depends on outer loops counts as large as it gets."""
        extent = n.extent
        decided = {v for v in walk(extent) if isinstance(v, Var)}
        if decided & self.axes:  # a loop that would end before it begins does not run
            extent = self.analyzer.simplify(p.maximum(extent, p.const(0, extent.dtype)))
        if decided & self.loops:
            _, high = self.analyzer.const_bounds(extent)
            extent = number(int(high)) if high != float("inf") else extent
        self.analyzer.bind(n.loop_var, Range(n.min, n.extent))
        self.loops.add(n.loop_var)
        found = self.nested[n] = self.visit_stmt(n.body, self.repeated(extent, runs))
        return found

    def visit_block_realize_(self, n: s.BlockRealize, runs: PrimExpr) -> PrimExpr:
        """A block; where it has a predicate, its axes say how often it runs."""
        if not p.is_const(n.predicate, 1):
            once_each = self.outer
            for axis in n.block.iter_vars:
                once_each = self.repeated(axis.dom.extent, once_each)
            runs = self.analyzer.simplify(p.minimum(runs, once_each))
        before, self.outer = self.outer, runs
        found = self.nested[n.block] = self.visit_stmt(n.block.body, runs)
        self.outer = before
        return found

    def repeated(self, extent: PrimExpr, count: PrimExpr) -> PrimExpr:
        """extent * count"""
        return self.analyzer.simplify(p.multiply(p.cast("int64", extent), count))

    def total(self, counts: Any) -> PrimExpr:
        """The sum of the counts."""
        result = number(0)
        for count in counts:
            result = p.add(result, count)
        return self.analyzer.simplify(result)


def _on_tensor_cores(n: s.Stmt) -> bool:
    return any(isinstance(x, e.Call) and _mma_flops(x) > 0 for x in walk(n))


def number(x: int) -> PrimExpr:
    """A count as an expression."""
    return e.IntImm(dtype("int64"), x)


def value_flops(x: PrimExpr) -> int:
    """Operations in one value; indices are not looked at."""
    if isinstance(x, BufferLoad | Var | e.IntImm | e.FloatImm | e.StringImm):
        return 0
    if isinstance(x, _COUNTED):
        return x.dtype.lanes + value_flops(x.a) + value_flops(x.b)
    if isinstance(x, e.Select):
        sides = value_flops(x.true_value), value_flops(x.false_value)
        return _deciding_flops(x.condition) + max(sides)
    if isinstance(x, e.Call):
        return _call_flops(x)
    if isinstance(x, e.Let):
        return value_flops(x.value) + value_flops(x.body)
    if isinstance(x, e.Shuffle):
        return sum(map(value_flops, x.vectors))
    parts = [getattr(x, name) for name in x.child_fields]
    return sum(value_flops(part) for part in parts if isinstance(part, PrimExpr))


def _deciding_flops(x: PrimExpr) -> int:
    """Operations of a condition; those that only say where an index is are no work on values."""
    if isinstance(x, e.And | e.Or):
        return _deciding_flops(x.a) + _deciding_flops(x.b)
    if isinstance(x, e.Not):
        return _deciding_flops(x.a)
    if isinstance(x, e.Call) and x.op == "tir.likely":
        return _deciding_flops(x.args[0])
    if isinstance(x, e.CmpOp) and x.a.dtype.is_integer:
        return 0 if not any(isinstance(n, BufferLoad) for n in walk(x)) else value_flops(x)
    return value_flops(x)


def _mma_flops(x: e.Call) -> int:
    """A thread's share of a product on tensor cores; 0 of other calls."""
    if x.op == WGMMA:
        return Product.of(x).flops_of_thread
    return flops_of_thread(x) if x.op == MMA else 0


def _operands(x: e.Call) -> str:
    """What such a product multiplies."""
    return Product.of(x).dtype if x.op == WGMMA else operands_of(x)


def _call_flops(x: e.Call) -> int:
    if x.op == "tir.if_then_else":
        condition, yes, no = x.args
        return _deciding_flops(condition) + max(value_flops(yes), value_flops(no))
    own = 0 if x.op in _FREE_CALLS or x.dtype.is_handle else x.dtype.lanes
    return own + sum(value_flops(arg) for arg in x.args)


def bytes_touched(func: PrimFunc) -> dict[Buffer, Any]:
    """Buffer of a parameter -> bytes of the distinct elements that one call reads or writes.

    The elements of the box around all accesses are counted, or those that the loops come to where
    these are fewer (a strided access).
    """
    body = func.body
    block = body.block if isinstance(body, s.BlockRealize) else s.Block((), (), (), "", body)
    boxes = WholeFunction(block)
    found: dict[Buffer, Any] = {}
    for buffer in func.buffers:
        sizes = [bytes_of(boxes, b) for b in boxes.accessed() if b.data is buffer.data]
        if sizes:
            found[buffer] = plain(_total_within(buffer, sizes))
    return found


def _total_within(buffer: Buffer, sizes: list[PrimExpr]) -> PrimExpr:
    """The sum, but no more than the buffer has; several sizes are those of several views of it."""
    if len(sizes) == 1:
        return sizes[0]
    whole = number(buffer.dtype.nbytes)
    for extent in buffer.shape:
        whole = p.multiply(whole, p.cast("int64", extent))
    total = sizes[0]
    for size in sizes[1:]:
        total = p.add(total, size)
    return Analyzer().simplify(p.minimum(total, whole))


class WholeFunction(Boxes):
    """The accesses of a whole function: inner blocks are looked into, their axes run."""

    def __init__(self, block: s.Block, analyzer: Analyzer | None = None) -> None:
        #: buffer -> most elements that its accesses can come to; None where unknown
        self.visited: dict[Buffer, int | None] = {}
        super().__init__(block, analyzer=analyzer)

    def accessed(self) -> list[Buffer]:
        """The buffers that are read or written."""
        return list(dict.fromkeys([*self.reads, *self.writes]))

    def _access(self, node: Any, is_write: bool, is_atomic: bool = False) -> None:
        """Note an access, and to how many elements it can come."""
        super()._access(node, is_write)
        count: int | None = 1
        for index in node.indices:
            values = self.values_of(index)
            count = None if count is None or values is None else count * values
        known = self.visited.get(node.buffer, 0)
        self.visited[node.buffer] = None if known is None or count is None else known + count

    def values_of(self, index: PrimExpr) -> int | None:
        """How many values an index can take while the loops run."""
        if index.dtype not in ("int32", "int64"):
            return None
        count = 1
        for atom in self.analyzer.normal_form(index).atoms():
            for var in {n for n in walk(atom_expr(atom, index.dtype)) if isinstance(n, Var)}:
                extent = p.as_int(self.domains[var].extent) if var in self.domains else None
                if extent is None:
                    return None
                count *= extent
        return count

    def _place(self, n: s.Stmt) -> None:
        super()._place(n)
        if isinstance(n, s.BlockRealize):
            self.local.update(buffer.data for buffer in n.block.alloc_buffers)

    def _look_inside(self, n: s.BlockRealize) -> None:
        with self.bound(n):
            self._realize(n)

    handlers: ClassVar = {**Boxes.handlers, s.BlockRealize: _look_inside}


def bytes_of(boxes: WholeFunction, buffer: Buffer) -> PrimExpr:
    """Bytes of the distinct elements of a buffer that were seen to be accessed."""
    own = [*boxes.reads.get(buffer, ()), *boxes.writes.get(buffer, ())]
    region = boxes.regions({buffer: own})[0]
    analyzer = boxes.analyzer
    count: PrimExpr = number(1)
    for bounds, extent in zip(region.region, buffer.shape, strict=True):
        inside = analyzer.simplify(p.minimum(bounds.extent, extent))
        count = p.multiply(count, p.cast("int64", inside))
    most = boxes.visited.get(buffer)
    if most is not None and most <= dtype("int64").max_value:  # beyond that it bounds nothing
        count = p.minimum(count, number(most))
    return analyzer.simplify(p.multiply(count, number(buffer.dtype.nbytes)))


def allocated_bytes(func: PrimFunc) -> dict[str, Any]:
    """Memory scope -> bytes that the function allocates, all allocations together."""
    found: dict[str, PrimExpr] = {}
    for _, kind, extents, scope in allocated_buffers(func.body):
        size: PrimExpr = number(dtype(str(kind)).nbytes)
        for extent in extents:
            size = p.multiply(size, p.cast("int64", extent))
        found[scope] = p.add(found[scope], size) if scope in found else size
    analyzer = Analyzer()
    return {scope: plain(analyzer.simplify(size)) for scope, size in found.items()}


def arithmetic_intensity(func: PrimFunc, values: Mapping[Var, int] | None = None) -> float:
    """Operations for each byte touched, at the given symbolic dimensions."""
    analyzer = Analyzer({v: (n, n) for v, n in (values or {}).items()})
    total = sum(int(analyzer.simplify(p.as_expr(n))) for n in bytes_touched(func).values())
    return int(analyzer.simplify(p.as_expr(flops(func)))) / total
