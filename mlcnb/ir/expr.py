"""Scalar expressions: what loop bounds, indices, shapes and values are made of.

    PrimExpr = Var | IntImm | FloatImm | StringImm | Cast | Select | Let | Call
             | Add Sub Mul Div Mod FloorDiv FloorMod Min Max
             | EQ NE LT LE GT GE | And Or Not | Ramp | Broadcast | Shuffle | BufferLoad (tir)

Python operators build them (`i * 4 + 1`), folding constants and the neutral elements.
Semantics follow TVM's TensorIR: `//` and `%` round towards minus infinity, Div and Mod towards
zero.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from functools import cache
from typing import Any, ClassVar

from mlcnb.core.errors import IntegerRangeError, MLCError, TruthValueError
from mlcnb.core.node import Node, atom, binder, hidden, label, node
from mlcnb.core.operators import both
from mlcnb.ir.dtype import DType, dtype
from mlcnb.ir.span import Span


def _ops() -> Any:
    """The constructors that fold; they need the nodes, so they live in the next file."""
    global _ops_module
    if _ops_module is None:
        from mlcnb.ir import prim_ops

        _ops_module = prim_ops
    return _ops_module


_ops_module: Any = None


def _folding(name: str) -> Callable[[Any, Any], PrimExpr]:
    """The constructor of two operands of that name."""

    def apply(a: Any, b: Any) -> PrimExpr:
        return getattr(_ops(), name)(a, b)

    return apply


class PrimExpr(Node):
    """Base of all scalar (or vector-lane) expressions; each has a `dtype`."""

    __slots__ = ()
    #: annotation only: a field or a property in each class
    dtype: DType

    __add__, __radd__ = both(_folding("add"))
    __sub__, __rsub__ = both(_folding("subtract"))
    __mul__, __rmul__ = both(_folding("multiply"))
    __truediv__, __rtruediv__ = both(_folding("div"))
    __floordiv__, __rfloordiv__ = both(_folding("floordiv"))
    __mod__, __rmod__ = both(_folding("floormod"))
    __lshift__, __rlshift__ = both(_folding("shift_left"))
    __rshift__, __rrshift__ = both(_folding("shift_right"))
    __and__, __rand__ = both(_folding("bitwise_and"))
    __or__, __ror__ = both(_folding("bitwise_or"))
    __xor__, __rxor__ = both(_folding("bitwise_xor"))
    __lt__, __gt__ = _folding("less"), _folding("greater")
    __le__, __ge__ = _folding("less_equal"), _folding("greater_equal")

    def __neg__(self) -> PrimExpr:
        return _ops().neg(self)

    def __invert__(self) -> PrimExpr:
        return _ops().bitwise_not(self)

    def __eq__(self, other: Any) -> Any:
        """An `EQ` expression, whose truth value is identity: nodes stay usable as dict keys."""
        return _ops().equal_or_identity(self, other)

    def __ne__(self, other: Any) -> Any:
        return _ops().not_equal_or_identity(self, other)

    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        raise TruthValueError(
            "a symbolic expression has no truth value",
            hint="use tir.if_then_else, tir.Select, or tir.all / tir.any in place of if, and, or",
        )

    def astype(self, to: str) -> PrimExpr:
        """This expression cast to dtype `to`."""
        return _ops().cast(to, self)

    def equal(self, other: Any) -> PrimExpr:
        """The expression `self == other`."""
        return _ops().equal(self, other)

    def same_as(self, other: Any) -> bool:
        """True if `other` is this very object."""
        return self is other

    def asobject(self) -> PrimExpr:
        """This expression: `a == b` is one already."""
        return self


class _WithDtype(PrimExpr):
    """What has its dtype as a field: any spelling is taken."""

    __slots__ = ()

    def __post_init__(self) -> None:
        if type(self.dtype) is not DType:
            object.__setattr__(self, "dtype", dtype(self.dtype))


_NUMBERS = frozenset([int, float, bool])
_PLAIN = _NUMBERS | {str}


def _keep_numbers(x: Any, *names: str) -> None:
    """Plain numbers among the operands become constants, of the dtype of the others."""
    given = [getattr(x, name) for name in names]
    like = next((v.dtype for v in given if isinstance(v, PrimExpr)), None)
    for name, value in zip(names, given, strict=True):
        if type(value) in _NUMBERS:
            object.__setattr__(x, name, _ops().as_expr(value, like))


def _keep_exprs(values: Any) -> tuple[Any, ...]:
    """A list of operands as a tuple, plain numbers and texts as constants."""
    return tuple(_ops().as_expr(v) if type(v) in _PLAIN else v for v in values)


@node
class Var(_WithDtype):
    """A scalar variable: a loop variable, a symbolic dimension, a pointer (`handle`).

    `pointee` is (element dtype, scope) for a pointer to buffer data.
    """

    name: str = label()
    dtype: DType = dtype("int32")
    pointee: tuple[str, str] | None = None

    def __post_init__(self) -> None:
        of = getattr(self.dtype, "element_type", None)
        if of is not None:  # an `ir.PointerType`
            pointee = (str(of.dtype), self.dtype.storage_scope)  # type: ignore[attr-defined]
            object.__setattr__(self, "pointee", pointee)
            object.__setattr__(self, "dtype", dtype("handle"))
        elif isinstance(getattr(self.dtype, "dtype", None), DType):  # an `ir.PrimType`
            object.__setattr__(self, "dtype", self.dtype.dtype)  # type: ignore[attr-defined]
        _WithDtype.__post_init__(self)

    @property
    def name_hint(self) -> str:
        """TVM's word for `name`."""
        return self.name

    @property
    def type_annotation(self) -> Any:
        """The type by TVM's name: an `ir.PrimType`, or an `ir.PointerType`."""
        from mlcnb.ir.types import PointerType, PrimType

        if self.pointee is None:
            return PrimType(self.dtype)
        return PointerType(PrimType(dtype(self.pointee[0])), self.pointee[1])


@node
class SizeVar(Var):
    """A variable known to be >= 0, such as a symbolic dimension."""


@node
class IntImm(_WithDtype):
    """An integer or bool constant, which its dtype can hold.

    This is the one place that decides what fits: whatever makes an integer of a program, by hand,
    from a text, a model or a sum, makes it here. What is to wrap around says so
    (`prim_ops.wrapped`).

    Raises:
        IntegerRangeError: the dtype has no such number.
    """

    dtype: DType
    value: int
    __match_args__: ClassVar = ("value", "dtype")

    def __post_init__(self) -> None:
        if type(self.dtype) is not DType:
            object.__setattr__(self, "dtype", dtype(self.dtype))
        if type(self.value) is not int:
            object.__setattr__(self, "value", int(operator.index(self.value)))
        low, high = self.dtype.limits
        if not low <= self.value <= high:
            raise IntegerRangeError(
                f"{self.value} is no {self.dtype}: these run from {low} to {high}"
            )

    def __bool__(self) -> bool:
        return self.value != 0

    def __int__(self) -> int:
        return self.value

    def __index__(self) -> int:
        return self.value


@node
class FloatImm(_WithDtype):
    """A floating-point constant; the value is a Python float, already rounded to `dtype`.

    There is one NaN: neither a text nor JSON tells two apart.
    """

    dtype: DType
    value: float
    __match_args__: ClassVar = ("value", "dtype")

    def __post_init__(self) -> None:
        _WithDtype.__post_init__(self)
        if self.value != self.value:
            object.__setattr__(self, "value", math.nan)

    def __float__(self) -> float:
        return self.value


@node
class StringImm(PrimExpr):
    """A string constant, as an argument of calls and a value of annotations."""

    value: str

    @property
    def dtype(self) -> DType:  # type: ignore[override]
        """Always `handle`."""
        return dtype("handle")


@node
class Cast(_WithDtype):
    """`value` converted to `dtype`; floats to integers round towards zero."""

    dtype: DType
    value: PrimExpr

    def __post_init__(self) -> None:
        _WithDtype.__post_init__(self)
        if type(self.value) in _NUMBERS:
            _keep_numbers(self, "value")


@node
class _Pair(PrimExpr):
    """Two operands of one dtype."""

    a: PrimExpr
    b: PrimExpr

    def __post_init__(self) -> None:
        if type(self.a) in _NUMBERS or type(self.b) in _NUMBERS:
            _keep_numbers(self, "a", "b")


@node
class BinaryOp(_Pair):
    """Two operands of one dtype, which is the result's."""

    @property
    def dtype(self) -> DType:  # type: ignore[override]
        """The dtype of the operands; of a long chain without a call for each link."""
        first = self.a
        while type(first) in _CHAINS:
            first = first.a  # type: ignore[attr-defined]
        return first.dtype


@node
class Add(BinaryOp):
    """a + b"""


@node
class Sub(BinaryOp):
    """a - b"""


@node
class Mul(BinaryOp):
    """a * b"""


@node
class Div(BinaryOp):
    """a / b: true division of floats, division rounding towards zero of integers."""


@node
class Mod(BinaryOp):
    """Remainder of `Div` (sign of the dividend)."""


@node
class FloorDiv(BinaryOp):
    """a // b rounding towards minus infinity."""


@node
class FloorMod(BinaryOp):
    """Remainder of `FloorDiv` (sign of the divisor)."""


@node
class Min(BinaryOp):
    """The smaller of a and b."""


@node
class Max(BinaryOp):
    """The larger of a and b."""


#: the operations whose dtype is that of their first operand
_CHAINS = frozenset((Add, Sub, Mul, Div, Mod, FloorDiv, FloorMod, Min, Max))


@node
class CmpOp(_Pair):
    """A comparison of two operands of one dtype; the result is bool (with their lanes)."""

    @property
    def dtype(self) -> DType:  # type: ignore[override]
        """bool, with the operands' lanes."""
        return dtype("bool").with_lanes(self.a.dtype.lanes)


@node
class EQ(CmpOp):
    """a == b"""

    def __bool__(self) -> bool:
        return self.a is self.b


@node
class NE(CmpOp):
    """a != b"""

    def __bool__(self) -> bool:
        return self.a is not self.b


@node
class LT(CmpOp):
    """a < b"""


@node
class LE(CmpOp):
    """a <= b"""


@node
class GT(CmpOp):
    """a > b"""


@node
class GE(CmpOp):
    """a >= b"""


@node
class And(CmpOp):
    """Both hold; b is evaluated only where a holds."""


@node
class Or(CmpOp):
    """One of them holds; b is evaluated only where a does not hold."""


@node
class Not(PrimExpr):
    """a does not hold."""

    a: PrimExpr

    def __post_init__(self) -> None:
        if type(self.a) in _NUMBERS:
            object.__setattr__(self, "a", _ops().const(bool(self.a)))

    @property
    def dtype(self) -> DType:  # type: ignore[override]
        """bool, with the operand's lanes."""
        return self.a.dtype


@node
class Select(PrimExpr):
    """condition ? true_value : false_value, both evaluated (`if_then_else` evaluates one).

    The result has the dtype of `true_value`; a Python number beside an expression takes that of the
    other. Nothing is refused: `te.compute` converts a value of another dtype.
    """

    condition: PrimExpr
    true_value: PrimExpr
    false_value: PrimExpr

    def __post_init__(self) -> None:
        if type(self.condition) in _NUMBERS:
            object.__setattr__(self, "condition", _ops().const(bool(self.condition)))
        if type(self.true_value) in _NUMBERS or type(self.false_value) in _NUMBERS:
            _keep_numbers(self, "true_value", "false_value")

    @property
    def dtype(self) -> DType:  # type: ignore[override]
        """The dtype of the values."""
        return self.true_value.dtype


@node
class Let(PrimExpr):
    """`body` with `var` standing for `value`."""

    var: Var = binder()
    value: PrimExpr
    body: PrimExpr

    def __post_init__(self) -> None:
        if type(self.value) in _NUMBERS or type(self.body) in _NUMBERS:
            _keep_numbers(self, "value")
            _keep_numbers(self, "body")

    @property
    def dtype(self) -> DType:  # type: ignore[override]
        """The dtype of the body."""
        return self.body.dtype


@atom
class Intrinsic(str):
    """The name of an intrinsic; `call.op.name` is it too, as TVM's operators have it."""

    __slots__ = ()

    @property
    def name(self) -> str:
        """The name."""
        return str(self)


_intrinsic = cache(Intrinsic)


@node
class Call(_WithDtype):
    """A call of an intrinsic by its name, such as `tir.exp`, or of a function of the module.

    `op` is the name ("tir.exp", "tir.if_then_else", "tir.call_extern") or a GlobalVar.
    """

    dtype: DType
    op: Any
    args: tuple[PrimExpr, ...]
    span: Span | None = hidden(default=None)

    def __post_init__(self) -> None:
        _WithDtype.__post_init__(self)
        if type(self.op) is str:
            object.__setattr__(self, "op", _intrinsic(self.op))
        if type(self.args) is not tuple or any(type(a) in _PLAIN for a in self.args):
            object.__setattr__(self, "args", _keep_exprs(self.args))


def _keep_lanes(x: Any) -> None:
    """A constant number of lanes as an int, an expression of `vscale` as it is."""
    if not isinstance(x.lanes, PrimExpr):
        object.__setattr__(x, "lanes", operator.index(x.lanes))
    elif type(x.lanes) is IntImm:
        object.__setattr__(x, "lanes", x.lanes.value)
    elif vscale_factor(x.lanes) is None:
        raise MLCError(
            f"a vector of {x.lanes} lanes", hint="lanes are a number, or a multiple of T.vscale()"
        )


def _lane_count(lanes: Any) -> int:
    """The number of lanes; -4 for vscale * 4."""
    return lanes if type(lanes) is int else -(vscale_factor(lanes) or 1)


def vscale_factor(x: Any) -> int | None:
    """4 of `vscale * 4`; None for anything else."""
    if isinstance(x, Call):
        return 1 if x.op == "tir.vscale" else None
    if isinstance(x, Mul):
        for one, other in ((x.a, x.b), (x.b, x.a)):
            if isinstance(one, IntImm) and one.value > 0 and vscale_factor(other):
                return one.value * (vscale_factor(other) or 1)
    return None


@node
class Ramp(PrimExpr):
    """The vector base, base + stride, …, of `lanes` lanes.

    lanes: a number, or an expression `vscale * 4`: as many as the machine's vectors hold.
    """

    base: PrimExpr
    stride: PrimExpr
    lanes: Any

    def __post_init__(self) -> None:
        if type(self.base) in _NUMBERS or type(self.stride) in _NUMBERS:
            _keep_numbers(self, "base", "stride")
        if type(self.lanes) is not int:
            _keep_lanes(self)

    @property
    def dtype(self) -> DType:  # type: ignore[override]
        """The base's dtype with `lanes` lanes."""
        return self.base.dtype.with_lanes(_lane_count(self.lanes))


@node
class Broadcast(PrimExpr):
    """The vector of `lanes` (see Ramp) copies of `value`."""

    value: PrimExpr
    lanes: Any

    def __post_init__(self) -> None:
        if type(self.value) in _NUMBERS:
            _keep_numbers(self, "value")
        if type(self.lanes) is not int:
            _keep_lanes(self)

    @property
    def dtype(self) -> DType:  # type: ignore[override]
        """The value's dtype with `lanes` lanes."""
        return self.value.dtype.with_lanes(_lane_count(self.lanes))


@node
class Shuffle(PrimExpr):
    """The lanes `indices` of the concatenated `vectors`."""

    vectors: tuple[PrimExpr, ...]
    indices: tuple[PrimExpr, ...]

    def __post_init__(self) -> None:
        for name in ("vectors", "indices"):
            object.__setattr__(self, name, _keep_exprs(getattr(self, name)))

    @property
    def dtype(self) -> DType:  # type: ignore[override]
        """The vectors' element dtype with one lane for each index."""
        return self.vectors[0].dtype.with_lanes(len(self.indices))


@node
class Range(Node):
    """The integers min, min + 1, …, min + extent - 1."""

    min: PrimExpr
    extent: PrimExpr

    def __post_init__(self) -> None:
        if type(self.min) in _NUMBERS or type(self.extent) in _NUMBERS:
            _keep_numbers(self, "min", "extent")

    @staticmethod
    def from_min_extent(min_value: Any, extent: Any) -> Range:
        """TVM's word for `Range(min, extent)`."""
        return Range(min_value, extent)


@node
class GlobalVar(Node):
    """The name of a function of a module. Equal by name."""

    name_hint: str

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, GlobalVar) and other.name_hint == self.name_hint

    def __hash__(self) -> int:
        return hash(self.name_hint)
