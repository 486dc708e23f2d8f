"""SetupTrainer: from a model to a module that trains.

backbone(x, w, s)    ->    backbone                  as it predicts (DecomposeOpsForInference)
                           backbone_loss             with the loss, as it trains
                           backbone_loss_adjoint     the same, and the derivatives by w
                           optimizer                 (parameters, gradients, state) -> new ones
"""

from __future__ import annotations

from typing import Any

from mlcnb.core.errors import PassError
from mlcnb.ir.expr import GlobalVar
from mlcnb.ir.module import IRModule
from mlcnb.ir.prim_ops import as_int
from mlcnb.ir.transform import ModulePass, PassContext
from mlcnb.relax.expr import Function
from mlcnb.relax.training.utils import ADJOINT, BACKBONE, STEP, WITH_LOSS, AppendLoss
from mlcnb.relax.transform import (
    DecomposeOpsForInference,
    DecomposeOpsForTraining,
    Gradient,
    LegalizeOps,
)


class SetupTrainer(ModulePass):
    """Add to a module with the function `backbone` all that training needs.

    `backbone(inputs…, params…, states…)` is one dataflow block; the module's attributes `param_num`
    and `state_num` say how many of its last parameters are trained, and are states that it gives
    back anew after its results. loss, optimizer: of `relax.training`; loss_args: struct infos of
    what the loss is called with, predictions first. legalize: operators become loop functions.

    The module gets the attributes `input_num` and `optim_state`, the optimizer's first state.

    Raises:
        PassError: the module is of another form.
    """

    BACKBONE_FUNC = BACKBONE
    BACKBONE_LOSS_FUNC = WITH_LOSS
    ADJOINT_FUNC = ADJOINT
    UPDATE_PARAMS_FUNC = STEP

    loss: Any
    optimizer: Any
    loss_args: Any
    legalize: bool = True

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The module with all of it."""
        params, states = self._counts(mod)
        before: Any = mod[self.BACKBONE_FUNC]
        inputs = len(before.params) - params - states
        outputs = self.loss.num_backbone_outputs
        loss = self.loss(*self.loss_args)
        mod = AppendLoss(self.BACKBONE_FUNC, loss, outputs, self.BACKBONE_LOSS_FUNC)(mod)
        mod = DecomposeOpsForInference(self.BACKBONE_FUNC)(mod)
        mod = DecomposeOpsForTraining(self.BACKBONE_LOSS_FUNC)(mod)
        with_loss: Any = mod[self.BACKBONE_LOSS_FUNC]
        trained = with_loss.params[inputs : inputs + params]
        mod = Gradient(self.BACKBONE_LOSS_FUNC, trained)(mod)
        step = self.optimizer.init(trained).get_function()
        name = self.UPDATE_PARAMS_FUNC
        mod = mod.with_functions({name: step.with_attr("global_symbol", name)})
        mod = mod.with_attrs({"input_num": inputs, "optim_state": self.optimizer.state})
        return LegalizeOps()(mod) if self.legalize else mod

    def _counts(self, mod: IRModule) -> tuple[int, int]:
        """How many parameters are trained, and are states."""
        func = mod.functions.get(GlobalVar(self.BACKBONE_FUNC))
        if not isinstance(func, Function):
            raise PassError(f"SetupTrainer: the module has no graph function {self.BACKBONE_FUNC}")
        found = [as_int(mod.attrs.get(name)) for name in ("param_num", "state_num")]
        for name, number in zip(("param_num", "state_num"), found, strict=True):
            if number is None or number < 0:
                raise PassError(
                    f"SetupTrainer: the module's attribute {name} is {mod.attrs.get(name)!r}",
                    hint='I.module_attrs({"param_num": 2, "state_num": 0})',
                )
        params, states = found
        if params + states > len(func.params):  # type: ignore[operator]
            raise PassError(
                f"SetupTrainer: {self.BACKBONE_FUNC} has {len(func.params)} parameters, of which "
                f"{params} are said to be trained and {states} to be states"
            )
        return params, states  # type: ignore[return-value]
