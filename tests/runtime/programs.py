"""Small programs for the tests of the runtime, in text, and what NumPy says they mean."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

import mlcnb as mlc
from mlcnb.script import parse

HEAD = """
from mlcnb.script import ir as I
from mlcnb.script import relax as R
from mlcnb.script import tir as T

@I.ir_module
class Module:
"""

#: name -> the functions of a module
TEXTS = {
    "relu_add": """
    @R.function
    def main(x: R.Tensor((2, 3), "float32"), y: R.Tensor((3,), "float32")):
        with R.dataflow():
            a = R.add(x, y)
            gv = R.nn.relu(a)
            R.output(gv)
        return gv
""",
    "softmax_any": """
    @R.function
    def main(x: R.Tensor(("n", "m"), "float32"), y: R.Tensor(("m",), "float32")):
        n = T.int64()
        m = T.int64()
        with R.dataflow():
            a = R.add(x, y)
            gv = R.nn.softmax(a, axis=-1)
            R.output(gv)
        return gv
""",
    "chain": """
    @R.function
    def main(x: R.Tensor(("n", 64), "float32")):
        n = T.int64()
        with R.dataflow():
            a = R.sum(x, axis=[1], keepdims=True)
            b = R.subtract(x, a)
            c = R.mean(b, axis=[0], keepdims=True)
            d = R.multiply(b, c)
            e = R.nn.softmax(d, axis=-1)
            gv = R.matmul(e, R.permute_dims(x, axes=[1, 0]))
            R.output(gv)
        return gv
""",
    "three_results": """
    @R.function
    def main(x: R.Tensor((2, 3), "float32")):
        with R.dataflow():
            a = R.exp(x)
            gv = (a, x, (a, R.negative(x)))
            R.output(gv)
        return gv
""",
    "identity": """
    @R.function
    def main(x: R.Tensor((2, 3), "float32")):
        return x
""",
    "tuple_in": """
    @R.function
    def main(t: R.Tuple(R.Tensor((2,), "float32"), R.Tensor((2,), "float32"))):
        with R.dataflow():
            gv = R.subtract(t[0], t[1])
            R.output(gv)
        return gv
""",
    "branch": """
    @R.function
    def main(c: R.Tensor((), "bool"), x: R.Tensor((3,), "float32")):
        if c:
            a = R.exp(x)
            r = R.add(a, x)
        else:
            b = R.negative(x)
            r = R.multiply(b, x)
        return r
""",
    "match_cast": """
    @R.function
    def main(x: R.Tensor(dtype="float32", ndim=2)):
        n = T.int64()
        y = R.match_cast(x, R.Tensor((n, 4), "float32"))
        z = R.add(y, y)
        return z
""",
    "unique": """
    @R.function
    def main(x: R.Tensor((6,), "float32")):
        a = R.unique(x, sorted=True)
        n = T.int64()
        b = R.match_cast(a, R.Tensor((n,), "float32"))
        c = R.exp(b)
        return c
""",
    "nonzero": """
    @R.function
    def main(x: R.Tensor((2, 3), "float32")):
        a = R.nonzero(x)
        return a
""",
    "packed": """
    @R.function(pure=False)
    def main(x: R.Tensor((3,), "float32")):
        a = R.call_packed("tests.double", x, sinfo_args=R.Tensor((3,), "float32"))
        b = R.call_dps_packed("tests.add_into", (a, x), out_sinfo=R.Tensor((3,), "float32"))
        return b
""",
    "calls_another": """
    @R.function
    def square(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
        y = R.multiply(x, x)
        return y

    @R.function
    def main(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
        cls = Module
        a = cls.square(x)
        b = cls.square(a)
        return b
""",
    "matmul_kernel": """
    @T.prim_func
    def matmul(
        A: T.Buffer((8, 16), "float32"),
        B: T.Buffer((16, 4), "float32"),
        C: T.Buffer((8, 4), "float32"),
    ):
        for i, j, k in T.grid(8, 4, 16):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
""",
}


def module(name: str) -> mlc.IRModule:
    """A program of `TEXTS`, read."""
    return parse(HEAD + TEXTS[name])


@cache
def compiled(name: str, target: str = "llvm") -> Any:
    """A program of `TEXTS`, compiled once."""
    return mlc.compile(module(name), target=target)


def random(*shape: int, seed: int = 0) -> np.ndarray:
    """Normal float32 values, the same at every call."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def softmax(x: np.ndarray) -> np.ndarray:
    """Softmax over the last axis."""
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def chain(x: np.ndarray) -> np.ndarray:
    """What the program `chain` means."""
    b = x - x.sum(axis=1, keepdims=True)
    return softmax(b * b.mean(axis=0, keepdims=True)) @ x.T
