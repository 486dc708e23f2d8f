"""Elementwise blocks: whole vectors whatever the shape, numbers of any broadcast."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mlcnb as mlc
from mlcnb import te, tir
from mlcnb.codegen.llvm.inspect import facts
from mlcnb.core.node import walk
from mlcnb.dlight.cpu import schedule_cpu
from mlcnb.ir.expr import Ramp
from mlcnb.ir.prim_ops import as_int
from mlcnb.relax import op as R
from mlcnb.tir.buffer import BufferLoad
from mlcnb.tir.stmt import BufferStore
from mlcnb.tir.transform import lower
from tests.dlight.test_cpu import HOST, LANES, check, loops_of, random


@settings(max_examples=20, deadline=None)
@given(
    shape=st.lists(st.integers(1, 21), min_size=1, max_size=4),
    ones=st.lists(st.booleans(), min_size=4, max_size=4),
)
def test_any_shape_and_broadcast(shape, ones):
    other = [1 if one else n for one, n in zip(ones, shape, strict=False)]
    check(lambda a, b: R.add(a, b), random(*shape), random(*other))


@settings(max_examples=8, deadline=None)
@given(
    shape=st.lists(st.integers(2, 13), min_size=2, max_size=3),
    before=st.integers(0, 3),
    after=st.integers(0, 3),
)
def test_padding(shape, before, after):
    x = random(*shape)
    widths = [w for _ in shape for w in (before, after)]
    check(lambda a: R.nn.pad(a, pad_width=widths), x)


@pytest.mark.parametrize(
    "shape, rows",
    [((24, 7, 7), 1176), ((1, 3, 5), 15), ((300, 3), 900)],
)
def test_short_rows_join(shape, rows):
    """relu of a tensor is one row, however long its last axis is."""
    func, _ = loops_of(lambda a: R.nn.relu(a), random(*shape))
    text = lower(schedule_cpu(func, HOST).mod["main"]).script()
    whole = rows // LANES
    assert f"range({whole})" in text or f"T.parallel({whole})" in text or whole < 2
    assert text.count("for ") <= 2


@pytest.mark.parametrize("shape", [(64, 28, 28), (100, 7, 7), (8, 33, 50)])
def test_vectors_longer_than_a_row_join_rows_too(shape):
    """What is read as float32 and stored as bytes goes by 64 places: no place is divided."""
    func, _ = loops_of(lambda a: R.astype(a, "uint8"), random(*shape))
    text = lower(schedule_cpu(func, HOST).mod["main"]).script()
    assert not re.search("//|%", text)


def test_rows_of_a_broadcast_end_in_one_masked_vector():
    func, _ = loops_of(lambda a, b: R.add(a, b), random(64, 7, 7), random(64, 1, 1))
    text = lower(schedule_cpu(func, HOST).mod["main"]).script()
    assert text.count("predicate=") <= 2 * (49 % LANES > 0)
    assert f"range({49 // LANES})" in text


@pytest.mark.parametrize("cpu", ["x86-64-v3", "x86-64-v4", "cortex-a72"])
def test_no_scalar_loops(cpu):
    target = mlc.target.Target(f"llvm -mcpu={cpu}")
    func, _ = loops_of(lambda a: R.square(a), np.zeros((64, 7, 7), "f"))
    made = mlc.compile(func, target=target, schedule="default").kernels["main"]
    hot = max((f.hot for f in facts(made.compiled).values() if f.hot), key=lambda c: c.instructions)
    assert hot.vector_share >= 0.4 and hot.spills == 0


@pytest.mark.parametrize("axes", [(0, 1, 2), (2, 0, 1), (1, 2, 0)])
def test_sizes_that_are_not_known(axes):
    """A batch given at run time: rows join, or not, and tiles are turned, or not; it is right."""
    x, y = random(3, 5, 7), random(3, 5, 7).transpose(axes).copy()
    n = te.var("n", "int64")
    a = te.placeholder((n, 5, 7), "float32", "a")
    shape = [(n, 5, 7)[i] for i in axes]
    b = te.placeholder(shape, "float32", "b")
    where = [axes.index(i) for i in range(3)]

    def element(*index):
        return a(*(index[i] for i in where)) + b(*index)

    func = te.create_prim_func([a, b, te.compute(shape, element, name="sum")])
    found = np.full(y.shape, np.nan, "float32")
    mlc.compile(func, schedule="default")(x, y, found)
    np.testing.assert_allclose(found, x.transpose(axes) + y, rtol=1e-6)


@pytest.mark.parametrize("cpu", ["znver3", "znver4", "skylake-avx512"])
def test_a_reflection_is_written_out_and_looks_nothing_up(cpu):
    """A short row that turns at its ends: loads and shuffles of places that are known."""
    func, _ = loops_of(
        lambda a: R.nn.pad(a, pad_width=[0, 0, 1, 1, 1, 1], pad_mode="reflect"), random(4, 56, 56)
    )
    kernel = mlc.compile(func, f"llvm -mcpu={cpu}", schedule="default").kernels["main"]
    assert "gather" not in kernel.asm


@settings(max_examples=15, deadline=None)
@given(
    length=st.integers(129, 300),
    ends=st.tuples(st.integers(0, 9), st.integers(0, 9)),
    mode=st.sampled_from(["reflect", "edge", "wrap"]),
    kind=st.sampled_from(["float32", "float16", "int8", "int64", "bool"]),
)
def test_long_rows_have_loops_for_their_ends(length, ends, mode, kind):
    x = (random(3, 5, length) * 50).astype(kind)
    check(lambda a: R.nn.pad(a, pad_width=[0, 0, 2, 1, *ends], pad_mode=mode), x)


@pytest.mark.parametrize("cpu", ["znver3", "znver4", "skylake-avx512"])
def test_a_long_reflection_copies_vectors(cpu):
    """No element of the middle is looked up: there are as few loads of one as at the ends."""
    func, _ = loops_of(
        lambda a: R.nn.pad(a, pad_width=[0, 0, 0, 0, 3, 3], pad_mode="reflect"), random(4, 8, 256)
    )
    kernel = mlc.compile(func, f"llvm -mcpu={cpu}", schedule="default").kernels["main"]
    assert "gather" not in kernel.asm and "insertps" not in kernel.asm


@settings(max_examples=15, deadline=None)
@given(
    shape=st.tuples(st.integers(2, 5), st.integers(4, 70)),
    mode=st.sampled_from(["reflect", "edge", "wrap"]),
    widths=st.tuples(*[st.integers(0, 3)] * 4),
)
def test_what_turns_at_the_ends(shape, mode, widths):
    if max(widths[:2]) < shape[0]:
        check(lambda a: R.nn.pad(a, pad_width=list(widths), pad_mode=mode), random(*shape))


@pytest.mark.parametrize(
    ("shape", "repeats"),
    [((64, 100), (10, 1)), ((1, 6, 28, 28), (2, 1, 2, 1)), ((3, 20), (2, 3)), ((5, 7), (4, 3))],
)
def test_copies_are_read_as_they_lie(shape, repeats):
    """Rows that begin again do not join to one in which each lane looks up its place."""
    sch = check(lambda x: R.tile(x, repeats), random(*shape))
    if repeats[-1] == 1:
        assembly = mlc.compile(sch.mod["main"], target="llvm").inspect_source("asm")
        assert "gather" not in assembly


@pytest.mark.parametrize(
    "place, stays",
    [
        (lambda i, j, k: (3 * i + j, k), False),
        (lambda i, j, k: (3 * i + j, k + 2), False),
        (lambda i, j, k: (k, 3 * i + j), True),  # each reader would go down columns
        (lambda i, j, k: (3 * i + j, 2 * k), True),
        (lambda i, j, k: (3 * i + j, 7 - k), True),
        (lambda i, j, k: (3 * i + j, tir.floormod(k, 5)), True),
    ],
)
def test_what_only_says_where_elements_lie_is_no_copy(place, stays):
    """Though three read it; the numbers are those of its meaning."""
    x = te.placeholder((24, 24), "float32", "x")
    v = te.compute((8, 3, 8), lambda i, j, k: x[place(i, j, k)], name="view")
    ends = [
        te.compute((8, 8), lambda i, k, j=j: v[i, j, k] * float(j + 2), name=f"y{j}")
        for j in range(3)
    ]
    func = te.create_prim_func([x, *ends])
    sch = schedule_cpu(func, HOST)
    assert ("view" in sch.mod["main"].script()) is stays
    given = random(24, 24)
    found, expected = ([np.full((8, 8), np.nan, "f4") for _ in ends] for _ in range(2))
    mlc.compile(sch, "llvm")(given, *found)
    mlc.compile(func, "interp")(given, *expected)
    np.testing.assert_array_equal(found, expected)


@settings(max_examples=15, deadline=None)
@given(
    shape=st.lists(st.integers(1, 40), min_size=1, max_size=3),
    repeats=st.lists(st.integers(1, 4), min_size=3, max_size=3),
)
def test_tiles_of_any_shape(shape, repeats):
    check(lambda a: R.tile(a, repeats[: len(shape)]), random(*shape))


@pytest.mark.parametrize("length", [100, 64])
def test_what_begins_again_is_copied_by_vectors(length):
    """Looked up lane by lane it took 4.5 times ONNX Runtime's time, now 0.4."""
    func, _ = loops_of(lambda a: R.tile(a, (3, 3)), random(100, length))
    made = mlc.compile(func, "llvm -mcpu=x86-64-v4", schedule="default").kernels["main"]
    assert "gather" not in made.compiled.assembly
    assert facts(made.compiled).hottest.hot.vector_share > 0.2


@pytest.mark.parametrize(
    "channels, is_inside", [(24 * LANES // 16, True), (LANES, True), (LANES // 4, False)]
)
def test_a_function_of_channels_that_fill_no_block_is_computed_in_the_blocks(channels, is_inside):
    """24 channels take 32 places. They were computed where they lay first, through rows of another
    order: 112 x 112 of them 337 us, now 94. A few channels stay apart."""
    x = te.placeholder((6, 17, channels), "float32", "x")
    turned = te.compute((channels, 6, 17), lambda c, h, w: x[h, w, c], name="turned")
    wide = te.compute(turned.shape, lambda *i: te.erf(turned(*i)), name="wide")
    zero = te.const(0, "float32")

    def block(outer, h, w, inner):
        c = outer * LANES + inner
        return te.if_then_else(c < channels, wide(c, h, w), zero)

    shape = (-(-channels // LANES), 6, 17, LANES)
    func = te.create_prim_func([x, te.compute(shape, block, name="blocked")])
    text = schedule_cpu(func, HOST).mod["main"].script()
    assert ('T.block("wide")' not in text) == is_inside
    given = random(6, 17, channels)
    found = np.full(shape, np.nan, "float32")
    mlc.compile(func, schedule="default")(given, found)
    filled = np.zeros((6, 17, shape[0] * LANES), "float32")
    filled[..., :channels] = np.vectorize(math.erf)(given)
    expected = filled.reshape(6, 17, shape[0], LANES).transpose(2, 0, 1, 3)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("rows, columns", [(14, 14), (3, 9), (5, 40), (2, 33), (7, 7), (1, 12)])
def test_sums_over_rows_and_columns_of_a_window_go_row_by_row(rows, columns):
    """Relative positions, reshaped: each was looked up by a division (14 x 14, 824 us, now 50)."""
    a, b = te.placeholder((37, rows), name="a"), te.placeholder((37, columns), name="b")
    shape = (37, rows * columns)
    y = te.compute(shape, lambda n, j: a[n, j // columns] + b[n, j % columns], name="y")
    func = te.create_prim_func([a, b, y])
    ex = mlc.compile(func, schedule="default")
    given, found = (random(37, rows), random(37, columns)), np.full(shape, np.nan, np.float32)
    ex(*given, found)
    expected = (given[0][:, :, None] + given[1][:, None, :]).reshape(shape)
    np.testing.assert_array_equal(found, expected)
    cpu = "llvm -mcpu=x86-64-v4"
    made = mlc.compile(func, cpu, schedule="default").kernels["main"].compiled
    if 8 < columns <= 16:
        assert "gather" not in made.assembly


def test_a_function_of_each_element_is_computed_where_a_reshape_puts_it():
    """It has more axes there, but not more elements: nothing is computed twice."""
    x = te.placeholder((7, 48), name="x")
    a = te.compute((7, 48), lambda i, j: te.exp(x[i, j]), name="a")
    heads = te.compute((7, 4, 12), lambda i, h, k: a[i, h * 12 + k], name="heads")
    out = te.compute((4, 7, 12), lambda h, i, k: heads[i, h, k] + 1.0, name="out")
    sch = schedule_cpu(te.create_prim_func([x, out]), HOST)
    assert sch.get(sch.get_block("root")).alloc_buffers == ()


@pytest.mark.parametrize("kind", ["float32", "float16", "uint8", "int64"])
@pytest.mark.parametrize("count, places", [(2, 33), (3, 16), (4, 21), (2, 7)])
def test_shuffled_pixels_are_put_together_in_registers(kind, count, places):
    """Places looked up one by one took three to eight times as long: 64 channels of 56, 47 us."""
    x = (random(1, 2 * count * count, 3, places) * 50).astype(kind)

    def shuffled(a):
        return R.nn.pixel_shuffle(a, upscale_factor=count)

    check(shuffled, x)
    func, _ = loops_of(shuffled, x)
    sch = schedule_cpu(func, mlc.target.Target("llvm -mcpu=x86-64-v4"))
    body = lower(sch.mod["main"]).body
    accesses = [n for n in walk(body) if isinstance(n, BufferLoad | BufferStore)]
    runs = [n.indices[-1] for n in accesses if isinstance(n.indices[-1], Ramp)]
    together = all(as_int(n.stride) == 1 for n in runs)
    few = places * x.itemsize < 12
    assert together and ("T.Shuffle" in lower(sch.mod["main"]).script()) != few
