"""RewriteDataflowReshape: a loop function that only copies becomes a reshape, which costs nothing.

lv = R.call_tir(cls.flatten, (x,), out_sinfo=R.Tensor((1, 512), …))  ->  lv = R.reshape(x, (1, 512))
"""

from __future__ import annotations

from typing import Any

from mlcnb.arith import simplify
from mlcnb.core.node import walk
from mlcnb.ir import prim_ops as p
from mlcnb.ir.expr import GlobalVar
from mlcnb.ir.rules import rule
from mlcnb.ir.structural import structural_equal
from mlcnb.op._dims import product, ravel
from mlcnb.relax import op
from mlcnb.relax.analysis.calls import callee_of, is_open
from mlcnb.relax.expr import Call, ShapeExpr, Var
from mlcnb.relax.infer import Functions
from mlcnb.relax.struct_info import TensorStructInfo
from mlcnb.relax.transform.written_out import (
    CallPass,
    Reader,
)
from mlcnb.tir.analysis.made import is_declared
from mlcnb.tir.buffer import BufferLoad
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.stmt import Block, BufferStore


class RewriteDataflowReshape(
    CallPass, says="copies became views", says_one="copy became a view", quiet=True
):
    """Turn calls of loop functions that keep the order of all elements into R.reshape.

    One input of the result's dtype, in row-major order, its shape known and maybe symbolic. Other
    calls stay, none is refused.
    """


class _Reshaper(Reader, of=RewriteDataflowReshape):
    def __init__(self, functions: Functions, options: Any) -> None:
        super().__init__(functions, options)
        self.known: dict[GlobalVar, bool] = {}

    @rule("RewriteDataflowReshape", "copy")
    def visit_call(self, call: Call, var: Var) -> Any:
        """`R.reshape(x, shape)` of the tensor that a copy reads."""
        func = callee_of(call, self.functions)
        if func is None:
            return None
        info, args = call.sinfo_args[0], call.args[1].fields  # type: ignore[attr-defined]
        key: Any = call.args[0]
        if len(args) != 1 or not isinstance(info, TensorStructInfo) or info.dims is None:
            return None
        given: Any = args[0].struct_info
        if not isinstance(args[0], Var) or given.dtype != info.dtype:
            return None
        if key not in self.known:
            self.known[key] = has_reshape_pattern(func)
        if not self.known[key]:
            return None
        if not is_declared(func) and is_open(call, func):
            return None  # what has to be equal is checked where it is called
        self.found += 1
        return op.reshape(args[0], ShapeExpr(info.dims))


def has_reshape_pattern(func: Any) -> bool:
    """True for a loop function that copies one buffer to another in row-major order."""
    if not isinstance(func, PrimFunc) or len(func.buffers) != 2:
        return False
    nodes = list(walk(func.body))
    stores = [n for n in nodes if isinstance(n, BufferStore)]
    blocks = [n for n in nodes if isinstance(n, Block) and n.iter_vars]
    if len(stores) != 1 or len(blocks) != 1 or not isinstance(stores[0].value, BufferLoad):
        return False
    store, load = stores[0], stores[0].value
    source, target = func.buffers
    if store.buffer is not target or load.buffer is not source:
        return False
    if not p.is_const(simplify(product(target.shape) - product(source.shape)), 0):
        return False
    return _covers(blocks[0], store) and _same_place(store, load, blocks[0])


def _covers(block: Block, store: BufferStore) -> bool:
    """The block writes every element: its axes are the indices, over whole dimensions."""
    axes = {axis.var: axis.dom for axis in block.iter_vars}
    for index, dim in zip(store.indices, store.buffer.shape, strict=True):
        if p.is_const(index, 0) and p.is_const(dim, 1):
            continue
        dom = axes.get(index)  # type: ignore[call-overload]
        if dom is None or not p.is_const(dom.min, 0) or not structural_equal(dom.extent, dim):
            return False
    return True


def _same_place(store: BufferStore, load: BufferLoad, block: Block) -> bool:
    """Both indices count the same number of elements from the start."""
    bounds = {axis.var: axis.dom for axis in block.iter_vars}
    written = ravel(store.indices, store.buffer.shape)
    read = ravel(load.indices, load.buffer.shape)
    return p.is_const(simplify(written - read, bounds), 0)
