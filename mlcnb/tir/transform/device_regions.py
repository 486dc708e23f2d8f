"""Which parts of a function run on a device: marks that SplitHostDevice cuts along.

DecorateDeviceScope      T.attr(0, "device_scope", 0) around the whole body
AnnotateDeviceRegions    with T.attr(T.target("cuda"), "target", 0): around every launch of threads

    tx = T.launch_thread("threadIdx.x", 8)     with T.attr(T.target("cuda"), "target", 0):
    B[tx] = A[tx]                        ->        tx = T.launch_thread("threadIdx.x", 8)
                                                   B[tx] = A[tx]
"""

from __future__ import annotations

from typing import Any

from mlcnb.core.node import Node, rewrite
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.transform import PrimFuncPass
from mlcnb.target import Target
from mlcnb.tir.analysis.kernels import is_launch
from mlcnb.tir.buffer import Buffer
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.stmt import AttrStmt

#: attribute of a part of a function that runs on another target
REGION = "target"
_SCOPES = ("device_scope", "pipeline_exec_scope")


def target_of(func: PrimFunc) -> Target | None:
    """The target that a function is bound to."""
    found = func.attrs.get("target")
    return None if found is None else Target(found)


def without_host(target: Target) -> Target:
    """The target of the device alone."""
    return Target({"kind": target.kind, **target.attrs}) if target.host is not None else target


class DecorateDeviceScope(PrimFuncPass):
    """Mark the whole body of a function as what a device runs."""

    def transform_function(self, func: PrimFunc, mod: Any, ctx: Any) -> PrimFunc:
        """`func` with `T.attr(0, "device_scope", 0)` around its body."""
        return func.with_body(AttrStmt(p.const(0), "device_scope", 0, func.body))


class AnnotateDeviceRegions(PrimFuncPass):
    """Mark the parts of a function that run on the device, where its target has a host."""

    def transform_function(self, func: PrimFunc, mod: Any, ctx: Any) -> PrimFunc:
        """`func` with an attribute of the device's target around every launch of threads."""
        target = target_of(func)
        if target is None or target.host is None:
            return func
        device = without_host(target)

        def enter(n: Node) -> Node | None:
            if isinstance(n, e.PrimExpr | Buffer):
                return n
            if is_launch(n) or (isinstance(n, AttrStmt) and n.attr_key in _SCOPES):
                return AttrStmt(device, REGION, 0, n)  # type: ignore[arg-type]
            return n if isinstance(n, AttrStmt) and n.attr_key == REGION else None

        return func.with_body(rewrite(func.body, lambda _n: None, enter=enter))
