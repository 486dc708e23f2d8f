"""AllocateWorkspace: functions of a library that need room to work in get it from their caller.

gv = cls.attention(x)                    workspace_main = R.builtin.alloc_tensor([65536], …)
                               ->        gv = cls.attention(x, workspace_main)
attention: {"Codegen": …, "WorkspaceSize": 65536}

One piece of memory, as large as the largest need, serves all calls of a function, one by one.
"""

from __future__ import annotations

from typing import Any

from mlcnb.core.node import replace
from mlcnb.ir.expr import GlobalVar
from mlcnb.ir.module import IRModule
from mlcnb.ir.transform import ModulePass, PassContext
from mlcnb.relax import op
from mlcnb.relax.analysis.variables import all_global_vars
from mlcnb.relax.expr import BindingBlock, Call, Function, SeqExpr, Var, tensor_info
from mlcnb.relax.infer import Functions
from mlcnb.relax.mutator import CallsOf

#: what a function says it needs, in bytes
ATTRIBUTE = "WorkspaceSize"


class AllocateWorkspace(ModulePass):
    """Hand a tensor of bytes to every function that says how large a workspace it needs.

    The workspace is uint8 of shape (bytes,), the last parameter. A module in which no function has
    the attribute `WorkspaceSize` is returned as it is; nothing is refused.

    A pure function that allocates it is `relax.force_pure`: what it does to memory is not seen.
    """

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Such functions take one more parameter; whoever calls them allocates it first."""
        needs = {
            key: int(func.attrs[ATTRIBUTE])
            for key, func in mod.of_kind(Function).items()
            if ATTRIBUTE in func.attrs
        }
        if not needs:
            return mod
        size = max(needs.values())
        functions: dict[GlobalVar, Any] = dict(mod.functions)
        for key in needs:
            functions[key] = _with_workspace(functions[key], size)
        for key, func in mod.of_kind(Function).items():
            if key not in needs and not needs.keys().isdisjoint(all_global_vars(func)):
                made = _Caller(functions, key.name_hint, needs, size).rewrite(func)
                functions[key] = made.with_attr("relax.force_pure", True) if func.is_pure else made
        ctx.note(f"{len(needs)} functions work in {size} bytes")
        return mod.with_functions(functions)


def _with_workspace(func: Function, size: int) -> Function:
    """The function with a workspace as its last parameter; its need is seen to."""
    workspace = Var("workspace", tensor_info([size], "uint8"))
    return replace(func, params=(*func.params, workspace)).without_attr(ATTRIBUTE)


class _Caller(CallsOf):
    """Allocates before the first block, and hands the memory on."""

    def __init__(
        self, functions: Functions, name: str, needs: dict[GlobalVar, int], size: int
    ) -> None:
        super().__init__(functions, needs)
        self.name, self.size = name, size
        self.workspace: Var | None = None

    def _sequence(self, seq: Any) -> SeqExpr:
        if seq is not self.func.body:
            return super()._sequence(seq)
        with self.emitter.scope(False) as first:
            call = op.builtin.alloc_tensor([self.size], "uint8")
            self.workspace = self.emit(call, f"workspace_{self.name}")
        made = super()._sequence(seq)
        return SeqExpr((BindingBlock(tuple(first)), *made.blocks), made.body)

    def called(self, call: Call, told: Any, var: Var) -> Any:
        """The call with its workspace."""
        assert self.workspace is not None
        return Call(call.op, (*call.args, self.workspace), call.attrs, call.sinfo_args, None)
