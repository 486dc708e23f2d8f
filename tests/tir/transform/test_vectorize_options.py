"""VectorizeLoop as it is asked for: tests on the lane by option, vectors of scalable length."""

from __future__ import annotations

import pytest

import mlcnb as mlc
from mlcnb.ir.structural import assert_structural_equal
from mlcnb.ir.transform import PassContext
from mlcnb.script import parse
from mlcnb.script import tir as T
from mlcnb.target import Target
from mlcnb.tir import PrimFunc
from mlcnb.tir.transform import VectorizeLoop
from tests.tir.transform.lowering import run_pass, same_bits, statements

SVE = Target("llvm -device=arm_cpu -mtriple=aarch64-linux-gnu -mattr=+v8.2a,+sve")
OPTION = "tir.enable_buffer_level_predication"


@T.prim_func
def short_rows(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
    for i in range(16):
        B[i] = T.float32(0)
    for i in range(4):
        for j in T.vectorized(4):
            if i * 4 + j < 14:
                B[i * 4 + j] = A[i * 4 + j] + 1.0


def asked(func: PrimFunc, option: bool | None, target: Target | None = None) -> PrimFunc:
    config = {} if option is None else {OPTION: option}
    with PassContext(config=config):
        if target is None:
            return run_pass(VectorizeLoop(), func)
        with target:
            return run_pass(VectorizeLoop(), func)


MASKED = """
for i in range(16):
    B[i] = T.float32(0.0)
for i in range(4):
    B.vstore([T.Ramp(i * 4, 1, 4)], A.vload([T.Ramp(i * 4, 1, 4)], predicate=T.get_active_lane_mask("boolx4", i * 4, 14)) + T.Broadcast(T.float32(1.0), 4), predicate=T.get_active_lane_mask("boolx4", i * 4, 14))
"""  # noqa: E501
SERIAL = """
for i in range(16):
    B[i] = T.float32(0.0)
for i, j_s in T.grid(4, 4):
    if i * 4 + j_s < 14:
        B[i * 4 + j_s] = A[i * 4 + j_s] + T.float32(1.0)
"""


@pytest.mark.parametrize(
    ("option", "target", "expected"),
    [(True, None, MASKED), (None, SVE, MASKED), (False, None, SERIAL), (False, SVE, SERIAL)],
)
def test_a_test_on_the_lane_is_a_mask_or_a_loop(option, target, expected):
    after = asked(short_rows, option, target)
    assert statements(after) == expected.strip()
    same_bits(short_rows, after)


def test_the_target_of_a_function_or_of_a_part_of_it_counts():
    bound = short_rows.with_attr("target", SVE)
    assert statements(asked(bound, None)) == MASKED.strip()

    @T.prim_func
    def part(B: T.Buffer((16,), "float32")):
        with T.attr(SVE, "target", 0):
            for i in range(4):
                for j in T.vectorized(4):
                    if i * 4 + j < 14:
                        B[i * 4 + j] = T.float32(1)

    assert "get_active_lane_mask" in asked(part, None).script()


def test_only_what_has_no_vector_form_becomes_a_loop():
    @T.prim_func
    def mixed(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
        for j in T.vectorized(16):
            if j > 11:
                A[j] = T.float32(2)
            B[j] = T.if_then_else(j < 3, T.float32(1), T.float32(0))
            B[j] = B[j] + T.float32(1)

    after = asked(mixed, True)
    assert (
        statements(after)
        == """
for j_s in range(16):
    if j_s > 11:
        A[j_s] = T.float32(2.0)
for j_s in range(16):
    B[j_s] = T.if_then_else(j_s < 3, T.float32(1.0), T.float32(0.0))
B[0:16] = B[0:16] + T.Broadcast(T.float32(1.0), 16)
""".strip()
    )
    same_bits(mixed, after)


def test_a_number_that_all_lanes_share_is_not_loaded_under_a_mask_of_lanes():
    @T.prim_func
    def shared(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
        for i in range(16):
            B[i] = T.float32(0)
        for i in range(4):
            for j in T.vectorized(4):
                if i * 4 + j < 14:
                    B[i * 4 + j] = A[i] + 1.0

    after = asked(shared, True)
    assert "for i, j_s in T.grid(4, 4):" in after.script()
    same_bits(shared, after)


def test_scalable_extents_become_scalable_vectors_where_the_target_has_them():
    source = """
@T.prim_func
def main(A: T.Buffer((25,), "float32"), B: T.Buffer((25,), "int32"), n: T.int32):
    for i in range(n):
        {body}
"""
    loop = """for j in T.vectorized(T.vscale() * 4):
            A[i * (T.vscale() * 4) + j] = T.reinterpret("float32", B[j]) * A[i * (T.vscale() * 4) + j]"""  # noqa: E501
    wide = "A[T.Ramp(i * (T.vscale() * 4), 1, T.vscale() * 4)] = "
    wide += 'T.reinterpret("float32xvscalex4", B[T.Ramp(0, 1, T.vscale() * 4)]) * '
    wide += "A[T.Ramp(i * (T.vscale() * 4), 1, T.vscale() * 4)]"
    func = parse(source.format(body=loop))
    assert_structural_equal(asked(func, None, SVE), parse(source.format(body=wide)))
    serial = loop.replace("T.vectorized", "T.serial")
    plain = Target("llvm -mtriple=x86_64-linux-gnu")
    assert_structural_equal(asked(func, None, plain), parse(source.format(body=serial)))


def test_bits_are_read_anew_in_every_lane():
    @T.prim_func
    def bits(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "float32")):
        for j in T.vectorized(16):
            B[j] = T.reinterpret("float32", A[j])

    after = asked(bits, None)
    assert statements(after) == 'B[0:16] = T.reinterpret("float32x16", A[0:16])'
    same_bits(bits, after)


def test_true_and_its_constant_are_one_attribute():
    text = "@T.prim_func\ndef main():\n    T.func_attr({{'tir.noalias': {}}})\n    T.evaluate(0)"
    one, other = parse(text.format("True")), parse(text.format("T.bool(True)"))
    assert_structural_equal(one, other)
    assert mlc.ir.structural_hash(one) == mlc.ir.structural_hash(other)
