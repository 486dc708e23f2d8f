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
from mlcnb.relax.analysis.memory_lives import is_view
from mlcnb.relax.analysis.variables import bound_vars, leaves, value_uses
from mlcnb.relax.emitter import Emitter, Names, block_is_dataflow, with_bindings
from mlcnb.relax.expr import Call, Function, Op, SeqExpr, Tuple, TupleGetItem, Var, VarBinding
from mlcnb.relax.operator import declaration, make_call

#: what allocates -> what kills it
_KILLS = {
    "relax.builtin.alloc_tensor": "relax.memory.kill_tensor",
    "relax.memory.alloc_tensor": "relax.memory.kill_tensor",
    "relax.memory.alloc_storage": "relax.memory.kill_storage",
}


class KillAfterLastUse(FunctionPass):
    """Say where tensors and storage that the function allocates are not used any more."""

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
                    bindings.extend(_kill(emitter, var, op) for var, op in dying.get(step, ()))
                step += 1
            blocks.append(with_bindings(block, tuple(bindings)))
        return replace(func, body=SeqExpr(tuple(blocks), func.body.body))


def _kill(emitter: Emitter, var: Var, op: str) -> VarBinding:
    with emitter.scope(False) as bindings:
        emitter.emit(make_call(declaration(op), var), "_")
    return bindings[0]  # type: ignore[return-value]


def _last_uses(func: Function) -> dict[int, list[tuple[Var, str]]]:
    """Step -> what dies after it. Views and tensors in a storage keep it alive."""
    owners: dict[Var, set[Var]] = {}
    kills: dict[Var, str] = {}
    last: dict[Var, int] = {}
    for step, binding in enumerate(func.body.bindings):
        var, value = binding.var, binding.value
        for leaf in value_uses(value):
            for owner in owners.get(leaf, ()):
                last[owner] = step
        op = value.op.name if isinstance(value, Call) and isinstance(value.op, Op) else ""
        owners[var] = _held_by(value, owners) if _is_alias(value, op) else set()
        if op in _KILLS:
            kills[var], last[var] = _KILLS[op], step
            owners[var] = {var, *owners[var]}
    returned = {o for leaf in leaves(func.body.body) for o in owners.get(leaf, ())}
    dying: dict[int, list[tuple[Var, str]]] = {}
    for var, op in reversed(kills.items()):
        if var not in returned:
            dying.setdefault(last[var], []).append((var, op))
    return dying


def _is_alias(value: Any, op: str) -> bool:
    alias = isinstance(value, Var | Tuple | TupleGetItem) or is_view(value)
    return alias or op == "relax.memory.alloc_tensor"


def _held_by(value: Any, owners: dict[Var, set[Var]]) -> set[Var]:
    return {o for leaf in leaves(value) for o in owners.get(leaf, ())}
