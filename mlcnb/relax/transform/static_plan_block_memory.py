"""StaticPlanBlockMemory: tensors of known size share one piece of memory.

alloc = R.builtin.alloc_tensor(…)      storage = R.memory.alloc_storage(R.shape([8192]), …)
alloc1 = R.builtin.alloc_tensor(…)  -> alloc = R.memory.alloc_tensor(storage, 0, …)
                                       alloc1 = R.memory.alloc_tensor(storage, 4096, …)

Where they lie is said by `memory_plan`; tensors that are returned keep memory of their own.
"""

from __future__ import annotations

from typing import Any

from mlcnb.core.errors import PassError
from mlcnb.core.node import replace
from mlcnb.ir.module import IRModule
from mlcnb.ir.transform import FunctionPass, PassContext
from mlcnb.op.memory import AllocTensor
from mlcnb.relax import op
from mlcnb.relax.analysis.memory_lives import ARENA, PlannedTensor
from mlcnb.relax.analysis.memory_lives import lifetimes as lifetimes_of
from mlcnb.relax.analysis.memory_plan import MemoryPlan, assign_offsets
from mlcnb.relax.analysis.variables import bound_vars
from mlcnb.relax.emitter import Names
from mlcnb.relax.expr import BindingBlock, Call, Function, SeqExpr, Var
from mlcnb.relax.mutator import Mutator
from mlcnb.relax.operator import called


class StaticPlanBlockMemory(FunctionPass):
    """Place tensors of known size in one storage, where those that never live together overlap.

    A size is known where the shape is numbers.

    Raises:
        PassError: a bound of a size (`tir_var_upper_bound`) is no integer.
    """

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """The allocations of the function (branches keep theirs)."""
        _check_bounds(func)
        plan = plan_allocations(func)
        if not plan.arena_bytes:
            return func
        ctx.note(f"{plan.total_bytes:,} bytes of tensors in {plan.arena_bytes:,}")
        return _Placer(mod.functions, plan).rewrite(func)


def _check_bounds(func: Function) -> None:
    for end in ("tir_var_upper_bound", "tir_var_lower_bound"):
        for name, bound in func.attrs.get(end, {}).items():
            if not isinstance(bound, int):
                raise PassError(
                    f"StaticPlanBlockMemory: {end} of {name} is {bound!r}",
                    hint=f'one integer a size: R.func_attr({{"{end}": {{"{name}": 4}}}})',
                )


def plan_allocations(func: Function) -> MemoryPlan:
    """A plan for what `R.builtin.alloc_tensor` allocates; each lives to its last use."""
    lives = lifetimes_of(func, {})
    allocated = {b.var for b in func.body.bindings if _is_allocation(b.value)}
    tensors = []
    for var, place in lives.places.items():
        if var in allocated and isinstance(place, PlannedTensor) and place.kind == ARENA:
            tensors.append(place)
    size = assign_offsets(tensors)
    return MemoryPlan({v: lives.places[v] for v in allocated}, tensors, size, lives.steps)


def _is_allocation(value: Any) -> bool:
    return called(value) is AllocTensor


class _Placer(Mutator):
    def __init__(self, functions: Any, plan: MemoryPlan) -> None:
        super().__init__(functions)
        self.plan = plan
        self.storage: Any = None

    def rewrite(self, func: Function) -> Function:
        """One allocation at the start, then the tensors in it."""
        storage = op.memory.alloc_storage(
            (self.plan.arena_bytes,),
            0,
            "global",
            "uint8",
        )
        name = Names(v.name_hint for v in bound_vars(func)).fresh("storage")
        with self.emitter.scope(False) as start:
            self.storage = self.emitter.emit(storage, name)
        made = super().rewrite(func)
        blocks = list(made.body.blocks)
        if blocks and type(blocks[0]) is BindingBlock:
            blocks[0] = BindingBlock((*start, *blocks[0].bindings))
        else:
            blocks.insert(0, BindingBlock(tuple(start)))
        return replace(made, body=SeqExpr(tuple(blocks), made.body.body))

    def visit_call(self, call: Call, var: Var) -> Any:
        """An allocation that the plan has a place for."""
        place = self.plan.places.get(var)
        if not isinstance(place, PlannedTensor) or place.offset < 0:
            return None
        return op.memory.alloc_tensor(self.storage, place.offset, call.args[0], call.args[1])
