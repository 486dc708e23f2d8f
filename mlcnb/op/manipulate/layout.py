"""From one layout to another: layout_transform.

R.layout_transform(x, src="NCHW", dst="NCHW16c")      (1, 30, 7, 7) -> (1, 2, 7, 7, 16)
R.layout_transform(y, R.shape([1, 30, 7, 7]), src="NCHW16c", dst="NCHW")        and back
R.layout_transform(x, index_map=lambda n, c, h, w: (n, h, w, c))                by an index map
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mlcnb import te
from mlcnb.core.errors import MLCError
from mlcnb.ir.prim_ops import all_of, as_int, cast, const
from mlcnb.op import _layout
from mlcnb.op._dims import differ, refuse, same, tell, tell_dims, tensor, tidy
from mlcnb.op._sugar import sugar
from mlcnb.relax.expr import Call, Expr
from mlcnb.relax.operator import OpDecl, OptionalShape, Tensor, make_call, operator
from mlcnb.tir.index_map import IndexMap


@operator("relax.layout_transform")
class LayoutTransform(OpDecl):
    """`x`, which lies in layout `src`, brought to layout `dst` (see `mlcnb.op._layout`).

    A block that does not divide its dimension is filled up with zeros. `shape`, if given, is the
    shape of the result: where `src` is blocked, it says how much of the last block is real.

    Or TVM's form: `index_map`, an IndexMap or a function of the indices, says where each element
    goes, and `pad_value` what stands where none does. `axis_separators` and
    `input_axis_separators` are kept for passes that ask for them; memory here is flat.
    """

    moves = fills = follows = prepares = True

    x: Tensor
    shape: OptionalShape
    src: str = ""
    dst: str = ""
    index_map: IndexMap | None = None
    pad_value: float | None = None
    axis_separators: tuple[int, ...] = ()
    input_axis_separators: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if callable(self.index_map):
            made, separators = IndexMap.from_func_with_separators(self.index_map)
            object.__setattr__(self, "index_map", made)
            object.__setattr__(self, "axis_separators", tuple(separators or self.axis_separators))

    def infer(self, x: Any, shape: Any = None) -> Any:
        """The shape that `dst` makes of x's dimensions, or the map."""
        if self.index_map is not None:
            return _map_info(self, x, self.index_map, self.pad_value)
        if not self.src or not self.dst:
            refuse(self, "neither src and dst nor index_map is given")
        self.check(x)
        ndim = len(_layout.axes_in(self.dst))
        if shape is not None and shape.values is not None:
            self.check_shape(x, shape.values)
            return tensor(shape.values, x.dtype)
        if x.dims is None:
            return tensor(None, x.dtype, ndim)
        return tensor(self.result_shape(x.dims), x.dtype)

    def check(self, x: Any) -> None:
        """Refuse layouts that do not name the same dimensions, or not those of x."""
        src = _layout.axes_in(self.src)
        if set(_layout.letters(self.src)) != set(_layout.letters(self.dst)):
            refuse(self, f"{self.src} and {self.dst} do not name the same dimensions")
        if x.ndim not in (-1, len(src)):
            refuse(self, f"{tell(x)} does not lie in {self.src}, which has {len(src)} dimensions")
        if x.dims is None:
            return
        for axis, extent in zip(src, x.dims, strict=True):
            if axis.block and differ(extent, axis.block):
                refuse(self, f"{tell(x)} does not lie in {self.src}: block {axis.letter} differs")

    def check_shape(self, x: Any, shape: Sequence[Any]) -> None:
        """Refuse a result that has other sizes than `x`, but for cropped blocks."""
        if len(shape) != len(_layout.axes_in(self.dst)):
            refuse(self, f"{tell_dims(shape)} does not lie in {self.dst}")
        if x.dims is None:
            return
        have, want = _layout.sizes_of(self.src, x.dims), _layout.sizes_of(self.dst, shape)
        for dim, size in have.items():
            block = _layout.block_of(self.src, dim) or 1
            spare = as_int(size) is not None and as_int(want[dim]) is not None
            if spare and not _layout.block_of(self.dst, dim):
                if not size - block < want[dim] <= size:
                    refuse(self, f"{tell(x)} in {self.src} does not become {tell_dims(shape)}")

    def result_shape(self, dims: Sequence[Any]) -> tuple[Any, ...]:
        """The shape in `dst` of a tensor of these dimensions in `src`."""
        return _layout.shape_in(self.dst, _layout.sizes_of(self.src, dims))

    def numpy(self, x: Any, shape: Any = None) -> Any:
        """reshape, transpose, reshape"""
        if self.index_map is not None:
            return _map_array(x, self.index_map, self.pad_value)
        order = _layout.letters(self.dst)
        sizes = {} if shape is None else _layout.sizes_of(self.dst, shape)
        return _layout.from_plain(_layout.to_plain(x, self.src, order, sizes), order, self.dst)

    def compute(self, x: Any, shape: Any = None) -> Any:
        """One copy, with zeros where a block is filled up."""
        if self.index_map is not None:
            return _map_loops(self, x, self.index_map, self.pad_value)
        target = self.result_shape(x.shape) if shape is None else tuple(shape)
        have = _layout.sizes_of(self.src, x.shape)
        room = _layout.sizes_of(self.dst, target)

        def source(*index: Any) -> Any:
            found, inside = {}, []
            for dim, place in _layout.places(self.dst, index).items():
                src, dst = _layout.block_of(self.src, dim), _layout.block_of(self.dst, dim)
                position = _layout.whole(place, dst)
                found[dim] = place if src == dst else _layout.at(position, src)
                if dst and src != dst and not same(room[dim], have[dim]):
                    inside.append(position < have[dim])
            value = x(*_layout.index_in(self.src, found))
            zero = const(0, x.dtype)
            return te.if_then_else(all_of(*inside), value, zero) if inside else value

        return te.compute(target, source, name="layout_transform")


# by an index map


def _map_info(op: OpDecl, x: Any, index_map: IndexMap, pad_value: Any) -> Any:
    """The shape that the map makes of x's dimensions."""
    if x.ndim not in (-1, len(index_map.initial_indices)):
        refuse(op, f"the index map takes {len(index_map.initial_indices)} indices, not {tell(x)}")
    if x.dims is None:
        refuse(op, f"an index map needs the dimensions of {tell(x)}", hint="use R.match_cast")
    whole = x.dtype is not None and not x.dtype.is_float
    if whole and pad_value is not None and float(pad_value) != int(pad_value):
        refuse(op, f"pad_value {pad_value} is none of {x.dtype}")
    return tensor(_map_dims(op, x.dims, index_map), x.dtype)


def _map_dims(op: OpDecl, dims: Sequence[Any], index_map: IndexMap) -> list[Any]:
    """The dimensions of the result."""
    try:
        made = index_map.map_shape(dims)
    except MLCError as error:
        refuse(op, f"the index map cannot be followed: {error.message}")
    return [tidy(cast("int64", d)) for d in made]


def _map_array(x: np.ndarray, index_map: IndexMap, pad_value: Any) -> np.ndarray:
    """Every element where the map puts it, `pad_value` (or 0) elsewhere."""
    return index_map.map_ndarray(np.asarray(x), 0 if pad_value is None else pad_value)


def _map_loops(op: OpDecl, x: Any, index_map: IndexMap, pad_value: Any) -> Any:
    """One copy, which asks for each place which element belongs there."""
    dims = _map_dims(op, x.shape, index_map)
    inverse, padding = index_map.non_surjective_inverse(x.shape)

    def source(*index: Any) -> Any:
        place = inverse.map_indices(index)
        if as_int(padding) == 0:
            return x(*place)
        inside = all_of(*(i < cast(i.dtype, d) for i, d in zip(place, x.shape, strict=True)))
        return te.if_then_else(inside, x(*place), const(pad_value or 0, x.dtype))

    return te.compute(dims, source, name="layout_transform")


@sugar("layout_transform")
def layout_transform(x: Any, *given: Any, index_map: Any = None, **options: Any) -> Call:
    """LayoutTransform of a map, TVM's form (`index_map, pad_value, axis_separators,
    input_axis_separators`), or of `shape, src, dst`; of any dtype.

    Raises:
        OperatorArgumentError: it has no such argument.
    """
    if given and (given[0] is None or _is_map(given[0])):
        index_map, *rest = given
        names = ("pad_value", "axis_separators", "input_axis_separators")
        given, options = (), {**dict(zip(names, rest, strict=False)), **options}
    if index_map is None:
        return make_call(LayoutTransform, x, *given, **options)
    said = {k: v for k, v in options.items() if v is not None}
    return make_call(LayoutTransform, x, *given, index_map=index_map, **said)


def _is_map(x: Any) -> bool:
    return isinstance(x, IndexMap) or callable(x) and not isinstance(x, Expr)
