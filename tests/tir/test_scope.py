"""Blocks of one scope: what depends on what, what is covered, what is read too early."""

from __future__ import annotations

from mlcnb.script import parse
from mlcnb.tir import analysis

HEAD = """
@T.prim_func
def main(A: T.Buffer((16,), "float32"), C: T.Buffer((16,), "float32")):
    B = T.alloc_buffer((16,))
"""
STAGES = """
    for i in range(4):
        for j in range(WIDTH):
            with T.block("B"):
                vi = T.axis.spatial(16, i * 4 + j)
                B[vi] = A[vi]
        for j in range(4):
            with T.block("C"):
                vi = T.axis.spatial(16, i * 4 + j)
                C[vi] = B[vi]
"""
IN_PLACE = """
    for i in range(16):
        with T.block("D"):
            vi = T.axis.spatial(16, i)
            C[vi] = C[vi] * T.float32(2)
"""
HALVES = """
    for i in range(8):
        with T.block("low"):
            vi = T.axis.spatial(8, i)
            C[vi] = A[vi]
    for i in range(8):
        with T.block("high"):
            vi = T.axis.spatial(8, i)
            C[vi + 8] = A[vi]
"""


def func_of(*parts, width=4):
    return parse(HEAD + "".join(parts).replace("WIDTH", str(width)))


def test_dependences_between_blocks():
    scope = analysis.get_block_scope(func_of(STAGES, IN_PLACE))
    assert [b.name_hint for b in scope.children] == ["B", "C", "D"]
    assert repr(scope) == (
        "dependences between the blocks of block root:\n"
        "RAW of B, B -> C\nRAW of C, C -> D\nWAW of C, C -> D"
    )
    assert [d.dst.name_hint for d in scope.get_deps_by_src("B")] == ["C"]
    assert [d.kind.name for d in scope.get_deps_by_dst(scope.children[2])] == ["RAW", "WAW"]


def test_blocks_that_write_different_halves_do_not_depend_on_each_other():
    assert analysis.get_block_scope(func_of(HALVES)).dependencies == ()


def test_an_update_in_place_of_what_was_read_before():
    reader = (
        STAGES
        + """
    for i in range(16):
        with T.block("E"):
            vi = T.axis.spatial(16, i)
            B[vi] = T.float32(0)
"""
    )
    func = func_of(reader)
    found = analysis.get_block_scope(func).get_deps_by_dst("E")
    assert [repr(d) for d in found] == ["WAW of B, B -> E", "WAR of B, C -> E"]
    assert not analysis.stage_pipeline(func)


def test_region_cover():
    covered = func_of(STAGES)
    assert analysis.region_cover(covered, "B") and analysis.region_cover(covered, "C")
    assert analysis.stage_pipeline(covered)
    short = func_of(STAGES, width=3)
    assert analysis.region_cover(short, "B") and not analysis.region_cover(short, "C")
    assert not analysis.stage_pipeline(short)


def test_reads_of_what_nothing_has_written():
    (read,) = analysis.uninitialized_reads(func_of(STAGES, width=3))
    assert repr(read) == "block C reads B[3] before it is written, at i = 0, j = 3"
    assert analysis.uninitialized_reads(func_of(STAGES)) == []


def test_what_is_written_in_an_earlier_iteration_is_written_but_does_not_cover():
    carried = """
    for i in range(16):
        with T.block("B"):
            vi = T.axis.spatial(16, i)
            B[vi] = A[vi]
        with T.block("C"):
            vi = T.axis.spatial(16, i)
            C[vi] = B[T.max(vi - 1, 0)]
"""
    func = func_of(carried)
    assert analysis.uninitialized_reads(func) == []
    assert not analysis.region_cover(func, "C")


def test_nested_scopes():
    nested = """
    for i in range(4):
        with T.block("outer"):
            vo = T.axis.spatial(4, i)
            for j in range(4):
                with T.block("B"):
                    vi = T.axis.spatial(16, vo * 4 + j)
                    B[vi] = A[vi]
            for j in range(4):
                with T.block("C"):
                    vi = T.axis.spatial(16, vo * 4 + j)
                    C[vi] = B[vi]
"""
    func = func_of(nested)
    assert analysis.get_block_scope(func).dependencies == ()
    assert [repr(d) for d in analysis.get_block_scope(func, "outer").dependencies] == [
        "RAW of B, B -> C"
    ]
    assert analysis.region_cover(func, "C") and analysis.stage_pipeline(func, "outer")
