"""What a program needs before it can be scheduled: one root block, no statement in two places, and
blocks that say the truth about themselves.

Refused: an axis that is bound to values outside of its domain, a loop variable used inside a block
past its axes, a block that touches what its reads and writes do not name.
"""

from __future__ import annotations

from typing import Any

from mlcnb.core.errors import ArgumentError
from mlcnb.core.node import Node, replace, rewrite
from mlcnb.core.recursion import roomy
from mlcnb.core.text import kind_of
from mlcnb.ir import prim_ops as p
from mlcnb.ir.module import IRModule
from mlcnb.tir import stmt as s
from mlcnb.tir.analysis.access import detect_buffer_access
from mlcnb.tir.analysis.well_formed import verify_well_formed
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.schedule.edit.rebuild import FreshCopy
from mlcnb.tir.schedule.record.tree import Tree

#: what a Schedule may be asked for, by parameter
CHOICES = {
    "check": ("default", "rules", "none", "numeric", "dependence", "both"),
    "error_render_level": ("detail", "fast", "none"),
    "debug_mask": ("none", "all"),
}


def asked(mod: Any, **options: Any) -> IRModule:
    """The module that a Schedule is asked to work on; a PrimFunc is its `main`.

    Raises:
        ArgumentError: it is no program, or an option has no such value.
    """
    for name, value in options.items():
        if value not in CHOICES[name] and not (name == "debug_mask" and isinstance(value, int)):
            raise ArgumentError(
                f"Schedule: no {name} {value!r}", hint=f"one of {', '.join(CHOICES[name])}"
            )
    if not isinstance(mod, IRModule | PrimFunc):
        raise ArgumentError(
            f"Schedule: {kind_of(mod)} is no program",
            hint="pass a PrimFunc, or an IRModule that holds PrimFuncs",
        )
    return IRModule.make({"main": mod}) if isinstance(mod, PrimFunc) else mod


def prepared(mod: IRModule, checked: bool) -> IRModule:
    """The module with every PrimFunc ready; itself where all are.

    Raises:
        WellFormedError: a function breaks a rule of the IR, or a block says something false.
    """
    for name, func in mod.of_kind(PrimFunc).items():
        if checked:
            verify_well_formed(func)
        func = prepared_function(func)
        mod = mod.with_function(name, func)
    return mod


@roomy
def prepared_function(func: PrimFunc) -> PrimFunc:
    """The function with a root block, and with each loop and block in one place only."""
    body = func.body
    if not (isinstance(body, s.BlockRealize) and not body.block.iter_vars):
        root = s.Block((), (), (), "root", body)
        func = func.with_body(s.BlockRealize((), p.const(True), root))
    tree = Tree(func)
    if tree.has_shared:
        func = func.with_body(FreshCopy({}).stmt(func.body))
    if any(_says_nothing(b) for b in tree.blocks[1:]):
        func = func.with_body(rewrite(func.body, _completed))
    return func


def _says_nothing(block: s.Block) -> bool:
    return not block.reads and not block.writes


def _completed(n: Node) -> Node | None:
    """A block around others that says nothing of what it touches (as TVM prints them) says it."""
    if not isinstance(n, s.Block) or not _says_nothing(n) or n.name_hint == "root":
        return None
    reads, writes = detect_buffer_access(n)
    return replace(n, reads=reads, writes=writes) if reads or writes else None
