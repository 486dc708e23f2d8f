"""merge: whole programs, what may overtake what, refusals."""

from __future__ import annotations

from mlcnb import te
from mlcnb.script import tir as T
from mlcnb.tir.schedule import Schedule
from tests.tir.schedule.programs import (
    becomes,
    elementwise,
    matmul_relu,
    refuses,
    softmax,
    stencil,
)


def neighbours(offset: int, n: int = 8):
    """B = A * 2, and C that reads B at its place and `offset` further."""
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] * 2.0, name="B")

    def value(i):
        inside = te.all(i + offset >= 0, i + offset < n)
        return B[i] + te.if_then_else(inside, B[i + offset], 0.0)

    return te.create_prim_func([A, te.compute((n,), value, name="C")])


@T.prim_func
def two_consumers(
    A: T.Buffer((16, 16), "float32"),
    C: T.Buffer((16, 16), "float32"),
    D: T.Buffer((8, 8), "float32"),
):
    for i_0, j_0, i_1, j_1 in T.grid(4, 4, 4, 4):
        with T.block("C"):
            vi = T.axis.spatial(16, i_0 * 4 + i_1)
            vj = T.axis.spatial(16, j_0 * 4 + j_1)
            C[vi, vj] = A[vi, vj] + T.float32(1)
    for i_0, j_0, i_1, j_1 in T.grid(4, 4, 2, 2):
        with T.block("D"):
            vi = T.axis.spatial(8, i_0 * 2 + i_1)
            vj = T.axis.spatial(8, j_0 * 2 + j_1)
            D[vi, vj] = A[vi, vj] + T.float32(2)


@T.prim_func
def symbolic(a: T.handle, b: T.handle, c: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n, 4), "float32")
    B = T.match_buffer(b, (n, 4), "float32")
    C = T.match_buffer(c, (n, 4), "float32")
    for i, j in T.grid(n, 4):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] + T.float32(1)
    for i, j in T.grid(n, 4):
        with T.block("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = B[vi, vj] * A[vi, 3 - vj]


@T.prim_func
def one_in_between(
    A: T.Buffer((8,), "float32"),
    C: T.Buffer((8,), "float32"),
    D: T.Buffer((8,), "float32"),
):
    B = T.alloc_buffer((8,))
    for i in range(8):
        with T.block("B"):
            v = T.axis.spatial(8, i)
            B[v] = A[v] * T.float32(2)
    for i in range(8):
        with T.block("D"):
            v = T.axis.spatial(8, i)
            D[v] = B[7 - v]
    for i in range(8):
        with T.block("C"):
            v = T.axis.spatial(8, i)
            C[v] = A[v] + T.float32(1)


@T.prim_func
def inside_a_block(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    C = T.alloc_buffer((8,))
    with T.block("outer"):
        for i in range(8):
            with T.block("C"):
                v = T.axis.spatial(8, i)
                C[v] = A[v] + T.float32(1)
    for i in range(8):
        with T.block("B"):
            v = T.axis.spatial(8, i)
            B[v] = C[v] + T.float32(1)


@T.prim_func
def not_from_zero(
    A: T.Buffer((9,), "float32"), B: T.Buffer((8,), "float32"), C: T.Buffer((8,), "float32")
):
    for i in range(1, 9):
        with T.block("B"):
            v = T.axis.spatial(8, i - 1)
            B[v] = A[v + 1]
    for i in range(8):
        with T.block("C"):
            v = T.axis.spatial(8, i)
            C[v] = A[v]


def test_producer_and_consumer():
    sch = Schedule(elementwise())
    (i,), (j,) = sch.get_loops("B"), sch.get_loops("C")
    merged = sch.merge(i, j)
    assert repr(merged) == "loop i_m in 0..16 of blocks B, C"
    assert repr(i) == repr(j) == repr(merged)
    becomes(
        sch,
        """
        B = T.alloc_buffer((16,))
        for i_m in range(16):
            with T.block("B"):
                v_i = T.axis.spatial(16, i_m)
                B[v_i] = A[v_i] * T.float32(2.0)
            with T.block("C"):
                v_i = T.axis.spatial(16, i_m)
                C[v_i] = B[v_i] + T.float32(1.0)
        """,
    )


def test_two_levels():
    sch = Schedule(two_consumers)
    merged = sch.merge(sch.get_loops("C")[1], sch.get_loops("D")[1])
    assert repr(merged) == "loop j_0_m in 0..4 of blocks C, D"
    becomes(
        sch,
        """
        for i_0_m, j_0_m in T.grid(4, 4):
            for i_1, j_1 in T.grid(4, 4):
                with T.block("C"):
                    vi = T.axis.spatial(16, i_0_m * 4 + i_1)
                    vj = T.axis.spatial(16, j_0_m * 4 + j_1)
                    C[vi, vj] = A[vi, vj] + T.float32(1.0)
            for i_1, j_1 in T.grid(2, 2):
                with T.block("D"):
                    vi = T.axis.spatial(8, i_0_m * 2 + i_1)
                    vj = T.axis.spatial(8, j_0_m * 2 + j_1)
                    D[vi, vj] = A[vi, vj] + T.float32(2.0)
        """,
    )


def test_epilogue_beside_a_reduction():
    sch = Schedule(matmul_relu())
    sch.merge(sch.get_loops("C")[1], sch.get_loops("D")[1])
    becomes(
        sch,
        """
        C = T.alloc_buffer((4, 4))
        for i_m, j_m in T.grid(4, 4):
            for k in range(4):
                with T.block("C"):
                    v_i, v_j, v_k = T.axis.remap("SSR", [i_m, j_m, k])
                    with T.init():
                        C[v_i, v_j] = T.float32(0.0)
                    C[v_i, v_j] = C[v_i, v_j] + A[v_i, v_k] * B[v_k, v_j]
            with T.block("D"):
                v_i, v_j = T.axis.remap("SS", [i_m, j_m])
                D[v_i, v_j] = T.max(C[v_i, v_j], T.float32(0.0))
        """,
    )


def test_under_a_shared_loop():
    sch = Schedule(softmax(2, 3))
    i, _ = sch.get_loops("E")
    sch.reverse_compute_at("S", i)
    sch.merge(sch.get_loops("E")[1], sch.get_loops("S")[1])
    becomes(
        sch,
        """
        M = T.alloc_buffer((2,))
        E = T.alloc_buffer((2, 3))
        S = T.alloc_buffer((2,))
        for i, k in T.grid(2, 3):
            with T.block("M"):
                v_i, v_k = T.axis.remap("SR", [i, k])
                with T.init():
                    M[v_i] = T.float32("-inf")
                M[v_i] = T.max(M[v_i], A[v_i, v_k])
        for i, j_m in T.grid(2, 3):
            with T.block("E"):
                v_i, v_j = T.axis.remap("SS", [i, j_m])
                E[v_i, v_j] = T.exp(A[v_i, v_j] - M[v_i])
            with T.block("S"):
                v_i, v_r = T.axis.remap("SR", [i, j_m])
                with T.init():
                    S[v_i] = T.float32(0.0)
                S[v_i] = S[v_i] + E[v_i, v_r]
        for i, j in T.grid(2, 3):
            with T.block("D"):
                v_i, v_j = T.axis.remap("SS", [i, j])
                D[v_i, v_j] = E[v_i, v_j] / S[v_i]
        """,
    )


def test_imperfect_tiles_keep_their_predicates():
    sch = Schedule(elementwise(10))
    for name in "BC":
        sch.split(sch.get_loops(name)[0], [None, 4])
    sch.merge(sch.get_loops("B")[0], sch.get_loops("C")[0])
    becomes(
        sch,
        """
        B = T.alloc_buffer((10,))
        for i_0_m in range(3):
            for i_1 in range(4):
                with T.block("B"):
                    v_i = T.axis.spatial(10, i_0_m * 4 + i_1)
                    T.where(i_0_m * 4 + i_1 < 10)
                    B[v_i] = A[v_i] * T.float32(2.0)
            for i_1 in range(4):
                with T.block("C"):
                    v_i = T.axis.spatial(10, i_0_m * 4 + i_1)
                    T.where(i_0_m * 4 + i_1 < 10)
                    C[v_i] = B[v_i] + T.float32(1.0)
        """,
    )


def test_symbolic_extent():
    sch = Schedule(symbolic)
    sch.merge(sch.get_loops("B")[0], sch.get_loops("C")[0])
    becomes(
        sch,
        """
        for i_m in range(n):
            for j in range(4):
                with T.block("B"):
                    vi, vj = T.axis.remap("SS", [i_m, j])
                    B[vi, vj] = A[vi, vj] + T.float32(1.0)
            for j in range(4):
                with T.block("C"):
                    vi, vj = T.axis.remap("SS", [i_m, j])
                    C[vi, vj] = B[vi, vj] * A[vi, 3 - vj]
        """,
    )


def test_three_loops():
    sch = Schedule(softmax(2, 3))
    merged = sch.merge(*[sch.get_loops(name)[0] for name in "SED"])
    assert repr(merged) == "loop i_m in 0..2 of blocks E, S, D"
    becomes(
        sch,
        """
        M = T.alloc_buffer((2,))
        E = T.alloc_buffer((2, 3))
        S = T.alloc_buffer((2,))
        for i, k in T.grid(2, 3):
            with T.block("M"):
                v_i, v_k = T.axis.remap("SR", [i, k])
                with T.init():
                    M[v_i] = T.float32("-inf")
                M[v_i] = T.max(M[v_i], A[v_i, v_k])
        for i_m in range(2):
            for j in range(3):
                with T.block("E"):
                    v_i, v_j = T.axis.remap("SS", [i_m, j])
                    E[v_i, v_j] = T.exp(A[v_i, v_j] - M[v_i])
            for r in range(3):
                with T.block("S"):
                    v_i, v_r = T.axis.remap("SR", [i_m, r])
                    with T.init():
                        S[v_i] = T.float32(0.0)
                    S[v_i] = S[v_i] + E[v_i, v_r]
            for j in range(3):
                with T.block("D"):
                    v_i, v_j = T.axis.remap("SS", [i_m, j])
                    D[v_i, v_j] = E[v_i, v_j] / S[v_i]
        """,
    )


def test_earlier_neighbours_are_there():
    sch = Schedule(neighbours(-1))
    sch.merge(sch.get_loops("B")[0], sch.get_loops("C")[0])
    becomes(
        sch,
        """
        B = T.alloc_buffer((8,))
        for i_m in range(8):
            with T.block("B"):
                v_i = T.axis.spatial(8, i_m)
                B[v_i] = A[v_i] * T.float32(2.0)
            with T.block("C"):
                v_i = T.axis.spatial(8, i_m)
                C[v_i] = B[v_i] + T.if_then_else(1 <= v_i and v_i < 9, B[v_i - 1], T.float32(0.0))
        """,
    )


def test_of_one_iteration_none_is_later():
    """Nothing says of the outer loop where it is, and it is there once."""

    @T.prim_func
    def func(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        C = T.alloc_buffer((4,))
        for i, j in T.grid(1, 4):
            with T.block("C"):
                vj = T.axis.spatial(4, i * 4 + j)
                C[vj % 2 * 2 + vj // 2] = A[vj] * T.float32(2)
        for i, j in T.grid(1, 4):
            with T.block("B"):
                vj = T.axis.spatial(4, i * 4 + j)
                B[vj] = C[vj % 2 * 2 + vj // 2]

    sch = Schedule(func, check="rules")
    first, second = (sch.get_loops(name)[0] for name in "CB")
    sch.merge(first, second)
    assert len(sch.get_loops("B")) == 2


def test_refuses_later_neighbours():
    sch = Schedule(neighbours(1))
    (i,), (j,) = sch.get_loops("B"), sch.get_loops("C")
    with refuses(
        sch,
        "merge: loop i of block B and loop i of block C cannot be one: block C would "
        "touch elements of B before later iterations of block B do, and block B writes it",
    ):
        sch.merge(i, j)


def test_refuses_a_reduction_that_is_not_finished():
    sch = Schedule(matmul_relu())
    i, j, k = sch.get_loops("C")
    sch.reorder(k, i, j)
    d = sch.get_loops("D")[0]
    with refuses(
        sch,
        "merge: loop k of block C and loop i of block D cannot be one: block D would "
        "touch elements of C before later iterations of block C do, and block C writes it",
    ):
        sch.merge(k, d)


def test_refuses_to_move_past_a_reader():
    sch = Schedule(one_in_between)
    b, d, c = (sch.get_loops(name)[0] for name in "BDC")
    with refuses(
        sch, "merge: loop i would move behind block D, and both touch B, which one of them writes"
    ):
        sch.merge(b, c)
    with refuses(
        sch,
        "merge: loop i of block B and loop i of block D cannot be one: block D would "
        "touch elements of B before later iterations of block B do, and block B writes it",
    ):
        sch.merge(b, d, c)
    sch.merge(d, c)


def test_refuses_nests_that_differ():
    sch = Schedule(matmul_relu(4, 5, 6))
    i, j, k = sch.get_loops("C")
    x, y = sch.get_loops("D")
    with refuses(sch, "merge: loop j is the loop number 2 of its nest, loop i number 1"):
        sch.merge(i, y)
    with refuses(sch, "merge: loop j is the loop number 2 of its nest, loop k number 3"):
        sch.merge(k, y)
    sch = Schedule(stencil())
    (i,), (j,) = sch.get_loops("B"), sch.get_loops("C")
    with refuses(
        sch,
        "merge: loop i of block B has 14 iterations, loop i of block C has 12",
        hint=("split them so that their outer loops are the same"),
    ):
        sch.merge(i, j)


def test_refuses_what_is_no_nest():
    sch = Schedule(softmax(2, 3))
    i, j = sch.get_loops("E")
    sch.reverse_compute_at("S", i)
    d = sch.get_loops("D")[1]
    with refuses(
        sch,
        "merge: loop j is not the whole body of loop i",
        hint=("merge at loop i, or at another loop outside of it"),
    ):
        sch.merge(j, d)
    with refuses(sch, "merge: loop j is inside loop i"):
        sch.merge(i, j)
    with refuses(sch, "merge: two or more loops are needed, 1 given"):
        sch.merge(i)
    with refuses(sch, "merge: loop i is given twice"):
        sch.merge(i, i)


def test_refuses_other_scopes_starts_and_marks():
    sch = Schedule(inside_a_block)
    (i,), (j,) = sch.get_loops("C"), sch.get_loops("B")
    with refuses(sch, "merge: loop i and loop i are in different blocks"):
        sch.merge(i, j)
    sch = Schedule(not_from_zero)
    (i,), (j,) = sch.get_loops("B"), sch.get_loops("C")
    with refuses(sch, "merge: loop i starts at 1, not at 0"):
        sch.merge(i, j)
    sch = Schedule(elementwise())
    (i,), (j,) = sch.get_loops("B"), sch.get_loops("C")
    sch.annotate(j, "pragma", 1)
    with refuses(
        sch, "merge: loop i is annotated with pragma", hint=("merge first, annotate afterwards")
    ):
        sch.merge(i, j)
