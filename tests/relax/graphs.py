"""Random graph programs: a function of elementwise, moving, reducing and matrix operators."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from mlcnb.ir.expr import SizeVar
from mlcnb.ir.module import IRModule
from mlcnb.relax import BlockBuilder, op
from mlcnb.relax.expr import Tuple, TupleGetItem, Var, const, tensor_info


def dims_of(x: Any) -> tuple[Any, ...]:
    return tuple(x.struct_info.dims)


def _constant(draw: Any, shape: Any) -> Any:
    seed = draw(st.integers(0, 5))
    values = np.random.default_rng(seed).uniform(-2, 2, [int(d) for d in shape])
    return const(values.astype("float32"))


def unary(draw: Any, bb: Any, x: Any, others: list[Any]) -> Any:
    name = draw(st.sampled_from(["nn.relu", "tanh", "negative", "abs", "sigmoid"]))
    found: Any = op
    for part in name.split("."):
        found = getattr(found, part)
    return bb.emit(found(x))


def binary(draw: Any, bb: Any, x: Any, others: list[Any]) -> Any:
    same = [o for o in others if _same_shape(o, x)]
    kind = draw(st.sampled_from([op.add, op.subtract, op.multiply, op.maximum]))
    return bb.emit(kind(x, draw(st.sampled_from(same))))


def with_constant(draw: Any, bb: Any, x: Any, others: list[Any]) -> Any:
    kind = draw(st.sampled_from([op.add, op.multiply, op.subtract]))
    last = dims_of(x)[-1:]
    scalar = draw(st.booleans()) or not last or not _is_static(last)
    value = const(draw(st.sampled_from([0.0, 1.0, 0.5]))) if scalar else _constant(draw, last)
    return bb.emit(kind(x, value) if draw(st.booleans()) else kind(value, x))


def permute(draw: Any, bb: Any, x: Any, others: list[Any]) -> Any:
    axes = draw(st.permutations(range(len(dims_of(x)))))
    return bb.emit(op.permute_dims(x, axes=list(axes)))


def flatten(draw: Any, bb: Any, x: Any, others: list[Any]) -> Any:
    first, *rest = dims_of(x)
    size = 1
    for d in rest:
        size = size * d
    return bb.emit(op.reshape(x, (first, size)))


def reduce(draw: Any, bb: Any, x: Any, others: list[Any]) -> Any:
    axis = draw(st.integers(0, len(dims_of(x)) - 1))
    kind = draw(st.sampled_from([op.sum, op.max, op.mean]))
    return bb.emit(kind(x, axis=[axis], keepdims=True))


def concat(draw: Any, bb: Any, x: Any, others: list[Any]) -> Any:
    same = [o for o in others if _same_shape(o, x)]
    axis = draw(st.integers(0, len(dims_of(x)) - 1))
    return bb.emit(op.concat((x, draw(st.sampled_from(same))), axis=axis))


def halves(draw: Any, bb: Any, x: Any, others: list[Any]) -> Any:
    parts = bb.emit(op.split(bb.emit(op.concat((x, x), axis=0)), 2, axis=0))
    return bb.emit(TupleGetItem(parts, draw(st.integers(0, 1))))


def matmul(draw: Any, bb: Any, x: Any, others: list[Any]) -> Any:
    last = dims_of(x)[-1]
    if not _is_static((last,)):
        return unary(draw, bb, x, others)
    return bb.emit(op.matmul(x, _constant(draw, (last, 3))))


def alias(draw: Any, bb: Any, x: Any, others: list[Any]) -> Any:
    pair = bb.emit(Tuple((x, draw(st.sampled_from(others)))))
    return bb.emit(TupleGetItem(pair, 0)) if draw(st.booleans()) else bb.emit(x)


def dropout(draw: Any, bb: Any, x: Any, others: list[Any]) -> Any:
    return bb.emit(TupleGetItem(bb.emit(op.nn.dropout(x)), 0))


def softmax(draw: Any, bb: Any, x: Any, others: list[Any]) -> Any:
    return bb.emit(op.nn.softmax(x, axis=-1))


def of_constants(draw: Any, bb: Any, x: Any, others: list[Any]) -> Any:
    folded = bb.emit(op.tanh(bb.emit(op.add(_constant(draw, (3,)), const(1.0)))))
    return bb.emit(op.multiply(bb.emit(op.sum(folded)), x))


STEPS = [
    unary, unary, binary, binary, with_constant, with_constant, permute, flatten, reduce, concat,
    halves, matmul, alias, dropout, softmax, of_constants,
]  # fmt: skip


def _is_static(dims: Any) -> bool:
    return all(hasattr(d, "value") for d in dims)


def _same_shape(a: Any, b: Any) -> bool:
    from mlcnb.relax.analysis.struct_info import same_dims

    return same_dims(dims_of(a), dims_of(b))


@st.composite
def graphs(draw: Any, symbolic: bool | None = None, max_steps: int = 12) -> IRModule:
    """A module whose main has one or two parameters and returns one or several tensors."""
    with_symbol = draw(st.booleans()) if symbolic is None else symbolic
    first = SizeVar("n", "int64") if with_symbol else 2
    shape = (first, *draw(st.sampled_from([(3,), (2, 2), (1, 3)])))
    params = [Var(n, tensor_info(shape, "float32")) for n in "xy"[: draw(st.integers(1, 2))]]
    bb = BlockBuilder()
    with bb.function("main", params):
        with bb.dataflow():
            values: list[Any] = list(params)
            for _ in range(draw(st.integers(1, max_steps))):
                recent = values[-4:]
                x = draw(st.sampled_from(recent))
                values.append(draw(st.sampled_from(STEPS))(draw, bb, x, values))
            chosen = draw(st.lists(st.sampled_from(values[-5:]), min_size=1, max_size=3))
            outputs = [bb.emit_output(v) for v in chosen]
        bb.emit_func_output(outputs[0] if len(outputs) == 1 else outputs)
    return bb.get()
