"""Small integer tensors that are computed from symbolic shapes, followed element by element.

    x: (n, 3, h, w)      Shape -> [n, 3, h, w]    Gather 0 -> n    Unsqueeze, Concat -> [n, 3 * h]

What an element is, the operator's own loop nest says (`compute` of its declaration): its index
expressions are evaluated for each place, and its body on expressions in place of numbers.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from mlcnb import te
from mlcnb.arith import Analyzer
from mlcnb.core.errors import MLCError
from mlcnb.core.node import rewrite, walk
from mlcnb.ir import expr as e
from mlcnb.ir import prim_ops as p
from mlcnb.ir.dtype import dtype
from mlcnb.ir.expr import PrimExpr
from mlcnb.relax.expr import Call, Constant, PrimValue, ShapeExpr, Tuple
from mlcnb.relax.frontend.shared.fold import is_operator
from mlcnb.relax.frontend.shared.fractions import NoFraction, Sizes, as_float, fraction, truncated
from mlcnb.relax.frontend.shared.limits import element_count
from mlcnb.relax.operator import OpDecl, attrs_of, call_arguments, declaration
from mlcnb.relax.struct_info import TensorStructInfo, TupleStructInfo, parts_of
from mlcnb.te.tensor import ComputeOp
from mlcnb.te.translate import Translator
from mlcnb.tir.buffer import ProducerLoad
from mlcnb.tir.stmt import IterVar, Reduce

#: tensors of at most this many elements are followed
SMALL = 64
#: elements that one operator may combine into its results
WORK = 4096

#: what a dimension may be made of, so that the runtime can compute it
DIMENSION = (
    e.IntImm, e.Var, e.Add, e.Sub, e.Mul, e.FloorDiv, e.FloorMod, e.Min, e.Max, e.EQ, e.NE, e.LT,
    e.LE, e.GT, e.GE, e.And, e.Or, e.Not, e.Select, e.Cast,
)  # fmt: skip


class _Unknown(Exception):
    """An element that cannot be followed."""


class Symbols:
    """Values of small integer tensors: variable -> array of PrimExprs, or a tuple of such.

    Args:
        stored: values of parameters that the model brings.
    """

    def __init__(self, stored: Mapping[Any, np.ndarray]) -> None:
        self.stored = stored
        self.values: dict[Any, Any] = {}
        #: variables whose elements nobody knows
        self.opaque: set[Any] = set()

    def find(self, x: Any) -> Any:
        """The elements of a value where they are known: an object array, or None."""
        data = x.data if isinstance(x, Constant) else self.stored.get(x)
        if data is not None:
            return data if data.size <= SMALL else None
        return self.values.get(x)

    def follow(self, var: Any, call: Call) -> None:
        """Keep the elements of what `var` is bound to, where they can be followed."""
        if isinstance(call.struct_info, TensorStructInfo):
            self.opaque.add(var)
        if not self.opaque.isdisjoint(call.args):
            return
        infos = parts_of(call.struct_info)
        if not is_operator(call) or not all(map(is_small, infos)):
            return
        try:
            results = self.results(call)
        except (_Unknown, MLCError):
            return
        if len(results) == len(infos):
            self.opaque.discard(var)
            is_tuple = isinstance(call.struct_info, TupleStructInfo)
            self.values[var] = tuple(results) if is_tuple else results[0]

    def results(self, call: Call) -> list[np.ndarray]:
        """The elements of each tensor that a call makes."""
        decl = declaration(call.op)
        if decl.compute is OpDecl.compute:
            raise _Unknown
        elements = _Elements()
        args = [None if a is None else self.argument(a, elements) for a in call_arguments(call)]
        made = attrs_of(call).compute(*args)
        tensors = made if isinstance(made, tuple | list) else [made]
        return [elements.array(t) for t in tensors]

    def argument(self, arg: Any, elements: _Elements) -> Any:
        """An argument as `compute` takes it."""
        if isinstance(arg, ShapeExpr):
            return arg.values
        if isinstance(arg, PrimValue):
            return arg.value
        if isinstance(arg, Tuple):
            return tuple(self.argument(f, elements) for f in arg.fields)
        if isinstance(arg.struct_info, TensorStructInfo):
            return elements.given(self.find(arg), arg.struct_info)
        return getattr(arg, "value", arg)


class _Elements:
    """Evaluates tensors of a tensor expression, whose placeholders have known elements."""

    def __init__(self) -> None:
        self.known: dict[te.Tensor, np.ndarray] = {}
        self.done: dict[tuple[te.Tensor, tuple[int, ...]], PrimExpr] = {}
        self.work = 0

    def given(self, value: Any, info: TensorStructInfo) -> te.Tensor:
        """A placeholder that stands for a known array."""
        if not isinstance(value, np.ndarray) or info.dtype is None:
            raise _Unknown
        made = te.placeholder(value.shape, info.dtype)
        self.known[made] = value
        return made

    def array(self, tensor: te.Tensor) -> np.ndarray:
        """All elements of a tensor."""
        dims = ints(tensor.shape)
        if dims is None:
            raise _Unknown
        made: Any = np.empty(dims, np.object_)
        for index in np.ndindex(*dims):
            made[index] = tidy(self.element(tensor, index))
        return made

    def element(self, tensor: te.Tensor, index: tuple[int, ...]) -> PrimExpr:
        """One element as an expression."""
        if tensor in self.known:
            return self.stored(tensor, index)
        key = (tensor, index)
        if key not in self.done:
            self.work += 1
            if not isinstance(tensor.op, ComputeOp) or self.work > WORK:
                raise _Unknown
            axes = _at(tensor.op.axis, index)
            self.done[key] = self.value(tensor.op.body[tensor.value_index], axes)
        return self.done[key]

    def stored(self, tensor: te.Tensor, index: tuple[int, ...]) -> PrimExpr:
        """An element of a placeholder."""
        array = self.known[tensor]
        inside = len(index) == array.ndim and all(
            0 <= i < d for i, d in zip(index, array.shape, strict=True)
        )
        if not inside:
            raise _Unknown
        found = array[index]
        return found if isinstance(found, PrimExpr) else p.const(found.item(), tensor.dtype)

    def value(self, body: PrimExpr, axes: dict[Any, PrimExpr]) -> PrimExpr:
        """A body with its axes at one place."""
        if isinstance(body, Reduce):
            return self.reduced(body, axes)
        return _Body(self, axes)(body)

    def reduced(self, body: Reduce, axes: dict[Any, PrimExpr]) -> PrimExpr:
        """A reduction, one element after the other."""
        extents = ints([a.dom.extent for a in body.axis])
        if extents is None or not p.is_const(body.condition, 1):
            raise _Unknown
        if (element_count(extents) or 0) > WORK:
            raise _Unknown
        combiner, result = body.combiner, list(body.combiner.identity_element)
        for place in itertools.product(*map(range, extents)):
            self.work += 1
            here = _Body(self, {**axes, **_at(body.axis, place)})
            values = dict(zip(combiner.lhs, result, strict=True))
            values.update(zip(combiner.rhs, map(here, body.source), strict=True))
            result = [_Body(self, values)(r) for r in combiner.result]
        return result[body.value_index]


def _at(axes: Iterable[IterVar], place: Iterable[int]) -> dict[Any, PrimExpr]:
    """The variables of axes at one place."""
    return {a.var: p.const(i, a.var.dtype) for a, i in zip(axes, place, strict=True)}


class _Body(Translator):
    """Replaces axes by numbers and loads by elements; of a choice only the side that is taken."""

    def __init__(self, elements: _Elements, values: dict[Any, PrimExpr]) -> None:
        super().__init__({}, values, dtype("int64"))
        self.elements = elements

    def fresh(self, n: Any) -> Any:
        """`n` with what is known put in."""
        if isinstance(n, ProducerLoad):
            index = ints([tidy(self(i)) for i in n.indices])
            if index is None:
                raise _Unknown
            return self.elements.element(n.producer, index)
        if isinstance(n, e.Select):
            return self.choice(n.condition, n.true_value, n.false_value)
        if isinstance(n, e.Call) and n.op == "tir.if_then_else":
            return self.choice(*n.args)
        if isinstance(n, e.Call) and n.op == "tir.check_index":
            return self.inside(*n.args[:2])
        if isinstance(n, e.Let):
            raise _Unknown
        return super().fresh(n)

    def inside(self, index: Any, extent: Any) -> PrimExpr:
        """An index that is known to be within its extent."""
        at, size = ints([tidy(self(index)), tidy(self(extent))]) or (0, 0)
        if not 0 <= at < size:
            raise _Unknown
        return p.const(at, index.dtype)

    def choice(self, condition: Any, yes: Any, no: Any) -> PrimExpr:
        """One of two values."""
        known = tidy(self(condition))
        if isinstance(known, e.IntImm):
            return self(yes if known.value else no)
        return p.select(known, self(yes), self(no))


def is_small(info: Any) -> bool:
    """True for a tensor of numbers or bool with few elements."""
    if not isinstance(info, TensorStructInfo) or info.dims is None or info.dtype is None:
        return False
    dims = ints(info.dims)
    if dims is None:
        return False
    count = element_count(dims)
    return count is not None and count <= SMALL


def ints(dims: Iterable[Any]) -> tuple[int, ...] | None:
    """Dimensions as Python ints, or None where one is symbolic."""
    found = tuple(p.as_int(d) for d in dims)
    return None if None in found else found  # type: ignore[return-value]


def tidy(x: PrimExpr) -> PrimExpr:
    """An expression of sizes (none is negative), simplified, in the form that the runtime computes.

    Raises:
        _Unknown: it has parts that no dimension may have.
    """
    if isinstance(x, e.IntImm | e.Var):
        return x
    try:
        if x.dtype.is_float:
            found = fraction(x)
            return as_float(Sizes(tidy(found.top), found.bottom), x.dtype)
        x = rewrite(x, _whole)
    except NoFraction:
        raise _Unknown from None
    analyzer = Analyzer({v: (0, None) for v in walk(x) if isinstance(v, e.Var)})
    simple = analyzer.simplify(rewrite(x, lambda n: _floored(n, analyzer)))
    if not all(isinstance(n, DIMENSION) for n in walk(simple)):
        raise _Unknown
    return simple


def _whole(n: Any) -> PrimExpr | None:
    """A cast of a float to an integer as what it makes of sizes."""
    if isinstance(n, e.Cast) and n.dtype.is_integer and n.value.dtype.is_float:
        return p.cast(n.dtype, truncated(fraction(n.value)))
    return None


def _floored(n: Any, analyzer: Analyzer) -> PrimExpr | None:
    """A division towards zero as one downwards, where that is the same."""
    if not isinstance(n, e.Div | e.Mod) or not n.a.dtype.is_integer:
        return None
    if not (analyzer.can_prove(n.a >= 0) and analyzer.can_prove(n.b > 0)):
        return None
    return (p.floordiv if isinstance(n, e.Div) else p.floormod)(n.a, n.b)
