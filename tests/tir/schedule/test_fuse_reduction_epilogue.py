"""fuse_reduction_epilogue: whole programs, and epilogues that would be applied to parts."""

from __future__ import annotations

from mlcnb import te
from mlcnb.ir import prim_ops as p
from mlcnb.script import tir as T
from mlcnb.tir.schedule import Schedule
from tests.tir.schedule.programs import becomes, matmul_relu, refuses


def biased(n: int = 4, m: int = 4, k: int = 4, swap: bool = False, dtype: str = "float32"):
    """D = A @ B + bias"""
    A = te.placeholder((n, k), dtype, name="A")
    B = te.placeholder((k, m), dtype, name="B")
    bias = te.placeholder((m,), dtype, name="bias")
    r = te.reduce_axis((0, k), name="k")
    C = te.compute((n, m), lambda i, j: te.sum(A[i, r] * B[r, j], axis=r), name="C")

    def value(i, j):
        return bias[j] + C[i, j] if swap else C[i, j] + bias[j]

    D = te.compute((n, m), value, name="D")
    return te.create_prim_func([A, B, bias, D])


def transposed(n: int = 2, m: int = 3, k: int = 4):
    """D[j, i] = sum + X[j, i]"""
    A = te.placeholder((n, m, k), name="A")
    X = te.placeholder((m, n), name="X")
    r = te.reduce_axis((0, k), name="k")
    C = te.compute((n, m), lambda i, j: te.sum(A[i, j, r], axis=r), name="C")
    D = te.compute((m, n), lambda i, j: C[j, i] + X[i, j], name="D")
    return te.create_prim_func([A, X, D])


def largest(n: int = 4, m: int = 6, least=None):
    """The largest of each row, and at least `least`."""
    A = te.placeholder((n, m), name="A")
    k = te.reduce_axis((0, m), name="k")
    M = te.compute((n,), lambda i: te.max(A[i, k], axis=k), name="M")
    D = te.compute((n,), lambda i: p.maximum(M[i], p.const(0.0)), name="D")
    return te.create_prim_func([A, D])


@T.prim_func
def from_seven(A: T.Buffer((4, 6), "float32"), D: T.Buffer((4,), "float32")):
    C = T.alloc_buffer((4,))
    for i, k in T.grid(4, 6):
        with T.block("C"):
            v, r = T.axis.remap("SR", [i, k])
            with T.init():
                C[v] = T.float32(7)
            C[v] = C[v] + A[v, r]
    for i in range(4):
        with T.block("D"):
            v = T.axis.spatial(4, i)
            D[v] = C[v] + T.float32(2)


@T.prim_func
def half_taken(A: T.Buffer((4, 6), "float32"), E: T.Buffer((2,), "float32")):
    C = T.alloc_buffer((4,))
    D = T.alloc_buffer((4,))
    for i, k in T.grid(4, 6):
        with T.block("C"):
            v, r = T.axis.remap("SR", [i, k])
            with T.init():
                C[v] = T.float32(0)
            C[v] = C[v] + A[v, r]
    for i in range(4):
        with T.block("D"):
            v = T.axis.spatial(4, i)
            T.where(i < 2)
            D[v] = C[v] + T.float32(2)
    for i in range(2):
        with T.block("E"):
            v = T.axis.spatial(2, i)
            E[v] = D[v] * T.float32(3)


@T.prim_func
def bias_comes_late(A: T.Buffer((4, 6), "float32"), D: T.Buffer((4,), "float32")):
    C = T.alloc_buffer((4,))
    E = T.alloc_buffer((4,))
    for i, k in T.grid(4, 6):
        with T.block("C"):
            v, r = T.axis.remap("SR", [i, k])
            with T.init():
                C[v] = T.float32(0)
            C[v] = C[v] + A[v, r]
    for i in range(4):
        with T.block("E"):
            v = T.axis.spatial(4, i)
            E[v] = A[v, 0] * T.float32(3)
    for i in range(4):
        with T.block("D"):
            v = T.axis.spatial(4, i)
            D[v] = C[v] + E[v]


@T.prim_func
def used_twice(
    A: T.Buffer((4, 6), "float32"), D: T.Buffer((4,), "float32"), E: T.Buffer((4,), "float32")
):
    C = T.alloc_buffer((4,))
    for i, k in T.grid(4, 6):
        with T.block("C"):
            v, r = T.axis.remap("SR", [i, k])
            with T.init():
                C[v] = T.float32(0)
            C[v] = C[v] + A[v, r]
    for i in range(4):
        with T.block("D"):
            v = T.axis.spatial(4, i)
            D[v] = C[v] + T.float32(2)
    for i in range(4):
        with T.block("E"):
            v = T.axis.spatial(4, i)
            E[v] = C[v] + T.float32(3)


def test_bias():
    sch = Schedule(biased())
    C, D = sch.get_block("C"), sch.get_block("D")
    sch.fuse_reduction_epilogue(C, D)
    assert repr(C) == "block C"
    assert repr(D) == "block D, taken by step 1 (fuse_reduction_epilogue)"
    becomes(
        sch,
        """
        for i, j, k in T.grid(4, 4, 4):
            with T.block("C"):
                v_i, v_j, v_k = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    D[v_i, v_j] = bias[v_j]
                D[v_i, v_j] = D[v_i, v_j] + A[v_i, v_k] * B[v_k, v_j]
        """,
    )


def test_bias_on_the_left_in_tiles_that_do_not_divide():
    sch = Schedule(biased(5, 3, 4, swap=True))
    sch.split(sch.get_loops("C")[0], [None, 2])
    sch.split(sch.get_loops("C")[-1], [None, 3])
    sch.fuse_reduction_epilogue("C", "D")
    becomes(
        sch,
        """
        for i_0, i_1, j, k_0, k_1 in T.grid(3, 2, 3, 2, 3):
            with T.block("C"):
                v_i = T.axis.spatial(5, i_0 * 2 + i_1)
                v_j = T.axis.spatial(3, j)
                v_k = T.axis.reduce(4, k_0 * 3 + k_1)
                T.where(i_0 * 2 + i_1 < 5 and k_0 * 3 + k_1 < 4)
                with T.init():
                    D[v_i, v_j] = bias[v_j]
                D[v_i, v_j] = D[v_i, v_j] + A[v_i, v_k] * B[v_k, v_j]
        """,
    )


def test_integers_are_exact():
    sch = Schedule(biased(dtype="int32"))
    sch.fuse_reduction_epilogue("C", "D")
    becomes(
        sch,
        """
        for i, j, k in T.grid(4, 4, 4):
            with T.block("C"):
                v_i, v_j, v_k = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    D[v_i, v_j] = bias[v_j]
                D[v_i, v_j] = D[v_i, v_j] + A[v_i, v_k] * B[v_k, v_j]
        """,
    )


def test_transposed():
    sch = Schedule(transposed())
    sch.fuse_reduction_epilogue("C", "D")
    becomes(
        sch,
        """
        for i, j, k in T.grid(2, 3, 4):
            with T.block("C"):
                v_i, v_j, v_k = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    D[v_j, v_i] = X[v_j, v_i]
                D[v_j, v_i] = D[v_j, v_i] + A[v_i, v_j, v_k]
        """,
    )


def test_a_maximum_with_something():
    sch = Schedule(largest())
    sch.fuse_reduction_epilogue("M", "D")
    becomes(
        sch,
        """
        for i, k in T.grid(4, 6):
            with T.block("M"):
                v_i, v_k = T.axis.remap("SR", [i, k])
                with T.init():
                    D[v_i] = T.float32(0.0)
                D[v_i] = T.max(D[v_i], A[v_i, v_k])
        """,
    )


def test_a_start_that_is_not_neutral_is_kept():
    sch = Schedule(from_seven)
    sch.fuse_reduction_epilogue("C", "D")
    becomes(
        sch,
        """
        for i, k in T.grid(4, 6):
            with T.block("C"):
                v, r = T.axis.remap("SR", [i, k])
                with T.init():
                    D[v] = T.float32(9.0)
                D[v] = D[v] + A[v, r]
        """,
    )


def test_then_decomposed():
    sch = Schedule(biased())
    sch.fuse_reduction_epilogue("C", "D")
    C = sch.get_block("C")
    sch.decompose_reduction(C, sch.get_loops(C)[2])
    becomes(
        sch,
        """
        for i, j in T.grid(4, 4):
            with T.block("C_init"):
                v_i, v_j = T.axis.remap("SS", [i, j])
                D[v_i, v_j] = bias[v_j]
            for k in range(4):
                with T.block("C_update"):
                    v_i, v_j, v_k = T.axis.remap("SSR", [i, j, k])
                    D[v_i, v_j] = D[v_i, v_j] + A[v_i, v_k] * B[v_k, v_j]
        """,
    )


def test_refuses_an_activation():
    sch = Schedule(matmul_relu())
    C, D = sch.get_block("C"), sch.get_block("D")
    with refuses(
        sch,
        "fuse_reduction_epilogue: block D does not combine C by sum with something else: "
        "in every step of the reduction it would be applied to a part of the result",
        hint=("reverse_compute_at moves it behind the reduction, into the same tile"),
    ):
        sch.fuse_reduction_epilogue(C, D)


def test_refuses_other_readers():
    sch = Schedule(used_twice)
    C, D = sch.get_block("C"), sch.get_block("D")
    with refuses(sch, "fuse_reduction_epilogue: block E also reads C"):
        sch.fuse_reduction_epilogue(C, D)


def test_refuses_blocks_of_another_kind():
    sch = Schedule(biased())
    C, D = sch.get_block("C"), sch.get_block("D")
    with refuses(sch, "fuse_reduction_epilogue: block D is no reduction block: it has no init"):
        sch.fuse_reduction_epilogue(D, C)
    with refuses(sch, "fuse_reduction_epilogue: block C is not elementwise: it is a reduction"):
        sch.fuse_reduction_epilogue(C, C)


def test_refuses_what_is_taken_in_part():
    sch = Schedule(half_taken)
    C, D = sch.get_block("C"), sch.get_block("D")
    with refuses(
        sch, "fuse_reduction_epilogue: block D does not take all elements of C that block C makes"
    ):
        sch.fuse_reduction_epilogue(C, D)


def test_refuses_a_bias_that_is_made_later():
    sch = Schedule(bias_comes_late)
    C, D = sch.get_block("C"), sch.get_block("D")
    with refuses(
        sch,
        "fuse_reduction_epilogue: block D cannot move: block E, after block C, writes E, "
        "which it reads",
    ):
        sch.fuse_reduction_epilogue(C, D)
