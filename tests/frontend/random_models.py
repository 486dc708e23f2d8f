"""ONNX models of a few operators, drawn at random: of all dtypes, of odd and of open sizes.

Each operator runs as it is drawn, in ONNX's own reference, so that what is drawn next knows the
sizes and the numbers of what is there. A model is a seed.

    python -m tests.frontend.random_models 0 500            fixed sizes
    python -m tests.frontend.random_models 0 500 --open     open ones, run at two sets of sizes
"""

from __future__ import annotations

import argparse
import random
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import mlcnb as mlc
from tests.frontend.suite import PRECISION, Case, compare
from tests.frontend.sweeps import by_peer

#: opset of the models
OPSET = 21
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
FLOATS = [np.dtype(t) for t in ("float32", "float16", "float64")] + [BFLOAT16]
WHOLE = [np.dtype(t) for t in ("int64", "int32", "int8", "uint8", "int16", "uint32")]
BOOL = np.dtype("bool")
#: of the numbers that a model starts with, as often as they are met
KINDS = [FLOATS[0]] * 5 + [FLOATS[1], FLOATS[3], FLOATS[2], *WHOLE[:4], WHOLE[0], BOOL]
#: sizes of inputs
SIZES = [1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 17, 31, 33]
#: those of one model in four
LARGE = [1, 3, 16, 32, 49, 64, 96, 100, 128, 130, 257]
#: what open sizes become
OTHERS = (lambda n: n + 2, lambda n: 1)
#: what no value has more elements than, and no number is larger than
MOST, LARGEST = 200_000, 1e4

#: what steps: a number that is rounded otherwise may land on the other side
STEEP = set(
    """Floor Ceil Sign Round Equal Less Greater LessOrEqual GreaterOrEqual Mod ArgMax ArgMin
TopK Hardmax NonZero QuantizeLinear ThresholdedRelu""".split()
)
#: whose results are the same bits, however they are computed, where their inputs are
EXACT = STEEP | set(
    """Abs Neg Relu Identity Not BitwiseNot Add Sub Mul Max Min And Or Xor
BitwiseAnd BitwiseOr BitwiseXor Where Clip Cast Transpose Reshape Flatten Squeeze Unsqueeze Concat
Split Slice Pad Gather GatherElements Expand Tile Shape ConstantOfShape Trilu OneHot
ReverseSequence Compress MatMulInteger IsNaN IsInf ReduceMax ReduceMin""".split()
)
#: where ONNX's reference is wrong: asymmetric pads, ceil_mode, ranks, even sizes, ties
BY_PEER = {"MaxPool", "AveragePool", "LpPool", "LRN", "Resize", "GlobalMaxPool", "ConvTranspose"}


class Draft:
    """A model as it is drawn: its nodes, and what each value holds."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.nodes: list[Any] = []
        self.inputs: list[str] = []
        self.stored: dict[str, np.ndarray] = {}
        self.held: dict[str, np.ndarray] = {}
        self.rounded: set[str] = set()

    def pick(self, *dtypes: np.dtype[Any], least: int = 0, most: int = 6) -> str | None:
        """A value of one of these dtypes, of so many dimensions; the latest ones more often."""
        names = [
            n for n, x in self.held.items()
            if n not in self.stored and least <= x.ndim <= most
            and (not dtypes or x.dtype in dtypes) and x.size
        ]  # fmt: skip
        return self.rng.choice(names[-3:] if self.rng.random() < 0.7 else names) if names else None

    def store(self, array: Any) -> str:
        """A constant."""
        name = f"c{len(self.stored)}"
        self.stored[name] = self.held[name] = np.asarray(array)
        return name

    def numbers(self, shape: Any, dtype: np.dtype[Any]) -> np.ndarray:
        """Small numbers, eighths where they are floats: most sums of them are exact."""
        made = np.random.default_rng(self.rng.randrange(1 << 30))
        if dtype == BOOL:
            return made.integers(0, 2, shape).astype(dtype)
        if dtype in FLOATS:
            return np.asarray(made.integers(-16, 17, shape) / 8).astype(dtype)
        return np.asarray(made.integers(0 if dtype.kind == "u" else -5, 6, shape)).astype(dtype)

    def emit(self, op: str, inputs: list[str], outputs: int = 1, **attributes: Any) -> str | None:
        """A node more, where the reference runs it and its numbers are small; its first output."""
        is_rounded = op not in EXACT or not self.rounded.isdisjoint(inputs)
        if is_rounded and (op in STEEP or op == "Cast" and self.to_whole(inputs[0], attributes)):
            return None
        names = [f"v{len(self.held)}_{i}" for i in range(outputs)]
        node = helper.make_node(op, inputs, names, **attributes)
        given = {n: self.held[n] for n in inputs if n}
        kinds = [_info(n, x) for n, x in given.items()]
        try:
            found = reference(_model([node], kinds, [_named(n) for n in names]), given)
        except Exception:  # noqa: BLE001 (what the reference says no to is not drawn)
            return None
        if not all(isinstance(x, np.ndarray | np.generic) and _is_small(x) for x in found):
            return None
        if is_rounded and any(np.asarray(x).dtype in FLOATS for x in found):
            self.rounded |= set(names)
        self.nodes.append(node)
        self.held |= zip(names, map(np.asarray, found), strict=True)
        return names[0]

    def to_whole(self, name: str, attributes: Any) -> bool:
        """Whether a cast of floats goes to whole numbers, or bool."""
        to = helper.tensor_dtype_to_np_dtype(attributes["to"])
        return self.held[name].dtype in FLOATS and to not in FLOATS

    def like(self, name: str) -> str:
        """What goes with a value: another one, or a constant, perhaps of sizes 1."""
        x, rng = self.held[name], self.rng
        same = [n for n, y in self.held.items() if y.dtype == x.dtype and _goes(x.shape, y.shape)]
        if rng.random() < 0.5:
            return rng.choice(same)
        shape = [1 if rng.random() < 0.4 else n for n in x.shape][rng.randint(0, x.ndim) :]
        return self.store(self.numbers(shape, x.dtype))

    def axis(self, name: str) -> int:
        """One of a value's axes, counted from either end."""
        rank = self.held[name].ndim
        return self.rng.randrange(-rank, rank)

    def model(self, outputs: list[str], is_open: bool) -> Any:
        """The whole, with a variable `n3` for each 3 of an input where sizes are open."""
        kinds = [_info(n, self.held[n], is_open) for n in self.inputs]
        used = {i for node in self.nodes for i in node.input}
        stored = [numpy_helper.from_array(x, n) for n, x in self.stored.items() if n in used]
        return _model(self.nodes, kinds, [_named(n, self.held[n]) for n in outputs], stored)


def _goes(a: Any, b: Any) -> bool:
    try:
        return np.broadcast_shapes(a, b) == tuple(a)
    except ValueError:
        return False


def _is_small(x: Any) -> bool:
    if x.size > MOST or x.size == 0 or x.ndim > 6:
        return False
    if x.dtype.kind not in "biuf" and x.dtype != BFLOAT16:
        return False
    wide = np.abs(np.asarray(x).astype(np.float64))
    return bool(np.isfinite(wide).all() and wide.max() < LARGEST)


def _info(name: str, x: np.ndarray, is_open: bool = False) -> Any:
    kind = helper.np_dtype_to_tensor_dtype(x.dtype)
    shape = [f"n{n}" if is_open and n > 1 else n for n in x.shape]
    return helper.make_tensor_value_info(name, kind, shape)


def _named(name: str, x: np.ndarray | None = None) -> Any:
    if x is None:
        return onnx.ValueInfoProto(name=name)
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), None)


def _model(nodes: Any, inputs: Any, outputs: Any, stored: Any = ()) -> Any:
    graph = helper.make_graph(nodes, "g", inputs, outputs, list(stored))
    opsets = [helper.make_opsetid("", OPSET)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def reference(model: Any, given: dict[str, np.ndarray]) -> list[Any]:
    """What ONNX Runtime makes of a model; where it does not run it, ONNX's reference."""
    found = by_peer(model, given)
    return by_reference(model, given) if found is None else found


def by_reference(model: Any, given: dict[str, np.ndarray]) -> list[Any]:
    """What ONNX's reference makes of a model."""
    assert BY_PEER.isdisjoint(node.op_type for node in model.graph.node)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return ReferenceEvaluator(model).run(None, given)


# operators ---------------------------------------------------------------------------------------

OF_FLOATS = """Abs Neg Relu Sigmoid Tanh Exp Sqrt Floor Ceil Sign Erf Softplus Softsign LeakyRelu
Elu Selu HardSigmoid HardSwish Gelu Mish Reciprocal Log Sin Cos IsNaN IsInf Celu ThresholdedRelu
Round Identity Atan Asinh""".split()
OF_WHOLE = "Abs Neg Sign BitwiseNot Identity".split()
REDUCED = """ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceLogSumExp
ReduceSumSquare ReduceLogSum""".split()


def unary(d: Draft) -> str | None:
    if (x := d.pick()) is None:
        return None
    dtype = d.held[x].dtype
    names = OF_FLOATS if dtype in FLOATS else ["Not"] if dtype == BOOL else OF_WHOLE
    return d.emit(d.rng.choice(names), [x])


def binary(d: Draft) -> str | None:
    if (x := d.pick()) is None:
        return None
    dtype = d.held[x].dtype
    names = "Add Sub Mul Div Max Min Equal Less Greater LessOrEqual GreaterOrEqual".split()
    if dtype == BOOL:
        names = "And Or Xor Equal".split()
    elif dtype in WHOLE:
        names += "BitwiseAnd BitwiseOr BitwiseXor Mod".split()
    else:
        names += ["PRelu", "Pow"]
    op, pair = d.rng.choice(names), [x, d.like(x)]
    if op not in ("PRelu", "Pow", "Mod", "Div") and d.rng.random() < 0.3:
        pair.reverse()
    if op in ("Mod", "Div") and dtype in WHOLE and not d.held[pair[1]].all():
        return None
    if op == "Mod" and d.rng.random() < 0.4:
        return d.emit(op, pair, fmod=1)
    return d.emit(op, pair)


def where(d: Draft) -> str | None:
    x = d.pick()
    if x is None:
        return None
    y = d.like(x)
    same = [n for n, c in d.held.items() if c.dtype == BOOL and _goes(d.held[x].shape, c.shape)]
    chosen = d.rng.choice(same) if same else d.store(d.numbers(d.held[x].shape[-1:], BOOL))
    return d.emit("Where", [chosen, x, y])


def clip(d: Draft) -> str | None:
    x = d.pick(*FLOATS, *WHOLE)
    if x is None:
        return None
    bounds = [d.store(np.asarray(v).astype(d.held[x].dtype)) for v in (1, 3)]
    return d.emit("Clip", [x, *d.rng.choice((bounds, bounds[:1], ["", bounds[1]]))])


def cast(d: Draft) -> str | None:
    """To another dtype that has all the numbers: what else becomes of them is left open."""
    x = d.pick()
    to = d.rng.choice(FLOATS + WHOLE + [BOOL])
    if x is None:
        return None
    if to in WHOLE:
        info, held = np.iinfo(to), d.held[x].astype(np.float64)
        if held.min() < info.min or held.max() > info.max:
            return None
    return d.emit("Cast", [x], to=helper.np_dtype_to_tensor_dtype(to))


def reduce(d: Draft) -> str | None:
    x = d.pick(FLOATS[0], *FLOATS, *WHOLE[:2], least=1)
    if x is None:
        return None
    if d.held[x].dtype == BFLOAT16 and d.held[x].size > 100:
        return None  # which the reference adds up in bfloat16
    rank, whole = d.held[x].ndim, d.held[x].dtype in WHOLE
    axes = sorted(d.rng.sample(range(rank), d.rng.randint(1, rank)))
    axes = [a - rank if d.rng.random() < 0.3 else a for a in axes]
    op = d.rng.choice(["ReduceSum", "ReduceMax", "ReduceMin"] if whole else REDUCED)
    keep = d.rng.randint(0, 1)
    if d.rng.random() < 0.15:
        return d.emit(op, [x], keepdims=keep)
    return d.emit(op, [x, d.store(np.array(axes, "int64"))], keepdims=keep)


def extreme(d: Draft) -> str | None:
    x = d.pick(*FLOATS[:2], *WHOLE[:4], least=1)
    if x is None:
        return None
    how = {"keepdims": d.rng.randint(0, 1), "select_last_index": d.rng.randint(0, 1)}
    return d.emit(d.rng.choice(["ArgMax", "ArgMin"]), [x], axis=d.axis(x), **how)


def top(d: Draft) -> str | None:
    x = d.pick(FLOATS[0], WHOLE[0], least=1)
    if x is None:
        return None
    axis = d.axis(x)
    k = d.store(np.array([d.rng.randint(1, d.held[x].shape[axis])]))
    return d.emit("TopK", [x, k], 2, axis=axis, largest=d.rng.randint(0, 1))


def scan(d: Draft) -> str | None:
    x = d.pick(FLOATS[0], FLOATS[2], *WHOLE[:2], least=1)
    if x is None:
        return None
    how = {"exclusive": d.rng.randint(0, 1), "reverse": d.rng.randint(0, 1)}
    return d.emit("CumSum", [x, d.store(np.array(d.axis(x)))], **how)


def soft(d: Draft) -> str | None:
    x = d.pick(*FLOATS, least=1)
    if x is None:
        return None
    return d.emit(d.rng.choice(["Softmax", "LogSoftmax", "Hardmax"]), [x], axis=d.axis(x))


def transpose(d: Draft) -> str | None:
    x = d.pick(least=2)
    if x is None:
        return None
    rank = d.held[x].ndim
    return d.emit("Transpose", [x], perm=d.rng.sample(range(rank), rank))


def reshape(d: Draft) -> str | None:
    """Neighbours joined, a size cut in two; zeros and -1 where they may stand."""
    x = d.pick(least=1)
    if x is None:
        return None
    shape, rng = list(d.held[x].shape), d.rng
    for _ in range(rng.randint(1, 2)):
        at = rng.randrange(len(shape))
        if rng.random() < 0.5 and at + 1 < len(shape):
            shape[at : at + 2] = [shape[at] * shape[at + 1]]
        else:
            part = rng.choice([n for n in range(1, shape[at] + 1) if shape[at] % n == 0])
            shape[at : at + 1] = [part, shape[at] // part]
    old = d.held[x].shape
    known = [0 if i < len(old) and n == old[i] and rng.random() < 0.7 else n
             for i, n in enumerate(shape)]  # fmt: skip
    if rng.random() < 0.7:
        known[rng.randrange(len(known))] = -1
    return d.emit("Reshape", [x, d.store(np.array(known, "int64"))])


def flatten(d: Draft) -> str | None:
    x = d.pick(least=1)
    return x and d.emit("Flatten", [x], axis=d.rng.randint(0, d.held[x].ndim))


def squeeze(d: Draft) -> str | None:
    x = d.pick(most=4)
    if x is None:
        return None
    ones = [i for i, n in enumerate(d.held[x].shape) if n == 1]
    if ones and d.rng.random() < 0.5:
        return d.emit("Squeeze", [x, d.store(np.array([d.rng.choice(ones)]))])
    return d.emit("Unsqueeze", [x, d.store(np.array([d.rng.randint(0, d.held[x].ndim)]))])


def concat(d: Draft) -> str | None:
    x = d.pick(least=1)
    if x is None:
        return None
    axis, this = d.axis(x), d.held[x]
    apart = [
        n for n, y in d.held.items() if y.dtype == this.dtype and y.ndim == this.ndim
        and np.delete(y.shape, axis).tolist() == np.delete(this.shape, axis).tolist()
    ]  # fmt: skip
    parts = [x, *d.rng.choices(apart, k=d.rng.randint(1, 3))]
    d.rng.shuffle(parts)
    return d.emit("Concat", parts, axis=axis)


def split(d: Draft) -> str | None:
    x = d.pick(least=1)
    if x is None:
        return None
    axis = d.axis(x)
    size, rng = d.held[x].shape[axis], d.rng
    if size < 2:
        return None
    count = rng.randint(2, min(3, size))
    if rng.random() < 0.5:
        first = d.emit("Split", [x], count, axis=axis, num_outputs=count)
    else:
        at = sorted(rng.sample(range(1, size), count - 1))
        sizes = np.diff([0, *at, size])
        first = d.emit("Split", [x, d.store(sizes.astype("int64"))], count, axis=axis)
    return first and first.replace("_0", f"_{rng.randrange(count)}")


def slice_(d: Draft) -> str | None:
    x = d.pick(least=1)
    if x is None:
        return None
    rank, rng = d.held[x].ndim, d.rng
    axes = rng.sample(range(rank), rng.randint(1, rank))
    rows = []
    for axis in axes:
        n = d.held[x].shape[axis]
        step = rng.choice([1, 1, 1, 2, 3, -1, -2])
        low, high = sorted((rng.randint(-n - 1, n + 1), rng.choice([rng.randint(-n, n), 1 << 62])))
        rows.append((low, high, step) if step > 0 else (high, rng.choice([low, -(1 << 62)]), step))
    starts, ends, steps = zip(*rows, strict=True)
    parts = [np.array(p, "int64") for p in (starts, ends, axes, steps)]
    return d.emit("Slice", [x, *map(d.store, parts)])


def pad(d: Draft) -> str | None:
    x = d.pick(*FLOATS, *WHOLE, least=1, most=5)
    if x is None:
        return None
    rank, rng = d.held[x].ndim, d.rng
    mode = rng.choice(["constant", "constant", "edge", "reflect", "wrap"])
    pads = [0] * (2 * rank)
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(2 * rank)
        n = d.held[x].shape[at % rank]
        low = -1 if mode == "constant" and n > 3 else 0
        pads[at] = rng.randint(low, max(min(3, n - 1), 1 if mode == "constant" else 0))
    more = [d.store(d.numbers((), d.held[x].dtype))] if rng.random() < 0.5 else []
    return d.emit("Pad", [x, d.store(np.array(pads, "int64")), *more], mode=mode)


def gather(d: Draft) -> str | None:
    x = d.pick(least=1)
    if x is None:
        return None
    axis, rng = d.axis(x), d.rng
    n = d.held[x].shape[axis]
    made = np.random.default_rng(rng.randrange(1 << 30))
    shape = rng.choice([(), (1,), (3,), (2, 3)])
    kind = rng.choice(["int64", "int32"])
    if rng.random() < 0.3:
        shape = tuple(rng.randint(1, m) for m in d.held[x].shape)
        where = d.store(made.integers(-n, n, shape).astype(kind))
        return d.emit("GatherElements", [x, where], axis=axis)
    return d.emit("Gather", [x, d.store(made.integers(-n, n, shape).astype(kind))], axis=axis)


def scatter(d: Draft) -> str | None:
    x = d.pick(FLOATS[0], FLOATS[0], WHOLE[0], WHOLE[1], FLOATS[1], least=1)
    if x is None:
        return None
    axis, rng, this = d.axis(x), d.rng, d.held[x]
    made = np.random.default_rng(rng.randrange(1 << 30))
    reduction = rng.choice(["none", "add", "mul", "max", "min"])
    if rng.random() < 0.5:
        count = rng.randint(1, this.shape[0])
        where = made.permutation(this.shape[0])[:count].reshape(-1, 1)
        updates = d.store(d.numbers((count, *this.shape[1:]), this.dtype))
        return d.emit("ScatterND", [x, d.store(where), updates], reduction=reduction)
    shape = [rng.randint(1, n) for n in this.shape]
    n = this.shape[axis]
    where = np.argsort(made.random(this.shape), axis=axis)[tuple(map(slice, shape))]
    if reduction != "none":
        where = made.integers(-n, n, shape)
    updates = d.store(d.numbers(shape, this.dtype))
    return d.emit("ScatterElements", [x, d.store(where), updates], axis=axis, reduction=reduction)


def widen(d: Draft) -> str | None:
    """Expand, to a constant shape or to that of another value; Tile."""
    x = d.pick(most=4)
    if x is None:
        return None
    shape, rng = d.held[x].shape, d.rng
    if rng.random() < 0.4:
        times = [rng.choice([1, 1, 2, 3]) for _ in shape]
        return d.emit("Tile", [x, d.store(np.array(times, "int64"))])
    larger = [n for n, y in d.held.items() if n not in d.stored and _goes(y.shape, shape)]
    if larger and rng.random() < 0.6:
        of = d.emit("Shape", [rng.choice(larger)])
        return of and d.emit("Expand", [x, of])
    made = [rng.choice([1, 2, 3]) if n == 1 else rng.choice([1, n]) for n in shape]
    made = [rng.choice([1, 2]) for _ in range(rng.randint(0, 1))] + made
    return d.emit("Expand", [x, d.store(np.array(made, "int64"))])


def of_shape(d: Draft) -> str | None:
    """Sizes as numbers: a value of the shape of another, and its size as a factor."""
    x = d.pick(least=1)
    if x is None:
        return None
    first = d.rng.randrange(d.held[x].ndim)
    shape = d.emit("Shape", [x], start=first)
    if shape and d.rng.random() < 0.5:
        value = numpy_helper.from_array(d.numbers((1,), d.rng.choice(KINDS)))
        return d.emit("ConstantOfShape", [shape], value=value)
    return shape and d.emit("Cast", [shape], to=1)


def triangle(d: Draft) -> str | None:
    x = d.pick(least=2)
    if x is None:
        return None
    k = d.store(np.array(d.rng.randint(-3, 3)))
    return d.emit("Trilu", [x, k], upper=d.rng.randint(0, 1))


def hot(d: Draft) -> str | None:
    x = d.pick(WHOLE[0], WHOLE[1], most=3)
    if x is None:
        return None
    values = d.store(d.numbers((2,), d.rng.choice(FLOATS[:1] + WHOLE[:2])))
    return d.emit("OneHot", [x, d.store(np.array(d.rng.randint(1, 5))), values], axis=-1)


def reverse(d: Draft) -> str | None:
    x = d.pick(least=2)
    if x is None:
        return None
    batch = d.rng.randint(0, 1)
    shape = d.held[x].shape
    lengths = [d.rng.randint(1, shape[1 - batch]) for _ in range(shape[batch])]
    return d.emit("ReverseSequence", [x, d.store(np.array(lengths))], batch_axis=batch,
                  time_axis=1 - batch)  # fmt: skip


def found(d: Draft) -> str | None:
    """Sizes that lie in the data."""
    x = d.pick(least=1, most=3)
    if x is None:
        return None
    if d.rng.random() < 0.5:
        return d.emit("NonZero", [x])
    axis = d.axis(x)
    chosen = d.store(d.numbers((d.held[x].shape[axis],), BOOL))
    return d.emit("Compress", [x, chosen], axis=axis)


def matmul(d: Draft) -> str | None:
    x = d.pick(*FLOATS, *WHOLE[:2], least=1)
    if x is None:
        return None
    this, rng = d.held[x], d.rng
    k = this.shape[-1]
    apart = [n for n, y in d.held.items() if y.dtype == this.dtype and y.ndim > 1
             and y.shape[-2] == k]  # fmt: skip
    if apart and rng.random() < 0.5:
        return d.emit("MatMul", [x, rng.choice(apart)])
    n = rng.choice(SIZES + LARGE)
    shape = rng.choice([(k, n), (k, n), (k,), (*this.shape[:-2], k, n)])
    return d.emit("MatMul", [x, d.store(d.numbers(shape, this.dtype))])


def gemm(d: Draft) -> str | None:
    x = d.pick(*FLOATS, least=2, most=2)
    if x is None:
        return None
    this, rng = d.held[x], d.rng
    a, b = rng.randint(0, 1), rng.randint(0, 1)
    m, k = this.shape[::-1] if a else this.shape
    n = rng.choice(SIZES + LARGE)
    weight = d.store(d.numbers((n, k) if b else (k, n), this.dtype))
    bias = rng.choice([(n,), (1, n), (m, 1), (), (m, n), None])
    more = [] if bias is None else [d.store(d.numbers(bias, this.dtype))]
    how = {"alpha": rng.choice([1.0, 0.5]), "beta": rng.choice([1.0, 2.0])}
    return d.emit("Gemm", [x, weight, *more], transA=a, transB=b, **how)


def conv(d: Draft) -> str | None:
    x = d.pick(FLOATS[0], FLOATS[0], FLOATS[0], FLOATS[1], FLOATS[2], least=3, most=5)
    if x is None:
        return None
    this, rng = d.held[x], d.rng
    c, *space = this.shape[1:]
    groups = rng.choice([g for g in (1, 1, 2, 3, c) if c % g == 0])
    out = groups * rng.choice([1, 2, 3, 5])
    kernel = [rng.randint(1, min(3, n + 1)) for n in space]
    how: dict[str, Any] = {"group": groups, "kernel_shape": kernel}
    how["strides"] = [rng.choice([1, 1, 2, 3]) for _ in space]
    how["dilations"] = [rng.choice([1, 1, 2]) for _ in space]
    turned = rng.random() < 0.25
    if rng.random() < 0.7:
        how["pads"] = [rng.randint(0, 2) for _ in space * 2]
    elif not turned:
        how["auto_pad"] = rng.choice(["SAME_UPPER", "SAME_LOWER", "VALID"])
    shape = (c, out // groups, *kernel) if turned else (out, c // groups, *kernel)
    parts = [x, d.store(d.numbers(shape, this.dtype))]
    if rng.random() < 0.5:
        parts.append(d.store(d.numbers((out,), this.dtype)))
    return d.emit("ConvTranspose" if turned else "Conv", parts, **how)


def pool(d: Draft) -> str | None:
    x = d.pick(FLOATS[0], FLOATS[0], FLOATS[1], FLOATS[2], least=3, most=5)
    if x is None:
        return None
    rng, space = d.rng, d.held[x].shape[2:]
    op = rng.choice("MaxPool AveragePool LpPool GlobalAveragePool".split())
    if op.startswith("Global"):
        return d.emit(op, [x])
    kernel = [rng.randint(1, min(3, n)) for n in space]
    how: dict[str, Any] = {"kernel_shape": kernel, "ceil_mode": rng.randint(0, 1)}
    how["strides"] = [rng.choice([1, 2, 3]) for _ in space]
    if rng.random() < 0.6:
        how["pads"] = [rng.randint(0, k - 1) for k in kernel * 2]
    if op == "AveragePool":
        how["count_include_pad"] = rng.randint(0, 1)
    return d.emit(op, [x], **how)


def norm(d: Draft) -> str | None:
    x = d.pick(*FLOATS[:3], least=2)
    if x is None:
        return None
    this, rng = d.held[x], d.rng
    kind = this.dtype
    op = rng.choice("LayerNormalization BatchNormalization InstanceNormalization LRN "
                    "LpNormalization GroupNormalization".split())  # fmt: skip
    if op == "LpNormalization":
        return d.emit(op, [x], axis=d.axis(x), p=2)
    if op == "LayerNormalization":
        axis = rng.randrange(this.ndim)
        scale = d.store(d.numbers(this.shape[axis:], kind))
        return d.emit(op, [x, scale], axis=axis)
    c = this.shape[1]
    if op == "InstanceNormalization" and this.ndim < 3:
        return None
    if op == "LRN":
        return d.emit(op, [x], size=rng.randint(1, 4))
    pair = [d.store(d.numbers((c,), kind)) for _ in "sb"]
    if op == "BatchNormalization":
        moments = [
            d.store(d.numbers((c,), kind)),
            d.store(np.abs(d.numbers((c,), kind)) + kind.type(1)),
        ]
        return d.emit(op, [x, *pair, *moments])
    groups = rng.choice([g for g in range(1, c + 1) if c % g == 0])
    more = {"num_groups": groups} if op.startswith("G") else {}
    return d.emit(op, [x, *pair], **more)


def resize(d: Draft) -> str | None:
    x = d.pick(FLOATS[0], least=3, most=5)
    if x is None:
        return None
    rng, shape = d.rng, d.held[x].shape
    where = rng.choice("half_pixel asymmetric align_corners pytorch_half_pixel".split())
    how = {"mode": rng.choice(["nearest", "linear"]), "coordinate_transformation_mode": where}
    if where != "align_corners" and rng.random() < 0.5:  # whose length ONNX Runtime rounds
        scales = [1.0, 1.0, *(rng.choice([1.0, 2.0, 0.5, 1.5]) for _ in shape[2:])]
        return d.emit("Resize", [x, "", d.store(np.array(scales, "float32"))], **how)
    sizes = [*shape[:2], *(rng.randint(1, 2 * n) for n in shape[2:])]
    return d.emit("Resize", [x, "", "", d.store(np.array(sizes))], **how)


def quantize(d: Draft) -> str | None:
    """To 8 bits and back, by channel or whole."""
    x = d.pick(FLOATS[0], least=1)
    if x is None:
        return None
    rng, axis = d.rng, d.axis(x)
    shape = rng.choice([(), (d.held[x].shape[axis],)])
    kind = rng.choice([np.dtype("int8"), np.dtype("uint8")])
    scale = d.store(np.full(shape, rng.choice([0.125, 0.0625]), "float32"))
    zero = d.store(np.full(shape, rng.randint(0, 5), kind))
    y = d.emit("QuantizeLinear", [x, scale, zero], axis=axis)
    if y is None or rng.random() < 0.3:
        return y
    return d.emit("DequantizeLinear", [y, scale, zero], axis=axis)


def whole_product(d: Draft) -> str | None:
    x = d.pick(np.dtype("int8"), np.dtype("uint8"), least=2)
    if x is None:
        return None
    k, rng = d.held[x].shape[-1], d.rng
    kind = rng.choice([np.dtype("int8"), np.dtype("uint8")])
    weight = d.store(d.numbers((k, rng.choice(SIZES)), kind))
    zeros = [d.store(np.array(rng.randint(0, 3), t)) for t in (d.held[x].dtype, kind)]
    return d.emit("MatMulInteger", [x, weight, *zeros[: rng.randint(0, 2)]])


def summed(d: Draft) -> str | None:
    x = d.pick(FLOATS[0], FLOATS[2], least=2, most=3)
    if x is None:
        return None
    letters = "abc"[: d.held[x].ndim]
    out = "".join(d.rng.sample(letters, d.rng.randint(0, len(letters))))
    if d.rng.random() < 0.5:
        return d.emit("Einsum", [x], equation=f"{letters}->{out}")
    other = d.store(d.numbers((d.held[x].shape[-1], 3), d.held[x].dtype))
    return d.emit("Einsum", [x, other], equation=f"{letters},{letters[-1]}z->{out}z")


STEPS: list[Callable[[Draft], str | None]] = [
    unary, unary, unary, binary, binary, binary, where, clip, cast, reduce, reduce, extreme, top,
    scan, soft, transpose, transpose, reshape, reshape, flatten, squeeze, concat, concat, split,
    slice_, slice_, pad, gather, scatter, widen, of_shape, triangle, hot, reverse, found, matmul,
    matmul, gemm, conv, conv, pool, norm, norm, resize, quantize, whole_product, summed,
]  # fmt: skip


def draft(seed: int) -> tuple[Draft, list[str]]:
    """A model of 3 to 6 operators, one in four of large sizes, and the names of its outputs."""
    rng = random.Random(f"model {seed}")
    d = Draft(rng)
    sizes, most = (SIZES, 5_000) if seed % 4 else (LARGE, 60_000)
    for n in range(rng.randint(1, 3)):
        first = d.held[d.inputs[0]] if d.inputs and rng.random() < 0.5 else None
        shape = [rng.choice(sizes) for _ in range(rng.choice([1, 2, 2, 3, 3, 4, 4]))]
        shape = list(first.shape) if first is not None else shape
        while np.prod(shape) > most:
            shape[int(np.argmax(shape))] //= 2
        d.inputs.append(f"x{n}")
        d.held[f"x{n}"] = d.numbers(shape, rng.choice(KINDS) if first is None else first.dtype)
    goal, made = rng.randint(3, 6), []
    for _ in range(60):
        name = rng.choice(STEPS)(d)
        if name:
            made.append(name)
        if len(made) >= goal:
            break
    every = [n for n in d.held if n.startswith("v")]
    ends = [n for n in every if not any(n in node.input for node in d.nodes)]
    return d, ends[-3:] + [n for n in every if n not in ends[-3:] and rng.random() < 0.15]


def cases(first: int, last: int) -> Iterator[Case]:
    """As cases of ONNX's suite, for what every case of that is held to (`sweeps.py`)."""
    for seed in range(first, last):
        d, outputs = draft(seed)
        if outputs:
            data = [(list(given(d).values()), [d.held[n] for n in outputs])]
            record = SimpleNamespace(
                kind="node", model=d.model(outputs, False), data_sets=data, rtol=1e-3, atol=noise(d)
            )
            yield Case(f"random_{seed}", record)


# runs --------------------------------------------------------------------------------------------


def given(d: Draft, other: Callable[[int], int] = int) -> dict[str, np.ndarray]:
    """The inputs, filled with the same numbers again; `other`: what each size but 1 becomes."""
    sizes = {n: [other(m) if m > 1 else m for m in d.held[n].shape] for n in d.inputs}
    return {n: np.resize(d.held[n], size) for n, size in sizes.items()}


def run(seed: int, is_open: bool, target: str = "llvm") -> str:
    """ "pass", or the name of the typed error; raises what went wrong."""
    d, outputs = draft(seed)
    if not outputs:
        return "pass"
    model = d.model(outputs, is_open)
    try:
        ex = mlc.compile(mlc.from_onnx(model), target)
        ours = call(ex, given(d))
    except mlc.MLCError as error:
        return type(error).__name__
    agree(ours, [d.held[n] for n in outputs], model, given(d), noise(d))
    for other in OTHERS if is_open else ():
        args = given(d, other)
        try:
            theirs = [np.asarray(x) for x in reference(model, args)]
        except Exception:  # noqa: BLE001 (these sizes do not go together)
            continue
        try:
            ours = call(ex, args)
        except mlc.MLCError:
            continue  # nor for us: the reference takes some that ONNX does not
        agree(ours, theirs, model, args, noise(d))
    return "pass"


def agree(ours: list[Any], theirs: list[Any], model: Any, args: Any, part: float) -> None:
    """ONNX Runtime's numbers, or the reference's where that says otherwise."""
    try:
        near(ours, theirs, part)
    except AssertionError:
        if not BY_PEER.isdisjoint(node.op_type for node in model.graph.node):
            raise
        near(ours, [np.asarray(x) for x in by_reference(model, args)], part)


def noise(d: Draft) -> float:
    """What rounding is worth, as a part of the largest number: four roundings of 16-bit floats."""
    return max(4 * PRECISION.get(x.dtype.name, 2.5e-5) for x in d.held.values())


def near(ours: list[Any], theirs: list[Any], part: float) -> None:
    """Equal, to a part of the largest number."""
    for a, b in zip(ours, theirs, strict=True):
        most = np.abs(b.astype(np.float64)).max(initial=1.0) if b.dtype in FLOATS else 1.0
        compare(a, b, 1e-3, part * most)


def call(ex: Any, args: dict[str, np.ndarray]) -> list[np.ndarray]:
    """All results."""
    found = ex(*args.values())
    return list(found) if isinstance(found, tuple | list) else [found]


def strangers(first: int, last: int, is_open: bool, target: str) -> Iterator[str]:
    """A line for each seed that does not pass."""
    for seed in range(first, last):
        try:
            done = run(seed, is_open, target)
        except Exception as error:  # noqa: BLE001 (that is what is looked for)
            done = f"BUG {type(error).__name__}: {' '.join(str(error).split())[:300]}"
        if done != "pass":
            d, _ = draft(seed)
            yield f"{seed} {done} [{' '.join(n.op_type for n in d.nodes)}]"


def main() -> int:
    """Print what does not pass; 1 where that is not a typed error."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("first", type=int)
    parser.add_argument("last", type=int)
    parser.add_argument("--open", action="store_true", help="open sizes")
    parser.add_argument("--target", default="llvm")
    args = parser.parse_args()
    bugs, start = 0, time.perf_counter()
    for line in strangers(args.first, args.last, args.open, args.target):
        print(line, flush=True)
        bugs += " BUG " in line
    print(f"{args.last - args.first} in {time.perf_counter() - start:.0f} s, {bugs} bugs")
    return int(bugs > 0)


if __name__ == "__main__":
    sys.exit(main())
