"""ONNX sequences of tensors: a Relax tuple, taken apart and put together while the model is read.

    SequenceConstruct(a, b) -> (a, b)      SequenceAt((a, b), 1) -> b      SequenceLength -> 2

Positions and split points must be known at import; nothing of a sequence is left to run time.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mlcnb.ir.prim_ops import as_int
from mlcnb.op._dims import tell_dims
from mlcnb.op._spell import call, place_of, scalar_of
from mlcnb.op.manipulate.join import parts_of, sizes_of
from mlcnb.op.onnx import OnnxNode, onnx
from mlcnb.relax.expr import Expr, Tuple, TupleGetItem
from mlcnb.relax.expr import const as constant
from mlcnb.relax.operator import NULL, is_null
from mlcnb.relax.struct_info import TupleStructInfo


def elements(n: OnnxNode, sequence: Expr) -> list[Expr]:
    """The tensors of a sequence."""
    if isinstance(sequence, Tuple):
        return list(sequence.fields)
    info = sequence.struct_info
    if not isinstance(info, TupleStructInfo):
        n.refuse("a sequence whose length is not known")
    return [TupleGetItem(sequence, i) for i in range(len(info.fields))]


def _place(n: OnnxNode, position: Expr | None, count: int, end: int) -> int:
    """A position, counted from the front; `end` where it is left out."""
    if position is None:
        return end
    at = int(scalar_of(n, position, "position"))
    if not -count <= at < max(count, end + 1):
        n.refuse(f"position {at} is outside of a sequence of {count}")
    return at + count if at < 0 else at


@onnx("SequenceEmpty", since=11)
def onnx_sequence_empty(n: OnnxNode) -> Expr:
    """No tensors."""
    return Tuple(())


@onnx("SequenceConstruct", since=11)
def onnx_sequence_construct(n: OnnxNode, *inputs: Expr) -> Expr:
    """The inputs."""
    return Tuple(tuple(inputs))


@onnx("Optional", since=15)
def onnx_optional(n: OnnxNode, x: Expr | None = None) -> Expr:
    """The value itself, or what stands for none."""
    return NULL if x is None else x


@onnx("OptionalHasElement", since=15)
def onnx_optional_has_element(n: OnnxNode, x: Expr | None = None) -> Expr:
    """Whether there is a value: known at import."""
    return constant(np.array(x is not None and not is_null(x)))


@onnx("OptionalGetElement", since=15)
def onnx_optional_get_element(n: OnnxNode, x: Expr) -> Expr:
    """The value."""
    if is_null(x):
        n.refuse("there is no element to get")
    return x


@onnx("SequenceInsert", since=11)
def onnx_sequence_insert(
    n: OnnxNode, sequence: Expr, tensor: Expr, position: Expr | None = None
) -> Expr:
    """With one more, before `position` or at the end."""
    found = elements(n, sequence)
    at = _place(n, position, len(found), len(found))
    return Tuple((*found[:at], tensor, *found[at:]))


@onnx("SequenceErase", since=11)
def onnx_sequence_erase(n: OnnxNode, sequence: Expr, position: Expr | None = None) -> Expr:
    """Without the one at `position`, or the last."""
    found = elements(n, sequence)
    at = _place(n, position, len(found), len(found) - 1)
    return Tuple((*found[:at], *found[at + 1 :]))


@onnx("SequenceAt", since=11)
def onnx_sequence_at(n: OnnxNode, sequence: Expr, position: Expr) -> Expr:
    """The tensor at `position`."""
    found = elements(n, sequence)
    return found[_place(n, position, len(found), len(found) - 1)]


@onnx("SequenceLength", since=11)
def onnx_sequence_length(n: OnnxNode, sequence: Expr) -> Expr:
    """How many tensors there are."""
    return constant(np.array(len(elements(n, sequence)), np.int64))


@onnx("ConcatFromSequence", since=11)
def onnx_concat_from_sequence(n: OnnxNode, sequence: Expr) -> Expr:
    """All in a row, or side by side along a new axis."""
    name = "relax.stack" if n.attr("new_axis", 0) else "relax.concat"
    return call(name, [n.emit(e) for e in elements(n, sequence)], axis=n.require("axis"))


@onnx("SplitToSequence", since=11)
def onnx_split_to_sequence(n: OnnxNode, x: Expr, split: Expr | None = None) -> Expr:
    """Parts of one size, of given sizes, or of 1 (then without the axis, unless `keepdims`)."""
    dims = n.dims(x)
    axis = place_of(n, n.attr("axis", 0), dims)
    extent, sizes = as_int(dims[axis]), sizes_of(n, split)
    if split is not None and sizes is not None and n.dims(split):
        return Tuple(tuple(n.emit(part) for part in parts_of(n, x, axis, sizes)))
    if extent is None:
        n.refuse(f"the size of axis {axis} of {tell_dims(dims)} is not known")
    if sizes is None:
        parts = _parts(n, x, axis, list(range(1, extent)))
        if n.attr("keepdims", 1):
            return Tuple(tuple(parts))
        return Tuple(tuple(n.emit(call("relax.squeeze", p, axis=(axis,))) for p in parts))
    return Tuple(tuple(_parts(n, x, axis, list(range(sizes[0], extent, sizes[0])))))


def _parts(n: OnnxNode, x: Expr, axis: int, cuts: Sequence[int]) -> list[Expr]:
    both = n.emit(call("relax.split", x, indices_or_sections=tuple(cuts), axis=axis))
    return [n.emit(both[i]) for i in range(len(cuts) + 1)]
