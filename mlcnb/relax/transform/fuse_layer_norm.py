"""FuseLayerNorm: a normalisation written out becomes one operator.

c = R.subtract(x, R.mean(x, axis=[-1], keepdims=True))
v = R.mean(R.multiply(c, c), axis=[-1], keepdims=True)
n = R.divide(c, R.sqrt(R.add(v, R.const(1e-12))))           ->      R.nn.layer_norm(x, gamma, beta)
y = R.add(R.multiply(n, gamma), beta)

Without the mean it is nn.rms_norm. First the quotient becomes an operator without weights, which
then takes in a product and a sum that follow.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from mlcnb.ir.rules import rule
from mlcnb.op.binary import Add, Divide, Multiply, Subtract
from mlcnb.op.nn.layer_norm import LayerNorm, RmsNorm
from mlcnb.op.reduction import Mean
from mlcnb.op.unary import Rsqrt, Sqrt, Square
from mlcnb.relax import op
from mlcnb.relax.expr import Call, Var, const
from mlcnb.relax.operator import OpDecl, attrs_of, called
from mlcnb.relax.transform.written_out import (
    CallPass,
    Reader,
    dims_of,
    same_shape,
    shape_of,
)


class FuseLayerNorm(CallPass, says="normalisations", prunes=True):
    """Put nn.layer_norm and nn.rms_norm where their formulas are written out.

    Over the last dimension of a known shape, with weights of shape (C,). What departs from the
    formula stays, nothing is refused.
    """


class _Reader(Reader, of=FuseLayerNorm):
    def __init__(self, functions: Any, options: Any) -> None:
        super().__init__(functions, options)
        #: results of rms_norm whose weights are all ones
        self.unweighted: set[Var] = set()

    def visit_call(self, call: Call, var: Var) -> Any:
        """The quotient, then what is multiplied with it and added to it."""
        operator = called(call)
        if operator in (Divide, Multiply) and shape_of(var):
            for x, over in self.quotients(call):
                made = self.normalised(x, over, var)
                if made is not None:
                    self.found += 1
                    return made
        if operator in (Multiply, Add):
            for x, weight in (call.args, call.args[::-1]):
                made = self.weighted(x, weight, operator) if same_shape(x, var) else None
                if made is not None:
                    return made
        return None

    def quotients(self, call: Call) -> list[tuple[Any, Any]]:
        """(x, what is under the root) as x / sqrt(…), x * rsqrt(…) or x * (1 / sqrt(…))."""
        a, b = call.args
        if called(call) is Divide:
            root = self.call_of(b, Sqrt)
            return [] if root is None else [(a, root.args[0])]
        found = []
        for x, inverse in ((a, b), (b, a)):
            root = self.call_of(inverse, Rsqrt)
            one = self.call_of(inverse, Divide)
            if one is not None and _is_one(one.args[0]):
                root = self.call_of(one.args[1], Sqrt)
            if root is not None:
                found.append((x, root.args[0]))
        return found

    @rule("FuseLayerNorm")
    def normalised(self, x: Any, under: Any, var: Var) -> Any:
        """The operator without weights for x / sqrt(mean(x * x) + epsilon)."""
        shifted = self.with_scalar(under, Add)
        if shifted is None or not same_shape(x, var):
            return None
        square, epsilon = self.last_mean(shifted[0]), shifted[1]
        size = (shape_of(x) or [])[-1:]
        if square is None or self.squared(square) is not x or not isinstance(size[0], int):
            return None
        ones = const(np.ones(size, "float32"))
        source = self.centred(x)
        if source is None:
            self.unweighted.add(var)
            return op.nn.rms_norm(x, ones, epsilon=epsilon)
        zeros = const(np.zeros(size, "float32"))
        plain = {"center": False, "scale": False}
        return op.nn.layer_norm(source, ones, zeros, epsilon=epsilon, **plain)

    def last_mean(self, x: Any) -> Any:
        """What `x` is the mean of, along the last dimension, which stays as 1."""
        call = self.call_of(x, Mean)
        if call is None or not shape_of(call.args[0]):
            return None
        attrs: Any = attrs_of(call)
        axis = attrs.axis if isinstance(attrs.axis, int) else tuple(attrs.axis or ())
        last = call.args[0].struct_info.ndim - 1
        return call.args[0] if attrs.keepdims and axis in (-1, last, (-1,), (last,)) else None

    def squared(self, x: Any) -> Any:
        """What `x` is the square of."""
        call = self.call_of(x, Square)
        if call is not None:
            return call.args[0]
        scale, parts = self.factors(x)
        return parts[0] if scale == 1.0 and len(parts) == 2 and parts[0] is parts[1] else None

    def centred(self, x: Any) -> Any:
        """The tensor whose mean was taken off, if x is such a difference."""
        call = self.call_of(x, Subtract)
        if call is None:
            return None
        source, mean = call.args
        return source if self.last_mean(mean) is source else None

    @rule("FuseLayerNorm")
    def weighted(self, x: Any, weight: Any, operator: type[OpDecl]) -> Any:
        """The normalisation that `x` is, with the weight in it; None where it cannot be."""
        call = self.call_of(x, LayerNorm, RmsNorm)
        if call is None or self.use_count(x) != 1 or not _is_line(weight, x):
            return None
        if called(call) is RmsNorm:
            plain = operator is Multiply and x in self.unweighted
            return _with(call, 1, weight) if plain else None
        attrs: Any = attrs_of(call)
        if tuple(attrs.axes) not in ((-1,), (x.struct_info.ndim - 1,)) or attrs.center:
            return None
        if operator is Add:
            return _with(call, 2, weight, center=True)
        return None if attrs.scale else _with(call, 1, weight, scale=True)


def _is_one(x: Any) -> bool:
    data = getattr(x, "data", None)
    return data is not None and data.size == 1 and float(data.item()) == 1.0


def _is_line(weight: Any, x: Any) -> bool:
    """True if the weight has the last dimension of `x` and no other."""
    return dims_of(weight) is not None and dims_of(weight) == (shape_of(x) or [])[-1:]


def _with(call: Call, place: int, weight: Any, **changes: Any) -> Call:
    """The normalisation with another weight."""
    args = [*call.args[:place], weight, *call.args[place + 1 :]]
    return Call(call.op, tuple(args), dataclasses.replace(attrs_of(call), **changes))  # type: ignore[type-var]
