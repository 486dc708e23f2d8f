"""A model and its loss as one function; gradients of loop functions.

backbone(x, w) -> out                                backbone_loss(x, w, targets):
mse_loss(predictions, targets) -> loss       ->          out = … x … w …
                                                         loss = … out … targets …
"""

from __future__ import annotations

from typing import Any

from mlcnb.core.errors import PassError
from mlcnb.core.node import replace, rewrite
from mlcnb.ir.expr import Var as PrimVar
from mlcnb.ir.module import IRModule
from mlcnb.ir.transform import ModulePass, PassContext
from mlcnb.op.grad.rules import register_te_gradient
from mlcnb.relax.analysis.struct_info import (
    BaseCheckResult,
    match_vars,
    struct_info_base_check,
    substitute,
)
from mlcnb.relax.expr import DataflowBlock, Function, SeqExpr, Tuple, Var
from mlcnb.relax.struct_info import TupleStructInfo, describe
from mlcnb.relax.utils import copy_with_new_vars

__all__ = ["AppendLoss", "register_te_gradient"]

#: the functions of a module that trains
BACKBONE, WITH_LOSS = "backbone", "backbone_loss"
ADJOINT, STEP = "backbone_loss_adjoint", "optimizer"


class AppendLoss(ModulePass):
    """Add a function that gives the loss of a model, and then what else the model gives.

    func_name: a function of one dataflow block, which stays. loss_function: another, whose first
    `num_backbone_outputs` parameters are its first results, of their shapes and dtypes; the rest
    become parameters after the model's. new_func_name: default `<func_name>_loss`.

    Raises:
        PassError: there is no such function, one of them is of another form, or they do not fit.
    """

    func_name: str
    loss_function: Function
    num_backbone_outputs: int = 1
    new_func_name: str | None = None

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The module with one more function."""
        if self.func_name not in mod:
            names = ", ".join(key.name_hint for key in mod)
            raise PassError(
                f"AppendLoss: the module has no function {self.func_name}", hint=f"it has {names}"
            )
        name = self.new_func_name or f"{self.func_name}_loss"
        if name in mod:
            raise PassError(f"AppendLoss: there is a function {name}", hint="new_func_name=…")
        made = self._joined(mod[self.func_name])
        return mod.with_functions({name: made.with_attr("global_symbol", name)})

    def _joined(self, given: Any) -> Function:
        for func, word in ((given, self.func_name), (self.loss_function, "the loss")):
            if not isinstance(func, Function) or not _is_one_dataflow_block(func):
                raise PassError(
                    f"AppendLoss: {word} is no graph function of one dataflow block",
                    hint="ConvertToDataflow makes them",
                )
        model, loss = copy_with_new_vars(given), copy_with_new_vars(self.loss_function)
        result = model.body.body
        outputs = result.fields if isinstance(result, Tuple) else (result,)
        count = self.num_backbone_outputs
        if len(outputs) < count or len(loss.params) < count:
            raise PassError(
                f"AppendLoss: {self.func_name} has {len(outputs)} results, the loss "
                f"{len(loss.params)} parameters, {count} are to be joined"
            )
        if not isinstance(loss.body.body, Var):
            raise PassError("AppendLoss: the loss is one tensor", hint="return its variable")
        sizes: dict[Any, Any] = {}
        for param, value in zip(loss.params, outputs[:count], strict=False):
            _fit(param, value, sizes)
        loss = rewrite(loss, lambda n: sizes.get(n) if isinstance(n, PrimVar) else None)
        joined = dict(zip(loss.params, outputs[:count], strict=False))
        loss = rewrite(loss, lambda n: joined.get(n) if isinstance(n, Var) else None)
        rest = outputs[count:]
        block = DataflowBlock((*_bindings(model), *_bindings(loss)))
        body: Any = Tuple((loss.body.body, *rest)) if rest else loss.body.body
        info = body.struct_info
        if rest:
            info = TupleStructInfo(tuple(f.struct_info for f in body.fields))
        params = (*model.params, *loss.params[count:])
        return replace(model, params=params, body=SeqExpr((block,), body), ret_struct_info=info)


def _is_one_dataflow_block(func: Function) -> bool:
    blocks = func.body.blocks
    return len(blocks) == 1 and isinstance(blocks[0], DataflowBlock)


def _bindings(func: Function) -> tuple[Any, ...]:
    return func.body.blocks[0].bindings


def _fit(param: Var, value: Any, sizes: dict[Any, Any]) -> None:
    """What the model gives is what the loss takes; sizes of the loss are those of the model."""
    wanted: Any = param.struct_info
    given = value.struct_info
    match_vars(wanted, given, sizes)
    there: Any = substitute(wanted, sizes)
    if struct_info_base_check(there, given) is BaseCheckResult.FAIL_L0:
        raise PassError(
            f"AppendLoss: the loss takes {param.name_hint}: {describe(wanted)}, the model gives "
            f"{describe(given)}",
            hint="make the loss of the struct info of the model's result",
        )
