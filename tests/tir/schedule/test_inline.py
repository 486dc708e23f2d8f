"""compute_inline and reverse_compute_inline: whole programs and refusals."""

from __future__ import annotations

from mlcnb import te
from mlcnb.script import parse
from mlcnb.tir.schedule import Schedule
from tests.tir.schedule.programs import (
    becomes,
    conv2d,
    elementwise,
    matmul_relu,
    padded_sum,
    refuses,
    same_numbers,
    softmax,
    stencil,
    symbolic_chain,
    symbolic_matmul_relu,
    text,
    two_consumers,
)


def reversed_copy(n: int = 8):
    """B[i] = A[n - 1 - i], C[i] = B[i] + 1"""
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[n - 1 - i], name="B")
    C = te.compute((n,), lambda i: B[i] + 1.0, name="C")
    return te.create_prim_func([A, C])


def relayout(n: int = 4, m: int = 6):
    """B in blocks of two columns, C unpacks it."""
    A = te.placeholder((n, m), name="A")
    B = te.compute((m // 2, n, 2), lambda o, i, q: A[i, o * 2 + q] * 2.0, name="B")
    C = te.compute((n, m), lambda i, j: B[j // 2, i, j % 2] + 1.0, name="C")
    return te.create_prim_func([A, C])


def test_elementwise():
    sch = Schedule(elementwise())
    sch.compute_inline("B")
    becomes(
        sch,
        """
        for i in range(16):
            with T.block("C"):
                v_i = T.axis.spatial(16, i)
                C[v_i] = A[v_i] * T.float32(2.0) + T.float32(1.0)
        """,
    )


def test_into_several_places():
    A = te.placeholder((6,), name="A")
    B = te.compute((6,), lambda i: A[i] * 2.0, name="B")
    C = te.compute((4,), lambda i: B[i] + B[i + 2], name="C")
    sch = Schedule(te.create_prim_func([A, C]))
    sch.compute_inline("B")
    becomes(
        sch,
        """
        for i in range(4):
            with T.block("C"):
                v_i = T.axis.spatial(4, i)
                C[v_i] = A[v_i] * T.float32(2.0) + A[v_i + 2] * T.float32(2.0)
        """,
    )


def test_into_several_blocks():
    sch = Schedule(softmax())
    sch.compute_inline("E")
    becomes(
        sch,
        """
        M = T.alloc_buffer((4,))
        S = T.alloc_buffer((4,))
        for i, k in T.grid(4, 6):
            with T.block("M"):
                v_i, v_k = T.axis.remap("SR", [i, k])
                with T.init():
                    M[v_i] = T.float32("-inf")
                M[v_i] = T.max(M[v_i], A[v_i, v_k])
        for i, r in T.grid(4, 6):
            with T.block("S"):
                v_i, v_r = T.axis.remap("SR", [i, r])
                with T.init():
                    S[v_i] = T.float32(0.0)
                S[v_i] = S[v_i] + T.exp(A[v_i, v_r] - M[v_i])
        for i, j in T.grid(4, 6):
            with T.block("D"):
                v_i, v_j = T.axis.remap("SS", [i, j])
                D[v_i, v_j] = T.exp(A[v_i, v_j] - M[v_i]) / S[v_i]
        """,
    )


def test_padding_becomes_a_condition():
    sch = Schedule(padded_sum())
    sch.compute_inline("pad")
    becomes(
        sch,
        """
        for i, k in T.grid(6, 2):
            with T.block("C"):
                v_i, v_k = T.axis.remap("SR", [i, k])
                with T.init():
                    C[v_i] = T.float32(0.0)
                C[v_i] = C[v_i] + T.if_then_else(1 <= v_i + v_k, A[v_i + v_k - 1], T.float32(0.0))
        """,
    )


def test_reversed_index():
    sch = Schedule(reversed_copy())
    sch.compute_inline("B")
    becomes(
        sch,
        """
        for i in range(8):
            with T.block("C"):
                v_i = T.axis.spatial(8, i)
                C[v_i] = A[7 - v_i] + T.float32(1.0)
        """,
    )


def test_layout_is_undone():
    sch = Schedule(relayout())
    sch.compute_inline("B")
    becomes(
        sch,
        """
        for i, j in T.grid(4, 6):
            with T.block("C"):
                v_i, v_j = T.axis.remap("SS", [i, j])
                C[v_i, v_j] = A[v_i, v_j] * T.float32(2.0) + T.float32(1.0)
        """,
    )


def test_reverse_elementwise():
    sch = Schedule(elementwise())
    sch.reverse_compute_inline("C")
    becomes(
        sch,
        """
        for i in range(16):
            with T.block("B"):
                v_i = T.axis.spatial(16, i)
                C[v_i] = A[v_i] * T.float32(2.0) + T.float32(1.0)
        """,
    )


def test_reverse_through_a_layout():
    sch = Schedule(relayout())
    sch.reverse_compute_inline("C")
    becomes(
        sch,
        """
        for o, i, q in T.grid(3, 4, 2):
            with T.block("B"):
                v_o, v_i, v_q = T.axis.remap("SSS", [o, i, q])
                C[v_i, v_o * 2 + v_q] = A[v_i, v_o * 2 + v_q] * T.float32(2.0) + T.float32(1.0)
        """,
    )


def test_reverse_of_a_part_gets_a_predicate():
    A = te.placeholder((8,), name="A")
    B = te.compute((8,), lambda i: A[i] * 2.0, name="B")
    C = te.compute((4,), lambda i: B[i + 2] + 1.0, name="C")
    sch = Schedule(te.create_prim_func([A, C]))
    sch.reverse_compute_inline("C")
    becomes(
        sch,
        """
        for i in range(8):
            with T.block("B"):
                v_i = T.axis.spatial(8, i)
                T.where(2 <= i and i < 6)
                C[v_i - 2] = A[v_i] * T.float32(2.0) + T.float32(1.0)
        """,
    )


def test_epilogue_of_a_tiled_reduction():
    sch = Schedule(matmul_relu())
    copy = sch.cache_write("C", 0, "local")
    i, j, _k = sch.get_loops("C")
    sch.reverse_compute_at(copy, j)
    sch.reverse_compute_inline("D")
    becomes(
        sch,
        """
        C_local = T.alloc_buffer((4, 4), scope="local")
        for i, j in T.grid(4, 4):
            for k in range(4):
                with T.block("C"):
                    v_i, v_j, v_k = T.axis.remap("SSR", [i, j, k])
                    with T.init():
                        C_local[v_i, v_j] = T.float32(0.0)
                    C_local[v_i, v_j] = C_local[v_i, v_j] + A[v_i, v_k] * B[v_k, v_j]
            with T.block("C_local"):
                v0, v1 = T.axis.remap("SS", [i, j])
                D[v0, v1] = T.max(C_local[v0, v1], T.float32(0.0))
        """,
    )


def test_chain_of_epilogues():
    sch = Schedule(conv2d(height=3, channels=(1, 1), lanes=2))
    sch.compute_inline("add")
    sch.compute_inline("pad")
    sch.reverse_compute_at("relu", sch.get_loops("conv")[3])
    assert [b.name_hint for b in sch.state.tree("main").blocks] == ["root", "conv", "relu"]
    assert "= T.max(conv[v_i0, v_i1, v_i2, v_i3] + b[v_i0, v_i3], T.float32(0.0))" in text(sch)
    same_numbers(sch.steps[0].mod["main"], sch.mod["main"])


def test_inlined_blocks_are_gone():
    sch = Schedule(elementwise())
    B = sch.get_block("B")
    sch.compute_inline(B)
    assert repr(B) == "block B, taken by step 1 (compute_inline)"
    with refuses(
        sch,
        "block B is no more: step 1 (compute_inline) took it",
        hint="use the handles that this step returned, or get_loops again",
    ):
        sch.compute_inline(B)


def test_refusals():
    sch = Schedule(matmul_relu())
    C, D = sch.get_block("C"), sch.get_block("D")
    with refuses(
        sch,
        "compute_inline: block C is not elementwise: it is a reduction",
        hint="compute_at moves a reduction under a loop of its consumer",
    ):
        sch.compute_inline(C)
    with refuses(
        sch,
        "compute_inline: block D writes D, an output of block root",
        hint="reverse_compute_inline puts a consumer into its producer",
    ):
        sch.compute_inline(D)
    with refuses(
        sch,
        "reverse_compute_inline: block C is not elementwise: it is a reduction",
        hint="cache_write block C and inline into the copy",
    ):
        sch.reverse_compute_inline(D)
    with refuses(
        sch,
        "reverse_compute_inline: block C is not elementwise: it is a reduction",
    ):
        sch.reverse_compute_inline(C)


def test_reverse_refuses_windows():
    sch = Schedule(stencil())
    C = sch.get_block("C")
    with refuses(
        sch,
        "reverse_compute_inline: block C reads B at several places",
    ):
        sch.reverse_compute_inline(C)


def test_reverse_refuses_what_others_read():
    sch = Schedule(softmax())
    copy = sch.cache_write("E", 0, "local")
    sch.reverse_compute_inline(copy)
    D = sch.get_block("D")
    with refuses(
        sch,
        "reverse_compute_inline: block S is not elementwise: it is a reduction",
        hint="cache_write block S and inline into the copy",
    ):
        sch.reverse_compute_inline(D)


def test_reverse_refuses_instances_that_read_nothing():
    sch = Schedule(padded_sum())
    sch.cache_read("pad", 0, "local")
    pad = sch.get_block("pad")
    with refuses(
        sch,
        "reverse_compute_inline: some instances of block pad may read no element of "
        "A_local that is written, and would not be run",
    ):
        sch.reverse_compute_inline(pad)


def test_symbolic():
    sch = Schedule(symbolic_chain())
    sch.compute_inline("B")
    becomes(
        sch,
        """
        for i in range(n):
            with T.block("C"):
                v_i = T.axis.spatial(n, i)
                C[v_i] = A[v_i] * T.float32(2.0) + T.float32(1.0)
        """,
    )


def test_reverse_symbolic():
    sch = Schedule(symbolic_chain())
    sch.split(sch.get_loops("B")[0], [None, 4])
    sch.reverse_compute_inline("C")
    becomes(
        sch,
        """
        for i_0, i_1 in T.grid((n + T.int64(3)) // T.int64(4), T.int64(4)):
            with T.block("B"):
                v_i = T.axis.spatial(n, i_0 * T.int64(4) + i_1)
                T.where(i_0 * T.int64(4) + i_1 < n)
                C[v_i] = A[v_i] * T.float32(2.0) + T.float32(1.0)
        """,
    )


def test_into_a_reduction_with_a_predicate():
    sch = Schedule(padded_sum(6))
    sch.split(sch.get_loops("C")[0], [None, 4])
    sch.compute_inline("pad")
    becomes(
        sch,
        """
        for i_0, i_1, k in T.grid(2, 4, 2):
            with T.block("C"):
                v_i = T.axis.spatial(6, i_0 * 4 + i_1)
                v_k = T.axis.reduce(2, k)
                T.where(i_0 * 4 + i_1 < 6)
                with T.init():
                    C[v_i] = T.float32(0.0)
                C[v_i] = C[v_i] + T.if_then_else(1 <= v_i + v_k, A[v_i + v_k - 1], T.float32(0.0))
        """,
    )


def test_a_producer_in_tiles_that_do_not_divide():
    sch = Schedule(elementwise(10))
    sch.split(sch.get_loops("B")[0], [None, 4])
    sch.compute_inline("B")
    becomes(
        sch,
        """
        for i in range(10):
            with T.block("C"):
                v_i = T.axis.spatial(10, i)
                C[v_i] = A[v_i] * T.float32(2.0) + T.float32(1.0)
        """,
    )


def test_into_two_consumers_one_after_the_other():
    sch = Schedule(two_consumers(4))
    sch.compute_inline("B")
    becomes(
        sch,
        """
        for i in range(4):
            with T.block("C"):
                v_i = T.axis.spatial(4, i)
                C[v_i] = A[v_i] * T.float32(2.0) + T.float32(1.0)
        for i in range(4):
            with T.block("D"):
                v_i = T.axis.spatial(4, i)
                D[v_i] = A[v_i] * T.float32(2.0) - C[v_i]
        """,
    )


def test_reverse_refuses_a_reduction():
    sch = Schedule(symbolic_matmul_relu())
    D = sch.get_block("D")
    with refuses(
        sch,
        "reverse_compute_inline: block C is not elementwise: it is a reduction",
        hint="cache_write block C and inline into the copy",
    ):
        sch.reverse_compute_inline(D)


def test_reverse_inline_solves_an_index_of_several_axes():
    func = parse("""
@T.prim_func
def main(A: T.Buffer((8, 6), "float32"), C: T.Buffer((1, 2, 4, 6), "float32")):
    B = T.alloc_buffer((8, 6))
    for i, j in T.grid(8, 6):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.float32(2.0)
    for i, j, k, l in T.grid(1, 2, 4, 6):
        with T.block("C"):
            v0, v1, v2, v3 = T.axis.remap("SSSS", [i, j, k, l])
            C[v0, v1, v2, v3] = B[v1 * 4 + v2, v3] + T.float32(1.0)
""")
    sch = Schedule(func)
    sch.reverse_compute_inline("C")
    becomes(
        sch,
        """
        for i, j in T.grid(8, 6):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[0, vi // 4, vi % 4, vj] = A[vi, vj] * T.float32(2.0) + T.float32(1.0)
        """,
    )
