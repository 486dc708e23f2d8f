"""rfactor: whole programs and refusals."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mlcnb as mlc
from mlcnb import te
from mlcnb.codegen.interp import run_prim_func
from mlcnb.core.errors import ScheduleError
from mlcnb.script import parse
from mlcnb.tir import PrimFunc
from mlcnb.tir.schedule import Schedule
from tests.tir.schedule.programs import (
    becomes,
    copy_2d,
    matmul,
    numbers,
    only,
    padded_pool,
    refuses,
    replays,
    row_sum,
    same_numbers,
    softmax,
    symbolic_matmul_relu,
    text,
)
from tests.tir.schedule.test_fuse_reduction_epilogue import biased


def row_max(n: int = 2, m: int = 8):
    """B[i] = the largest of A[i, :]"""
    A = te.placeholder((n, m), name="A")
    k = te.reduce_axis((0, m), name="k")
    B = te.compute((n,), lambda i: te.max(A[i, k], axis=k), name="B")
    return te.create_prim_func([A, B])


def test_inner_part():
    sch = Schedule(row_sum(4, 8))
    _k0, k1 = sch.split(sch.get_loops("B")[1], [None, 4])
    made = sch.rfactor(k1, 0)
    assert repr(made) == "block B_rf"
    becomes(
        sch,
        """
        B_rf = T.alloc_buffer((4, 4))
        for i, k_0, k_1 in T.grid(4, 2, 4):
            with T.block("B_rf"):
                v_k_1, v_i, v_k_0 = T.axis.remap("SSR", [k_1, i, k_0])
                with T.init():
                    B_rf[v_k_1, v_i] = T.float32(0.0)
                B_rf[v_k_1, v_i] = B_rf[v_k_1, v_i] + A[v_i, v_k_0 * 4 + v_k_1]
        for i, k_1 in T.grid(4, 4):
            with T.block("B"):
                v_k_1, v_i = T.axis.remap("RS", [k_1, i])
                with T.init():
                    B[v_i] = T.float32(0.0)
                B[v_i] = B[v_i] + B_rf[v_k_1, v_i]
        """,
    )


def test_outer_part_and_last_axis():
    sch = Schedule(row_sum(4, 8))
    k0, _k1 = sch.split(sch.get_loops("B")[1], [None, 3])
    sch.rfactor(k0, -1)
    becomes(
        sch,
        """
        B_rf = T.alloc_buffer((4, 3))
        for i, k_0, k_1 in T.grid(4, 3, 3):
            with T.block("B_rf"):
                v_k_0, v_i, v_k_1 = T.axis.remap("SSR", [k_0, i, k_1])
                T.where(k_0 * 3 + k_1 < 8)
                with T.init():
                    B_rf[v_i, v_k_0] = T.float32(0.0)
                B_rf[v_i, v_k_0] = B_rf[v_i, v_k_0] + A[v_i, v_k_0 * 3 + v_k_1]
        for i, k_0 in T.grid(4, 3):
            with T.block("B"):
                v_k_0, v_i = T.axis.remap("RS", [k_0, i])
                with T.init():
                    B[v_i] = T.float32(0.0)
                B[v_i] = B[v_i] + B_rf[v_i, v_k_0]
        """,
    )


def test_the_factor_is_parallel():
    sch = Schedule(row_max())
    k0, k1 = sch.split(sch.get_loops("B")[1], [4, 2])
    made = sch.rfactor(k0, 0)
    sch.parallel(sch.get_loops(made)[1])
    sch.vectorize(sch.get_loops("B")[0])
    assert "for k_0 in T.parallel(4):" in text(sch)
    assert "for i in T.vectorized(2):" in text(sch)
    same_numbers(sch.steps[0].mod["main"], sch.mod["main"])


def test_handle_of_the_block_becomes_the_combining_one():
    sch = Schedule(row_sum())
    B = sch.get_block("B")
    sch.rfactor(sch.get_loops(B)[1], 0)
    assert repr(B) == "block B"
    assert [x.name_hint for x in sch.state.tree("main").blocks] == ["root", "B_rf", "B"]


def test_refusals():
    sch = Schedule(row_sum(4, 8))
    i, k = sch.get_loops("B")
    with refuses(
        sch,
        "rfactor: loop i is no loop of the reduction of block B",
    ):
        sch.rfactor(i, 0)
    with refuses(
        sch,
        "rfactor: factor_axis 2 is none of the 2 axes of the new buffer",
        hint="-2 to 1",
    ):
        sch.rfactor(k, 2)
    sch.decompose_reduction("B", k)
    with refuses(
        sch,
        "rfactor: block B_update is no reduction block: it has no init",
    ):
        sch.rfactor(k, 0)


def test_parts_with_nothing_in_them_start_from_the_identity():
    """What may be nothing at first is a choice in the value, so that each part has its start."""
    sch = Schedule(row_sum(4, 4))
    _k0, k1 = sch.split(sch.get_loops("B")[1], [1, 6])
    sch.rfactor(k1, 0)
    becomes(
        sch,
        """
        B_rf = T.alloc_buffer((6, 4))
        for i, k_0, k_1 in T.grid(4, 1, 6):
            with T.block("B_rf"):
                v_k_1, v_i, v_k_0 = T.axis.remap("SSR", [k_1, i, k_0])
                with T.init():
                    B_rf[v_k_1, v_i] = T.float32(0.0)
                B_rf[v_k_1, v_i] = B_rf[v_k_1, v_i] + T.if_then_else(v_k_0 * 6 + v_k_1 < 4, A[v_i, v_k_0 * 6 + v_k_1], T.float32(0.0))
        for i, k_1 in T.grid(4, 6):
            with T.block("B"):
                v_k_1, v_i = T.axis.remap("RS", [k_1, i])
                with T.init():
                    B[v_i] = T.float32(0.0)
                B[v_i] = B[v_i] + B_rf[v_k_1, v_i]
        """,  # noqa: E501
    )
    same_numbers(row_sum(4, 4), sch.mod["main"])


@pytest.mark.parametrize("length", [1, 3, 16, 17, 40])
@pytest.mark.parametrize("combine", ["T.max({}, {})", "T.min({}, {})", "{} + {}", "{} * {}"])
def test_parts_of_an_open_row(length: int, combine: str):
    start = {"max": "T.min_value", "min": "T.max_value"}.get(combine[2:5])
    begin = f'{start}("float32")' if start else f"T.float32({int('*' in combine)})"
    func = parse(f"""
@T.prim_func
def main(a: T.handle, B: T.Buffer((2,), "float32")):
    n = T.int32()
    A = T.match_buffer(a, (2, n))
    for i, k in T.grid(2, n):
        with T.block("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = {begin}
            B[vi] = {combine.format("B[vi]", "A[vi, vk]")}
""")
    sch = Schedule(func)
    _, k1 = sch.split(sch.get_loops("B")[1], [None, 16])
    sch.rfactor(k1, 1)
    a = np.random.default_rng(length).uniform(0.5, 1.5, (2, length)).astype("float32")
    found = [np.full(2, np.nan, "float32") for _ in range(3)]
    run_prim_func(func, [a, found[0]])
    run_prim_func(sch.mod["main"], [a, found[1]])
    mlc.compile(sch.mod["main"], schedule=None)(a, found[2])
    np.testing.assert_allclose(found[1], found[0], rtol=1e-5)
    np.testing.assert_allclose(found[2], found[0], rtol=1e-5)


def test_refuses_parts_with_nothing_in_them():
    """Where a spatial loop has a say in what there is to reduce, it is no axis of the value."""
    sch = Schedule(
        parse("""
@T.prim_func
def main(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4,), "float32")):
    for i, k0, k1 in T.grid(4, 2, 4):
        with T.block("B"):
            T.where(i + k0 * 4 + k1 < 5)
            vi = T.axis.spatial(4, i)
            vk = T.axis.reduce(8, k0 * 4 + k1)
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi, vk]
""")
    )
    k1 = sch.get_loops("B")[2]
    with refuses(sch, "rfactor: some iterations of loop k1 have nothing to reduce"):
        sch.rfactor(k1, 0)


def test_refuses_what_is_no_reduction():
    sch = Schedule(copy_2d())
    i, _j = sch.get_loops("B")
    with refuses(
        sch,
        "rfactor: block B is no reduction block: it has no init",
    ):
        sch.rfactor(i, 0)


@pytest.mark.parametrize("sizes", [(1, 1), (3, 2), (2, 8), (5, 7)])
def test_parts_of_two_open_axes_as_one(sizes):
    """What holds in a later step held in the first, whatever size the axes are taken apart by."""
    sch = Schedule(
        parse("""
@T.prim_func
def total(a: T.handle, B: T.Buffer((2,), "float32")):
    h, w = T.int32(), T.int32()
    A = T.match_buffer(a, (2, h, w), "float32")
    for i, j, k in T.grid(2, h, w):
        with T.block("B"):
            v_i, v_j, v_k = T.axis.remap("SRR", [i, j, k])
            with T.init():
                B[v_i] = T.float32(0)
            B[v_i] = B[v_i] + A[v_i, v_j, v_k]
""")
    )
    _, part = sch.split(sch.fuse(*sch.get_loops("B")[1:]), [None, 8])
    sch.rfactor(part, 0)
    assert "for i, j_k_fused_0, j_k_fused_1 in T.grid(2, (h * w + 7) // 8, 8):" in text(sch)
    a = np.arange(2 * sizes[0] * sizes[1], dtype=np.float32).reshape(2, *sizes)
    found = np.zeros(2, np.float32)
    run_prim_func(sch.mod["main"], [a, found])
    np.testing.assert_array_equal(found, a.sum((1, 2)))


def test_symbolic():
    sch = Schedule(symbolic_matmul_relu())
    k = sch.get_loops("C")[2]
    sch.rfactor(k, 0)
    becomes(
        sch,
        """
        C = T.alloc_buffer((n, T.int64(4)))
        C_rf = T.alloc_buffer((n, n, T.int64(4)))
        for i, j, k in T.grid(n, T.int64(4), n):
            with T.block("C_rf"):
                v_k, v_i, v_j = T.axis.remap("SSS", [k, i, j])
                C_rf[v_k, v_i, v_j] = A[v_i, v_k] * B[v_k, v_j]
        for i, j, k in T.grid(n, T.int64(4), n):
            with T.block("C"):
                v_k, v_i, v_j = T.axis.remap("RSS", [k, i, j])
                with T.init():
                    C[v_i, v_j] = T.float32(0.0)
                C[v_i, v_j] = C[v_i, v_j] + C_rf[v_k, v_i, v_j]
        for i, j in T.grid(n, T.int64(4)):
            with T.block("D"):
                v_i, v_j = T.axis.remap("SS", [i, j])
                D[v_i, v_j] = T.max(C[v_i, v_j], T.float32(0.0))
        """,
    )


def test_a_maximum():
    sch = Schedule(softmax(2, 4))
    _, k_1 = sch.split(sch.get_loops("M")[1], [2, 2])
    sch.rfactor(k_1, 0)
    same_numbers(only(sch.steps[0].mod), only(sch.mod))
    replays(sch)


def test_two_reduce_axes():
    sch = Schedule(padded_pool(3))
    sch.rfactor(sch.get_loops("C")[3], 2)
    same_numbers(only(sch.steps[0].mod), only(sch.mod))
    replays(sch)


def test_predicates_of_spatial_axes():
    sch = Schedule(matmul(3, 2, 4))
    i, _j, k = sch.get_loops("C")
    sch.split(i, [None, 2])
    sch.rfactor(k, 1)
    becomes(
        sch,
        """
        C_rf = T.alloc_buffer((3, 4, 2))
        for i_0, i_1, j, k in T.grid(2, 2, 2, 4):
            with T.block("C_rf"):
                v_k = T.axis.spatial(4, k)
                v_i = T.axis.spatial(3, i_0 * 2 + i_1)
                v_j = T.axis.spatial(2, j)
                T.where(i_0 * 2 + i_1 < 3)
                C_rf[v_i, v_k, v_j] = A[v_i, v_k] * B[v_k, v_j]
        for i_0, i_1, j, k in T.grid(2, 2, 2, 4):
            with T.block("C"):
                v_k = T.axis.reduce(4, k)
                v_i = T.axis.spatial(3, i_0 * 2 + i_1)
                v_j = T.axis.spatial(2, j)
                T.where(i_0 * 2 + i_1 < 3)
                with T.init():
                    C[v_i, v_j] = T.float32(0.0)
                C[v_i, v_j] = C[v_i, v_j] + C_rf[v_i, v_k, v_j]
        """,
    )


def test_refuses_what_starts_from_something_else():
    sch = Schedule(biased(2, 2, 4))
    sch.fuse_reduction_epilogue("C", "D")
    k = sch.get_loops("C")[2]
    with refuses(sch, "rfactor: block C starts from something else than the identity of its sum"):
        sch.rfactor(k, 0)


def largest(compare: str, place: str) -> PrimFunc:
    """The place and the value of an extremum of each row."""
    return parse(f"""
@T.prim_func
def main(idx: T.Buffer((3, 12), "int32"), val: T.Buffer((3, 12), "int32"),
         v0: T.Buffer((3,), "int32"), v1: T.Buffer((3,), "int32")):
    for i, k in T.grid(3, 12):
        with T.block("arg"):
            vi, vk = T.axis.remap("SR", [i, k])
            T.reads(idx[vi, vk], val[vi, vk])
            T.writes(v0[vi], v1[vi])
            with T.init():
                v0[vi] = -1
                v1[vi] = {-9 if ">" in compare else 9}
            x0: T.int32 = T.Select({place}, v0[vi], idx[vi, vk])
            x1: T.int32 = T.Select(v1[vi] {compare} val[vi, vk], v1[vi], val[vi, vk])
            v0[vi] = x0
            v1[vi] = x1
""")


def smaller_place(compare: str) -> str:
    """Of equal values the one with the smaller place."""
    old, new = "v1[vi]", "val[vi, vk]"
    return f"{old} {compare} {new} or ({old} == {new} and v0[vi] < idx[vi, vk])"


def with_ties(func: PrimFunc, seed: int) -> list[np.ndarray]:
    """What comes out for values of which many are equal."""
    random = np.random.default_rng(seed)
    idx = np.stack([random.permutation(12) for _ in range(3)]).astype("int32")
    val = random.integers(0, 3, (3, 12), dtype="int32")
    out = [np.zeros(3, "int32"), np.zeros(3, "int32")]
    run_prim_func(func, [idx, val, *out])
    return out


def test_the_place_of_the_largest():
    sch = Schedule(largest(">", smaller_place(">")))
    _, k1 = sch.split(sch.get_loops("arg")[1], [None, 4])
    sch.rfactor(k1, 1)
    becomes(
        sch,
        """
        v0_rf = T.alloc_buffer((3, 4), "int32")
        v1_rf = T.alloc_buffer((3, 4), "int32")
        for i, k_0, k_1 in T.grid(3, 3, 4):
            with T.block("arg_rf"):
                v_k_1, vi, v_k_0 = T.axis.remap("SSR", [k_1, i, k_0])
                T.reads(idx[vi, v_k_0 * 4 + v_k_1], val[vi, v_k_0 * 4 + v_k_1])
                with T.init():
                    v0_rf[vi, v_k_1] = -1
                    v1_rf[vi, v_k_1] = -9
                v_v0_rf: T.int32 = T.Select(v1_rf[vi, v_k_1] > val[vi, v_k_0 * 4 + v_k_1] or v1_rf[vi, v_k_1] == val[vi, v_k_0 * 4 + v_k_1] and v0_rf[vi, v_k_1] < idx[vi, v_k_0 * 4 + v_k_1], v0_rf[vi, v_k_1], idx[vi, v_k_0 * 4 + v_k_1])
                v_v1_rf: T.int32 = T.Select(v1_rf[vi, v_k_1] > val[vi, v_k_0 * 4 + v_k_1], v1_rf[vi, v_k_1], val[vi, v_k_0 * 4 + v_k_1])
                v0_rf[vi, v_k_1] = v_v0_rf
                v1_rf[vi, v_k_1] = v_v1_rf
        for i, k_1 in T.grid(3, 4):
            with T.block("arg"):
                v_k_1, vi = T.axis.remap("RS", [k_1, i])
                T.reads(v0_rf[vi, v_k_1], v1_rf[vi, v_k_1])
                with T.init():
                    v0[vi] = -1
                    v1[vi] = -9
                v_v0: T.int32 = T.Select(v1[vi] > v1_rf[vi, v_k_1] or v1[vi] == v1_rf[vi, v_k_1] and v0[vi] < v0_rf[vi, v_k_1], v0[vi], v0_rf[vi, v_k_1])
                v_v1: T.int32 = T.Select(v1[vi] > v1_rf[vi, v_k_1], v1[vi], v1_rf[vi, v_k_1])
                v0[vi] = v_v0
                v1[vi] = v_v1
        """,  # noqa: E501
    )


@given(
    st.sampled_from([">", "<", ">=", "<="]),
    st.booleans(),
    st.sampled_from([[2, 6], [6, 2], [3, 2, 2], [12, 1], [1, 12], [12]]),
    st.data(),
)
@settings(max_examples=25)
def test_extrema_with_ties_keep_their_places(compare, in_order, factors, data):
    place = f"v1[vi] {compare} val[vi, vk]" if in_order else smaller_place(compare[0])
    func = largest(compare, place)
    sch = Schedule(func)
    k = sch.get_loops("arg")[1]
    loops = sch.split(k, factors) if len(factors) > 1 else [k]
    try:
        sch.rfactor(data.draw(st.sampled_from(loops)), data.draw(st.sampled_from([0, 1, -1])))
    except ScheduleError as error:
        assert in_order, error
    else:
        for seed in range(4):
            for x, y in zip(with_ties(func, seed), with_ties(only(sch.mod), seed), strict=True):
                np.testing.assert_array_equal(x, y)


def test_the_first_of_equal_values_stays_the_first():
    sch = Schedule(largest(">=", "v1[vi] >= val[vi, vk]"))
    k0, k1 = sch.split(sch.get_loops("arg")[1], [None, 4])
    with refuses(
        sch,
        "rfactor: of equal values block arg takes the first, and with loop k_0 inside of loop k_1 "
        "another would come first",
        hint="rfactor loop k_0, let the smaller index win where values are equal, or "
        'check="none", if any of equal ones will do',
    ):
        sch.rfactor(k1, 0)
    sch.rfactor(k0, 0)
    for seed in range(4):
        before, after = (with_ties(only(m), seed) for m in (sch.steps[0].mod, sch.mod))
        np.testing.assert_array_equal(before, after)


def two_sums(update: str) -> PrimFunc:
    """Sums of A and of its squares, in one block."""
    return parse(f"""
@T.prim_func
def main(A: T.Buffer((4, 8)), S: T.Buffer((4,)), Q: T.Buffer((4,))):
    for i, k in T.grid(4, 8):
        with T.block("S"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                S[vi] = T.float32(0)
                Q[vi] = T.float32(0)
            s: T.float32 = S[vi] + A[vi, vk]
            q: T.float32 = {update}
            S[vi] = s
            Q[vi] = q
""")


def test_two_sums_at_once():
    sch = Schedule(two_sums("Q[vi] + A[vi, vk] * A[vi, vk]"))
    _, k1 = sch.split(sch.get_loops("S")[1], [2, 4])
    sch.rfactor(k1, 0)
    same_numbers(only(sch.steps[0].mod), only(sch.mod))
    replays(sch)


def test_refuses_a_sum_that_uses_the_other():
    sch = Schedule(two_sums("Q[vi] + A[vi, vk] * S[vi]"))
    k = sch.get_loops("S")[1]
    with refuses(sch, "rfactor: block S combines by none of +, *, min, max"):
        sch.rfactor(k, 0)


def test_the_parts_go_first_where_nothing_minds():
    def chain(second: str) -> Schedule:
        return Schedule(
            parse(f"""
@T.prim_func
def main(A: T.Buffer((4, 8)), C: T.Buffer((4,)), D: T.Buffer((4, 8))):
    for i in range(4):
        for k in range(8):
            with T.block("C"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    C[vi] = T.float32(0)
                C[vi] = C[vi] + A[vi, vk]
        for j in range(8):
            with T.block("D"):
                vi, vj = T.axis.remap("SS", [i, j])
                {second}[vi, vj] = C[vi] + T.float32(1)
""")
        )

    sch = chain("D")
    sch.rfactor(sch.get_loops("C")[1], 0)
    becomes(
        sch,
        """
        C_rf = T.alloc_buffer((8, 4))
        for i, k in T.grid(4, 8):
            with T.block("C_rf"):
                v_k, vi = T.axis.remap("SS", [k, i])
                C_rf[v_k, vi] = A[vi, v_k]
        for i in range(4):
            for k in range(8):
                with T.block("C"):
                    v_k, vi = T.axis.remap("RS", [k, i])
                    with T.init():
                        C[vi] = T.float32(0.0)
                    C[vi] = C[vi] + C_rf[v_k, vi]
            for j in range(8):
                with T.block("D"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    D[vi, vj] = C[vi] + T.float32(1.0)
        """,
    )
    writes_input = chain("A")
    writes_input.rfactor(writes_input.get_loops("C")[1], 0)
    assert text(writes_input).index("for i in range(4)") < text(writes_input).index("C_rf[v_k, vi]")
    for x, y in zip(*(numbers(only(m)) for m in (chain("A").mod, writes_input.mod)), strict=True):
        np.testing.assert_allclose(x, y)


def test_a_loop_that_runs_once():
    sch = Schedule(row_sum(4, 8))
    once = sch.add_unit_loop(sch.get_loops("B")[1])
    sch.rfactor(once, 0)
    becomes(
        sch,
        """
        B_rf = T.alloc_buffer((1, 4))
        for i, u, k in T.grid(4, 1, 8):
            with T.block("B_rf"):
                v_u, v_i, v_k = T.axis.remap("SSR", [u, i, k])
                with T.init():
                    B_rf[v_u, v_i] = T.float32(0.0)
                B_rf[v_u, v_i] = B_rf[v_u, v_i] + A[v_i, v_k]
        for i, u in T.grid(4, 1):
            with T.block("B"):
                v_u, v_i = T.axis.remap("RS", [u, i])
                with T.init():
                    B[v_i] = T.float32(0.0)
                B[v_i] = B[v_i] + B_rf[v_u, v_i]
        """,
    )


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int32"])
@pytest.mark.parametrize("name", ["rfactor", "blockize", "transform_block_layout"])
def test_values_that_wrap_around_are_left_alone(name, dtype):
    """(a * 2 + 100) // 2 is not a + 50 where the sum does not fit."""
    most = np.iinfo(dtype).max
    A = te.placeholder((8, 4), dtype, name="A")
    k = te.reduce_axis((0, 4), name="k")
    half = te.const(2, dtype)
    C = te.compute(
        (8,), lambda i: te.sum((A[i, k] * half + te.const(100, dtype)) // half, axis=k), name="C"
    )
    before = te.create_prim_func([A, C])
    sch = Schedule(before)
    i, j = sch.get_loops("C")
    if name == "rfactor":
        sch.rfactor(sch.split(j, [2, 2])[0], 0)
    elif name == "blockize":
        sch.blockize(sch.split(i, [2, 4])[1])
    else:
        sch.transform_block_layout("C", lambda i, k: (i // 4, i % 4, k))
    a = np.arange(most - 31, most + 1, dtype=dtype).reshape(8, 4)
    results = [np.zeros(8, dtype) for _ in range(2)]
    for func, result in zip((before, only(sch.mod)), results, strict=True):
        run_prim_func(func, [a, result])
    np.testing.assert_array_equal(*results)
