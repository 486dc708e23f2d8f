"""What blocks say about themselves, checked exactly; scopes of buffers; thread axes; dtypes."""

from __future__ import annotations

from textwrap import dedent, indent

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from mlcnb import tir
from mlcnb.core.errors import WellFormedError
from mlcnb.core.node import replace, rewrite
from mlcnb.ir import prim_ops as p
from mlcnb.ir.dtype import dtype
from mlcnb.ir.module import IRModule
from mlcnb.ir.structural import structural_equal
from mlcnb.script import parse
from mlcnb.tir import analysis
from tests.tir.programs import FUZZ

HEAD = """
@T.prim_func
def main(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32"),
         idx: T.Buffer((16,), "int32")):
"""


def func_of(body):
    return parse(HEAD + indent(dedent(body).strip(), "    "), check_well_formed=False)


def refused(body):
    with pytest.raises(WellFormedError) as error:
        analysis.verify_well_formed(func_of(body))
    return error.value


AXIS = """
for i, j in T.grid({loops}):
    with T.block("X"):
        vi = T.axis.spatial({domain}, {value})
        T.where({where})
        B[0] = T.float32(1)
"""


def axis(domain="16", value="i * 4 + j", where="True", loops="4, 4"):
    return AXIS.format(domain=domain, value=value, where=where, loops=loops)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (axis(domain="15"), "value 15 at i = 3, j = 3, not in 0..15"),
        (axis(value="i * 4 + j - 1"), "value -1 at i = 0, j = 0, not in 0..16"),
        (axis(domain="(1, 16)"), "value 0 at i = 0, j = 0, not in 1..16"),
        (axis(domain="3", value="(i * 4 + j) // 5"), "value 3 at i = 3, j = 3, not in 0..3"),
        (axis(domain="14", where="i * 4 + j < 15"), "value 14 at i = 3, j = 2, not in 0..14"),
        (axis(domain="8", value="T.max(i, 2 * j) * 2"), "value 8 at i = 0, j = 2, not in 0..8"),
    ],
)  # fmt: skip
def test_axes_that_leave_their_domains(body, message):
    value, domain = message.split(", not in ")
    told = f"takes the {value}, outside of its domain {domain}"
    assert refused(body).message == f"axis vi of block X {told}"


@pytest.mark.parametrize(
    "body",
    [
        axis(),
        axis(domain="15", where="i * 4 + j < 15"),
        axis(domain="4", value="(i * 4 + j) // 4"),
        axis(domain="4", value="(i * 7 + j) % 4"),
        axis(domain="7", value="i + j"),
        axis(domain="2", value="idx[i]"),
    ],
)
def test_axes_that_stay_or_may_stay(body):
    assert analysis.verify_well_formed(func_of(body))


def test_the_caret_is_under_the_block_and_the_hint_says_what_to_do():
    error = refused(axis(domain="15"))
    assert error.hint == "give the axis the extent that its loops have, or add T.where"
    assert 'with T.block("X"):' in error.excerpt()


def test_symbolic_domains():
    text = """
@T.prim_func
def main(a: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n,), "float32")
    for i, j in T.grid((n + 3) // 4, 4):
        with T.block("X"):
            vi = T.axis.spatial(n, i * 4 + j)
            T.where(i * 4 + j < n)
            A[vi] = T.float32(1)
"""
    assert parse(text, check_well_formed=True)
    with pytest.raises(WellFormedError) as error:
        parse(text.replace("            T.where(i * 4 + j < n)\n", ""), check_well_formed=True)
    assert error.value.message == (
        "axis vi of block X takes the value 1 at n = 1, i = 0, j = 1, outside of its domain 0..n"
    )


REGIONS = """
for i in range(8):
    with T.block("X"):
        vi = T.axis.spatial(8, i)
        T.reads({reads})
        T.writes({writes})
        B[vi] = {value}
"""


def regions(value="A[vi]", reads="A[vi]", writes="B[vi]"):
    return REGIONS.format(value=value, reads=reads, writes=writes)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (regions("A[vi + 1]"), "reads A[1] at i = 0, where T.reads does not say so"),
        (regions(reads=""), "reads A[0] at i = 0, where T.reads does not say so"),
        (regions(writes="B[vi + 1]"), "writes B[0] at i = 0, where T.writes does not say so"),
        (
            regions("A[vi * 2]", "A[vi:vi + 7]"),
            "reads A[14] at i = 7, where T.reads does not say so",
        ),
        (regions("B[vi]", ""), "reads B[0] at i = 0, where T.reads does not say so"),
        (
            regions("T.if_then_else(vi > 5, A[vi - 6], A[vi])"),
            "reads A[0] at i = 6, where T.reads does not say so",
        ),
    ],
)  # fmt: skip
def test_accesses_that_no_region_says(body, message):
    assert refused(body).message == f"block X {message}"


@pytest.mark.parametrize(
    "body",
    [
        regions(),
        regions("A[vi + 1] + A[vi]", "A[vi:vi + 2]"),
        regions("A[vi * 2]", "A[vi:vi + 8]"),
        regions("A[vi] + A[vi + 8]", "A[vi], A[vi + 8]"),
        regions("T.if_then_else(vi > 0, A[vi - 1], T.float32(0))", "A[vi - 1]"),
        regions("A[idx[vi]]", "A[0:16], idx[vi]"),
        regions("A[idx[vi]]", "A[idx[vi]], idx[vi]"),
        regions("T.if_then_else(vi > 8, A[15], T.float32(0))", "A[vi]"),
    ],
)
def test_regions_that_hold_all_accesses(body):
    assert analysis.verify_well_formed(func_of(body))


def test_regions_of_outer_blocks_and_of_matched_buffers():
    text = """
        for i in range(2):
            with T.block("outer"):
                vo = T.axis.spatial(2, i)
                T.reads(A[vo * 8:vo * 8 + {width}])
                T.writes(B[vo * 8:vo * 8 + 8])
                M = T.match_buffer(A[vo * 8:vo * 8 + 8], (8,), offset_factor=1)
                for j in range(8):
                    with T.block("inner"):
                        vi = T.axis.spatial(8, j)
                        T.reads(M[vi])
                        T.writes(B[vo * 8 + vi])
                        B[vo * 8 + vi] = M[vi]
        """
    assert analysis.verify_well_formed(func_of(text.format(width=8)))
    assert refused(text.format(width=6)).message == (
        "block outer reads A[6] at i = 0, j = 6, where T.reads does not say so"
    )


def test_an_update_reads_what_its_block_writes():
    text = """
        for i, k in T.grid(16, 4):
            with T.block("B"):
                vi, vk = T.axis.remap("SR", [i, k])
                T.reads(A[vi])
                T.writes(B[vi])
                with T.init():
                    B[vi] = T.float32(0)
                B[vi] = B[vi] + A[vi]
        """
    assert analysis.verify_well_formed(func_of(text))


BRANCH = """
with T.block("X"):
    vi = T.axis.spatial(4, i)
    vj, vk = T.axis.remap("RR", [j, k])
    T.reads(A[vj * 4 + vk])
    T.writes(B[{writes}])
    if {condition}:
        B[{start}] = T.float32(0)
    B[vi] = B[vi] + A[vj * 4 + vk]
"""


def branch(condition="vj == 0 and vk == 1", start="vi", writes="vi"):
    """A reduction of which `LowerInitBlock` has made the init a branch."""
    body = BRANCH.format(condition=condition, start=start, writes=writes)
    return "for i, j in T.grid(4, 4):\n    for k in range(1, 4):\n" + indent(body, "        ")


def test_a_reduction_that_a_branch_starts_reads_what_its_block_writes():
    assert analysis.verify_well_formed(func_of(branch()))
    for other in (
        branch("vj == 0"),
        branch("vj == 0 and vk == 2"),
        branch(start="0", writes="0:4"),
    ):
        assert "reads B[" in refused(other).message


def test_what_lower_init_block_makes_reads_back_in_a_cell():
    """TVM's spelling: the block does not say that it reads what it sums up."""
    func = parse(HEAD + indent(dedent(SUM), "    "))
    started = tir.transform.LowerInitBlock()(IRModule.make({"main": func}))
    again = parse(started.script(), check_well_formed=True)
    assert structural_equal(started, again)
    assert "if vk == 0:" in started.script()
    assert "T.reads(A[vk])" in started.script()


SUM = """
for i, k in T.grid(4, 16):
    with T.block("X"):
        vi, vk = T.axis.remap("SR", [i, k])
        with T.init():
            B[vi] = T.float32(0)
        B[vi] = B[vi] + A[vk]
"""


def test_a_buffer_is_used_only_in_its_block():
    text = """
        for i in range(16):
            with T.block("X"):
                vi = T.axis.spatial(16, i)
                t = T.alloc_buffer((1,))
                t[0] = A[vi]
                B[vi] = t[0]
        """
    func = func_of(text)
    (t,) = analysis.find_block(func, "X").block.alloc_buffers
    outside = tir.BufferStore(t, p.const(1.0), (p.const(0),))
    bad = func.with_body(tir.SeqStmt((func.body, outside)))
    with pytest.raises(WellFormedError) as error:
        analysis.verify_well_formed(bad)
    assert error.value.message == "buffer t is used but not declared"


THREADS = """
for i in T.thread_binding(4, thread="blockIdx.x"):
    for j in T.thread_binding(4, thread="threadIdx.x"):
        for k in T.thread_binding({}, thread="threadIdx.x"):
            B[i * 4 + j] = A[i * 4 + j]
"""


def test_thread_axes():
    assert analysis.verify_well_formed(func_of(THREADS.format(4)))
    error = refused(THREADS.format(2))
    assert error.message == (
        "loop k of extent 2 is bound to threadIdx.x, as is loop j of extent 4 around it"
    )
    error = refused(THREADS.format(4).replace("blockIdx.x", "threadIdx.q"))
    assert error.message == "loop i is bound to 'threadIdx.q', which is no thread axis"
    assert error.hint.startswith("one of blockIdx.x, blockIdx.y, blockIdx.z, threadIdx.x")


def test_a_loop_and_its_range_have_one_dtype():
    func = func_of("for i in range(16):\n    B[i] = A[i]")
    wide = rewrite(
        func,
        lambda n: replace(n, extent=p.const(16, "int64")) if isinstance(n, tir.For) else None,
    )
    with pytest.raises(WellFormedError) as error:
        analysis.verify_well_formed(wide)
    assert error.value.message == "loop i is int32, its range int64"
    assert func.body.loop_var.dtype == dtype("int32")


@settings(max_examples=80 * FUZZ, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    *[st.integers(-3, 4)] * 3, st.integers(1, 5), st.integers(1, 5), st.integers(1, 16),
    st.integers(0, 12), st.sampled_from(["", " // 2", " % 5", " // 3 + j"]),
)  # fmt: skip
def test_random_axes_are_refused_just_where_a_value_is_outside(a, b, c, n, m, domain, limit, tail):
    value = f"({a} * i + {b} * j + {c}){tail}"
    where = f"i + j < {limit}"
    note(f"{value} in 0..{domain} where {where}")
    func = func_of(axis(str(domain), value, where, f"{n}, {m}"))
    inside = all(
        0 <= eval(value, {"i": i, "j": j}) < domain  # noqa: S307
        for i in range(n)
        for j in range(m)
        if i + j < limit
    )
    assert analysis.verify_well_formed(func, assert_mode=False) == inside


NESTED = """
for i in range(4):
    with T.block("window"):
        vi = T.axis.spatial(4, i)
        T.reads(A[vi * 4:vi * 4 + 4])
        T.writes(B[vi])
        for k in range(T.Select(vi % 2 == 0, 2, 3)):
            with T.block("sum"):
                vj = T.axis.spatial((vi, vi + 1), vi)
                vk = T.axis.reduce(3, k)
                T.reads(A[vj * 4 + vk])
                T.writes(B[vj])
                with T.init():
                    B[vj] = T.float32(0)
                B[vj] = B[{read}] + A[vj * 4 + vk]
"""


def test_a_reduction_that_is_whole_inside_of_a_block():
    """Windows of their own sizes (adaptive pooling): the block around reads no B, it makes it."""
    assert analysis.verify_well_formed(func_of(NESTED.format(read="vj")))
    assert refused(NESTED.format(read="vj + 1")).message == (
        "block window reads B[1] at i = 0, k = 0, where T.reads does not say so"
    )


PARTS = """
for k, j in T.grid(2, 4):
    with T.block("part"):
        vp, vq = T.axis.remap("SS", [k, j])
        T.reads(A[0:16])
        T.writes(B[0])
        for r in range(4):
            with T.block("sum"):
                vk = T.axis.reduce(8, {value} + r)
                T.reads(A[vk])
                T.writes(B[0])
                with T.init():
                    B[0] = T.float32(0)
                B[0] = B[0] + A[vk]
"""


def test_a_reduction_of_which_a_block_holds_a_part():
    """The second `part` goes on from what the first has left in B: it reads it."""
    assert refused(PARTS.format(value="vp * 4")).message == (
        "block part reads B[0] at k = 0, j = 0, r = 0, where T.reads does not say so"
    )
