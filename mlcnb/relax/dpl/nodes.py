"""Patterns: what a value of a graph function may look like.

    pattern = wildcard | is_op(name) | is_var(name) | is_const() | is_tuple([p, …]) | is_shape([…])
            | p(p, …) | p[i] | p & p | p | p | ~p
            | p.has_dtype(d) | p.has_shape(s) | p.has_attr({…}) | p.has_struct_info(info)

A pattern is an object with an identity: where the same object stands twice, both places have to be
the same value. `p + q`, `p - q`, `p * q` and `p / q` are calls of the operators. `p ^ q` (used by)
and `p >> q` (used by nothing else) hold between bindings and belong to a `PatternContext`.

Names and meaning are those of tvm.relax.dpl (0.21).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, dataclass_transform

from mlcnb.core.errors import ArgumentError
from mlcnb.core.text import kind_of
from mlcnb.ir.dtype import DType, dtype
from mlcnb.relax.expr import Op, Var, shape_expr
from mlcnb.relax.struct_info import StructInfo


def _calling(op: str) -> Callable[[DFPattern, Any], CallPattern]:
    """Calls of an operator of two operands."""

    def apply(a: DFPattern, b: Any) -> CallPattern:
        return ExprPattern(Op(op))(a, _checked(b, op.removeprefix("relax.")))

    return apply


class Linked:
    """What may be said of the uses of a pattern's value; in a sequence of patterns of the last."""

    def used_by(self, other: Any, index: int = -1) -> Any:
        """In the current PatternContext: `other` uses this value, as argument `index` (-1: any)."""
        from mlcnb.relax.dpl.context import chain

        return chain(self, other, index, only=False)

    def only_used_by(self, other: Any, index: int = -1) -> Any:
        """In the current PatternContext: `other` uses this value, and nothing else does."""
        from mlcnb.relax.dpl.context import chain

        return chain(self, other, index, only=True)

    def fork_to(self, *others: Any) -> None:
        """In the current PatternContext: each of `others` uses this value."""
        for other in others:
            self.used_by(other)

    def __xor__(self, other: Any) -> Any:
        return self.used_by(other)

    def __rshift__(self, other: Any) -> Any:
        return self.only_used_by(other)


@dataclass_transform(eq_default=False, frozen_default=True)
class DFPattern(Linked):
    """Base of patterns, which are frozen, and told apart by identity."""

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True, eq=False, repr=False)(cls)

    def __call__(
        self, *args: DFPattern, varg_default_wildcard: bool = False, add_constraint: bool = True
    ) -> CallPattern:
        """A call of what this pattern matches, with arguments that match `args`.

        Args:
            args: one pattern for each argument.
            varg_default_wildcard: further arguments may be anything.
            add_constraint: in a PatternContext, say that the arguments are used by the call.
        """
        made = CallPattern(self, tuple(args), varg_default_wildcard)
        if add_constraint:
            from mlcnb.relax.dpl.context import Edge, add_edge

            for arg in args:
                add_edge(Edge(arg, made))
        return made

    def __or__(self, other: DFPattern) -> OrPattern:
        return OrPattern(self, _checked(other, "|"))

    def __and__(self, other: DFPattern) -> AndPattern:
        return AndPattern(self, _checked(other, "&"))

    def __invert__(self) -> NotPattern:
        return NotPattern(self)

    __add__, __sub__ = _calling("relax.add"), _calling("relax.subtract")
    __mul__, __truediv__ = _calling("relax.multiply"), _calling("relax.divide")

    def has_attr(self, attrs: Mapping[str, Any]) -> AttrPattern:
        """A call or function whose attributes have these values; others may be anything."""
        return AttrPattern(self, dict(attrs))

    def has_struct_info(self, struct_info: Any) -> StructInfoPattern:
        """A value that is known to belong to this struct info."""
        return StructInfoPattern(self, _as_info(struct_info))

    #: the spelling of TVM 0.27
    has_ty = has_struct_info

    def has_dtype(self, kind: str) -> DataTypePattern:
        """A tensor of this dtype."""
        return DataTypePattern(self, dtype(kind))

    def has_shape(self, shape: Iterable[Any]) -> ShapePattern:
        """A tensor of this shape: numbers and symbolic dimensions."""
        return ShapePattern(self, shape_expr(list(shape)).values)

    def optional(self, wrap: Any) -> OrPattern:
        """What `wrap` makes of this pattern, or it alone: `p.optional(is_op("relax.nn.relu"))`."""
        return OrPattern(wrap(self), self)

    def match(self, expr: Any, var2val: Mapping[Var, Any] | None = None) -> bool:
        """Whether an expression looks like this.

        Args:
            expr: a value, or a variable.
            var2val: what variables are bound to (`relax.analysis.get_var2val`); without it a
                variable is only a variable.
        """
        return self.extract_matched_expr(expr, var2val) is not None

    def extract_matched_expr(
        self, expr: Any, var2val: Mapping[Var, Any] | None = None
    ) -> dict[DFPattern, Any] | None:
        """What each part of the pattern matched, or None where the whole does not match."""
        from mlcnb.relax.dpl.matcher import extract

        return extract(self, expr, var2val or {})

    def explain(self, func: Any) -> Any:
        """Where in a function (or module) it is found, and what stopped it elsewhere: a picture."""
        from mlcnb.relax.dpl.explain import explain

        return explain(self, func)

    def same_shape_as(self, *others: DFPattern) -> Any:
        """In the current PatternContext: the values have one shape."""
        from mlcnb.relax.dpl.context import SameShapeConstraint

        return SameShapeConstraint(self, *others)

    def dup(self) -> Any:
        """A pattern that says the same, with an identity of its own."""
        return duplicate(self, {})

    def __repr__(self) -> str:
        from mlcnb.relax.dpl.text import text_of

        return text_of(self)


class WildcardPattern(DFPattern):
    """Anything."""


class ExprPattern(DFPattern):
    """An expression that is structurally equal to `expr`."""

    expr: Any


class VarPattern(DFPattern):
    """A variable; of that name, if one is given."""

    name: str = ""


class DataflowVarPattern(VarPattern):
    """A variable of a dataflow block."""


class GlobalVarPattern(DFPattern):
    """A function of the module."""

    name: str = ""


class ExternFuncPattern(DFPattern):
    """A function outside of the module."""

    global_symbol: str = ""


class ConstantPattern(DFPattern):
    """A constant."""


class CallPattern(DFPattern):
    """A call. The arguments of relax.add and relax.multiply match in either order."""

    op: DFPattern
    args: tuple[DFPattern, ...]
    varg_default_wildcard: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "args", tuple(_checked(a, "a call") for a in self.args))


class FunctionPattern(DFPattern):
    """A function with parameters and a result that match."""

    params: tuple[DFPattern, ...]
    body: DFPattern

    def __post_init__(self) -> None:
        object.__setattr__(self, "params", tuple(self.params))


class _Fields(DFPattern):
    """Base of patterns of tuples."""

    fields: tuple[DFPattern, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "fields", tuple(_checked(f, "a tuple") for f in self.fields))

    def __len__(self) -> int:
        return len(self.fields)


class TuplePattern(_Fields):
    """A tuple, field by field; `pattern[i]` is a field of it (None: any)."""

    def __getitem__(self, index: int | None) -> TupleGetItemPattern:
        if index is None:
            return TupleGetItemPattern(self, None)
        if not -len(self.fields) <= index < len(self.fields):
            raise IndexError(f"field {index} of a tuple pattern of {len(self.fields)}")
        return TupleGetItemPattern(self, index % len(self.fields))


class UnorderedTuplePattern(_Fields):
    """A tuple whose fields match in some order."""


class TupleGetItemPattern(DFPattern):
    """A field of a tuple: field `index`, or any (None)."""

    tuple_value: DFPattern
    index: int | None = None


class OrPattern(DFPattern):
    """One of two; the left one is tried first."""

    left: DFPattern
    right: DFPattern


class AndPattern(DFPattern):
    """Both of two."""

    left: DFPattern
    right: DFPattern


class NotPattern(DFPattern):
    """Anything that does not match `reject`."""

    reject: DFPattern


class StructInfoPattern(DFPattern):
    """A value that belongs to `struct_info`; its symbolic sizes are free where they are new."""

    pattern: DFPattern
    struct_info: StructInfo


class DataTypePattern(DFPattern):
    """A tensor or scalar of a dtype."""

    pattern: DFPattern
    dtype: DType


class ShapePattern(DFPattern):
    """A tensor of a shape."""

    pattern: DFPattern
    shape: tuple[Any, ...]


class PrimArrPattern(DFPattern):
    """A shape that stands as a value, such as the argument of a reshape."""

    fields: tuple[Any, ...]

    def __getitem__(self, index: int) -> Any:
        return self.fields[index]

    def __len__(self) -> int:
        return len(self.fields)


class AttrPattern(DFPattern):
    """A call or a function with attributes of these values."""

    pattern: DFPattern
    attrs: dict[str, Any]


def _checked(pattern: Any, where: str) -> Any:
    if not isinstance(pattern, DFPattern):
        raise ArgumentError(
            f"{where} of patterns was given {kind_of(pattern)}",
            hint="a value of a program becomes a pattern with is_expr(value)",
        )
    return pattern


def _as_info(info: Any) -> StructInfo:
    """A struct info, also where `R.Tensor(…)` stands for one."""
    if isinstance(info, StructInfo):
        return info
    from mlcnb.relax.dpl.make import as_struct_info

    return as_struct_info(info)


#: the fields of each class that are patterns, in order
PARTS: dict[type, tuple[str, ...]] = {
    CallPattern: ("op", "args"),
    FunctionPattern: ("params", "body"),
    TuplePattern: ("fields",),
    UnorderedTuplePattern: ("fields",),
    TupleGetItemPattern: ("tuple_value",),
    OrPattern: ("left", "right"),
    AndPattern: ("left", "right"),
    NotPattern: ("reject",),
    StructInfoPattern: ("pattern",),
    DataTypePattern: ("pattern",),
    ShapePattern: ("pattern",),
    AttrPattern: ("pattern",),
}


def parts_of(pattern: DFPattern) -> Iterator[DFPattern]:
    """The patterns that a pattern is directly made of."""
    for name in PARTS.get(type(pattern), ()):
        value = getattr(pattern, name)
        yield from value if isinstance(value, tuple) else (value,)


def walk(pattern: DFPattern) -> Iterator[DFPattern]:
    """The pattern and all that it is made of, each once, the whole before its parts."""
    seen: set[int] = set()
    stack = [pattern]
    while stack:
        one = stack.pop()
        if id(one) not in seen:
            seen.add(id(one))
            yield one
            stack.extend(reversed(list(parts_of(one))))


def duplicate(pattern: DFPattern, made: dict[DFPattern, DFPattern]) -> DFPattern:
    """A copy; what stood twice in the pattern stands twice in the copy. `made`: old -> new."""
    if pattern not in made:
        values = {}
        for name in pattern.__dataclass_fields__:  # type: ignore[attr-defined]
            value = getattr(pattern, name)
            if name in PARTS.get(type(pattern), ()):
                is_one = isinstance(value, DFPattern)
                value = (
                    duplicate(value, made) if is_one else tuple(duplicate(v, made) for v in value)
                )
            values[name] = value
        made[pattern] = type(pattern)(**values)
    return made[pattern]
