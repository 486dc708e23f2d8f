"""Cases of operators that move elements, and of those that pick them by position."""

from __future__ import annotations

import numpy as np

from mlcnb.op.indexing import slice as slices
from mlcnb.op.indexing import take
from mlcnb.op.manipulate import (
    broadcast,
    depth_space,
    gather,
    join,
    layout,
    one_hot,
    pad,
    permute,
    repeat,
    reshape,
    scatter,
)
from tests.op.harness import Case, numbers

FILES = (
    "broadcast depth_space gather join layout one_hot pad permute repeat reshape scatter".split()
)
MODULES = tuple(f"mlcnb.op.manipulate.{name}" for name in FILES)
MODULES += ("mlcnb.op.indexing.slice", "mlcnb.op.indexing.take")
BIG = 2**63 - 1


def whole(shape, low, high, seed=0, kind="int64"):
    return numbers(shape, kind, seed, low, high)


def _reshapes():
    targets = [
        ((2, 3, 4), (6, 4)),
        ((2, 3, 4), (4, -1)),
        ((6, 4), (2, 3, 2, 2)),
        ((1, 3, 1), (3,)),
        ((1,), ()),
        ((2, 0), (0, 5)),
        ((2, 6, 2), (4, 3, 2)),
        ((2, 3), (2, 1, 3, 1)),
    ]
    for have, want in targets:
        yield Case(reshape.Reshape(), [numbers(have), want], note=str(want))
    yield Case(reshape.Flatten(), [numbers((2, 3), "int8")])
    yield Case(reshape.Flatten(), [numbers(())])
    yield Case(reshape.BatchFlatten(), [numbers((2, 3, 2))])
    yield Case(reshape.BatchFlatten(), [numbers((2,))])
    yield Case(depth_space.PixelShuffle(2), [numbers((1, 8, 2, 3))])
    yield Case(depth_space.PixelShuffle(1), [numbers((1, 2, 2, 3))])
    for axis in (1, (0, -1), (-1,), ()):
        yield Case(reshape.ExpandDims(axis), [numbers((2, 3))], note=str(axis))
    for axis in (None, 0, -1, (0, 2)):
        yield Case(reshape.Squeeze(axis), [numbers((1, 2, 1), "bool")], note=str(axis))
    for axes in (None, (1, 2, 0), (0, -1, 1)):
        yield Case(permute.PermuteDims(axes), [numbers((2, 3, 4))], note=str(axes))
    yield Case(broadcast.BroadcastTo(), [numbers((3, 1)), (2, 3, 4)])
    yield Case(broadcast.BroadcastTo(), [numbers(()), (2,)])
    for shape in ((3, 1), (2, 1, 4), (4,), (2, 3, 4)):
        yield Case(broadcast.CollapseSumTo(), [numbers((2, 3, 4)), shape], note=str(shape))
    yield Case(broadcast.CollapseSumLike(), [numbers((2, 3, 4)), numbers((1, 4))])


def _joins():
    parts = [numbers((2, 3)), numbers((2, 1), seed=1), numbers((2, 2), seed=2)]
    yield Case(join.Concat(1), [parts])
    yield Case(join.Concat(-1), [parts[:1]])
    yield Case(join.Concat(None), [[numbers((2,)), numbers((3,), seed=1)]])
    yield Case(join.Concat(0), [[numbers((1, 2), "int64"), numbers((2, 2), "int64")]])
    for axis in (0, 1, -1):
        yield Case(join.Stack(axis), [[parts[0], numbers((2, 3), seed=3)]], note=str(axis))
    for sections, axis in ((2, 0), ((1, 3), -1), (1, 0), (3, 1), ((0, 2), 1)):
        case = Case(join.Split(sections, axis), [numbers((4, 6))], note=f"{sections}-{axis}")
        yield case
    yield Case(join.Split(2, 0), [numbers((5, 2))], note="uneven")


def _pads():
    for mode in pad.MODES:
        for width in ((2, 1, 0, 3), (-1, 1, 9, -2), (0, 0, 1, 0)):
            yield Case(pad.Pad(width, mode, 1.5), [numbers((4, 5))], note=f"{mode}-{width}")
    for width in ((-4, 4), (-9, 9), (9, -9), (-5, 6), (6, -5)):
        yield Case(pad.Pad(width, "constant", 1.5), [numbers((4,))], note=f"nothing-left-{width}")
    yield Case(pad.Pad((-1, -1, 0, 0)), [numbers((4, 5), "int32")])
    yield Case(pad.Pad((2, 2), "reflect"), [numbers((1,))])
    yield Case(pad.Pad((1, 0), "constant", float("-inf")), [numbers((2,))])
    yield Case(pad.Pad((1, 0), "constant", 1.0), [numbers((2,), "bool")])


def _layouts():
    there_and_back = [
        ((1, 30, 2, 3), "NCHW", "NCHW16c", None),
        ((1, 2, 2, 3, 16), "NCHW16c", "NCHW", (1, 30, 2, 3)),
        ((1, 2, 2, 3, 16), "NCHW16c", "NHWC", None),
        ((1, 2, 2, 3, 16), "NCHW16c", "NCHW8c", None),
        ((1, 6, 2, 3), "NCHW", "NHWC", None),
        ((10, 6, 2, 1), "OIHW", "OIHW4i8o", None),
        ((2, 2, 2, 1, 4, 8), "OIHW4i8o", "HWIO", (2, 1, 6, 10)),
    ]
    for have, src, dst, shape in there_and_back:
        yield Case(layout.LayoutTransform(src, dst), [numbers(have), shape], note=f"{src}-{dst}")


def _slices():
    bounds = [
        ((0, 1), (1, -1), (4, -7), (2, -2)),
        ((1,), (2,), (BIG,), None),
        ((-1,), (-3,), (2**31 - 1,), (1,)),
        ((0,), (4,), (2,), (1,)),
        ((0,), (BIG,), (-BIG,), (-1,)),
        ((0, 1), (-100, 0), (100, 4), (3, 3)),
    ]
    for axes, begin, end, strides in bounds:
        given = [numbers((5, 6)), axes, begin, end, strides]
        yield Case(slices.StridedSlice(), given, note=f"{begin}-{end}")
    yield Case(slices.StridedSlice(True), [numbers((5, 6)), (0,), (1,), (4,), None])
    bound = [np.array(v) for v in ((1, -1), (4, -7), (2, -2))]
    yield Case(slices.DynamicStridedSlice(), [numbers((5, 6)), *bound], loops=False)


def _takes():
    for mode in ("clip", "wrap", "nan"):
        yield Case(take.Take(1, mode), [numbers((4, 5, 3)), whole((2, 3), -7, 8)], note=mode)
    yield Case(take.Take(1, "signed"), [numbers((4, 5, 3)), whole((2, 3), -5, 4)], note="signed")
    yield Case(take.Take(1), [numbers((4, 5)), whole((2,), 0, 4, kind="int32")])
    yield Case(take.Take(), [numbers((4,)), np.array(2)])
    yield Case(take.Take(0), [numbers((4, 2)), whole((3,), 0, 3, kind="uint8")])
    for axis in (0, 1, -1):
        given = [numbers((4, 3)), whole((2, 3), -3, 2)]
        yield Case(gather.GatherElements(axis), given, note=str(axis))
    yield Case(gather.GatherNd(), [numbers((3, 4, 2)), whole((2, 2), -3, 2)])
    yield Case(gather.GatherNd(1), [numbers((2, 4, 3)), whole((2, 3, 1), -4, 3)])
    yield Case(gather.GatherNd(2), [numbers((2, 2, 3)), whole((2, 2, 2, 1), -3, 2)])
    given = [numbers((3, 4, 2)), [whole((2, 1), -3, 2), whole((3,), -4, 3)]]
    yield Case(gather.IndexTensor(), given)


def _scatters():
    x, updates = numbers((4, 3)), numbers((2, 3), seed=1)
    far = whole((2, 3), -4, 3, seed=2)
    for how in scatter.COMBINE:
        yield Case(scatter.ScatterElements(0, how), [x, far, updates], note=how)
        rows = whole((3, 1), -4, 3, seed=3)
        yield Case(scatter.ScatterNd(how), [x, rows, numbers((3, 3), seed=4)], note=how)
    yield Case(scatter.ScatterElements(1), [x, whole((2, 2), -3, 2), numbers((2, 2), seed=1)])
    cells = np.array([[0, 1], [3, 2], [0, 1], [-1, -1]])
    yield Case(scatter.ScatterNd(), [x, cells, numbers((4,), seed=1)])
    pair = [whole((2, 1), -4, 3), whole((3,), -3, 2)]
    for accumulate in (False, True):
        put = scatter.IndexPut(accumulate)
        yield Case(put, [x, pair, numbers((3,), seed=5)], note=str(accumulate))
        yield Case(put, [x, [np.array([1, 1])], numbers((2, 3), seed=5)], note=str(accumulate))
    yield Case(scatter.SliceScatter(0), [numbers((6, 2)), numbers((2, 2), seed=1), 1, 5, 2])
    yield Case(scatter.SliceScatter(-1), [numbers((2, 4)), numbers((2, 3), seed=1), 1, 4, 1])


def _repeats():
    for counts in ((2, 1, 3), 2, (1,), (0, 1)):
        yield Case(repeat.Tile(counts), [numbers((2, 3))], note=str(counts))
    for axis in (-1, 0, None):
        yield Case(repeat.Repeat(2, axis), [numbers((2, 3))], note=str(axis))
    yield Case(repeat.Flip(1), [numbers((2, 3))])
    lengths = np.array([1, 3, 4])
    yield Case(repeat.ReverseSequence(0, 1), [numbers((4, 3, 2)), lengths])
    yield Case(repeat.ReverseSequence(1, 0), [numbers((3, 4)), lengths.astype("int32")])
    lines = [numbers((2,)), numbers((3,), seed=1), numbers((2,), seed=2)]
    for indexing in ("ij", "xy"):
        yield Case(repeat.Meshgrid(indexing), [lines], note=indexing)
        yield Case(repeat.Meshgrid(indexing), [lines[:1]], note=indexing)
    for axis in (1, -1, 0):
        yield Case(one_hot.OneHot(4, axis), [whole((2, 3), -1, 5), 1.5, 0.5], note=str(axis))


FAMILIES = (
    _reshapes, _joins, _pads, _layouts, _slices, _takes, _scatters, _repeats,
)  # fmt: skip
CASES = [case for family in FAMILIES for case in family()]
