"""cache_index: index arithmetic is done once, into tables, and looked up from then on.

for i, j in T.grid(80, 80):                  for ax0 in range(80):
    with T.block("resize"):                      with T.block("index_0"):
        B[v_i, v_j] = A[v_i // 4, v_j]   ->          index_var_0[v0] = v0 // 4
                                             for i, j in T.grid(80, 80):
                                                 with T.block("resize"):
                                                     B[v_i, v_j] = A[index_var_0[v_i], v_j]
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mlcnb.core.node import Node, children, replace, walk
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.folding import DIVIDING
from mlcnb.ir.structural import structural_equal
from mlcnb.tir.buffer import Buffer, BufferLoad, decl_buffer
from mlcnb.tir.schedule.edit.caching import refuse_scope
from mlcnb.tir.schedule.edit.nests import looped, point
from mlcnb.tir.schedule.edit.rebuild import FreshCopy, Rebuilder
from mlcnb.tir.schedule.record.facts import does
from mlcnb.tir.schedule.record.state import Change, State
from mlcnb.tir.stmt import Block, BufferStore, IterType, IterVar, Stmt

#: an index expression, and how often it occurs
Counted = tuple[e.PrimExpr, int]


@does()
def cache_index(state: State, block: Block, storage_scope: str, cse_thresh: int = 0) -> Change:
    """Compute the indices of a block's loads beforehand, into tables over the axes that they use.

    A table has the dtype of the index and, along each axis that it uses, the axis' extent.

    Args:
        state: the program.
        block: the block whose loads are looked at.
        storage_scope: the memory scope of the tables.
        cse_thresh: only what occurs at least so often gets a table; of what occurs less often, the
            parts are looked at.

    Returns:
        The blocks that fill the tables, the longest expression first, before everything else in
        the scope that leads to `block`; none where the loads are indexed by plain axes.
    """
    refuse_scope(state, "cache_index", storage_scope, block)
    chosen = _chosen(block, cse_thresh)
    tables, nests, blocks = {}, [], []
    for n, x in enumerate(chosen):
        axes = [a for a in block.iter_vars if any(v is a.var for v in walk(x))]
        shape = [p.add(a.dom.min, a.dom.extent) for a in axes]
        table = decl_buffer(shape, x.dtype, f"index_var_{n}", storage_scope)
        nest, made = _filled(table, x, axes, n)
        tables[x] = BufferLoad(table, tuple(a.var for a in axes))
        nests.append(nest)
        blocks.append(made)
    edit = state.edit()
    if chosen:
        scope = state.tree.scope(block)
        new = _LookedUp(list(tables.items()), edit.forward).stmt(block)
        regions = [point(load.buffer, load.indices) for load in tables.values()]
        new = replace(new, reads=(*block.reads, *regions))
        edit.put(block, new)
        edit.became(block, new)
        edit.before(state.tree.child_towards(scope, state.tree.realize(block)), *nests)
        edit.allocate(scope, *(load.buffer for load in tables.values()))
    return Change.of(edit, blocks)


def _chosen(block: Block, threshold: int) -> list[e.PrimExpr]:
    """The expressions that get a table, the longest first, none of them twice."""
    axes = {axis.var for axis in block.iter_vars}
    fixed = {v for n in walk(block) if isinstance(n, Block | Stmt) for v in _bound(n)} - axes
    open_: list[Counted] = []
    for store in (n for n in walk(block.body) if isinstance(n, BufferStore)):
        for x in _indices(store.value):
            _count(open_, x, 1, axes, fixed)
    kept: list[e.PrimExpr] = []
    while open_:
        x, times = max(open_, key=lambda pair: sum(1 for _ in walk(pair[0])))
        open_ = [pair for pair in open_ if pair[0] is not x]
        if times >= threshold:
            kept.append(x)
            continue
        for part in _parts(x):
            _count(open_, part, times, axes, fixed)
    return kept


def _bound(n: Node) -> Iterator[e.Var]:
    """The variables that a statement inside of the block binds."""
    for name in ("loop_var", "var"):
        if isinstance(getattr(n, name, None), e.Var):
            yield getattr(n, name)
    if isinstance(n, Block):
        yield from (axis.var for axis in n.iter_vars)


def _indices(value: e.PrimExpr) -> Iterator[e.PrimExpr]:
    """The indices of the loads in a value; not those inside of other indices."""
    if isinstance(value, BufferLoad):
        yield from value.indices
        return
    for part in _parts(value):
        yield from _indices(part)


def _parts(x: e.PrimExpr) -> list[e.PrimExpr]:
    return [n for n in children(x) if isinstance(n, e.PrimExpr)]


def _count(
    found: list[Counted], x: e.PrimExpr, times: int, axes: set[e.Var], fixed: set[e.Var]
) -> None:
    """Add an expression to those found; where it cannot have a table, what it is made of."""
    if isinstance(x, e.Var | e.IntImm | e.FloatImm):
        return
    if not _is_eligible(x, axes, fixed):
        for part in x.indices if isinstance(x, BufferLoad) else _parts(x):
            _count(found, part, times, axes, fixed)
        return
    for n, (other, count) in enumerate(found):
        if structural_equal(other, x):
            found[n] = (other, count + times)
            return
    found.append((x, times))


def _is_eligible(x: e.PrimExpr, axes: set[e.Var], fixed: set[e.Var]) -> bool:
    """True for scalar arithmetic on the axes that can be done for all of their values."""
    if x.dtype.lanes != 1 or not (x.dtype.is_integer or x.dtype.is_bool):
        return False
    mentioned = False
    for n in walk(x):
        if isinstance(n, BufferLoad | e.Ramp | e.Broadcast | e.Let) or n in fixed:
            return False
        if isinstance(n, e.Call) and n.op not in _PURE:
            return False
        if isinstance(n, DIVIDING) and not p.as_int(n.b):
            return False
        mentioned = mentioned or n in axes
    return mentioned


_PURE = frozenset(
    f"tir.{x}"
    for x in "floor ceil trunc round nearbyint fabs likely if_then_else bitwise_and bitwise_or "
    "bitwise_xor shift_left shift_right exp log sqrt".split()
)


def _filled(table: Buffer, x: e.PrimExpr, axes: list[IterVar], n: int) -> tuple[Stmt, Block]:
    """Loops over the axes that put the expression into its table."""
    fresh = FreshCopy({})
    own = tuple(
        replace(a, var=fresh.renew(a.var, f"v{i}"), iter_type=IterType.SPATIAL)
        for i, a in enumerate(axes)
    )
    indices = tuple(a.var for a in own)
    store = BufferStore(table, fresh.expr(x), indices)
    block = Block(own, (), (point(table, indices),), f"index_{n}", store)
    return looped(block), block


class _LookedUp(Rebuilder):
    """Expressions inside of loads' indices replaced by loads of their tables."""

    def __init__(
        self, tables: list[tuple[e.PrimExpr, BufferLoad]], forward: dict[Stmt, Stmt]
    ) -> None:
        super().__init__(forward)
        self.tables = tables

    def on_Block(self, n: Block) -> Block:
        """Regions stay as they are: the arithmetic says more than a table's element."""
        return replace(n, body=self.stmt(n.body))

    def on_BufferStore(self, n: BufferStore) -> BufferStore:
        """Only what is loaded is looked up."""
        return replace(n, value=self._inside(n.value, False))

    def _inside(self, x: e.PrimExpr, is_index: bool) -> e.PrimExpr:
        if is_index:
            for old, load in self.tables:
                if structural_equal(old, x):
                    return load
        if isinstance(x, BufferLoad):
            return replace(x, indices=tuple(self._inside(i, True) for i in x.indices))
        changes: dict[str, Any] = {}
        for name in x.child_fields:
            value = getattr(x, name)
            if isinstance(value, e.PrimExpr):
                changes[name] = self._inside(value, is_index)
            elif isinstance(value, tuple):
                changes[name] = tuple(
                    self._inside(v, is_index) if isinstance(v, e.PrimExpr) else v for v in value
                )
        return replace(x, **changes)
