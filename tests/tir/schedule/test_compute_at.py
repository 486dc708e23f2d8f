"""compute_at: whole programs over several consumers, borders, predicates; refusals."""

from __future__ import annotations

from mlcnb import te, tir
from mlcnb.tir.schedule import Schedule
from tests.tir.schedule.programs import (
    becomes,
    conv2d,
    elementwise,
    matmul,
    matmul_relu,
    only,
    padded_pool,
    padded_sum,
    refuses,
    replays,
    row_sum,
    same_numbers,
    softmax,
    stencil,
    symbolic_chain,
    symbolic_matmul_relu,
    text,
    two_consumers,
)


def test_tile():
    sch = Schedule(elementwise())
    i0, _i1 = sch.split(sch.get_loops("C")[0], [4, 4])
    sch.compute_at("B", i0)
    becomes(
        sch,
        """
        B = T.alloc_buffer((16,))
        for i_0 in range(4):
            for ax0 in range(4):
                with T.block("B"):
                    v_i = T.axis.spatial(16, i_0 * 4 + ax0)
                    B[v_i] = A[v_i] * T.float32(2.0)
            for i_1 in range(4):
                with T.block("C"):
                    v_i = T.axis.spatial(16, i_0 * 4 + i_1)
                    C[v_i] = B[v_i] + T.float32(1.0)
        """,
    )


def test_single_element_needs_no_loop():
    sch = Schedule(elementwise())
    (i,) = sch.get_loops("C")
    sch.compute_at("B", i)
    becomes(
        sch,
        """
        B = T.alloc_buffer((16,))
        for i in range(16):
            with T.block("B"):
                v_i = T.axis.spatial(16, i)
                B[v_i] = A[v_i] * T.float32(2.0)
            with T.block("C"):
                v_i = T.axis.spatial(16, i)
                C[v_i] = B[v_i] + T.float32(1.0)
        """,
    )


def test_unit_loops_are_kept_on_request():
    sch = Schedule(elementwise())
    (i,) = sch.get_loops("C")
    sch.compute_at("B", i, preserve_unit_loops=True)
    becomes(
        sch,
        """
        B = T.alloc_buffer((16,))
        for i in range(16):
            for ax0 in range(1):
                with T.block("B"):
                    v_i = T.axis.spatial(16, i + ax0)
                    B[v_i] = A[v_i] * T.float32(2.0)
            with T.block("C"):
                v_i = T.axis.spatial(16, i)
                C[v_i] = B[v_i] + T.float32(1.0)
        """,
    )


def test_border_is_made_again():
    sch = Schedule(stencil())
    i0, _i1 = sch.split(sch.get_loops("C")[0], [3, 4])
    sch.compute_at("B", i0)
    becomes(
        sch,
        """
        B = T.alloc_buffer((14,))
        for i_0 in range(3):
            for ax0 in range(6):
                with T.block("B"):
                    v_i = T.axis.spatial(14, i_0 * 4 + ax0)
                    B[v_i] = A[v_i] * T.float32(2.0)
            for i_1 in range(4):
                with T.block("C"):
                    v_i = T.axis.spatial(12, i_0 * 4 + i_1)
                    C[v_i] = B[v_i] + B[v_i + 1] + B[v_i + 2]
        """,
    )


def test_imperfect_tiles_get_a_predicate():
    sch = Schedule(elementwise(10))
    i0, _i1 = sch.split(sch.get_loops("C")[0], [None, 4])
    sch.compute_at("B", i0)
    becomes(
        sch,
        """
        B = T.alloc_buffer((10,))
        for i_0 in range(3):
            for ax0 in range(4):
                with T.block("B"):
                    v_i = T.axis.spatial(10, i_0 * 4 + ax0)
                    T.where(i_0 * 4 + ax0 < 10)
                    B[v_i] = A[v_i] * T.float32(2.0)
            for i_1 in range(4):
                with T.block("C"):
                    v_i = T.axis.spatial(10, i_0 * 4 + i_1)
                    T.where(i_0 * 4 + i_1 < 10)
                    C[v_i] = B[v_i] + T.float32(1.0)
        """,
    )


def test_reduction_goes_under_its_consumer():
    sch = Schedule(matmul_relu())
    i, _j = sch.get_loops("D")
    sch.compute_at("C", i)
    becomes(
        sch,
        """
        C = T.alloc_buffer((4, 4))
        for i in range(4):
            for ax0, ax1 in T.grid(4, 4):
                with T.block("C"):
                    v_i, v_j, v_k = T.axis.remap("SSR", [i, ax0, ax1])
                    with T.init():
                        C[v_i, v_j] = T.float32(0.0)
                    C[v_i, v_j] = C[v_i, v_j] + A[v_i, v_k] * B[v_k, v_j]
            for j in range(4):
                with T.block("D"):
                    v_i, v_j = T.axis.remap("SS", [i, j])
                    D[v_i, v_j] = T.max(C[v_i, v_j], T.float32(0.0))
        """,
    )


def test_under_a_reduction_loop():
    sch = Schedule(padded_sum())
    _i, k = sch.get_loops("C")
    sch.compute_at("pad", k)
    becomes(
        sch,
        """
        pad = T.alloc_buffer((7,))
        for i, k in T.grid(6, 2):
            with T.block("pad"):
                v_i = T.axis.spatial(7, i + k)
                pad[v_i] = T.if_then_else(1 <= v_i, A[v_i - 1], T.float32(0.0))
            with T.block("C"):
                v_i, v_k = T.axis.remap("SR", [i, k])
                with T.init():
                    C[v_i] = T.float32(0.0)
                C[v_i] = C[v_i] + pad[v_i + v_k]
        """,
    )


def test_several_consumers_under_one_loop():
    sch = Schedule(softmax())
    i, _j = sch.get_loops("D")
    sch.compute_at("S", i)
    sch.compute_at("E", i)
    sch.compute_at("M", i)
    becomes(
        sch,
        """
        M = T.alloc_buffer((4,))
        E = T.alloc_buffer((4, 6))
        S = T.alloc_buffer((4,))
        for i in range(4):
            for ax0 in range(6):
                with T.block("M"):
                    v_i, v_k = T.axis.remap("SR", [i, ax0])
                    with T.init():
                        M[v_i] = T.float32("-inf")
                    M[v_i] = T.max(M[v_i], A[v_i, v_k])
            for ax0 in range(6):
                with T.block("E"):
                    v_i, v_j = T.axis.remap("SS", [i, ax0])
                    E[v_i, v_j] = T.exp(A[v_i, v_j] - M[v_i])
            for ax0 in range(6):
                with T.block("S"):
                    v_i, v_r = T.axis.remap("SR", [i, ax0])
                    with T.init():
                        S[v_i] = T.float32(0.0)
                    S[v_i] = S[v_i] + E[v_i, v_r]
            for j in range(6):
                with T.block("D"):
                    v_i, v_j = T.axis.remap("SS", [i, j])
                    D[v_i, v_j] = E[v_i, v_j] / S[v_i]
        """,
    )


def test_place_in_the_loop():
    sch = Schedule(softmax(2, 3))
    i, _j = sch.get_loops("D")
    sch.compute_at("S", i)
    sch.compute_at("E", i)
    sch.compute_at("M", i, index=0)
    M = sch.get_block("M")
    assert text(sch).index("M[v_i] = T.max") < text(sch).index("E[v_i, v_j] = T.exp")
    assert [sch.get(x).loop_var.name for x in sch.get_loops(M)] == ["i", "ax0"]


def test_fused_loop():
    sch = Schedule(conv2d(height=4, channels=(2, 1), lanes=2))
    c, y, _x, *_ = sch.get_loops("conv")
    f = sch.fuse(c, y)
    sch.compute_at("pad", f)
    line = next(x for x in text(sch).splitlines() if "v_y = " in x)
    assert line.strip() == "v_y = T.axis.spatial(6, c_y_fused % 4 + ax0)"


def test_refusals():
    sch = Schedule(matmul_relu())
    C, D = sch.get_block("C"), sch.get_block("D")
    i, _j, k = sch.get_loops(C)
    x, _y = sch.get_loops(D)
    with refuses(
        sch,
        "compute_at: block D is an output block: it writes D, an output of block root",
        hint="reverse_compute_at moves a consumer under a loop of its producer",
    ):
        sch.compute_at(D, i)
    with refuses(
        sch,
        "compute_at: loop k is an ancestor of block C",
    ):
        sch.compute_at(C, k)


def test_refuses_a_loop_that_misses_a_consumer():
    sch = Schedule(softmax())
    E = sch.get_block("E")
    i, _j = sch.get_loops("D")
    with refuses(
        sch,
        "compute_at requires all the consumers of block E to be under loop i: block S is not",
        hint="choose a loop that holds all consumers",
    ):
        sch.compute_at(E, i)


def test_refuses_a_place_out_of_order():
    sch = Schedule(softmax())
    M, (i, _j) = sch.get_block("M"), sch.get_loops("D")
    sch.compute_at("S", i)
    sch.compute_at("E", i)
    with refuses(
        sch,
        "compute_at: place 1 in loop i is not between the producers and the consumers, at 0 to 0",
    ):
        sch.compute_at(M, i, index=1)


def test_refuses_handles_of_another_schedule():
    sch = Schedule(matmul())
    C = sch.get_block("C")
    (i, _k) = Schedule(row_sum()).get_loops("B")
    with refuses(
        sch,
        "this handle is of another schedule, or was made by a step that was taken back",
        hint="get it again from this one: sch.get_block, sch.get_loops",
    ):
        sch.compute_at(C, i)


def test_symbolic_tile():
    sch = Schedule(symbolic_chain())
    i_0, _ = sch.split(sch.get_loops("C")[0], [None, 4])
    sch.compute_at("B", i_0)
    becomes(
        sch,
        """
        B = T.alloc_buffer((n,))
        for i_0 in range((n + T.int64(3)) // T.int64(4)):
            for ax0 in range(T.int64(4)):
                with T.block("B"):
                    v_i = T.axis.spatial(n, i_0 * T.int64(4) + ax0)
                    T.where(i_0 * T.int64(4) + ax0 < n)
                    B[v_i] = A[v_i] * T.float32(2.0)
            for i_1 in range(T.int64(4)):
                with T.block("C"):
                    v_i = T.axis.spatial(n, i_0 * T.int64(4) + i_1)
                    T.where(i_0 * T.int64(4) + i_1 < n)
                    C[v_i] = B[v_i] + T.float32(1.0)
        """,
    )


def test_symbolic_reduction():
    sch = Schedule(symbolic_matmul_relu())
    sch.compute_at("C", sch.get_loops("D")[1])
    becomes(
        sch,
        """
        C = T.alloc_buffer((n, T.int64(4)))
        for i, j in T.grid(n, T.int64(4)):
            for ax0 in range(n):
                with T.block("C"):
                    v_i, v_j, v_k = T.axis.remap("SSR", [i, j, ax0])
                    with T.init():
                        C[v_i, v_j] = T.float32(0.0)
                    C[v_i, v_j] = C[v_i, v_j] + A[v_i, v_k] * B[v_k, v_j]
            with T.block("D"):
                v_i, v_j = T.axis.remap("SS", [i, j])
                D[v_i, v_j] = T.max(C[v_i, v_j], T.float32(0.0))
        """,
    )


def test_padding_in_tiles():
    sch = Schedule(padded_pool(4))
    _i, j, _a, _b = sch.get_loops("C")
    j_0, _ = sch.split(j, [2, 2])
    sch.compute_at("pad", j_0)
    assert list(map(repr, sch.get_loops("pad"))) == [
        "loop i in 0..4 of blocks pad, C",
        "loop j_0 in 0..2 of blocks pad, C",
        "loop ax0 in 0..3 of block pad",
        "loop ax1 in 0..4 of block pad",
    ]
    same_numbers(only(sch.steps[0].mod), only(sch.mod))
    replays(sch)


def test_places_by_number():
    sch = Schedule(two_consumers(4))
    sch.reverse_compute_at("D", sch.get_loops("C")[0])
    (i,) = sch.get_loops("C")
    sch.compute_at("B", i, index=0)
    becomes(
        sch,
        """
        B = T.alloc_buffer((4,))
        for i in range(4):
            with T.block("B"):
                v_i = T.axis.spatial(4, i)
                B[v_i] = A[v_i] * T.float32(2.0)
            with T.block("C"):
                v_i = T.axis.spatial(4, i)
                C[v_i] = B[v_i] + T.float32(1.0)
            with T.block("D"):
                v_i = T.axis.spatial(4, i)
                D[v_i] = B[v_i] - C[v_i]
        """,
    )


def test_an_index_that_wraps_around_may_be_anywhere():
    """(i + 8) * 32 + j is 0, 1, 2 … again in uint8: what the copy fills is not what lies there."""
    A = te.placeholder((768,), name="A")
    B = te.compute((768,), lambda k: A[k] + 1.0, name="B")

    def wrapped(i, j):
        return B[tir.Cast("int32", tir.Cast("uint8", (i + 8) * 32 + j))]

    before = te.create_prim_func([A, te.compute((4, 32), wrapped, name="C")])
    sch = Schedule(before)
    i, _j = sch.get_loops("C")
    sch.compute_at("B", i)
    same_numbers(before, only(sch.mod))
    assert sch.get(sch.get_loops("B")[-1]).extent.value == 768
