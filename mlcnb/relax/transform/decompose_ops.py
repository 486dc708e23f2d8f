"""DecomposeOpsForInference: large operators as small ones, which fold and fuse better.

lv = R.nn.batch_norm(x, gamma, beta, m, v)     s = R.divide(gamma, R.sqrt(R.add(v, epsilon)))
gv = lv[0]                               ->    b = R.subtract(beta, R.multiply(m, s))
                                               gv = R.add(R.multiply(x, R.reshape(s, …)), …b…)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mlcnb.ir.module import IRModule
from mlcnb.ir.rules import rule
from mlcnb.ir.transform import FunctionPass, PassContext
from mlcnb.relax.expr import Call, Function, Op, Tuple, TupleGetItem, Var, const
from mlcnb.relax.mutator import Mutator
from mlcnb.relax.operator import attrs_of, declaration, make_call
from mlcnb.relax.struct_info import TensorStructInfo
from mlcnb.relax.transform.dead_code_elimination import remove_unused_bindings


class DecomposeOpsForInference(FunctionPass):
    """Replace operators that only matter in training, such as batch_norm, by what they compute."""

    #: only in the function of this name (as TVM's option); None: in all
    func_name: str | None = None

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """All rules, once."""
        names = [k.name_hint for k, f in mod.items() if f is func]
        if self.func_name is not None and self.func_name not in names:
            return func
        made = _Decomposer(mod.functions).rewrite(func)
        return func if made is func else remove_unused_bindings(made, mod.functions)


class _Decomposer(Mutator):
    def visit_call(self, call: Call, var: Var) -> Any:
        """By the rule of the operator's name."""
        found = _RULES.get(call.op.name) if isinstance(call.op, Op) else None
        return None if found is None else found(self, call)

    def visit_item(self, item: TupleGetItem, var: Var) -> Any:
        """A field of a tuple that a rule made."""
        value = self.value_of(item.tuple_value)
        return value.fields[item.index] if isinstance(value, Tuple) else None


@rule("DecomposeOpsForInference")
def _batch_norm(m: _Decomposer, bn: Call) -> Any:
    """x * s + b, where s and b have one number for each channel."""
    attrs: Any = attrs_of(bn)
    data, gamma, beta, mean, var = bn.args
    info, stats = data.struct_info, var.struct_info
    known = isinstance(info, TensorStructInfo) and info.ndim > 0 and info.dtype is not None
    if attrs.training or not known or stats.dims is None or stats.dtype != info.dtype:
        return None
    deviation = _call("sqrt", _call("add", var, const(attrs.epsilon, info.dtype)))
    top = gamma if attrs.scale else const(1.0, info.dtype)
    scale = m.emit(_call("divide", top, deviation))
    moved = _call("multiply", mean, scale)
    shift = _call("subtract", beta, moved) if attrs.center else _call("negative", moved)
    shape = [stats.dims[0] if i == attrs.axis % info.ndim else 1 for i in range(info.ndim)]
    scaled = _call("multiply", data, _call("reshape", scale, shape))
    result = m.emit(_call("add", scaled, _call("reshape", shift, shape)))
    return Tuple((result, mean, var))


def _call(name: str, *args: Any) -> Call:
    return make_call(declaration(f"relax.{name}"), *args)


_RULES: dict[str, Callable[[_Decomposer, Call], Any]] = {"relax.nn.batch_norm": _batch_norm}
