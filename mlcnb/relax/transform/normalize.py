"""Normalize: A-normal form, and struct infos filled in.

gv = R.nn.relu(R.add(x, x))    ->    gv1: R.Tensor((2,), "float32") = R.add(x, x)
                                     gv: R.Tensor((2,), "float32") = R.nn.relu(gv1)
"""

from __future__ import annotations

from itertools import groupby
from typing import Any

from mlcnb.core.node import replace
from mlcnb.ir.module import IRModule
from mlcnb.ir.transform import FunctionPass, PassContext
from mlcnb.relax.expr import (
    Binding,
    BindingBlock,
    Function,
    SeqExpr,
    Var,
)
from mlcnb.relax.infer import Functions
from mlcnb.relax.mutator import Mutator


def normalize(func: Function, functions: Functions | None = None) -> Function:
    """`func` in A-normal form, struct infos (shapes and dtypes) inferred where they are missing.

    Raises:
        TypeInferError: arguments of an operator do not fit.
    """
    return _Normalizer(functions).rewrite(func)


class _Normalizer(Mutator):
    """Hands every value to the emitter, which normalizes it."""

    def visit_call(self, call: Any, var: Var) -> Any:
        """The value itself: the emitter makes it flat and infers its struct info."""
        return call

    visit_tuple = visit_item = visit_if = visit_call

    def _sequence(self, seq: Any) -> SeqExpr:
        made = super()._sequence(flat(seq) if isinstance(seq, SeqExpr) else seq)
        blocks = merged(made.blocks)
        return made if len(blocks) == len(made.blocks) else SeqExpr(blocks, made.body)


def flat(seq: SeqExpr) -> SeqExpr:
    """The sequence, with sequences that are bound to variables in the place where they stand.

    In a dataflow block only those that are dataflow blocks themselves.
    """
    blocks: list[BindingBlock] = []
    for block in seq.blocks:
        kind, begun = type(block), len(blocks)
        rest: list[Binding] = []
        for binding in block.bindings:
            inner = flat(binding.value) if isinstance(binding.value, SeqExpr) else None
            if inner is None or any(kind not in (BindingBlock, type(b)) for b in inner.blocks):
                rest.append(binding)
                continue
            blocks += [kind(tuple(rest)), *inner.blocks]
            rest = [replace(binding, value=inner.body)]
        blocks.append(block if len(blocks) == begun else kind(tuple(rest)))
    same = len(blocks) == len(seq.blocks)
    return seq if same else SeqExpr(tuple(b for b in blocks if b.bindings), seq.body)


def merged(blocks: tuple[BindingBlock, ...]) -> tuple[BindingBlock, ...]:
    """The blocks with neighbours of one kind made one."""
    done: list[BindingBlock] = []
    for kind, run in groupby(blocks, type):
        neighbours = list(run)
        if len(neighbours) > 1:
            neighbours = [kind(tuple(b for n in neighbours for b in n.bindings))]
        done += neighbours
    return tuple(done)


class Normalize(FunctionPass):
    """Bring graph functions into A-normal form and fill in struct infos.

    Raises:
        TypeInferError: an operator does not take the shapes or dtypes of its arguments.
    """

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """See `normalize`."""
        return normalize(func, mod.functions)
