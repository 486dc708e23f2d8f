"""KillAfterLastUse: memory is given back as soon as nothing reads it any more.

alloc = R.builtin.alloc_tensor(…)          alloc = R.builtin.alloc_tensor(…)
_ = cls.exp(x, alloc)                      _ = cls.exp(x, alloc)
_1 = cls.relu(alloc, alloc1)        ->     _1 = cls.relu(alloc, alloc1)
                                           _2 = R.memory.kill_tensor(alloc)
"""

from __future__ import annotations

from typing import Any

from mlcnb.core.node import replace
from mlcnb.ir.module import IRModule
from mlcnb.ir.transform import FunctionPass, PassContext
from mlcnb.op.memory import (
    AllocStorage,
    AllocTensor,
    AllocTensorFromStorage,
    KillStorage,
    KillTensor,
)
from mlcnb.relax.analysis.variables import bound_vars, leaves, value_uses
from mlcnb.relax.emitter import Emitter, Names, block_is_dataflow, with_bindings
from mlcnb.relax.expr import Function, SeqExpr, Tuple, TupleGetItem, Var, VarBinding
from mlcnb.relax.operator import OpDecl, called, make_call

#: what allocates -> what kills it
_KILLS: dict[type[OpDecl], type[OpDecl]] = {
    AllocTensor: KillTensor,
    AllocTensorFromStorage: KillTensor,
    AllocStorage: KillStorage,
}


class KillAfterLastUse(FunctionPass):
    """Say where tensors and storage that the function allocates are not used any more.

    Tensors of any shape and dtype, those of unknown size too; results are not killed. Nothing is
    refused.

    What the function kills already is not killed again.
    """

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """A kill after the last use of everything allocated that is not returned."""
        dying = _last_uses(func)
        if not dying:
            return func
        emitter = Emitter(mod.functions, Names(v.name_hint for v in bound_vars(func)))
        step = 0
        blocks = []
        for block in func.body.blocks:
            bindings: list[Any] = []
            for binding in block.bindings:
                bindings.append(binding)
                if not block_is_dataflow(block):
                    bindings.extend(_kill(emitter, var, kill) for var, kill in dying.get(step, ()))
                step += 1
            blocks.append(with_bindings(block, tuple(bindings)))
        return replace(func, body=SeqExpr(tuple(blocks), func.body.body))


def _kill(emitter: Emitter, var: Var, kill: type[OpDecl]) -> VarBinding:
    with emitter.scope(False) as bindings:
        emitter.emit(make_call(kill, var), "_")
    return bindings[0]  # type: ignore[return-value]


def _last_uses(func: Function) -> dict[int, list[tuple[Var, type[OpDecl]]]]:
    """Step -> what dies after it. Views and tensors in a storage keep it alive."""
    owners: dict[Var, set[Var]] = {}
    kills: dict[Var, type[OpDecl]] = {}
    last: dict[Var, int] = {}
    killed: set[Var] = set()
    for step, binding in enumerate(func.body.bindings):
        var, value = binding.var, binding.value
        for leaf in value_uses(value):
            for owner in owners.get(leaf, ()):
                last[owner] = step
        owners[var] = _held_by(value, owners) if _is_alias(value) else set()
        kill = _KILLS.get(called(value))
        if kill is not None:
            kills[var], last[var] = kill, step
            owners[var] = {var, *owners[var]}
        if called(value) in _KILLS.values():
            killed.add(value.args[0])
    returned = _held_by(func.body.body, owners)
    dying: dict[int, list[tuple[Var, type[OpDecl]]]] = {}
    for var, kill in reversed(kills.items()):
        if var not in returned | killed:
            dying.setdefault(last[var], []).append((var, kill))
    return dying


def _is_alias(value: Any) -> bool:
    operator = called(value)
    alias = isinstance(value, Var | Tuple | TupleGetItem) or operator.view
    return alias or operator is AllocTensorFromStorage


def _held_by(value: Any, owners: dict[Var, set[Var]]) -> set[Var]:
    return {o for leaf in leaves(value) for o in owners.get(leaf, ())}
