"""transform_layout, transform_block_layout, reindex: whole programs and refusals."""

from __future__ import annotations

import numpy as np

from mlcnb import te, tir
from mlcnb.arith.reading import Context, simplified
from mlcnb.codegen.interp import run_prim_func
from mlcnb.ir.dtype import dtype
from mlcnb.ir.structural import assert_structural_equal
from mlcnb.script import tir as T
from mlcnb.tir import Var
from mlcnb.tir.index_map import IndexMap
from mlcnb.tir.schedule import Schedule
from tests.tir.schedule.programs import (
    becomes,
    copy_2d,
    elementwise,
    matmul,
    padded_sum,
    refuses,
    replays,
    row_sum,
    softmax,
    text,
)


def symbolic():
    """B = A * 2, C = B + 1, over a number of elements that is not known."""
    n = Var("n", dtype("int32"))
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] * 2.0, name="B")
    C = te.compute((n,), lambda i: B[i] + 1.0, name="C")
    return te.create_prim_func([A, C])


def test_buffer_in_the_middle():
    sch = Schedule(elementwise())
    sch.transform_layout("B", ("write", 0), lambda i: (i // 4, i % 4))
    becomes(
        sch,
        """
        B = T.alloc_buffer((4, 4))
        for i in range(16):
            with T.block("B"):
                v_i = T.axis.spatial(16, i)
                B[v_i // 4, v_i % 4] = A[v_i] * T.float32(2.0)
        for i in range(16):
            with T.block("C"):
                v_i = T.axis.spatial(16, i)
                C[v_i] = B[v_i // 4, v_i % 4] + T.float32(1.0)
        """,
    )


def test_from_the_reader_by_name_with_an_index_map():
    sch = Schedule(softmax(2, 4))
    sch.transform_layout("D", "E", IndexMap.from_func(lambda i, j: (j, i), index_dtype="int32"))
    assert "E = T.alloc_buffer((4, 2))" in text(sch)
    assert "S[v_i] = S[v_i] + E[v_r, v_i]" in text(sch)


def test_padding_is_filled_by_the_producer():
    sch = Schedule(elementwise(10))
    sch.transform_layout("B", ("write", 0), lambda i: (i // 4, i % 4), pad_value=0.0)
    becomes(
        sch,
        """
        B = T.alloc_buffer((3, 4))
        for ax0, ax1 in T.grid(3, 4):
            with T.block("B"):
                v0, v1 = T.axis.remap("SS", [ax0, ax1])
                B[v0, v1] = T.if_then_else(v0 == 2 and 2 <= v1, T.float32(0.0), A[v0 * 4 + v1] * T.float32(2.0))
        for i in range(10):
            with T.block("C"):
                v_i = T.axis.spatial(10, i)
                C[v_i] = B[v_i // 4, v_i % 4] + T.float32(1.0)
        """,  # noqa: E501
    )


def test_the_padded_producer_can_be_moved_and_inlined():
    sch = Schedule(elementwise(10))
    sch.transform_layout("B", ("write", 0), lambda i: (i // 4, i % 4), pad_value=0.0)
    sch.compute_at("B", sch.get_loops("C")[0])
    becomes(
        sch,
        """
        B = T.alloc_buffer((3, 4))
        for i in range(10):
            with T.block("B"):
                v0 = T.axis.spatial(3, i // 4)
                v1 = T.axis.spatial(4, i % 4)
                B[v0, v1] = T.if_then_else(v0 == 2 and 2 <= v1, T.float32(0.0), A[v0 * 4 + v1] * T.float32(2.0))
            with T.block("C"):
                v_i = T.axis.spatial(10, i)
                C[v_i] = B[v_i // 4, v_i % 4] + T.float32(1.0)
        """,  # noqa: E501
    )
    sch.undo()
    sch.compute_inline("B")
    assert "C[v_i] = A[v_i] * T.float32(2.0) + T.float32(1.0)" in text(sch)
    becomes(sch, text(sch))


def test_padding_of_a_reduction_is_filled_behind_it():
    sch = Schedule(softmax(3, 5))
    sch.transform_layout("S", ("write", 0), lambda i: (i // 2, i % 2), pad_value=1.0)
    becomes(
        sch,
        """
        M = T.alloc_buffer((3,))
        E = T.alloc_buffer((3, 5))
        S = T.alloc_buffer((2, 2))
        for i, k in T.grid(3, 5):
            with T.block("M"):
                v_i, v_k = T.axis.remap("SR", [i, k])
                with T.init():
                    M[v_i] = T.float32("-inf")
                M[v_i] = T.max(M[v_i], A[v_i, v_k])
        for i, j in T.grid(3, 5):
            with T.block("E"):
                v_i, v_j = T.axis.remap("SS", [i, j])
                E[v_i, v_j] = T.exp(A[v_i, v_j] - M[v_i])
        for i, r in T.grid(3, 5):
            with T.block("S"):
                v_i, v_r = T.axis.remap("SR", [i, r])
                with T.init():
                    S[v_i // 2, v_i % 2] = T.float32(0.0)
                S[v_i // 2, v_i % 2] = S[v_i // 2, v_i % 2] + E[v_i, v_r]
        for ax0, ax1 in T.grid(2, 2):
            with T.block("S_pad"):
                v0, v1 = T.axis.remap("SS", [ax0, ax1])
                T.where(ax0 == 1 and 1 <= ax1)
                S[v0, v1] = T.float32(1.0)
        for i, j in T.grid(3, 5):
            with T.block("D"):
                v_i, v_j = T.axis.remap("SS", [i, j])
                D[v_i, v_j] = E[v_i, v_j] / S[v_i // 2, v_i % 2]
        """,
    )


def test_padding_is_filled_behind_a_producer_whose_loops_were_split():
    sch = Schedule(elementwise(10))
    sch.split(sch.get_loops("B")[0], [2, 5])
    sch.transform_layout("B", ("write", 0), lambda i: (i // 4, i % 4), pad_value=0.0)
    assert [b.name_hint for b in sch.state.tree("main").blocks] == ["root", "B", "B_pad", "C"]
    becomes(sch, text(sch))


def test_padding_that_differs_by_place():
    sch = Schedule(elementwise(10))
    layout = lambda i: (i // 4, i % 4)
    sch.transform_layout("B", ("write", 0), layout, pad_value=lambda a, b: a * 4 + b)
    store = 'T.if_then_else(v0 == 2 and 2 <= v1, T.Cast("float32", v0 * 4 + v1), A['
    assert store in text(sch)
    becomes(sch, text(sch))


def test_padding_that_differs_by_place_in_a_block_of_its_own():
    """Indices are integers, the buffer holds floats (the store had the dtype of the indices)."""
    sch = Schedule(elementwise(10))
    sch.split(sch.get_loops("B")[0], [2, 5])
    layout = lambda i: (i // 4, i % 4)
    sch.transform_layout("B", ("write", 0), layout, pad_value=lambda a, b: a * 4 + b)
    assert 'B[v0, v1] = T.Cast("float32", v0 * 4 + v1)' in text(sch)
    becomes(sch, text(sch))


def test_a_symbolic_shape_is_laid_out_and_padded():
    sch = Schedule(symbolic())
    sch.transform_layout("B", ("write", 0), lambda i: (i // 4, i % 4), pad_value=0.0)
    becomes(
        sch,
        """
        B = T.alloc_buffer(((n + 3) // 4, 4))
        for ax0, ax1 in T.grid((n + 3) // 4, 4):
            with T.block("B"):
                v0, v1 = T.axis.remap("SS", [ax0, ax1])
                B[v0, v1] = T.if_then_else(n <= v0 * 4 + v1, T.float32(0.0), A[v0 * 4 + v1] * T.float32(2.0))
        for i in range(n):
            with T.block("C"):
                v_i = T.axis.spatial(n, i)
                C[v_i] = B[v_i // 4, v_i % 4] + T.float32(1.0)
        """,  # noqa: E501
    )


def test_a_swizzle_is_tried_for_every_index():
    sch = Schedule(copy_2d(4, 4))
    sch.cache_read("B", 0, "shared")
    sch.transform_layout("A_shared", ("write", 0), lambda i, j: (i, j ^ i))
    becomes(
        sch,
        """
        A_shared = T.alloc_buffer((4, 4), scope="shared")
        for ax0, ax1 in T.grid(4, 4):
            with T.block("A_shared"):
                v0, v1 = T.axis.remap("SS", [ax0, ax1])
                A_shared[v0, v1 ^ v0] = A[v0, v1]
        for i, j in T.grid(4, 4):
            with T.block("B"):
                v_i, v_j = T.axis.remap("SS", [i, j])
                B[v_i, v_j] = A_shared[v_i, v_j ^ v_i] * T.float32(2.0)
        """,
    )


def test_separators_follow_the_layout():
    sch = Schedule(elementwise(16))
    layout = lambda i: [i // 4, IndexMap.AXIS_SEPARATOR, i % 4]
    sch.transform_layout("B", ("write", 0), layout)
    assert text(sch).startswith("B = T.alloc_buffer((4, 4), axis_separators=[1])")
    assert [x.name for x in sch.trace if not x.pure] == ["transform_layout", "set_axis_separator"]
    becomes(sch, text(sch))


def test_parameter_changes_the_signature():
    sch = Schedule(copy_2d(4, 6))
    sch.transform_layout("B", ("read", 0), lambda i, j: (j, i))
    func = sch.mod["main"]
    assert [int(x) for x in func.buffers[0].shape] == [6, 4]
    a = np.arange(24, dtype="float32").reshape(6, 4)
    b = np.empty((4, 6), "float32")
    run_prim_func(func, [a, b])
    np.testing.assert_array_equal(b, a.T * 2)


def test_regions_follow():
    sch = Schedule(row_sum(2, 8))
    _i, k = sch.get_loops("B")
    sch.cache_read("B", 0, "local")
    sch.blockize(k)
    sch.transform_layout("B_o", ("read", 0), lambda i, j: (j, i))
    assert "T.reads(A_local[0:8, v_i_o])" in text(sch)


def test_block_of_a_reduction():
    sch = Schedule(matmul())
    sch.transform_block_layout("C", lambda i, j, k: (k, i // 2, j, i % 2))
    becomes(
        sch,
        """
        for ax0, ax1, ax2, ax3 in T.grid(4, 2, 4, 2):
            with T.block("C"):
                v0, v1, v2, v3 = T.axis.remap("RSSS", [ax0, ax1, ax2, ax3])
                with T.init():
                    C[v1 * 2 + v3, v2] = T.float32(0.0)
                C[v1 * 2 + v3, v2] = C[v1 * 2 + v3, v2] + A[v1 * 2 + v3, v0] * B[v0, v2]
        """,
    )


def test_block_with_padding():
    sch = Schedule(copy_2d(6, 4))
    sch.transform_block_layout("B", lambda i, j: (i // 4, j, i % 4))
    becomes(
        sch,
        """
        for ax0, ax1, ax2 in T.grid(2, 4, 4):
            with T.block("B"):
                v0, v1, v2 = T.axis.remap("SSS", [ax0, ax1, ax2])
                T.where(ax0 * 4 + ax2 < 6)
                B[v0 * 4 + v2, v1] = A[v0 * 4 + v2, v1] * T.float32(2.0)
        """,
    )


def test_block_axes_fused():
    sch = Schedule(copy_2d(6, 4))
    sch.transform_block_layout("B", lambda i, j: (i * 4 + j,))
    becomes(
        sch,
        """
        for ax0 in range(24):
            with T.block("B"):
                v0 = T.axis.spatial(24, ax0)
                B[v0 // 4, v0 % 4] = A[v0 // 4, v0 % 4] * T.float32(2.0)
        """,
    )


def test_reindex_of_an_input():
    sch = Schedule(padded_sum(4))
    made = sch.reindex("C", ("read", 0))
    assert repr(made) == "block pad_reindex"
    becomes(
        sch,
        """
        pad = T.alloc_buffer((5,))
        pad_reindex = T.alloc_buffer((4, 2))
        for i in range(5):
            with T.block("pad"):
                v_i = T.axis.spatial(5, i)
                pad[v_i] = T.if_then_else(1 <= v_i, A[v_i - 1], T.float32(0.0))
        for ax0, ax1 in T.grid(4, 2):
            with T.block("pad_reindex"):
                v0, v1 = T.axis.remap("SS", [ax0, ax1])
                pad_reindex[v0, v1] = pad[v0 + v1]
        for i, k in T.grid(4, 2):
            with T.block("C"):
                v_i, v_k = T.axis.remap("SR", [i, k])
                with T.init():
                    C[v_i] = T.float32(0.0)
                C[v_i] = C[v_i] + pad_reindex[v_i, v_k]
        """,
    )


def test_reindex_of_an_output():
    sch = Schedule(matmul())
    made = sch.reindex("C", ("write", 0))
    assert repr(made) == "block C_reindex"
    becomes(
        sch,
        """
        C_reindex = T.alloc_buffer((4, 4))
        for i, j, k in T.grid(4, 4, 4):
            with T.block("C"):
                v_i, v_j, v_k = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C_reindex[v_i, v_j] = T.float32(0.0)
                C_reindex[v_i, v_j] = C_reindex[v_i, v_j] + A[v_i, v_k] * B[v_k, v_j]
        for ax0, ax1 in T.grid(4, 4):
            with T.block("C_reindex"):
                v0, v1 = T.axis.remap("SS", [ax0, ax1])
                C[v0, v1] = C_reindex[v0, v1]
        """,
    )


def test_refusals():
    sch = Schedule(padded_sum(4))
    C, pad = sch.get_block("C"), sch.get_block("pad")
    with refuses(
        sch,
        "reindex: ('read', 1) is no buffer of block C",
        hint='("read", n) of pad, or ("write", n) of C',
    ):
        sch.reindex(C, ("read", 1))
    with refuses(
        sch,
        "reindex: block pad may look outside of A, where a copy may not",
        hint="keep the padding in a block of its own",
    ):
        sch.reindex(pad, ("read", 0))
    with refuses(
        sch,
        "transform_block_layout: axis 0 would be spatial and reduce at once",
    ):
        sch.transform_block_layout(C, lambda i, k: (i * 2 + k,))
    with refuses(
        sch,
        "transform_layout: the index map is no layout of [5]: it takes [0] and [1] both to [0]",
    ):
        sch.transform_layout(C, ("read", 0), lambda i: (i // 2,))
    sch.split(sch.get_loops(C)[0], [2, 2])
    with refuses(
        sch,
        "transform_block_layout: the axes of block C are not its loops, one for one",
        hint="transform it before its loops are split and fused",
    ):
        sch.transform_block_layout(C, lambda i, k: (k, i))


def test_maps_that_are_no_layouts():
    sch = Schedule(elementwise(4))
    start = "transform_layout: the index map is no layout of [4]: "
    for layout, reason in (
        (lambda i: (i - 1,), "the index i - 1 takes negative values, down to -1"),
        (lambda i: (i % 3,), "it takes [0] and [3] both to [0]"),
        (lambda i, j: (i, j), "the map takes 2 indices, the shape has 1"),
    ):
        with refuses(sch, start + reason):
            sch.transform_layout("B", ("write", 0), layout)
    with refuses(sch, "transform_layout: the index map gives no index"):
        sch.transform_layout("B", ("write", 0), lambda i: ())
    with refuses(sch, "transform_layout: 5 is no function of indices, and no IndexMap"):
        sch.transform_layout("B", ("write", 0), 5)
    with refuses(sch, "transform_layout: the padding is handle, B holds float32"):
        sch.transform_layout("B", ("write", 0), lambda i: (i // 3, i % 3), pad_value="none")
    with refuses(
        sch,
        "transform_layout: it is not known which elements of the new layout are padding: the index "
        "map has no inverse in closed form",
        hint="leave pad_value out",
    ):
        sch.transform_layout("B", ("write", 0), lambda i: (i ^ 4,), pad_value=0.0)


def test_a_symbolic_map_is_taken_on_trust_only_where_told():
    sch = Schedule(symbolic())
    twice = lambda i: (i // 4, i)
    with refuses(
        sch,
        "transform_layout: the index map is no layout of [n]: the index map has no inverse: "
        "a part of i is used twice, or not at all",
        hint="use non_surjective_inverse where it pads, or give inverse_index_map",
    ):
        sch.transform_layout("B", ("write", 0), twice)
    sch.transform_layout("B", ("write", 0), twice, assume_injective_transform=True)
    assert "B[v_i // 4, v_i] = A[v_i] * T.float32(2.0)" in text(sch)
    becomes(sch, text(sch))


def test_the_last_index_of_a_map_by_its_name():
    sch = Schedule(elementwise())
    sch.transform_layout("B", "A", lambda *indices, k: [*indices, k // 4, k % 4])
    again = Schedule(elementwise())
    again.transform_layout("B", "A", lambda i: [i // 4, i % 4])
    assert_structural_equal(sch.mod, again.mod)
    replays(sch)


def test_padding_of_an_inlined_copy_is_proved_away():
    """x // 4 == 2 and 2 <= x % 4 is 10 <= x, where x stays below 12; not where it may not."""
    x = Var("x", "int32")
    ends = (x // 4).equal(2), tir.const(2, "int32") <= x % 4
    both = tir.all(*ends)
    assert str(simplified(both, Context({x: (0, 9)}))) == "T.bool(False)"
    assert str(simplified(both, Context({x: (0, 11)}))) == "10 <= x"
    assert "x // 4 == 2" in str(simplified(both, Context({x: (0, 12)})))
    assert "x // 4 == 2" in str(simplified(both))


def test_an_empty_scope_is_global():
    @T.prim_func
    def main(A: T.Buffer((4,), "float32")):
        B = T.alloc_buffer((4,), scope="")
        for i in range(4):
            with T.block("B"):
                v = T.axis.spatial(4, i)
                B[v] = A[v]

    assert main.body.block.alloc_buffers[0].scope == "global"


def test_sizes_that_are_parameters_are_fused_into_one():
    """The extent of `y * n + w` is told from n >= 0; an axis of extent 1 is left out."""
    n = Var("n", dtype("int64"))
    A = te.placeholder((1, 8, n), name="A")
    B = te.compute((1, 8, n), lambda x, y, w: A[x, y, w] + 1.0, name="B")
    sch = Schedule(te.create_prim_func([A, B]))
    size = sch.mod["main"].buffers[1].shape[2]
    flat = lambda x, y, w: x * 8 * size + y * size + w
    sch.transform_layout("B", ("write", 0), flat, assume_injective_transform=True)
    func = sch.mod["main"]
    assert str(func.buffers[1].shape) == "(n * T.int64(8),)"
    assert "B[v_y * n + v_w] = A[v_x, v_y, v_w] + T.float32(1.0)" in text(sch)
    a = np.arange(24, dtype="float32").reshape(1, 8, 3)
    b = np.empty(24, "float32")
    run_prim_func(func, [a, b])
    np.testing.assert_array_equal(b, a.reshape(-1) + 1)


def test_padding_is_read_from_no_buffer():
    sch = Schedule(elementwise(10))
    other = tir.decl_buffer((1,), "float32", name="other")
    layout = lambda i: (i // 4, i % 4)
    for value in (lambda a, b: other[0] + 1.0, other[0]):
        with refuses(
            sch,
            "transform_layout: the padding is read from other; it may be made of the new indices "
            "and of constants only",
            hint="pad_value=0, or leave pad_value out",
        ):
            sch.transform_layout("B", ("write", 0), layout, pad_value=value)
