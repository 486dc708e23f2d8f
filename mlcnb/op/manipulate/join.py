"""Tensors put together and taken apart: concat, stack, split."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from mlcnb import te
from mlcnb.core.node import replace
from mlcnb.ir.prim_ops import as_int, equal, less_equal
from mlcnb.ir.rules import rule
from mlcnb.op._dims import axis_at, differ, ints, refuse, tell, tell_dim, tell_dims, tensor, tidy
from mlcnb.op._order import along_axis
from mlcnb.op._spell import call, ints_of, place_of, shape_of, want_sizes
from mlcnb.op.onnx import OnnxNode, onnx
from mlcnb.relax.expr import Call, Expr, Tuple
from mlcnb.relax.operator import OpDecl, Tensor, Tensors, make_call, operator
from mlcnb.relax.struct_info import TupleStructInfo

#: so many tensors are asked one after the other for an element, more by halves
IN_ORDER = 8


#: tensors that one loop nest puts together
AT_A_TIME = 64


@operator("relax.concat")
class Concat(OpDecl):
    """The tensors one after another along `axis` (None: all flattened first).

    Semantics: https://numpy.org/doc/stable/reference/generated/numpy.concatenate.html
    """

    moves = follows = sees_filling = True
    in_order = along_axis
    tir_name = "concatenate"

    tensors: Tensors
    axis: int | None = 0

    @rule("SimplifyOps", "concat")
    def simplified(self, call: Call, value_of: Any) -> Any:
        """That of one tensor is the tensor; that of many is of some at a time: loops ask for each
        element which tensor it comes from.
        """
        parts = value_of(call.args[0])
        if not isinstance(parts, Tuple):
            return None
        if len(parts.fields) == 1:
            return parts.fields[0]
        return self.joined(call, parts.fields) if len(parts.fields) > AT_A_TIME else None

    def joined(self, call: Call, parts: Sequence[Any]) -> Call:
        """The concatenation of `parts`, at most `AT_A_TIME` by one call."""
        while len(parts) > AT_A_TIME:
            starts = range(0, len(parts), AT_A_TIME)
            parts = [self.joined(call, parts[i : i + AT_A_TIME]) for i in starts]
        return Call(call.op, (Tuple(tuple(parts)),), self)

    def in_blocks(self, layout: str) -> Any:
        """Along the channels."""
        return replace(self, axis=1) if self.axis in (1, -3) else None

    def infer(self, tensors: Any) -> Any:
        """The dimensions of the first tensor, but the sum of all along `axis`."""
        first = _agree(self, tensors)
        if first.ndim == -1:
            return tensor(None, first.dtype) if len(tensors) > 1 else first
        if self.axis is None and any(t.ndim not in (1, -1) for t in tensors):
            refuse(self, "axis None wants tensors of one dimension", hint="flatten them first")
        axis = axis_at(self, self.axis or 0, first.ndim, first)
        if len(tensors) == 1:
            return first
        if any(t.dims is None for t in tensors):
            return tensor(None, first.dtype, first.ndim)
        for t in tensors[1:]:
            _agree_outside(self, first, t, axis)
        dims = list(first.dims)
        dims[axis] = _total([t.dims[axis] for t in tensors])
        return tensor(dims, first.dtype)

    def numpy(self, tensors: Any) -> Any:
        """numpy.concatenate"""
        return np.concatenate(tensors, self.axis)

    def compute(self, tensors: Any) -> Any:
        """One copy, which asks for each element which tensor it comes from."""
        axis = (self.axis or 0) % len(tensors[0].shape)
        starts = [0]
        for t in tensors:
            starts.append(tidy(starts[-1] + t.shape[axis]))
        shape = list(tensors[0].shape)
        shape[axis] = starts[-1]

        def source(*index: Any) -> Any:
            def read(t: Any, start: Any) -> Any:
                return t(*index[:axis], index[axis] - start, *index[axis + 1 :])

            parts = [read(t, start) for t, start in zip(tensors, starts, strict=False)]
            return _chosen(parts, index[axis], starts)

        return te.compute(shape, source, name="concat")


def _total(dims: Sequence[Any]) -> Any:
    """The sum of dimensions, by halves: that of 10,000 open ones is no deep expression."""
    if len(dims) == 1:
        return dims[0]
    half = len(dims) // 2
    return tidy(_total(dims[:half]) + _total(dims[half:]))


def _chosen(parts: Sequence[Any], at: Any, starts: Sequence[Any]) -> Any:
    """The part that the index `at` falls into: asked from the last on, of many by halves.

    starts: where each part begins; there may be more.
    """
    if len(parts) == 1:
        return parts[0]
    half = len(parts) - 1 if len(parts) <= IN_ORDER else len(parts) // 2
    first = _chosen(parts[:half], at, starts[:half])
    rest = _chosen(parts[half:], at, starts[half:])
    return te.if_then_else(less_equal(starts[half], at), rest, first)


def _agree(op: OpDecl, tensors: Sequence[Any]) -> Any:
    """The tensor that says most of rank and dtype; all others must not contradict it."""
    if not tensors:
        refuse(op, "there are no tensors to put together")
    first = max(tensors, key=lambda t: (t.dims is not None, t.ndim, t.dtype is not None))
    for at, t in enumerate(tensors):
        if t.ndim not in (-1, first.ndim) or (t.dtype and first.dtype and t.dtype != first.dtype):
            other = f"differs in rank or dtype from {tell(first)}"
            refuse(op, f"tensors[{at}] is {tell(t)}, which {other}")
    known = next((t.dtype for t in tensors if t.dtype), None)
    return first if first.dtype == known else replace(first, dtype=known)


def _agree_outside(op: OpDecl, first: Any, other: Any, axis: int) -> None:
    for i, (a, b) in enumerate(zip(first.dims, other.dims, strict=True)):
        if i != axis and differ(a, b):
            refuse(
                op, f"{tell(first)} and {tell(other)} differ in dimension {i}, not only in {axis}"
            )


@onnx("Concat")
def onnx_concat(n: OnnxNode, *inputs: Expr) -> Expr:
    """`axis` was 1 where left out before opset 4."""
    axis = n.attr("axis", 1) if n.opset < 4 else n.require("axis")
    return inputs[0] if len(inputs) == 1 else make_call(Concat, list(inputs), axis=axis)


@operator("relax.stack")
class Stack(OpDecl):
    """The tensors side by side along a new dimension, at place `axis` of the result.

    Semantics: https://numpy.org/doc/stable/reference/generated/numpy.stack.html
    """

    moves = follows = True

    tensors: Tensors
    axis: int = 0

    def infer(self, tensors: Any) -> Any:
        """The dimensions of the tensors, and how many there are."""
        first = _agree(self, tensors)
        if first.ndim == -1:
            return tensor(None, first.dtype)
        axis = axis_at(self, self.axis, first.ndim + 1)
        if any(t.dims is None for t in tensors):
            return tensor(None, first.dtype, first.ndim + 1)
        for t in tensors:
            _agree_outside(self, first, t, -1)
        return tensor([*first.dims[:axis], len(tensors), *first.dims[axis:]], first.dtype)

    def numpy(self, tensors: Any) -> Any:
        """numpy.stack"""
        return np.stack(tensors, self.axis)

    def compute(self, tensors: Any) -> Any:
        """One copy."""
        dims = tensors[0].shape
        axis = self.axis % (len(dims) + 1)

        def source(*index: Any) -> Any:
            rest = index[:axis] + index[axis + 1 :]
            parts = [t(*rest) for t in tensors]
            if len(parts) > IN_ORDER:
                return _chosen(parts, index[axis], range(len(parts)))
            value = parts[0]
            for at in range(1, len(parts)):
                value = te.if_then_else(index[axis] == at, parts[at], value)
            return value

        return te.compute([*dims[:axis], len(tensors), *dims[axis:]], source, name="stack")


#: parts that a tensor is cut into: each is a field of a tuple, written out
MOST = 1 << 16


@operator("relax.split")
class Split(OpDecl):
    """`x` cut along `axis`: at the places given, or into so many equal parts. A tuple.

    Where the parts cannot be equal, the last is smaller (each has ceil(size / parts)).
    """

    follows = True
    in_order = along_axis

    x: Tensor
    indices_or_sections: int | tuple[int, ...]
    axis: int = 0

    def infer(self, x: Any) -> Any:
        """A tuple of tensors like x, smaller along `axis`."""
        count = self.indices_or_sections
        if isinstance(count, int) and count > MOST:
            refuse(self, f"{count} sections are more than {MOST}")
        if x.dims is None:
            many = count if isinstance(count, int) else len(count) + 1
            return TupleStructInfo((tensor(None, x.dtype, x.ndim),) * many)
        axis = axis_at(self, self.axis, x.ndim, x)
        cuts = self.cuts(x.dims[axis], x)
        parts = []
        for a, b in zip(cuts[:-1], cuts[1:], strict=True):
            parts.append(tensor([*x.dims[:axis], tidy(b - a), *x.dims[axis + 1 :]], x.dtype))
        return TupleStructInfo(tuple(parts))

    def cuts(self, extent: Any, info: Any = None) -> list[Any]:
        """Where the parts begin, and where the last one ends."""
        whole = as_int(extent)
        extent = extent if whole is None else whole
        given = self.indices_or_sections
        if not isinstance(given, int):
            cuts = [0, *given, extent]
            known = [c for c in map(as_int, cuts) if c is not None]
            if known != sorted(known):
                refuse(self, f"indices {given} do not rise from 0 to the size of {tell(info)}")
            return cuts
        if given < 1:
            refuse(self, f"{given} sections are none")
        step = tidy((extent + (given - 1)) // given)
        if whole is None:
            return [*(tidy(step * i) for i in range(given)), extent]
        return [min(step * i, whole) for i in range(given + 1)]

    def numpy(self, x: Any) -> Any:
        """numpy.split"""
        cuts = self.cuts(x.shape[self.axis])
        return tuple(np.split(x, [int(c) for c in cuts[1:-1]], self.axis))

    def compute(self, x: Any) -> Any:
        """One copy for each part."""
        axis = self.axis % len(x.shape)
        cuts = self.cuts(x.shape[axis])

        def part(start: Any, stop: Any, at: int) -> Any:
            shape = [*x.shape[:axis], tidy(stop - start), *x.shape[axis + 1 :]]

            def source(*index: Any) -> Any:
                return x(*index[:axis], index[axis] + start, *index[axis + 1 :])

            return te.compute(shape, source, name="split" if at == 0 else f"split_{at}")

        pairs = zip(cuts[:-1], cuts[1:], strict=True)
        return tuple(part(a, b, at) for at, (a, b) in enumerate(pairs))


@onnx("Split")
def onnx_split(n: OnnxNode, x: Expr, split: Expr | None = None) -> Any:
    """`split` is an attribute before opset 13, then an input; `num_outputs` comes with opset 18."""
    axis, sizes = n.attr("axis", 0), sizes_of(n, split)
    if n.attr("num_outputs", n.num_outputs) != n.num_outputs:
        n.refuse(f"num_outputs is {n.attr('num_outputs')}, but there are {n.num_outputs} outputs")
    if sizes is None:
        parts = n.emit(make_call(Split, x, n.attr("num_outputs", n.num_outputs), axis))
        return tuple(parts[i] for i in range(n.num_outputs))
    if len(sizes) != n.num_outputs:
        n.refuse(f"{len(sizes)} parts for {n.num_outputs} outputs")
    return parts_of(n, x, axis, sizes)


def sizes_of(n: OnnxNode, split: Expr | None) -> Sequence[Any] | None:
    """How long the parts are, which may be computed from open sizes."""
    given = None if split is None else n.known(split)
    is_open = given is not None and given.dtype == object
    return shape_of(n, split, "split") if is_open else ints_of(n, split, "split")


def parts_of(n: OnnxNode, x: Expr, axis: int, sizes: Sequence[Any]) -> tuple[Expr, ...]:
    """`x` in parts of these sizes along `axis`; that they add up to it, a run may have to tell."""
    extent = n.dims(x)[place_of(n, axis, n.dims(x))]
    cuts = [0, *accumulate(sizes, lambda a, b: tidy(a + b))]
    total = f"the {tell_dim(extent)} of axis {axis}"
    want_sizes(n, equal(extent, cuts[-1]), f"the parts {tell_dims(sizes)} do not add up to {total}")
    known = ints(cuts[1:-1])
    if known is not None:
        parts = n.emit(make_call(Split, x, known, axis))
        return tuple(parts[i] for i in range(len(sizes)))
    for size in sizes:
        want_sizes(n, less_equal(0, size), f"a part of {tell_dim(size)} elements")
    return tuple(_between(n, x, axis, *ends) for ends in pairwise(cuts))


def _between(n: OnnxNode, x: Expr, axis: int, start: Any, stop: Any) -> Expr:
    """What lies between two open places, which are inside."""
    given = (axis,), (start,), (stop,)
    return n.emit(call("relax.strided_slice", x, *given, assume_inbound=True))
