"""SinkReshape: what is done to each element of a product comes before the product is reshaped.

m = R.matmul(w, x)                       m = R.matmul(w, x)
y = R.reshape(m, (1, 136, 28, 28))       m1 = R.add(m, bias1)                  bias1: (1, 4, 34, 1)
z = R.add(y, bias)                 ->    z = R.reshape(m1, (1, 136, 28, 28))

A bias, an activation or a residual is then part of the product's kernel, whose results are still in
registers; the reshape costs nothing, for it only names the same memory anew.
"""

from __future__ import annotations

import math
from itertools import takewhile
from typing import Any

import numpy as np

from mlcnb.core.node import replace
from mlcnb.ir.prim_ops import as_int
from mlcnb.ir.rules import rule
from mlcnb.op.linear_algebra.matmul import Matmul
from mlcnb.op.manipulate.reshape import Reshape
from mlcnb.relax import op
from mlcnb.relax.analysis.struct_info import of_one_shape, same_dim
from mlcnb.relax.expr import Call, Constant, Var, const
from mlcnb.relax.operator import called
from mlcnb.relax.struct_info import TensorStructInfo
from mlcnb.relax.transform.written_out import (
    CallPass,
    Reader,
)

#: a constant of more elements than this is not written out to find its new shape
MAX_CONSTANT = 1 << 22


class SinkReshape(CallPass, says="reshapes moved behind elementwise operators"):
    """Move reshapes of products behind the elementwise operators that follow.

    Known shapes; the other operand has the reshaped shape and dtype, has only last axes, which the
    reshape keeps, or is a constant that can be written in the shape of the product. Others stay,
    none is refused.
    """


class _Sinker(Reader, of=SinkReshape):
    def __init__(self, functions: Any, options: Any) -> None:
        super().__init__(functions, options)
        #: products, and what was done to the elements of products
        self.products: set[Var] = set()

    @rule("SinkReshape", "elementwise")
    def visit_call(self, call: Call, var: Var) -> Any:
        """An elementwise operator on a reshaped product comes before the reshape."""
        operator = called(call)
        if operator is Matmul:
            self.products.add(var)
        if not operator.elementwise:
            return None
        tensors = sum(isinstance(a.struct_info, TensorStructInfo) for a in call.args)
        if tensors == 1 and self.reshaped(call.args[0]) is not None:
            return self.sunk(call, 0, ())
        if tensors == len(call.args) == 2:
            for place in (0, 1):
                other = self.other_operand(call, var, place)
                if other is not None:
                    return self.sunk(call, place, (other,))
        return None

    def reshaped(self, x: Any) -> Any:
        """The product of which `x` is a reshape that nobody else uses; else None."""
        made = self.value_of(x)
        if not isinstance(x, Var) or called(made) is not Reshape or self.use_count(x) != 1:
            return None
        return made.args[0] if made.args[0] in self.products else None

    def other_operand(self, call: Call, var: Var, place: int) -> Any:
        """The other operand in the shape of the product; None where that cannot be."""
        x, other = call.args[place], call.args[1 - place]
        product = self.reshaped(x)
        if product is None or not of_one_shape(var, x):
            return None
        dims = product.struct_info.dims
        if isinstance(other, Constant):
            return _constant_in_shape(other, x.struct_info.dims, dims)
        if 0 <= other.struct_info.ndim <= _kept_axes(x.struct_info.dims, dims):
            return other
        if not of_one_shape(other, x) or other.struct_info.dtype != x.struct_info.dtype:
            return None
        made = self.value_of(other)
        if called(made) is Reshape and of_one_shape(made.args[0], product):
            return made.args[0]
        return self.emit(op.reshape(other, list(dims)))

    def sunk(self, call: Call, place: int, others: tuple[Any, ...]) -> Call:
        """The operator on the product, and then the reshape."""
        x = call.args[place]
        product = self.reshaped(x)
        args = list(call.args)
        args[place] = product
        if others:
            args[1 - place] = others[0]
        result = self.emit(replace(call, args=tuple(args), struct_info=None))
        self.products.add(result)
        self.found += 1
        return op.reshape(result, list(x.struct_info.dims))


def _kept_axes(a: Any, b: Any) -> int:
    """How many of the last axes are the same in both shapes."""
    pairs = zip(reversed(a), reversed(b), strict=False)
    return sum(1 for _ in takewhile(lambda pair: same_dim(*pair), pairs))


def _constant_in_shape(given: Constant, dims: Any, wanted: Any) -> Constant | None:
    """A constant that is broadcast to `dims`, for `wanted`, with each axis of equal values 1."""
    if given.data.shape[-1:] == (given.data.size,) and same_dim(dims[-1], wanted[-1]):
        return const(given.data.reshape(-1), given.struct_info.dtype)
    old, new = [as_int(d) for d in dims], [as_int(d) for d in wanted]
    if None in old or None in new or math.prod(map(int, old)) > MAX_CONSTANT:  # type: ignore[arg-type]
        return None
    full = np.broadcast_to(given.data, old).reshape(new)  # type: ignore[arg-type]
    for axis in range(full.ndim):
        first = full.take([0], axis)
        if (full == first).all():
            full = first
    return const(np.ascontiguousarray(full), given.struct_info.dtype)
