"""Random tensors that are a function of their seed (random.uniform, random.normal), and draws of
classes: multinomial_from_uniform, and ONNX's Multinomial made of it.

Element i is a hash of i and the seed, so that loops may run in any order, on any machine, and give
the same numbers:
    bits = mix(i + mix(seed))         uniform = (bits >> 8) / 2 ** 24
    normal = sqrt(-2 log(1 - u)) cos(2 pi v),  of two uniform numbers u and v (Box and Muller)
The mixer is "lowbias32" of https://nullprogram.com/blog/2018/07/31/.
"""

from __future__ import annotations

import math
import zlib
from typing import Any

import numpy as np

from mlcnb import te
from mlcnb.ir import prim_ops as p
from mlcnb.ir.dtype import dtype
from mlcnb.ir.expr import Let, PrimExpr, Var
from mlcnb.op._dims import as_int, ravel, refuse, tell, tensor, want_rank, want_same_dtype
from mlcnb.op._elementwise import FLOATS, INTEGERS, want_kinds
from mlcnb.op._spell import affordable, call, dtype_of
from mlcnb.op.onnx import OnnxNode, onnx
from mlcnb.op.scan import Cumsum
from mlcnb.relax.expr import Expr, const
from mlcnb.relax.operator import OpDecl, Shape, Tensor, make_call, operator

_FIRST, _SECOND = 0x7FEB352D, 0x846CA68B


def _mix(x: Any) -> Any:
    """The bits of uint32 arrays, mixed."""
    x = (x ^ (x >> 16)) * np.uint32(_FIRST)
    x = (x ^ (x >> 15)) * np.uint32(_SECOND)
    return x ^ (x >> 16)


def _mixed(x: PrimExpr) -> PrimExpr:
    """The bits of a uint32 expression, mixed."""
    a, b, c = (Var(name, dtype("uint32")) for name in ("a", "b", "c"))
    one = (a ^ (a >> 16)) * p.const(_FIRST, "uint32")
    two = (b ^ (b >> 15)) * p.const(_SECOND, "uint32")
    return Let(a, x, Let(b, one, Let(c, two, c ^ (c >> 16))))


def _key(seed: int) -> int:
    return int(_mix(np.array([seed & 0xFFFFFFFF], np.uint32))[0])


class _Generator(OpDecl):
    """Base of the generators."""

    __slots__ = ()
    seed: int
    dtype: str
    #: uniform numbers that an element takes
    takes = 1

    def infer(self, shape: Any) -> Any:
        """Tensor of that shape."""
        if not dtype(self.dtype).is_float:
            refuse(self, f"dtype must be a float, but is {self.dtype}")
        return tensor(shape.values, self.dtype, shape.ndim)

    def numpy(self, shape: Any) -> Any:
        """As the definition says, in float32"""
        index = np.arange(math.prod(shape), dtype=np.uint32) * np.uint32(self.takes)
        drawn = []
        for k in range(self.takes):
            bits = _mix(index + np.uint32(k) + np.uint32(_key(self.seed)))
            drawn.append((bits >> 8).astype(np.float32) * np.float32(2**-24))
        return self.shaped(np, *drawn).astype(dtype(self.dtype).numpy).reshape(shape)

    def compute(self, shape: Any) -> Any:
        """One loop nest."""

        def element(*index: Any) -> Any:
            place = p.cast("uint32", ravel(index, shape)) * self.takes
            drawn = []
            for k in range(self.takes):
                bits = _mixed(place + p.const((_key(self.seed) + k) & 0xFFFFFFFF, "uint32"))
                drawn.append(p.cast("float32", bits >> 8) * p.const(2**-24, "float32"))
            return p.cast(self.dtype, self.shaped(te, *drawn))

        return te.compute(tuple(shape), element, name=self.sugar.replace(".", "_"))

    def shaped(self, functions: Any, *uniform: Any) -> Any:
        """The distribution, from uniform numbers in [0, 1), with `functions` of NumPy or te."""
        raise NotImplementedError


@operator("relax.random.uniform")
class Uniform(_Generator):
    """Numbers from `low` to `high`, all alike; the same for the same seed."""

    shape: Shape
    low: float = 0.0
    high: float = 1.0
    seed: int = 0
    dtype: str = "float32"

    def shaped(self, functions: Any, *uniform: Any) -> Any:
        """low + (high - low) * u"""
        return uniform[0] * float(np.float32(self.high - self.low)) + float(np.float32(self.low))


@operator("relax.random.normal")
class Normal(_Generator):
    """Numbers around `mean` with standard deviation `scale`; the same for the same seed."""

    shape: Shape
    mean: float = 0.0
    scale: float = 1.0
    seed: int = 0
    dtype: str = "float32"
    takes = 2

    def shaped(self, functions: Any, *uniform: Any) -> Any:
        """Box and Muller's."""
        u, v = uniform
        radius = functions.sqrt(functions.log(1.0 - u) * -2.0)
        return radius * functions.cos(v * (2 * math.pi)) * self.scale + self.mean


# ONNX: without a seed, one is made of the node's name, so that a model gives the same in every run


def seed_of(n: OnnxNode) -> int:
    """The seed of a node: what is given, or a number made of its name."""
    given = n.attr("seed")
    if given is None:
        return zlib.crc32(n.name.encode())
    return int(np.array([given], np.float32).view(np.uint32)[0])


def _spelled(op_type: str, decl: Any, **options: float) -> None:
    """ONNX's random tensor of a shape that is an attribute, and the one like another tensor."""

    def drawn(n: OnnxNode, shape: Any, default: str) -> Expr:
        given = {name: n.attr(name, value) for name, value in options.items()}
        kind = dtype_of(n, "dtype", default)
        return make_call(decl, shape, **given, seed=seed_of(n), dtype=kind)

    @onnx(op_type)
    def of_shape(n: OnnxNode) -> Expr:
        """`shape` is an attribute."""
        return drawn(n, n.require("shape"), "float32")

    @onnx(f"{op_type}Like")
    def like_other(n: OnnxNode, like: Expr) -> Expr:
        """Shape, and dtype unless it is given, are those of the input."""
        return drawn(n, n.dims(like), n.dtype(like))


_spelled("RandomUniform", Uniform, low=0.0, high=1.0)
_spelled("RandomNormal", Normal, mean=0.0, scale=1.0)


@onnx("Bernoulli")
def onnx_bernoulli(n: OnnxNode, probability: Expr) -> Expr:
    """1 with the probability that the input gives, else 0."""
    kind = n.dtype(probability)
    drawn = n.emit(make_call(Uniform, n.dims(probability), seed=seed_of(n), dtype=kind))
    found = n.emit(call("relax.less", drawn, probability))
    return call("relax.astype", found, dtype=dtype_of(n, "dtype", kind))


_cumsum: Any = Cumsum
along_classes = _cumsum(axis=1)


@operator("relax.multinomial_from_uniform")
class MultinomialFromUniform(OpDecl):
    """Draws by given random numbers: which class the number falls in, of the class probabilities.

    prob: (batch, classes). uniform_sample, sample_indices: (n, 1), a number in [0, 1) and the row
    of `prob` that it draws from. Result: (n, 1), the first class up to which the probabilities sum
    to more than the number; the last class where they do not.
    """

    prob: Tensor
    uniform_sample: Tensor
    sample_indices: Tensor
    dtype: str = "int64"

    def infer(self, prob: Any, uniform_sample: Any, sample_indices: Any) -> Any:
        """(n, 1)"""
        want_kinds(self, FLOATS, prob=prob, uniform_sample=uniform_sample)
        want_kinds(self, INTEGERS, sample_indices=sample_indices)
        want_same_dtype(self, prob=prob, uniform_sample=uniform_sample)
        given = {"prob": prob, "uniform_sample": uniform_sample, "sample_indices": sample_indices}
        for name, info in given.items():
            want_rank(self, name, info, 2)
        if not dtype(self.dtype).is_integer:
            refuse(self, f"dtype {self.dtype} holds no classes, for {tell(prob)}")
        return tensor(uniform_sample.dims, self.dtype, 2)

    def numpy(self, prob: Any, uniform_sample: Any, sample_indices: Any) -> Any:
        """As said above"""
        total = along_classes.numpy(prob)[sample_indices[:, 0]]
        passed = np.sum(total <= uniform_sample, axis=1, keepdims=True)
        return np.minimum(passed, prob.shape[1] - 1).astype(dtype(self.dtype).numpy)

    def compute(self, prob: Any, uniform_sample: Any, sample_indices: Any) -> Any:
        """A running sum, a count of what it passes, and the bound."""
        total = along_classes.compute(prob)
        classes = prob.shape[1]
        k = te.reduce_axis((0, classes), name="k")

        def passed(i: Any, j: Any) -> Any:
            row = sample_indices(i, j)
            below = p.less_equal(total(row, k), uniform_sample(i, j))
            return te.sum(p.cast(self.dtype, below), axis=k)

        counts = te.compute(uniform_sample.shape, passed, name="passed")
        last = p.cast(self.dtype, classes - 1)
        name = "multinomial_from_uniform"
        return te.compute(counts.shape, lambda i, j: p.minimum(counts(i, j), last), name=name)


@onnx("Multinomial")
def onnx_multinomial(n: OnnxNode, x: Expr) -> Expr:
    """`sample_size` classes for each row of x, which holds logarithms of weights."""
    rows, each = as_int(n.dims(x)[0]), n.attr("sample_size", 1)
    if rows is None:
        n.refuse("the number of rows is not known")
    count = rows * each
    prob = n.emit(call("relax.nn.softmax", x, axis=-1))
    drawn = n.emit(make_call(Uniform, (count, 1), seed=seed_of(n), dtype=n.dtype(x)))
    affordable(n, "the rows", rows, each)
    row = const(np.repeat(np.arange(rows), each).reshape(count, 1))
    kind = dtype_of(n, "dtype", "int32")
    found = n.emit(make_call(MultinomialFromUniform, prob, drawn, row, kind))
    return call("relax.reshape", found, (rows, each))
