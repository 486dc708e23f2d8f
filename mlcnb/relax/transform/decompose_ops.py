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
from mlcnb.relax.expr import Call, Function, Tuple, TupleGetItem, Var
from mlcnb.relax.infer import Functions
from mlcnb.relax.mutator import Mutator
from mlcnb.relax.operator import OpDecl, attrs_of, called
from mlcnb.relax.transform.dead_code_elimination import remove_unused_bindings

load_all()  # the rules of these passes stand with the operators


class DecomposeOpsForInference(FunctionPass):
    """Replace operators that only matter in training, such as batch_norm, by what they compute.

    By each declaration's `for_inference`; dtypes stay, shapes may be symbolic. An operator without
    one stays, none is refused.
    """

    #: only in the function of this name (as TVM's option); None: in all
    func_name: str | None = None

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """All rules, once."""
        return _decomposed(func, self.func_name, mod, False)


class DecomposeOpsForTraining(FunctionPass):
    """Replace operators that have no gradient of their own by those that they are made of.

    By each declaration's `for_training`; dtypes stay, shapes may be symbolic. An operator without
    one stays, none is refused.
    """

    #: only in the function of this name (as TVM's option); None: in all
    func_name: str | None = None

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """All rules, once."""
        return _decomposed(func, self.func_name, mod, True)


def _decomposed(func: Function, name: str | None, mod: IRModule, training: bool) -> Function:
    names = [k.name_hint for k, f in mod.items() if f is func]
    if name is not None and name not in names:
        return func
    made = _Decomposer(mod.functions, training).rewrite(func)
    return func if made is func else remove_unused_bindings(made, mod.functions)


class _Decomposer(Mutator):
    def __init__(self, functions: Functions, training: bool) -> None:
        super().__init__(functions)
        self.training = training

    def visit_call(self, call: Call, var: Var) -> Any:
        """As the operator's declaration says."""
        if called(call) is OpDecl:
            return None
        attrs = attrs_of(call)
        made = attrs.for_training if self.training else attrs.for_inference
        return made(call, self.emit)

    def visit_item(self, item: TupleGetItem, var: Var) -> Any:
        """A field of a tuple that a rule made."""
        value = self.value_of(item.tuple_value)
        return value.fields[item.index] if isinstance(value, Tuple) else None
