"""DecomposeOpsForInference: large operators as small ones, which fold and fuse better.

lv = R.nn.batch_norm(x, gamma, beta, m, v)     s = R.divide(gamma, R.sqrt(R.add(v, epsilon)))
gv = lv[0]                               ->    b = R.subtract(beta, R.multiply(m, s))
                                               gv = R.add(R.multiply(x, R.reshape(s, …)), …b…)

What an operator is made of stands in its declaration: `for_inference` and `for_training`.
"""

from __future__ import annotations

from typing import Any

from mlcnb.ir.module import IRModule
from mlcnb.ir.transform import FunctionPass, PassContext
from mlcnb.op import load_all
from mlcnb.relax.expr import Call, Function, Var
from mlcnb.relax.infer import Functions
from mlcnb.relax.mutator import Mutator
from mlcnb.relax.operator import OpDecl, attrs_of, called
from mlcnb.relax.transform.dead_code_elimination import remove_unused_bindings

load_all()  # the rules of these passes stand with the operators


class DecomposeOpsForInference(FunctionPass):
    """Replace operators that only matter in training, such as batch_norm, by what they compute.

    By each declaration's `for_inference`; dtypes stay, shapes may be symbolic. An operator without
    one stays, none is refused. As TVM's: from here on the program is for inference, so a batch_norm
    that was asked to train normalises by its moving statistics too.
    """

    #: only in the function of this name (as TVM's option); None: in all
    func_name: str | None = None
    #: leave what says that it trains (`training=True`): the program means the same after it
    keep_training: bool = False

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """All rules, once."""
        return _decomposed(func, self.func_name, mod, _Inference(mod.functions, self.keep_training))


class DecomposeOpsForTraining(FunctionPass):
    """Replace operators that have no gradient of their own by those that they are made of.

    By each declaration's `for_training`; dtypes stay, shapes may be symbolic. An operator without
    one stays, none is refused.
    """

    #: only in the function of this name (as TVM's option); None: in all
    func_name: str | None = None

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """All rules, once."""
        return _decomposed(func, self.func_name, mod, _Training(mod.functions))


def _decomposed(func: Function, name: str | None, mod: IRModule, way: _Decomposer) -> Function:
    names = [k.name_hint for k, f in mod.items() if f is func]
    if name is not None and name not in names:
        return func
    made = way.rewrite(func)
    return func if made is func else remove_unused_bindings(made, mod.functions)


class _Decomposer(Mutator):
    def visit_call(self, call: Call, var: Var) -> Any:
        """As the operator's declaration says."""
        return None if called(call) is OpDecl else self.made_of(attrs_of(call), call)

    def made_of(self, attrs: Any, call: Call) -> Any:
        """What the operator is made of; None where it stays."""
        raise NotImplementedError

    visit_item = Mutator.made_field


class _Training(_Decomposer):
    def made_of(self, attrs: Any, call: Call) -> Any:
        """For training."""
        return attrs.for_training(call, self.emit)


class _Inference(_Decomposer):
    def __init__(self, functions: Functions, keep_training: bool) -> None:
        super().__init__(functions)
        self.keep_training = keep_training

    def made_of(self, attrs: Any, call: Call) -> Any:
        """For inference."""
        if self.keep_training and getattr(attrs, "training", False):
            return None
        return attrs.for_inference(call, self.emit)
