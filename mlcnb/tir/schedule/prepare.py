"""What a program needs before it can be scheduled: one root block, and no statement in two
places.
"""

from __future__ import annotations

from mlcnb.ir import prim_ops as p
from mlcnb.ir.module import IRModule
from mlcnb.tir import stmt as s
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.schedule.rebuild import FreshCopy
from mlcnb.tir.schedule.tree import Tree


def prepared(mod: IRModule) -> IRModule:
    """The module with every PrimFunc ready; itself where all are."""
    for name, func in mod.items():
        if isinstance(func, PrimFunc):
            mod = mod.with_function(name, prepared_function(func))
    return mod


def prepared_function(func: PrimFunc) -> PrimFunc:
    """The function with a root block, and with each loop and block in one place only."""
    body = func.body
    if not (isinstance(body, s.BlockRealize) and not body.block.iter_vars):
        root = s.Block((), (), (), "root", body)
        func = func.with_body(s.BlockRealize((), p.const(True), root))
    if Tree(func).has_shared:
        func = func.with_body(FreshCopy({}).stmt(func.body))
    return func
