"""Kinds of blocks, suggested layouts, where an intrinsic fits, and the summary of it all."""

from __future__ import annotations

from textwrap import dedent

import numpy as np
import pytest

import mlcnb as mlc
from mlcnb import te, tir
from mlcnb.core.errors import MLCError
from mlcnb.ir import prim_ops as p
from mlcnb.meta_schedule.testing import te_workload
from mlcnb.script import parse
from mlcnb.tir import IndexMap, TensorIntrin
from mlcnb.tir.schedule import Schedule
from mlcnb.tir.schedule import analysis as a
from tests.tir.test_analysis import conv, softmax
from tests.tir.test_dependences import MATMUL


def test_kinds_of_blocks():
    func = te.create_prim_func(softmax())
    for name, kind in (("max", "reduction"), ("exp", "spatial"), ("softmax", "spatial")):
        assert a.is_reduction_block(func, name) == (kind == "reduction")
        assert a.is_complete_block(func, name) == (kind == "spatial")
        assert a.is_dominant_block(func, name) and a.has_affine_binding(func, name)
        assert a.is_output_block(func, name) == (name == "softmax")
    assert a.is_compact_dataflow(func)
    assert a.has_block(func, "exp") and not a.has_block(func, "log")
    assert tir.analysis.find_anchor_block(func).name_hint in ("max", "sum")
    assert tir.analysis.find_anchor_block(te.create_prim_func(conv())).name_hint == "conv"


def test_handles_and_schedules_are_taken():
    sch = Schedule(parse(MATMUL))
    assert a.is_reduction_block(sch, sch.get_block("C"))
    with pytest.raises(MLCError) as error:
        a.is_complete_block(sch, "D")
    assert str(error.value) == "no block of name 'D'\nhint: the blocks are C"


def loops(**extents):
    nothing = tir.Evaluate(p.const(0))
    made = [
        tir.For(tir.Var(name), p.const(0), p.const(n), tir.ForKind.SERIAL, nothing)
        for name, n in extents.items()
    ]
    return made, [loop.loop_var for loop in made]


def test_suggested_layouts_follow_the_loops():
    nest, (i, j) = loops(i=32, j=64)
    buffer = tir.decl_buffer((8, 256))
    found = a.suggest_index_map(buffer, [i // 16 * 4 + j // 16, i % 16 * 16 + j % 16], nest)
    wanted = tir.IndexMap.from_func(lambda x, y: (x // 4, y // 16, x % 4, y % 16))
    assert found.is_equivalent_to(wanted)


def test_a_suggested_layout_runs_through_memory_in_order():
    nest, (i, j) = loops(i=2, j=32)
    found = a.suggest_index_map(tir.decl_buffer((8,)), [j % 4 * 2 + i], nest)
    assert found.is_equivalent_to(tir.IndexMap.from_func(lambda x: (x % 2, x // 2)))
    moved = found.map_ndarray(np.arange(8)).reshape(-1)
    assert list(moved) == [y * 2 + x for x in range(2) for y in range(4)]


def test_no_layout_for_what_is_no_split():
    nest, (i, j) = loops(i=4, j=4)
    assert a.suggest_index_map(tir.decl_buffer((16,)), [i * j], nest) is None


def product_of(n):
    return parse(MATMUL.replace("8", str(n)))


def test_loops_for_an_intrinsic():
    sch = Schedule(product_of(64))
    info = a.get_tensorize_loop_mapping(sch, "C", product_of(16))
    names = {x.loop_var.name: y.loop_var.name for x, y in info.loop_map.items()}
    assert names == {"i": "i", "j": "j", "k": "k"} and info.block_iter_paddings is None
    assert a.get_tensorize_loop_mapping(sch, "C", product_of(48)) is None
    info = a.get_tensorize_loop_mapping(sch, "C", product_of(48), allow_padding=True)
    assert info.block_iter_paddings == (48, 48, 48)
    assert a.get_tensorize_loop_mapping(Schedule(te.create_prim_func(softmax())), "exp",
                                        product_of(4)) is None  # fmt: skip


def test_the_summary_of_a_product():
    assert repr(mlc.tir.analyze(parse(MATMUL))) == dedent("""\
        PrimFunc main: 1.02 kFLOP, touches 768 B, 1.33 FLOP/B
          block  kind       loops    times        work  touches  FLOP/B
          C      reduction  i, j, k    512  1.02 kFLOP    768 B    1.33  sum over vk; A, B -> C
          loop   extent  kind    one iteration touches  its iterations
          i           8  serial                  320 B  independent: any order, in parallel
            j         8  serial                   68 B  independent: any order, in parallel
              k       8  serial                   12 B  steps of a reduction into C: any order, one at a time
          memory global  768 B touched
        8 dependences between iterations: x.dependences
        well-formed; every access is proved to be in bounds""")  # noqa: E501


CARRIED = """
@T.prim_func
def main(A: T.Buffer((16, 16), "float32"), idx: T.Buffer((16,), "int32"),
         C: T.Buffer((16,), "float32")):
    t = T.alloc_buffer((4,))
    for i in range(1, 16):
        A[i, 0] = A[i - 1, 0] * t[1]
    for j in range(14):
        A[j, 1] = A[j + 2, 1]
    for k in range(16):
        C[idx[k]] = T.float32(1)
    for m in range(17):
        C[m // 2 + 8] = T.float32(1)
"""


def test_what_loops_carry_and_what_is_wrong_is_said_in_words():
    found = mlc.tir.analyze(parse(CARRIED))
    assert [report.verdict for report in found.loops] == [
        "in order: A is read 1 iteration later than it is written",
        "in order: A is written 2 iterations later than it is read",
        "in order: C may be written again in a later iteration",
        "in order: C is written again 1 iteration later",
    ]
    assert found.problems == (
        "C[idx[k]] is written: its index in dimension 0 is not proved to lie in 0..16",
        "C[16] is written at m = 16: dimension 0 has indices 0..16",
        "block root reads t[1] before it is written, at i = 1",
    )


def test_programs_of_any_kind_have_a_summary():
    n = te.var("n", "int64")
    A = te.placeholder((n, 4), name="A")
    symbolic = te.create_prim_func([A, te.compute((n, 4), lambda i, j: A[i, j] * 2.0)])
    for func in (symbolic, te.create_prim_func(conv()), te.create_prim_func(softmax())):
        for version in (func, tir.transform.lower(func)):
            found = mlc.tir.analyze(version)
            assert found.problems == () and "well-formed" in repr(found)
    assert "n * 32 B" in repr(mlc.tir.analyze(symbolic))


def test_programs_of_very_many_accesses_are_not_compared_pair_by_pair():
    lines = "".join(f"    A[{n}] = A[{n + 1}]\n" for n in range(80))
    func = parse(
        '@T.prim_func\ndef main(A: T.Buffer((81,), "float32")):\n    for i in range(2):\n'
        + "".join(f"    {line}\n" for line in lines.splitlines())
    )
    found = mlc.tir.analyze(func)
    assert found.is_large and found.dependences == [] and found.problems == ()
    assert [report.verdict for report in found.loops] == ["not looked at: too many accesses"]
    assert not found.loops[0].is_parallel


def mapping(tensors, block: str, intrinsic: str):
    desc = TensorIntrin.get(intrinsic).desc
    found = a.get_auto_tensorize_mapping_info(te.create_prim_func(list(tensors)), block, desc)
    return None if found is None else found.mappings


MIXED = {"in_dtype": "float16", "out_dtype": "float32"}


@pytest.mark.parametrize(
    ("tensors", "block", "expected"),
    [
        (te_workload.matmul(64, 32, 16, **MIXED), "C", lambda n, m, k: (n, m, k)),
        (
            te_workload.batch_matmul_nkkm(2, 32, 32, 32, **MIXED),
            "Z",
            lambda b, n, m, k: (b, n, m, k),
        ),
        (
            te_workload.conv2d_nhwc(2, 8, 6, 16, 32, 3, 1, 1, **MIXED),
            "conv2d_nhwc",
            lambda n, h, w, c, rh, rw, rc: (n * 48 + h * 6 + w, c, rh * 48 + rw * 16 + rc),
        ),
    ],
)
def test_axes_of_a_block_as_those_of_an_intrinsic(tensors, block, expected):
    (found,) = mapping(tensors, block, "wmma_sync_16x16x16_f16f16f32")
    assert found.is_equivalent_to(IndexMap.from_func(expected))


def test_blocks_that_are_no_product_of_the_intrinsic():
    name = "wmma_sync_16x16x16_f16f16f32"
    assert mapping(te_workload.matmul(64, 32, 16), "C", name) is None
    assert mapping(te_workload.matmul_relu(64, 32, 16, **MIXED), "compute", name) is None
    A, B = te.placeholder((8, 8), "float16", name="A"), te.placeholder((8,), "float16", name="B")
    r = te.reduce_axis((0, 8), name="k")
    C = te.compute(
        (8,),
        lambda i: te.sum(A[i, r].astype("float32") * B[r].astype("float32"), axis=r),
        name="C",
    )
    assert mapping((A, B, C), "C", name) is None
