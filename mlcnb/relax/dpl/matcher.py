"""The matcher: all the ways in which a pattern fits an expression, the likeliest first.

What each part of the pattern matched stands in a memo; a part that stands there already has to be
the same value again. A rule yields a memo for each way that it finds, so that what fits here but
not further on (the operands of a sum in the wrong order, the left side of an `|`) is taken back.

What did not fit is told to a `Journal`, which keeps the one that came furthest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from mlcnb.core.errors import MLCError
from mlcnb.core.node import Node
from mlcnb.ir.expr import GlobalVar
from mlcnb.ir.expr import Var as PrimVar
from mlcnb.ir.structural import structural_equal
from mlcnb.relax import expr as rx
from mlcnb.relax.analysis.struct_info import (
    BaseCheckResult,
    definable_vars,
    match_vars,
    same_dims,
    struct_info_base_check,
    substitute,
)
from mlcnb.relax.analysis.variables import bindings_of
from mlcnb.relax.dpl import nodes as dp
from mlcnb.relax.dpl.text import described, plain, shape_text, told
from mlcnb.relax.infer import infer
from mlcnb.relax.operator import attrs_of, declaration

#: what each pattern matched; symbolic variables of the pattern stand there too
Memo = dict[Any, Any]
Values = Mapping[rx.Var, Any]


class Failure(NamedTuple):
    """A part of a pattern, the expression that it did not match, why, and what matched before."""

    pattern: dp.DFPattern
    expr: Any
    reason: str
    memo: Memo


class Journal:
    """Keeps the failure before which the most had matched; of equals the first."""

    def __init__(self) -> None:
        self.furthest: Failure | None = None

    def note(self, failure: Failure) -> None:
        """One more thing did not fit."""
        if self.furthest is None or len(failure.memo) > len(self.furthest.memo):
            self.furthest = failure


class Matcher:
    """Matches patterns in one function.

    Args:
        values: what variables are bound to; variables are seen through.
        journal: is told what did not fit.
    """

    def __init__(self, values: Values, journal: Journal | None = None) -> None:
        self.values = values
        self.journal = journal

    def resolve(self, expr: Any) -> Any:
        """What a variable is bound to; else the expression itself."""
        while isinstance(expr, rx.Var) and expr in self.values:
            expr = self.values[expr]
        return expr

    def ways(self, pattern: dp.DFPattern, expr: Any, memo: Memo) -> Iterator[Memo]:
        """Every way to match, each as what has been matched by then."""
        value = self.resolve(expr)
        if pattern in memo:
            if self.same(memo[pattern], value):
                yield memo
            else:
                self.no(pattern, expr, memo, "stands for another value already")
            return
        for found in _RULES[type(pattern)](self, pattern, expr, value, memo):
            seen = expr if isinstance(pattern, dp.VarPattern) else value
            yield {**found, pattern: seen}

    def same(self, known: Any, value: Any) -> bool:
        """Whether two expressions are one value."""
        one = self.resolve(known)
        if one is value:
            return True
        return type(one) is type(value) and isinstance(one, _PLAIN) and structural_equal(one, value)

    def no(self, pattern: dp.DFPattern, expr: Any, memo: Memo, reason: str) -> None:
        """Tell the journal that `pattern` is not `expr`."""
        if self.journal is not None:
            self.journal.note(Failure(pattern, expr, reason, memo))

    def in_order(self, patterns: Any, exprs: Any, memo: Memo) -> Iterator[Memo]:
        """Every way to match several patterns with several expressions, one by one."""
        if not patterns:
            yield memo
            return
        for found in self.ways(patterns[0], exprs[0], memo):
            yield from self.in_order(patterns[1:], exprs[1:], found)


#: leaves that are told apart by what they say, not by which object they are
_PLAIN = (rx.Op, GlobalVar, rx.ExternFunc, rx.ShapeExpr, rx.PrimValue, rx.StringImm, rx.DataTypeImm)


def extract(pattern: dp.DFPattern, expr: Any, values: Values) -> dict[dp.DFPattern, Any] | None:
    """What each part of a pattern matched, the first way; None where there is none."""
    found = next(Matcher(values).ways(pattern, expr, {}), None)
    return None if found is None else parts_only(found)


def parts_only(memo: Memo) -> dict[dp.DFPattern, Any]:
    """A memo without the symbolic variables."""
    return {k: v for k, v in memo.items() if isinstance(k, dp.DFPattern)}


# rules: (matcher, pattern, expression as it stands, what that is bound to, memo) -> memos


def _wildcard(m: Matcher, p: Any, expr: Any, value: Any, memo: Memo) -> Iterator[Memo]:
    yield memo


def _expr(m: Matcher, p: Any, expr: Any, value: Any, memo: Memo) -> Iterator[Memo]:
    if structural_equal(p.expr, expr) or structural_equal(p.expr, value):
        yield memo
    else:
        m.no(p, expr, memo, f"is {told(value)}, not {told(p.expr)}")


def _named(kind: type, attribute: str) -> Callable[..., Iterator[Memo]]:
    """A rule for expressions of a class, told apart by a name."""

    def rule(m: Matcher, p: Any, expr: Any, value: Any, memo: Memo) -> Iterator[Memo]:
        wanted = p.global_symbol if isinstance(p, dp.ExternFuncPattern) else p.name
        one = expr if isinstance(expr, kind) else value
        if isinstance(one, kind) and wanted in ("", getattr(one, attribute)):
            yield memo
        else:
            m.no(p, expr, memo, f"is {told(expr)}, not {p!r}")

    return rule


def _constant(m: Matcher, p: Any, expr: Any, value: Any, memo: Memo) -> Iterator[Memo]:
    if isinstance(value, rx.Constant):
        yield memo
    else:
        m.no(p, expr, memo, f"is {told(value)}, not a constant")


def _call(m: Matcher, p: Any, expr: Any, value: Any, memo: Memo) -> Iterator[Memo]:
    if not isinstance(value, rx.Call):
        m.no(p, expr, memo, f"is {told(value)}, not a call")
        return
    few = len(value.args) < len(p.args)
    if few or (len(value.args) > len(p.args) and not p.varg_default_wildcard):
        for _ in m.ways(p.op, value.op, memo):
            m.no(p, expr, memo, f"has {len(value.args)} arguments, not {len(p.args)}")
        return
    for found in m.ways(p.op, value.op, memo):
        yield from m.in_order(p.args, value.args, found)
        if _commutes(value) and len(p.args) == len(value.args):
            yield from m.in_order(p.args, value.args[::-1], found)


def _commutes(call: rx.Call) -> bool:
    if not isinstance(call.op, rx.Op) or len(call.args) != 2:
        return False
    found = declaration(call.op, missing_ok=True)
    return found is not None and found.commutative


def _function(m: Matcher, p: Any, expr: Any, value: Any, memo: Memo) -> Iterator[Memo]:
    if not isinstance(value, rx.Function) or len(value.params) != len(p.params):
        m.no(p, expr, memo, f"is {told(value)}, not a function of {len(p.params)}")
        return
    inner = {b.var: b.value for b in bindings_of(value)}
    inside = Matcher({**m.values, **inner}, m.journal)
    body = value.body.body if isinstance(value.body, rx.SeqExpr) else value.body
    for found in inside.in_order(p.params, value.params, memo):
        yield from inside.ways(p.body, body, found)


def _tuple(m: Matcher, p: Any, expr: Any, value: Any, memo: Memo) -> Iterator[Memo]:
    if _is_tuple_of(m, p, expr, value, memo):
        yield from m.in_order(p.fields, value.fields, memo)


def _is_tuple_of(m: Matcher, p: Any, expr: Any, value: Any, memo: Memo) -> bool:
    if isinstance(value, rx.Tuple) and len(value.fields) == len(p.fields):
        return True
    m.no(p, expr, memo, f"is {told(value)}, not a tuple of {len(p.fields)}")
    return False


def _unordered(m: Matcher, p: Any, expr: Any, value: Any, memo: Memo) -> Iterator[Memo]:
    if _is_tuple_of(m, p, expr, value, memo):
        yield from _some_order(m, p.fields, list(value.fields), memo)


def _some_order(m: Matcher, patterns: Any, fields: list[Any], memo: Memo) -> Iterator[Memo]:
    if not patterns:
        yield memo
    for i, one in enumerate(fields if patterns else ()):
        for found in m.ways(patterns[0], one, memo):
            yield from _some_order(m, patterns[1:], fields[:i] + fields[i + 1 :], found)


def _item(m: Matcher, p: Any, expr: Any, value: Any, memo: Memo) -> Iterator[Memo]:
    if not isinstance(value, rx.TupleGetItem):
        m.no(p, expr, memo, f"is {told(value)}, not a field of a tuple")
    elif p.index not in (None, value.index):
        m.no(p, expr, memo, f"is field {value.index}, not field {p.index}")
    else:
        yield from m.ways(p.tuple_value, value.tuple_value, memo)


def _or(m: Matcher, p: Any, expr: Any, value: Any, memo: Memo) -> Iterator[Memo]:
    yield from m.ways(p.left, expr, memo)
    yield from m.ways(p.right, expr, memo)


def _and(m: Matcher, p: Any, expr: Any, value: Any, memo: Memo) -> Iterator[Memo]:
    for found in m.ways(p.left, expr, memo):
        yield from m.ways(p.right, expr, found)


def _not(m: Matcher, p: Any, expr: Any, value: Any, memo: Memo) -> Iterator[Memo]:
    silent = Matcher(m.values)
    if next(silent.ways(p.reject, expr, memo), None) is None:
        yield memo
    else:
        m.no(p, expr, memo, f"is {told(value)}, which the pattern rejects")


def info_of(expr: Any, value: Any) -> Any:
    """What is known of an expression, or None: its struct info, else that of its value."""
    for one in (expr, value):
        if getattr(one, "struct_info", None) is not None:
            return one.struct_info
    try:
        return infer(value)
    except (MLCError, AttributeError):
        return None


def _struct_info(m: Matcher, p: Any, expr: Any, value: Any, memo: Memo) -> Iterator[Memo]:
    info = info_of(expr, value)
    for found in m.ways(p.pattern, expr, memo):
        sizes: dict[PrimVar, Any] = {}
        if info is not None:
            match_vars(p.struct_info, info, sizes)
        known = {v: found[v] for v in definable_vars(p.struct_info) if v in found}
        wanted = substitute(p.struct_info, {**sizes, **known})
        if info is not None and struct_info_base_check(wanted, info) is BaseCheckResult.PASS:
            yield {**found, **sizes, **known}
        else:
            m.no(p, expr, found, f"is {described(info)}, not {described(wanted)}")


def _dtype(m: Matcher, p: Any, expr: Any, value: Any, memo: Memo) -> Iterator[Memo]:
    kind = getattr(info_of(expr, value), "dtype", None)
    for found in m.ways(p.pattern, expr, memo):
        if kind == p.dtype:
            yield found
        else:
            m.no(p, expr, found, f"has dtype {kind or 'unknown'}, not {p.dtype}")


def _shape(m: Matcher, p: Any, expr: Any, value: Any, memo: Memo) -> Iterator[Memo]:
    info = info_of(expr, value)
    dims = getattr(info, "dims", None)
    for found in m.ways(p.pattern, expr, memo):
        if dims is not None and same_dims(dims, p.shape):
            yield found
        else:
            m.no(p, expr, found, f"has shape {shape_text(dims)}, not {shape_text(p.shape)}")


def _prim_array(m: Matcher, p: Any, expr: Any, value: Any, memo: Memo) -> Iterator[Memo]:
    if isinstance(value, rx.ShapeExpr) and same_dims(value.values, p.fields):
        yield memo
    else:
        given = shape_text(value.values) if isinstance(value, rx.ShapeExpr) else told(value)
        m.no(p, expr, memo, f"is {given}, not the shape {shape_text(p.fields)}")


def _attrs(m: Matcher, p: Any, expr: Any, value: Any, memo: Memo) -> Iterator[Memo]:
    for found in m.ways(p.pattern, expr, memo):
        wrong = _wrong_attr(p.attrs, attributes(value))
        if wrong is None:
            yield found
        else:
            m.no(p, expr, found, wrong)


def attributes(value: Any) -> Mapping[str, Any]:
    """The attributes of a call or function, by name."""
    if isinstance(value, rx.Function):
        return value.attrs
    if not isinstance(value, rx.Call):
        return {}
    if isinstance(value.op, rx.Op) and not isinstance(value.attrs, Mapping):
        if declaration(value.op, missing_ok=True) is None:
            return {}
        decl = attrs_of(value)
        return {name: getattr(decl, name) for name in decl.node_fields}
    return value.attrs if isinstance(value.attrs, Mapping) else {}


def _wrong_attr(wanted: Mapping[str, Any], given: Mapping[str, Any]) -> str | None:
    """The first attribute that is not as wanted, in words."""
    for name, value in wanted.items():
        if name not in given:
            return f"has no attribute {name!r}"
        if not _same_attr(value, given[name]):
            return f"has {name}={plain(given[name])!r}, not {plain(value)!r}"
    return None


def _same_attr(a: Any, b: Any) -> bool:
    one, two = plain(a), plain(b)
    if isinstance(one, Node) and isinstance(two, Node):
        return structural_equal(one, two)
    if isinstance(one, np.ndarray) or isinstance(two, np.ndarray):
        return bool(np.array_equal(one, two))
    return type(one) is type(two) and bool(one == two)


_RULES: dict[type, Callable[..., Iterator[Memo]]] = {
    dp.WildcardPattern: _wildcard,
    dp.ExprPattern: _expr,
    dp.VarPattern: _named(rx.Var, "name_hint"),
    dp.DataflowVarPattern: _named(rx.DataflowVar, "name_hint"),
    dp.GlobalVarPattern: _named(GlobalVar, "name_hint"),
    dp.ExternFuncPattern: _named(rx.ExternFunc, "global_symbol"),
    dp.ConstantPattern: _constant,
    dp.CallPattern: _call,
    dp.FunctionPattern: _function,
    dp.TuplePattern: _tuple,
    dp.UnorderedTuplePattern: _unordered,
    dp.TupleGetItemPattern: _item,
    dp.OrPattern: _or,
    dp.AndPattern: _and,
    dp.NotPattern: _not,
    dp.StructInfoPattern: _struct_info,
    dp.DataTypePattern: _dtype,
    dp.ShapePattern: _shape,
    dp.PrimArrPattern: _prim_array,
    dp.AttrPattern: _attrs,
}
