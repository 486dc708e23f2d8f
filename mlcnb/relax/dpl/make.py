"""How patterns are written, in the words of TVM: `is_op("relax.add")(wildcard(), is_const())`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mlcnb.core import display
from mlcnb.core.errors import ArgumentError, UnsupportedError
from mlcnb.core.text import kind_of
from mlcnb.relax.dpl.nodes import (
    AttrPattern,
    CallPattern,
    ConstantPattern,
    DataflowVarPattern,
    DataTypePattern,
    DFPattern,
    ExprPattern,
    ExternFuncPattern,
    GlobalVarPattern,
    NotPattern,
    OrPattern,
    PrimArrPattern,
    ShapePattern,
    StructInfoPattern,
    TupleGetItemPattern,
    TuplePattern,
    UnorderedTuplePattern,
    VarPattern,
    WildcardPattern,
)
from mlcnb.relax.expr import Call, Expr, Op, shape_expr
from mlcnb.relax.infer import GIVEN
from mlcnb.relax.operator import declaration
from mlcnb.relax.struct_info import StructInfo

#: a pattern, and the names of some of its parts
Named = tuple[DFPattern, dict[str, DFPattern]]

# patterns of one class, with its arguments
wildcard, is_const = WildcardPattern, ConstantPattern
is_var, is_dfv, is_gv = VarPattern, DataflowVarPattern, GlobalVarPattern
is_tuple_get_item = TupleGetItemPattern


def is_op(op_name: str) -> ExprPattern:
    """An operator: `is_op("relax.add")(a, b)` is a call of it.

    Raises:
        UnsupportedOpError: no operator of that name is declared.
    """
    return ExprPattern(Op(op_name) if op_name in GIVEN else declaration(op_name).op)


def find_op(op_name: str, func: Any) -> list[Any]:
    """The calls of an operator in a function or module, in order."""
    from mlcnb.relax.dpl.explain import values_of

    calls = (value for _, value in values_of(func) if isinstance(value, Call))
    return [c for c in calls if isinstance(c.op, Op) and c.op.name == op_name]


def is_expr(expr: Any) -> ExprPattern:
    """An expression that is structurally equal to this one."""
    if not isinstance(expr, Expr) and not hasattr(expr, "struct_info"):
        raise ArgumentError(
            f"is_expr was given {kind_of(expr)}", hint="numbers are relax.const(value)"
        )
    return ExprPattern(expr)


def is_tuple(fields: Iterable[DFPattern], unordered: bool = False) -> Any:
    """A tuple, its fields in this order (or in any)."""
    return (UnorderedTuplePattern if unordered else TuplePattern)(tuple(fields))


def is_shape(shape: Sequence[Any]) -> PrimArrPattern:
    """A shape that stands as a value.

    Raises:
        ArgumentError: it is no list of dimensions.
    """
    if not isinstance(shape, list | tuple):
        raise ArgumentError(f"is_shape takes a list of dimensions, not {kind_of(shape)}")
    return PrimArrPattern(shape_expr(shape).values)


def is_seq(*patterns: Any) -> Any:
    """In the current PatternContext: each is used by the next, `p ^ q ^ …`."""
    if not patterns:
        raise ArgumentError("is_seq of no patterns", hint="is_seq(p, q) says that q uses p")
    chained = patterns[0]
    for pattern in patterns[1:]:
        chained = chained.used_by(pattern)
    return chained


def is_call_tir(
    func_name: str, args: Sequence[DFPattern] | DFPattern | None = None, tir_vars: Any = None
) -> CallPattern:
    """A call_tir of that loop function; `args` None: whatever its arguments are."""
    return _destination_passing("relax.call_tir", GlobalVarPattern(func_name), args, tir_vars)


def is_call_dps_packed(
    func_name: str, args: Sequence[DFPattern] | DFPattern | None = None
) -> CallPattern:
    """A call_dps_packed of that function; `args` None: whatever its arguments are."""
    return _destination_passing("relax.call_dps_packed", ExternFuncPattern(func_name), args, None)


def _destination_passing(op: str, func: DFPattern, args: Any, tir_vars: Any) -> CallPattern:
    if args is None:
        inputs: DFPattern = wildcard()
    else:
        inputs = TuplePattern(tuple(args)) if isinstance(args, list | tuple) else args
    parts = (func, inputs) if tir_vars is None else (func, inputs, tir_vars)
    return is_op(op)(*parts, varg_default_wildcard=tir_vars is None, add_constraint=False)


def is_call_packed(func_name: str, args: Sequence[DFPattern] | None = None) -> CallPattern:
    """A call of that function outside of the module; `args` None: whatever its arguments are."""
    extern = ExternFuncPattern(func_name)
    if args is None:
        return extern(varg_default_wildcard=True)
    return extern(*args)


def has_attr(attrs: Mapping[str, Any], pattern: DFPattern | None = None) -> AttrPattern:
    """A call or a function whose attributes have these values."""
    return (pattern or wildcard()).has_attr(attrs)


def has_dtype(dtype: str, pattern: DFPattern | None = None) -> DataTypePattern:
    """A tensor of this dtype."""
    return (pattern or wildcard()).has_dtype(dtype)


def has_shape(shape: Sequence[Any], pattern: DFPattern | None = None) -> ShapePattern:
    """A tensor of this shape."""
    return (pattern or wildcard()).has_shape(shape)


def has_struct_info(struct_info: Any, pattern: DFPattern | None = None) -> StructInfoPattern:
    """A value that is known to belong to this struct info."""
    return (pattern or wildcard()).has_struct_info(struct_info)


has_ty = has_struct_info


def reject(pattern: DFPattern) -> NotPattern:
    """What does not match: `~pattern`."""
    return ~pattern


def optional(pattern: DFPattern, wrap: Any) -> OrPattern:
    """`wrap(pattern)`, or the pattern alone."""
    return pattern.optional(wrap)


def dominates(parent: DFPattern, path: DFPattern, child: DFPattern) -> DFPattern:
    """Not offered: Relax has no dominator pattern.

    Raises:
        UnsupportedError: always, with what to write instead.
    """
    raise UnsupportedError(
        "dominates: graphs in A-normal form have no dominator pattern",
        hint="say what uses what in a PatternContext: parent ^ path, path >> child",
    )


def as_struct_info(info: Any) -> StructInfo:
    """A struct info, also where `R.Tensor(…)` stands for one."""
    made = display.load("mlcnb.script.relax.struct_infos:info")(info)  # type: ignore[call-arg]
    return made  # type: ignore[no-any-return]


def make_fused_bias_activation_pattern(
    op_name: str,
    with_bias: bool = False,
    activation: str | None = None,
    allow_reshape: bool = False,
) -> DFPattern:
    """op(x, w), then a bias, then an activation: `is_op(act)(is_op("relax.add")(op(x, w), bias))`.

    Args:
        op_name: an operator of two arguments, such as "relax.nn.conv2d".
        with_bias: a sum follows.
        activation: an operator of one argument follows.
        allow_reshape: the bias goes through a reshape.
    """
    out: DFPattern = is_op(op_name)(wildcard(), wildcard())
    return with_bias_and_activation(out, {}, with_bias, activation, allow_reshape)[0]


def with_bias_and_activation(
    out: DFPattern,
    names: dict[str, DFPattern],
    with_bias: bool = False,
    activation: str | None = None,
    allow_reshape: bool = False,
) -> Named:
    """`out`, then a sum with what is named "bias", then an activation."""
    if with_bias:
        names["bias"] = bias = wildcard()
        term = is_op("relax.reshape")(bias, wildcard()) if allow_reshape else bias
        out = is_op("relax.add")(out, term)
    return (is_op(activation)(out) if activation else out), names


def make_residual_block_pattern(
    node_output: DFPattern | Named, binary_op: str = "relax.add", activation: str | None = None
) -> Any:
    """`node_output` and anything that is added to it, in either order, then an activation.

    A pair (pattern, names) gives a pair, in which the other operand is named "residual".
    """
    pair = node_output if isinstance(node_output, tuple) else (node_output, {})
    residual, op = wildcard(), is_op(binary_op)
    either = op(pair[0], residual) | op(residual, pair[0])
    whole = is_op(activation)(either) if activation else either
    if not isinstance(node_output, tuple):
        return whole
    return whole, {**pair[1], "residual": residual}
