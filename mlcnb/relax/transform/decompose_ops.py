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
from mlcnb.relax.infer import Functions
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
        return _decomposed(func, self.func_name, mod, _RULES)


class DecomposeOpsForTraining(FunctionPass):
    """Replace operators that have no gradient of their own by those that they are made of."""

    #: only in the function of this name (as TVM's option); None: in all
    func_name: str | None = None

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """All rules, once."""
        return _decomposed(func, self.func_name, mod, _TRAINING_RULES)


def _decomposed(func: Function, name: str | None, mod: IRModule, rules: Any) -> Function:
    names = [k.name_hint for k, f in mod.items() if f is func]
    if name is not None and name not in names:
        return func
    made = _Decomposer(mod.functions, rules).rewrite(func)
    return func if made is func else remove_unused_bindings(made, mod.functions)


class _Decomposer(Mutator):
    def __init__(self, functions: Functions, rules: Any) -> None:
        super().__init__(functions)
        self.rules = rules

    def visit_call(self, call: Call, var: Var) -> Any:
        """By the rule of the operator's name."""
        found = self.rules.get(call.op.name) if isinstance(call.op, Op) else None
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


@rule("DecomposeOpsForTraining")
def _batch_norm_training(m: _Decomposer, bn: Call) -> Any:
    """The batch's own mean and variance, and the moving ones moved towards them."""
    attrs: Any = attrs_of(bn)
    data, gamma, beta, mean, var = bn.args
    info = data.struct_info
    if not attrs.training:
        return _batch_norm(m, bn)
    if not isinstance(info, TensorStructInfo) or info.ndim < 1 or info.dtype is None:
        return None
    others = tuple(i for i in range(info.ndim) if i != attrs.axis % info.ndim)
    own_mean = m.emit(_call("mean", data, axis=others))
    own_var = m.emit(_call("variance", data, axis=others))
    middle = _call("subtract", data, _call("expand_dims", own_mean, axis=others))
    spread = _call("add", _call("expand_dims", own_var, axis=others), _like(info, attrs.epsilon))
    result = _call("divide", middle, _call("sqrt", spread))
    if attrs.scale:
        result = _call("multiply", result, _call("expand_dims", gamma, axis=others))
    if attrs.center:
        result = _call("add", result, _call("expand_dims", beta, axis=others))
    made = m.emit(result)
    moved = [_moved(old, new, attrs.momentum) for old, new in ((mean, own_mean), (var, own_var))]
    return Tuple((made, *(m.emit(v) for v in moved)))


def _like(info: Any, value: float) -> Any:
    return const(value, info.dtype)


def _moved(old: Any, new: Any, momentum: float) -> Call:
    kind = old.struct_info
    kept = _call("multiply", _like(kind, 1 - momentum), old)
    return _call("add", kept, _call("multiply", _like(kind, momentum), new))


@rule("DecomposeOpsForTraining")
def _layer_norm(m: _Decomposer, call: Call) -> Any:
    """(x - mean) / sqrt(variance + epsilon) * gamma + beta, over the axes."""
    attrs: Any = attrs_of(call)
    data, gamma, beta = call.args
    info = data.struct_info
    if not isinstance(info, TensorStructInfo) or info.ndim < 1 or info.dtype is None:
        return None
    axes = tuple(a % info.ndim for a in attrs.axes)
    if axes != tuple(range(info.ndim - len(axes), info.ndim)):
        return None
    mean = _call("mean", data, axis=axes, keepdims=True)
    middle = m.emit(_call("subtract", data, mean))
    variance = _call("variance", data, axis=axes, keepdims=True)
    deviation = _call("sqrt", _call("add", variance, _like(info, attrs.epsilon)))
    result = _call("divide", middle, deviation)
    result = _call("multiply", result, gamma) if attrs.scale else result
    return _call("add", result, beta) if attrs.center else result


def _call(name: str, *args: Any, **attrs: Any) -> Call:
    return make_call(declaration(f"relax.{name}"), *args, **attrs)


Rule = Callable[[_Decomposer, Call], Any]

_RULES: dict[str, Rule] = {"relax.nn.batch_norm": _batch_norm}
_TRAINING_RULES: dict[str, Rule] = {
    "relax.nn.batch_norm": _batch_norm_training,
    "relax.nn.layer_norm": _layer_norm,
}
