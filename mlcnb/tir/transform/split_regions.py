"""Host and device apart, where a function marks what runs on which target.

def main(n):                                       def main(n):
    with T.attr(T.target("cuda"), "target", 0):        cls.main_kernel(n)
        work(n)                              ->    def main_kernel(n):   # target: cuda
                                                       work(n)

A kernel on the CPU tells whether it failed: the host asserts that it gave 0.
"""

from __future__ import annotations

from typing import Any

from mlcnb.core.node import FrozenDict, Node, rewrite, walk
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.dtype import dtype
from mlcnb.ir.expr import GlobalVar, Var
from mlcnb.ir.module import IRModule
from mlcnb.target import Target
from mlcnb.tir import op
from mlcnb.tir import stmt as s
from mlcnb.tir.analysis.structure import allocations
from mlcnb.tir.analysis.variables import undefined_vars
from mlcnb.tir.buffer import Buffer, BufferLoad
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.functor import NOTHING
from mlcnb.tir.renew import renewed
from mlcnb.tir.transform.device_regions import REGION


def has_regions(func: PrimFunc) -> bool:
    """True where a part of the function is marked with a target."""
    return any(_is_region(n) for n in walk(func.body))


def _is_region(n: Node) -> bool:
    return isinstance(n, s.AttrStmt) and n.attr_key == REGION and isinstance(n.node, Target)


def split_regions(mod: IRModule) -> IRModule:
    """The module with each marked part as a function of its own."""
    names = {key.name_hint for key, _ in mod.items()}
    made: dict[GlobalVar, PrimFunc] = {}
    for key, func in mod.of_kind(PrimFunc).items():
        if has_regions(func):
            kernels: dict[GlobalVar, PrimFunc] = {}
            made[key] = _host(func, key.name_hint, names, kernels)
            made.update(kernels)
    return renewed(mod.with_functions(made)) if made else mod


def _host(
    func: PrimFunc, name: str, names: set[str], kernels: dict[GlobalVar, PrimFunc]
) -> PrimFunc:
    def enter(n: Node) -> Node | None:
        if not _is_region(n):
            return n if isinstance(n, e.PrimExpr | Buffer) else None
        symbol = GlobalVar(_fresh(f"{name}_kernel", names))
        kernels[symbol] = _kernel(n)
        return _call(symbol, kernels[symbol])

    return func.with_body(rewrite(func.body, lambda _n: None, enter=enter))


def _fresh(name: str, names: set[str]) -> str:
    number, found = 0, name
    while found in names:
        number += 1
        found = f"{name}_{number}"
    names.add(found)
    return found


def _kernel(region: Any) -> PrimFunc:
    """The marked part as a function of the variables that it uses: pointers first, by name."""
    body, on_cpu = region.body, region.node.is_cpu
    for buffer in reversed(_foreign_buffers(body)):
        body = s.DeclBuffer(buffer, body)
    if on_cpu:
        body = s.seq(body, s.Evaluate(op.ret(p.const(0))))
    params = sorted(undefined_vars(body), key=lambda v: (not v.dtype.is_handle, v.name))
    attrs = {"target": region.node, "tir.noalias": True, "tir.is_global_func": True}
    returned = "int32" if on_cpu else None
    return PrimFunc(tuple(params), body, returned, FrozenDict(), FrozenDict(attrs))


def _foreign_buffers(body: s.Stmt) -> list[Buffer]:
    declared = {n.buffer for n in walk(body) if isinstance(n, s.DeclBuffer)}
    own = {n.buffer_var for n in allocations(body)}
    used = dict.fromkeys(n.buffer for n in walk(body) if isinstance(n, BufferLoad | s.BufferStore))
    found = [b for b in used if b not in declared and b.data not in own]
    return sorted(found, key=lambda b: b.data.name)


def _call(symbol: GlobalVar, kernel: PrimFunc) -> s.Stmt:
    if kernel.ret_type is None:
        return s.Evaluate(e.Call(dtype("void"), symbol, kernel.params))
    error = Var("kernel_error_code", dtype(kernel.ret_type))
    check = s.AssertStmt(p.equal(error, 0), "Error executing compute kernel", NOTHING)
    return s.LetStmt(error, e.Call(error.dtype, symbol, kernel.params), check)
