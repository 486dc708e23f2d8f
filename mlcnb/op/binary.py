"""Arithmetic of two tensors, element by element, broadcast: add, divide, mod, power, maximum …

Two divisions and two remainders:
    divide        floats: a / b; integers: towards zero, as C and ONNX's Div
    floor_divide  floor(a / b)
    mod           the remainder of divide, with the sign of a (C's fmod, ONNX's Mod with fmod=1)
    floor_mod     the remainder of floor_divide, with the sign of b (Python's %, ONNX's Mod)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np

from mlcnb import te
from mlcnb.core.errors import ExecutionError
from mlcnb.ir import prim_ops as p
from mlcnb.ir.dtype import DType, dtype
from mlcnb.ir.expr import Let, PrimExpr, Var
from mlcnb.op._dims import broadcast_dims, broadcast_index
from mlcnb.op._elementwise import (
    ANY,
    FLOATS,
    NUMBERS,
    Elementwise,
    binary,
    in_float32,
    legacy_broadcast,
    loop_in_float32,
)
from mlcnb.op._loops import held, hold, load, nest, scratch, seq, store, with_scratch
from mlcnb.op._spell import call
from mlcnb.op.onnx import OnnxNode, onnx
from mlcnb.relax.expr import Expr, const
from mlcnb.relax.operator import Tensor, make_call, operator
from mlcnb.tir.buffer import Buffer
from mlcnb.tir.stmt import IfThenElse, Stmt, While

# addition, multiplication, extremes

Add = binary("add", NUMBERS, "x1 + x2", onnx="Add")
Subtract = binary("subtract", NUMBERS, "x1 - x2", onnx="Sub")
Multiply = binary("multiply", NUMBERS, "x1 * x2", onnx="Mul")
Maximum = binary("maximum", ANY, "The larger; NaN where one is NaN", torch="maximum max.other")
Minimum = binary("minimum", ANY, "The smaller; NaN where one is NaN", torch="minimum min.other")
Add.commutative = Multiply.commutative = True
Add.neutral = Subtract.neutral = 0
Multiply.neutral = 1
for _made in (Add, Subtract, Multiply, Maximum, Minimum):
    _made.finite = True

# divisions and remainders


def _of_integers(fn: Callable[..., Any], name: str) -> Callable[..., Any]:
    """`fn` for whole numbers, which refuses to divide by 0."""

    def run(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        if not np.all(b):
            raise ExecutionError(f"{name}: an integer is divided by 0")
        return fn(a, b)

    return run


def _truncated(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a / b towards zero."""
    down = a // b
    return down + ((down * b != a) & ((a < 0) != (b < 0))).astype(a.dtype)


def _by_kind(name: str, floats: Callable, integers: Callable) -> Callable[..., Any]:
    """One function for floats, another for integers, of NumPy arrays."""
    whole = _of_integers(integers, name)

    def run(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return (floats if dtype(a.dtype.name).is_float else whole)(a, b)

    return run


def _loop_by_kind(floats: Callable, integers: Callable) -> Callable[..., PrimExpr]:
    """One function for floats, another for integers, of expressions."""

    def run(a: PrimExpr, b: PrimExpr) -> PrimExpr:
        return (floats if a.dtype.is_float else integers)(a, b)

    return run


@in_float32
def _floor_divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Half precision would round the quotient up to a whole number that it lies below."""
    return np.floor(a / b)


def _floor_mod(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    """fmod, moved to the sign of b; a zero takes the sign of b too, and infinity stays b."""
    rest = Var("rest", a.dtype)
    zero = p.const(0, a.dtype)
    other_side = te.Select(rest < zero, b > zero, te.Select(rest > zero, b < zero, p.const(False)))
    moved = te.Select(other_side, rest + b, te.Select(rest.equal(zero), te.copysign(zero, b), rest))
    return Let(rest, te.fmod(a, b), moved)


Divide = binary(
    "divide",
    NUMBERS,
    "x1 / x2; of integers towards zero",
    meaning=_by_kind("divide", np.divide, _truncated),
    loop=_loop_by_kind(p.div, p.truncdiv),
    onnx="Div",
)
Divide.neutral = 1
Add.line = staticmethod(lambda c: (np.ones_like(c), c))
Subtract.line = staticmethod(lambda c: (np.ones_like(c), -c))
Multiply.line = staticmethod(lambda c: (c, np.zeros_like(c)))
Divide.line = staticmethod(lambda c: (1 / c, np.zeros_like(c)))
FloorDivide = binary(
    "floor_divide",
    NUMBERS,
    "floor(x1 / x2)",
    meaning=_by_kind("floor_divide", _floor_divide, np.floor_divide),
    loop=_loop_by_kind(loop_in_float32(p.floordiv), p.floordiv),
    torch="floor_divide",
)
Mod = binary(
    "mod",
    NUMBERS,
    "The remainder of x1 / x2 with the sign of x1",
    meaning=_by_kind("mod", np.fmod, np.fmod),
    loop=_loop_by_kind(te.fmod, p.truncmod),
    torch="fmod",
)
FloorMod = binary(
    "floor_mod",
    NUMBERS,
    "The remainder of x1 / x2 with the sign of x2",
    meaning=_by_kind("floor_mod", np.mod, np.mod),
    loop=_loop_by_kind(_floor_mod, p.floormod),
    torch="remainder",
)

# powers, logarithms, angles


def _power(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """C's pow, or integers multiplied.

    Of a single exponent NumPy asks whether it is 0.5, and then takes the square root, which differs
    at -0.0 and -inf: so each element gets an exponent of its own. Of float32, NumPy is off by up to
    four units in the last place where it has AVX-512: so those are raised in float64.
    """
    a, b = (np.array(x) for x in np.broadcast_arrays(a, b))
    if not dtype(a.dtype.name).is_int:
        wide = np.dtype("float64") if a.dtype == np.float32 else a.dtype
        made = np.power(a.reshape(-1).astype(wide), b.reshape(-1).astype(wide))
        with np.errstate(over="ignore"):
            return made.astype(a.dtype).reshape(a.shape)
    inverse = np.where(a == 1, 1, np.where(a == -1, 1 - 2 * (b & 1), 0))
    return np.where(b < 0, inverse, np.power(a, np.maximum(b, 0)))


@operator("relax.power")
class Power(Elementwise):
    """x1 ** x2, elementwise.

    Of integers by repeated squaring, wrapping; with a negative exponent the fraction is cut off, so
    that only 1 and -1 do not give 0.
    """

    takes_scalars = True
    neutral = 1

    x1: Tensor
    x2: Tensor
    meaning = staticmethod(_power)
    loop = staticmethod(te.power)
    cost = 8

    def compute(self, *tensors: Any) -> Any:
        """One loop nest; for integers, with a loop over the bits of the exponent inside. An
        expression among the tensors is a scalar.
        """
        kind = tensors[0].dtype
        if kind.is_float:
            return Elementwise.compute(self, *tensors)
        inputs = [t for t in tensors if isinstance(t, te.Tensor)]

        def loops(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> Stmt:
            buffers = iter(ins)
            base, exponent = (next(buffers) if isinstance(t, te.Tensor) else t for t in tensors)
            return _square_and_multiply(base, exponent, outs[0])

        shape = broadcast_dims([t.shape for t in inputs])
        return te.extern(shape, inputs, loops, "power", kind)


def _square_and_multiply(x1: Buffer | PrimExpr, x2: Buffer | PrimExpr, out: Buffer) -> Stmt:
    """out = 1; for each bit of the exponent, lowest first: out *= base if it is 1; base *= base."""
    base, left = scratch("base", out.dtype), scratch("left", out.dtype)

    def read(x: Buffer | PrimExpr, i: Sequence[Var]) -> PrimExpr:
        return load(x, *broadcast_index(i, x.shape, out.shape)) if isinstance(x, Buffer) else x

    def element(*i: Var) -> Stmt:
        a, b = read(x1, i), read(x2, i)
        step = seq(
            IfThenElse((held(left) & 1).equal(1), store(out, i, load(out, *i) * held(base))),
            hold(base, held(base) * held(base)),
            hold(left, held(left) >> 1),
        )
        return seq(
            hold(base, a),
            hold(left, b),
            store(out, i, _start(a, b)),
            While(p.greater(held(left), 0), step),
        )

    return with_scratch([base, left], nest(out.shape, element), name="power_bits")


def _start(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    """1, or for a negative exponent the whole result."""
    one = p.const(1, a.dtype)
    if a.dtype.is_uint:
        return one
    sign = te.Select((b & 1).equal(0), one, p.neg(one))
    inverse = te.Select(a.equal(1), one, te.Select(a.equal(-1), sign, p.const(0, a.dtype)))
    return te.Select(b < 0, inverse, one)


@in_float32
def _log_add_exp(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.logaddexp(a, b)


@loop_in_float32
def _log_add_exp_loop(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    """The larger and what the other adds to it; two equal infinities have no difference."""
    apart = p.maximum(a, b) + te.log1p(te.exp(p.neg(te.abs(a - b))))
    return te.Select(a.equal(b), a + p.const(math.log(2), a.dtype), apart)


LogAddExp = binary(
    "log_add_exp",
    FLOATS,
    "log(e ** x1 + e ** x2)",
    meaning=_log_add_exp,
    loop=_log_add_exp_loop,
    torch="logaddexp",
    cost=6,
)
Atan2 = binary(
    "atan2",
    FLOATS,
    "The angle of the point (x2, x1)",
    meaning=np.arctan2,
    loop=te.atan2,
    torch="atan2",
)


@onnx("Mod")
def onnx_mod(n: OnnxNode, a: Expr, b: Expr) -> Expr:
    """`fmod` says whose sign the remainder has."""
    return make_call(Mod if n.attr("fmod", 0) else FloorMod, a, b)


@onnx("Pow")
def onnx_pow(n: OnnxNode, x: Expr, y: Expr) -> Expr:
    """The exponent may have another dtype; squares and cubes are multiplications."""
    x, y = legacy_broadcast(n, (x, y))
    kind, power = dtype(n.dtype(x)), n.known(y)
    if power is not None and power.size == 1 and len(n.dims(x)) >= power.ndim:
        if power.item() == 2:
            return make_call(Multiply, x, x)
        if power.item() == 3:
            return make_call(Multiply, n.emit(make_call(Multiply, x, x)), x)
    if n.dtype(y) == kind:
        return make_call(Power, x, y)
    return _mixed_power(n, x, y, kind)


def _mixed_power(n: OnnxNode, x: Expr, y: Expr, kind: DType) -> Expr:
    """In a dtype that holds both, then rounded to that of x."""
    if kind.is_integer and dtype(n.dtype(y)).is_integer:
        common = "int64"
    else:
        common = "float64"
    a, b = (n.emit(call("relax.astype", v, dtype=common)) for v in (x, y))
    return call("relax.astype", n.emit(make_call(Power, a, b)), dtype=kind)


def _from_left(n: OnnxNode, decl: Any, inputs: Sequence[Expr]) -> Expr:
    """One or more inputs, as calls of an operator of two."""
    return reduce(lambda a, b: n.emit(make_call(decl, a, b)), inputs)


_VARIADIC = {"Max": Maximum, "Min": Minimum, "Sum": Add}


@onnx("Max")
@onnx("Min")
@onnx("Sum")
def onnx_variadic(n: OnnxNode, *inputs: Expr) -> Expr:
    """Of all inputs, from the left."""
    return _from_left(n, _VARIADIC[n.op_type], inputs)


@onnx("Mean")
def onnx_mean(n: OnnxNode, *inputs: Expr) -> Expr:
    """The sum of all inputs, divided by how many they are."""
    total = _from_left(n, Add, inputs)
    return make_call(Divide, total, const(float(len(inputs)), n.dtype(total)))
