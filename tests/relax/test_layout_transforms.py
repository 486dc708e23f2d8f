"""suggest_layout_transforms: what follows from a new layout of a result."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mlcnb as tvm
from mlcnb.core.errors import ArgumentError
from mlcnb.ir import assert_structural_equal
from mlcnb.relax.analysis import suggest_layout_transforms
from mlcnb.script import tir as T


def to_nhwc(n: Any, c: Any, h: Any, w: Any) -> tuple:
    return n, h, w, c


def applied(func: tvm.tir.PrimFunc, results: dict[str, Any]) -> tvm.tir.PrimFunc:
    """The function with the suggestions carried out, and its results laid out as asked."""
    found = suggest_layout_transforms(func, list(results.values()))
    sch = tvm.tir.Schedule(func)
    done = set()
    for block, maps in found.items():
        for item, index_map in maps.items():
            here = sch.get_block(block.name_hint)
            if item is block:
                sch.transform_block_layout(here, index_map)
            elif item not in done:
                done.add(item)
                sch.transform_layout(here, item.name, index_map)
    return sch.mod["main"]


@T.prim_func
def relu(A: T.Buffer((2, 3, 4, 5)), B: T.Buffer((2, 3, 4, 5))):
    for n, c, h, w in T.grid(2, 3, 4, 5):
        with T.block("relu"):
            vn, vc, vh, vw = T.axis.remap("SSSS", [n, c, h, w])
            B[vn, vc, vh, vw] = T.max(A[vn, vc, vh, vw], T.float32(0))


def test_elementwise() -> None:
    @T.prim_func
    def main(A: T.Buffer((2, 4, 5, 3)), B: T.Buffer((2, 4, 5, 3))):
        for n, h, w, c in T.grid(2, 4, 5, 3):
            with T.block("relu"):
                vn, vh, vw, vc = T.axis.remap("SSSS", [n, h, w, c])
                B[vn, vh, vw, vc] = T.max(A[vn, vh, vw, vc], T.float32(0))

    assert_structural_equal(applied(relu, {"B": to_nhwc}).without_attr("global_symbol"),
                            main.without_attr("global_symbol"))  # fmt: skip


def test_a_chain_of_a_window_and_a_sum() -> None:
    """The layout goes through the block between; what is added has no more dimensions than it."""

    @T.prim_func
    def pooled(A: T.Buffer((2, 8, 6, 6)), C: T.Buffer((8,)), B: T.Buffer((2, 8, 3, 3))):
        P = T.alloc_buffer((2, 8, 3, 3))
        for n, c, h, w, i, j in T.grid(2, 8, 3, 3, 2, 2):
            with T.block("pool"):
                vn, vc, vh, vw, vi, vj = T.axis.remap("SSSSRR", [n, c, h, w, i, j])
                with T.init():
                    P[vn, vc, vh, vw] = T.float32(0)
                P[vn, vc, vh, vw] = T.max(P[vn, vc, vh, vw], A[vn, vc, vh * 2 + vi, vw * 2 + vj])
        for n, c, h, w in T.grid(2, 8, 3, 3):
            with T.block("add"):
                vn, vc, vh, vw = T.axis.remap("SSSS", [n, c, h, w])
                B[vn, vc, vh, vw] = P[vn, vc, vh, vw] + C[vc]

    found = suggest_layout_transforms(pooled, [to_nhwc])
    names = {
        block.name_hint: sorted("" if x is block else x.name for x in maps)
        for block, maps in found.items()
    }
    assert names == {"add": ["", "B", "C", "P"], "pool": ["", "A"]}
    made = applied(pooled, {"B": to_nhwc})
    assert [list(b.shape) for b in made.buffer_map.values()] == [[2, 6, 6, 8], [8], [2, 3, 3, 8]]
    rng = np.random.default_rng(0)
    a, c = rng.normal(size=(2, 8, 6, 6)).astype("float32"), rng.normal(size=8).astype("float32")
    before, after = np.zeros((2, 8, 3, 3), "float32"), np.zeros((2, 3, 3, 8), "float32")
    tvm.compile(pooled, "llvm")(a, c, before)
    tvm.compile(made, "llvm")(np.ascontiguousarray(a.transpose(0, 2, 3, 1)), c, after)
    np.testing.assert_array_equal(after, before.transpose(0, 2, 3, 1))


def test_packed_channels() -> None:
    maps = suggest_layout_transforms(relu, [lambda n, c, h, w: (n, c // 3, h, w, c % 3)])
    [(block, found)] = maps.items()
    a, b = (x for x in found if x is not block)
    assert (a.name, b.name) == ("A", "B")
    assert found[a].is_equivalent_to(found[block])
    assert list(map(int, found[a].map_shape((2, 3, 4, 5)))) == [2, 1, 4, 5, 3]


def test_what_is_not_read_place_by_place_stays() -> None:
    @T.prim_func
    def mixed(A: T.Buffer((4, 4)), I: T.Buffer((4,), "int32"), B: T.Buffer((4, 4))):
        for i, j in T.grid(4, 4):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[I[vi], vj] + A[vi + vj - vj, vj]

    [(block, found)] = suggest_layout_transforms(mixed, [lambda i, j: (j, i)]).items()
    assert [x.name for x in found if x is not block] == ["I", "B"]


def test_nested_blocks_get_none() -> None:
    @T.prim_func
    def nested(A: T.Buffer((4, 4)), B: T.Buffer((4, 4))):
        for i in range(4):
            with T.block("outer"):
                vi = T.axis.spatial(4, i)
                for j in range(4):
                    with T.block("inner"):
                        vj = T.axis.spatial(4, j)
                        B[vi, vj] = A[vi, vj]

    assert suggest_layout_transforms(nested, [lambda i, j: (j, i)]) == {}


def test_a_map_for_each_result() -> None:
    with pytest.raises(ArgumentError, match="Incompatible PrimFunc and write_transformations"):
        suggest_layout_transforms(relu, [to_nhwc, to_nhwc])
    assert suggest_layout_transforms(relu, []) == {}
    with pytest.raises(ArgumentError, match="Mismatch between output buffer shape and index map"):
        suggest_layout_transforms(relu, [lambda n, h, w: (n, w, h)])
    with pytest.raises(ArgumentError, match="an int is no layout of B"):
        suggest_layout_transforms(relu, [2])
