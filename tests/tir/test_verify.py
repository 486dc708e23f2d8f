"""Quick checks of whole functions, by TVM's names."""

from __future__ import annotations

from mlcnb import tir
from mlcnb.core.node import replace
from mlcnb.ir import prim_ops as p
from mlcnb.script import parse
from mlcnb.tir import analysis
from mlcnb.tir.transform import lower

COPY = """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in KIND:
        with T.block("B"):
            vi = T.axis.spatial(8, i)
            B[vi] = A[vi]
"""


def copied(kind="range(8)"):
    return parse(COPY.replace("KIND", kind))


def test_memory_of_a_gpu_is_touched_in_threads():
    host, threads = copied(), copied('T.thread_binding(8, thread="threadIdx.x")')
    assert analysis.verify_memory(host) and analysis.verify_memory(threads)
    assert not analysis.verify_memory(host.with_attr("target", "cuda"))
    assert analysis.verify_memory(threads.with_attr("target", "cuda"))


def test_single_assignment():
    func = lower(copied())
    assert analysis.verify_ssa(func)
    loop = next(n for n in analysis.structure.statements(func.body) if isinstance(n, tir.For))
    twice = func.with_body(tir.SeqStmt((loop, loop)))
    assert not analysis.verify_ssa(twice)
    other = tir.For(tir.Var("j"), p.const(0), p.const(4), tir.ForKind.SERIAL, loop.body)
    assert analysis.verify_ssa(func.with_body(tir.SeqStmt((loop, replace(other)))))


def test_pure_functions():
    assert not analysis.is_pure_function(copied())
    text = """
@T.prim_func
def main(n: T.int32) -> T.int32:
    T.ret(n * 2)
"""
    assert analysis.is_pure_function(parse(text)) and analysis.assert_pure_function(parse(text))


def test_regions_by_tvms_name():
    block = analysis.find_block(copied(), "B").block
    reads, writes = analysis.get_block_read_write_region(block)
    assert [str(r) for r in (*reads, *writes)] == ["A[vi]", "B[vi]"]
    assert analysis.get_block_access_region(block)[2] == ()
    assert analysis.expr_deep_equal(block.body.indices[0] + 1, block.body.indices[0] + 1)
