"""mlcnb.tir.schedule.transform: loops cut to the size of an intrinsic."""

from __future__ import annotations

import numpy as np
import pytest

import mlcnb as mlc
from mlcnb.script import tir as T
from mlcnb.tir import Schedule
from mlcnb.tir.schedule.transform import tile_with_tensor_intrin
from mlcnb.tir.tensor_intrin.x86 import VNNI_DOT_16x4_INTRIN


def _product(rows: int, cols: int, depth: int):
    @T.prim_func
    def main(
        A: T.Buffer((rows, depth), "uint8"),
        W: T.Buffer((cols // 16, depth // 4, 16, 4), "int8"),
        C: T.Buffer((rows, cols), "int32"),
    ):
        T.func_attr({"tir.noalias": True})
        for i0, i1, i2 in T.grid(rows, cols, depth):
            with T.block("compute"):
                i, j, k = T.axis.remap("SSR", [i0, i1, i2])
                with T.init():
                    C[i, j] = 0
                C[i, j] = C[i, j] + T.cast(A[i, k], "int32") * T.cast(
                    W[j // 16, k // 4, j % 16, k % 4], "int32"
                )

    return main


def _runs(func, rows: int, cols: int, depth: int) -> np.ndarray:
    rng = np.random.default_rng(1)
    a = rng.integers(0, 9, (rows, depth)).astype("uint8")
    w = rng.integers(-9, 9, (cols // 16, depth // 4, 16, 4)).astype("int8")
    c = mlc.runtime.tensor(np.zeros((rows, cols), "int32"))
    mlc.compile(func, "llvm")["main"](mlc.runtime.tensor(a), mlc.runtime.tensor(w), c)
    wide = w.transpose(0, 2, 1, 3).reshape(cols, depth).astype("int32")
    np.testing.assert_array_equal(c.numpy(), a.astype("int32") @ wide.T)
    return c.numpy()


def test_the_taken_loops_are_cut_and_come_inside():
    sch = Schedule(_product(6, 32, 12))
    block = sch.get_block("compute")
    tile = tile_with_tensor_intrin(sch, block, VNNI_DOT_16x4_INTRIN)
    loops = sch.get_loops(block)
    assert [int(sch.get(x).extent) for x in loops] == [6, 2, 3, 16, 4]
    assert sch.get(tile) == sch.get(loops[3])
    _runs(sch.mod, 6, 32, 12)
    sch.decompose_reduction(block, loops[2])
    sch.tensorize(tile, VNNI_DOT_16x4_INTRIN)


def test_loops_of_the_very_size_are_cut_too():
    sch = Schedule(_product(6, 16, 4))
    tile = tile_with_tensor_intrin(sch, sch.get_block("compute"), VNNI_DOT_16x4_INTRIN)
    assert [int(sch.get(x).extent) for x in sch.get_loops("compute")] == [6, 1, 1, 16, 4]
    assert sch.get(tile) == sch.get(sch.get_loops("compute")[3])


def test_a_block_of_another_form_is_left_alone():
    @T.prim_func
    def main(A: T.Buffer((8,), "uint8"), B: T.Buffer((8,), "uint8")):
        for i in range(8):
            with T.block("B"):
                v = T.axis.spatial(8, i)
                B[v] = A[v]

    sch = Schedule(main)
    before = str(sch.mod)
    assert tile_with_tensor_intrin(sch, sch.get_block("B"), VNNI_DOT_16x4_INTRIN) is None
    assert str(sch.mod) == before
    with pytest.raises(mlc.MLCError):
        tile_with_tensor_intrin(sch, sch.get_block("B"), "no_such_intrinsic")
