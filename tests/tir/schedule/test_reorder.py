"""reorder: whole programs, dependences, refusals."""

from __future__ import annotations

from mlcnb.core.node import FrozenDict
from mlcnb.ir.dtype import dtype
from mlcnb.tir import (
    Block,
    BlockRealize,
    BufferStore,
    For,
    ForKind,
    IterVar,
    PrimFunc,
    Range,
    Var,
    const,
    decl_buffer,
)
from mlcnb.tir.schedule import Schedule
from tests.tir.schedule.carried import CARRIED
from tests.tir.schedule.programs import (
    becomes,
    copy_2d,
    matmul,
    matmul_relu,
    refuses,
    softmax,
    stencil,
    symbolic_matmul_relu,
    text,
)


def test_reduction_moves_outside():
    sch = Schedule(matmul(2, 3, 4))
    i, j, k = sch.get_loops("C")
    sch.reorder(k, i, j)
    becomes(
        sch,
        """
        for k, i, j in T.grid(4, 2, 3):
            with T.block("C"):
                v_i, v_j, v_k = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[v_i, v_j] = T.float32(0.0)
                C[v_i, v_j] = C[v_i, v_j] + A[v_i, v_k] * B[v_k, v_j]
        """,
    )


def test_loops_between_stay_where_they_are():
    sch = Schedule(matmul(2, 3, 4))
    i, _j, k = sch.get_loops("C")
    sch.reorder(k, i)
    assert text(sch).startswith("for k, j, i in T.grid(4, 3, 2):")


def test_parts_of_a_reduction_may_change_places():
    sch = Schedule(matmul(k=8))
    k0, k1 = sch.split(sch.get_loops("C")[2], [2, 4])
    sch.reorder(k1, k0)
    becomes(
        sch,
        """
        for i, j, k_1, k_0 in T.grid(4, 4, 4, 2):
            with T.block("C"):
                v_i, v_j = T.axis.remap("SS", [i, j])
                v_k = T.axis.reduce(8, k_0 * 4 + k_1)
                with T.init():
                    C[v_i, v_j] = T.float32(0.0)
                C[v_i, v_j] = C[v_i, v_j] + A[v_i, v_k] * B[v_k, v_j]
        """,
    )


def test_the_same_order_changes_nothing():
    sch = Schedule(copy_2d())
    i, j = sch.get_loops("B")
    before = sch.mod
    sch.reorder(i, j)
    assert sch.mod["main"] is before["main"]


def test_spatial_loops_of_one_of_several_blocks():
    sch = Schedule(softmax())
    i, j = sch.get_loops("D")
    j0, _j1 = sch.split(j, [2, 3])
    sch.reorder(j0, i)
    becomes(
        sch,
        """
        M = T.alloc_buffer((4,))
        E = T.alloc_buffer((4, 6))
        S = T.alloc_buffer((4,))
        for i, k in T.grid(4, 6):
            with T.block("M"):
                v_i, v_k = T.axis.remap("SR", [i, k])
                with T.init():
                    M[v_i] = T.float32("-inf")
                M[v_i] = T.max(M[v_i], A[v_i, v_k])
        for i, j in T.grid(4, 6):
            with T.block("E"):
                v_i, v_j = T.axis.remap("SS", [i, j])
                E[v_i, v_j] = T.exp(A[v_i, v_j] - M[v_i])
        for i, r in T.grid(4, 6):
            with T.block("S"):
                v_i, v_r = T.axis.remap("SR", [i, r])
                with T.init():
                    S[v_i] = T.float32(0.0)
                S[v_i] = S[v_i] + E[v_i, v_r]
        for j_0, i, j_1 in T.grid(2, 4, 3):
            with T.block("D"):
                v_i = T.axis.spatial(4, i)
                v_j = T.axis.spatial(6, j_0 * 3 + j_1)
                D[v_i, v_j] = E[v_i, v_j] / S[v_i]
        """,
    )


def test_refuses_what_is_not_one_nest():
    sch = Schedule(matmul_relu())
    i, j, _k = sch.get_loops("C")
    x, _y = sch.get_loops("D")
    with refuses(
        sch,
        "reorder: loop i of block C and loop i of block D are not in one nest",
    ):
        sch.reorder(x, i)
    with refuses(
        sch,
        "reorder: loop i is given twice",
    ):
        sch.reorder(i, i)
    sch.reverse_compute_at("D", i)
    with refuses(
        sch,
        "reorder: loop j is not the only statement inside loop i",
    ):
        sch.reorder(j, i)


def test_tiles_that_recompute_their_border_may_change_places():
    sch = Schedule(stencil())
    i0, i1 = sch.split(sch.get_loops("C")[0], [3, 4])
    sch.compute_at("B", i1)
    sch.reorder(i1, i0)
    becomes(
        sch,
        """
        B = T.alloc_buffer((14,))
        for i_1, i_0 in T.grid(4, 3):
            for ax0 in range(3):
                with T.block("B"):
                    v_i = T.axis.spatial(14, i_0 * 4 + i_1 + ax0)
                    B[v_i] = A[v_i] * T.float32(2.0)
            with T.block("C"):
                v_i = T.axis.spatial(12, i_0 * 4 + i_1)
                C[v_i] = B[v_i] + B[v_i + 1] + B[v_i + 2]
        """,
    )


def test_refuses_to_reverse_a_recurrence():
    """C[i, j] = C[i - 1, j + 1] + 1: the first iteration of j needs what the second made before."""
    i, j = Var("i"), Var("j")
    vi, vj = Var("vi"), Var("vj")
    C = decl_buffer((6, 6), name="C")
    axes = IterVar(Range(1, 6), vi), IterVar(Range(0, 5), vj)
    value = C[vi - 1, vj + 1] + 1.0
    block = Block(
        axes,
        (C[vi - 1 : vi, vj + 1 : vj + 2],),
        (C[vi : vi + 1, vj : vj + 1],),
        "C",
        BufferStore(C, value, (vi, vj)),
    )
    body = BlockRealize((i + 1, j), const(True), block)
    for var in (j, i):
        body = For(var, const(0), const(5), ForKind.SERIAL, body)
    param = Var("C", dtype("handle"))
    sch = Schedule(PrimFunc((param,), body, buffer_map=FrozenDict({param: C})))
    x, y = sch.get_loops("C")
    with refuses(
        sch,
        "reorder: the loops i, j cannot become j, i: iterations that differ in i, j may "
        "touch the same elements of C, and block C writes it",
    ):
        sch.reorder(y, x)
    with refuses(
        sch,
        "parallel: loop i is not parallel: its iterations may touch the same elements "
        "of C, which block C writes",
    ):
        sch.parallel(x)


def test_predicates_stay():
    sch = Schedule(copy_2d(7, 5))
    i, j = sch.get_loops("B")
    i_0, i_1 = sch.split(i, [None, 4])
    sch.reorder(j, i_1, i_0)
    becomes(
        sch,
        """
        for j, i_1, i_0 in T.grid(5, 4, 2):
            with T.block("B"):
                v_i = T.axis.spatial(7, i_0 * 4 + i_1)
                v_j = T.axis.spatial(5, j)
                T.where(i_0 * 4 + i_1 < 7)
                B[v_i, v_j] = A[v_i, v_j] * T.float32(2.0)
        """,
    )


def test_symbolic_extents():
    sch = Schedule(symbolic_matmul_relu())
    i, j, k = sch.get_loops("C")
    sch.reorder(k, j, i)
    becomes(
        sch,
        """
        C = T.alloc_buffer((n, T.int64(4)))
        for k, j, i in T.grid(n, T.int64(4), n):
            with T.block("C"):
                v_i, v_j, v_k = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[v_i, v_j] = T.float32(0.0)
                C[v_i, v_j] = C[v_i, v_j] + A[v_i, v_k] * B[v_k, v_j]
        for i, j in T.grid(n, T.int64(4)):
            with T.block("D"):
                v_i, v_j = T.axis.remap("SS", [i, j])
                D[v_i, v_j] = T.max(C[v_i, v_j], T.float32(0.0))
        """,
    )


def test_refuses_a_range_that_depends_on_the_other():
    sch = Schedule(CARRIED["triangle"])
    i, j = sch.get_loops("B")
    with refuses(sch, "reorder: the range of loop j depends on a loop that would be inside it"):
        sch.reorder(j, i)


def test_refuses_the_same_loop_twice_and_none():
    sch = Schedule(copy_2d())
    i, j = sch.get_loops("B")
    with refuses(sch, "reorder: loop i is given twice"):
        sch.reorder(i, i)
    with refuses(sch, "reorder: no loops given"):
        sch.reorder()
