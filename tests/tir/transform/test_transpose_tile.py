"""TransposeTile: rows, shuffles and columns in place of gathers; the same bits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlcnb.script import parse
from mlcnb.script import tir as T
from mlcnb.tir.transform import TransposeTile, VectorizeLoop
from mlcnb.tir.transform.transpose_tile import transposed
from tests.tir.transform.lowering import run_pass, same_bits, statements


@T.prim_func
def tile(A: T.Buffer((36,), "float32"), B: T.Buffer((16,), "float32")):
    for j in T.unroll(4):
        B[j * 4 : j * 4 + 4] = A.vload([T.Ramp(j + 1, 9, 4)])


def test_a_tile_of_four_by_four() -> None:
    after = run_pass(TransposeTile(), tile)
    same_bits(tile, after)
    lines = statements(after).splitlines()
    assert lines[0] == "row0: T.float32x4 = A[1:5]"
    assert lines[3] == "row3: T.float32x4 = A[28:32]"
    assert lines[4] == "part4: T.float32x4 = T.Shuffle([row0, row1], [0, 4, 1, 5])"
    assert len(lines) == 4 + 8 + 4
    assert lines[-1] == "B[12:16] = part11"


@pytest.mark.parametrize("lanes", [4, 8, 16])
def test_the_network(lanes) -> None:
    square, count = np.arange(lanes * lanes).reshape(lanes, lanes), []

    def pick(a, b, places):
        count.append(1)
        return np.concatenate([a, b])[places]

    np.testing.assert_array_equal(transposed(list(square), pick), square.T)
    assert len(count) == {4: 8, 8: 24, 16: 64}[lanes]


TEMPLATE = """
@T.prim_func
def main(A: T.Buffer((400,), "{kind}"), B: T.Buffer(({size},), "{kind}")):
    for j in T.unroll({extent}):
        {test}
        for i in T.vectorized({lanes}):
            {store}
"""


def program(store, lanes=8, extent=8, test="if True:", kind="float32", size=128):
    text = TEMPLATE.format(**locals()).replace("        for i", "            for i")
    return parse(text.replace("            B[", "                B["))


@pytest.mark.parametrize(
    "func",
    [
        program("B[j * 8 + i] = A[i * 20 + j]"),
        program("B[j * 8 + i] = A[i * 20 + j] * T.float32(2.0)", extent=3),
        program("B[j * 8 + i] = A[i * 20 + j]", test="if j < 5:"),
        program("B[j * 8 + i] = A[i % 2 * 100 + i // 2 * 10 + j + 7]"),
        program("B[j * 8 + i] = T.if_then_else(i < 6, A[i * 20 + j], T.float32(0.0))"),
        program("B[j * 16 + i] = A[i * 20 + j]", lanes=16, extent=5),
        program("B[j * 8 + i] = A[i * 20 + j]", kind="int32"),
        program("B[j * 8 + i] = A[i * 20 + j]", kind="float64"),
        program("B[j * 8 + i] = A[i * 20 + j]", kind="bool"),
        program("B[j * 8 + i] = not A[i * 20 + j]", kind="bool", test="if j < 5:"),
        program("B[j * 8 + i] = i < 6 and A[i * 20 + j]", kind="bool"),
    ],
)
def test_shapes_and_masks(func) -> None:
    wide = run_pass(VectorizeLoop(), func)
    after = run_pass(TransposeTile(), wide)
    assert "T.Shuffle" in statements(after)
    same_bits(func, after)


@pytest.mark.parametrize(
    "func",
    [
        program("B[j * 8 + i] = A[i * 20 + j * 2]"),  # not side by side
        program("B[j * 8 + i] = A[i * 20 + j // 2]"),
        program("B[j * 8 + i] = A[j * 8 + i]"),  # nothing to turn
        program("B[i * 16 + j] = A[i * 20 + j] + B[i * 16 + j]"),
        program("B[j * 8 + i] = A[i * 20 + j]", extent=9),
    ],
)
def test_what_stays(func) -> None:
    wide = run_pass(VectorizeLoop(), func)
    assert run_pass(TransposeTile(), wide) is wide


MASKED = """
@T.prim_func
def main(A: T.Buffer((400,), "float32"), B: T.Buffer((128,), "float32")):
    for j in T.unroll({count}):
        for i in T.vectorized(8):
            if i + {start} < {end}:
                B[i * {count} + j] = A[j * 40 + i]
"""


@pytest.mark.parametrize("count, start, end", [(2, 0, 5), (3, 16, 17), (4, 2, 10), (5, 0, 7)])
def test_the_first_lanes_alone_are_put_together_under_masks(count, start, end) -> None:
    """The rest of a row that vectors do not divide: stored one by one it takes most of the time."""
    func = parse(MASKED.format(count=count, start=start, end=end))
    after = run_pass(TransposeTile(), run_pass(VectorizeLoop(), func))
    lines = statements(after)
    assert "T.Shuffle" in lines and "for j" not in lines
    same_bits(func, after)


BETWEEN = [
    program("B[i * 3 + j + 5] = A[j * 40 + i]", extent=3),
    program("B[j + i * 2] = A[j * 40 + i] * T.float32(2.0) + A[i + 7]", extent=2),
    program("B[i * 8 + j] = A[j * 40 + i] + T.float32(1.0)"),
    program("B[i * 3 + j] = A[j * 40 + i] * T.Cast('float32', j)", extent=3, lanes=4),
    program("B[i * 3 + j] = A[j * 40 + i]", extent=3, lanes=16, kind="int8"),
    program("B[i * 4 + j] = A[(3 - j) * 40 + i]", extent=4, lanes=16, kind="float64"),
    program("B[i * 3 + j] = T.exp(A[j * 40 + i])", extent=3),
    program("B[i * 3 + j] = T.if_then_else(i < 5, A[j * 40 + i], T.float32(0.0))", extent=3),
]


@pytest.mark.parametrize("func", BETWEEN)
def test_vectors_that_are_stored_between_each_other_are_put_together(func) -> None:
    wide = run_pass(VectorizeLoop(), func)
    after = run_pass(TransposeTile(), wide)
    lines = statements(after)
    assert "T.Shuffle" in lines and "for j" not in lines
    assert ":3]" not in lines.replace(" ", ""), "all stores lie together"
    same_bits(func, after)


@pytest.mark.parametrize("count, shuffles", [(2, 2), (3, 6), (4, 8), (8, 24)])
def test_halves_that_are_put_together_serve_two_vectors_each(count, shuffles) -> None:
    func = program(f"B[i * {count} + j] = A[j * 33 + i]", extent=count, size=140)
    after = run_pass(TransposeTile(), run_pass(VectorizeLoop(), func))
    assert statements(after).count("T.Shuffle") == shuffles


@settings(max_examples=40)
@given(
    lanes=st.sampled_from([4, 8, 16]), count=st.integers(2, 8), start=st.integers(0, 9),
    kind=st.sampled_from(["float32", "int8", "int64"]),
)  # fmt: skip
def test_any_vectors_put_together(lanes, count, start, kind) -> None:
    store = f"B[i * {count} + j + {start}] = A[j * 33 + i + {start}]"
    func = program(store, lanes=lanes, extent=count, kind=kind, size=140)
    after = run_pass(TransposeTile(), run_pass(VectorizeLoop(), func))
    assert "T.Shuffle" in statements(after)
    same_bits(func, after)


@pytest.mark.parametrize(
    "func",
    [
        program("B[i * 3 + j] = A[j * 40 + i]", extent=4, size=160),  # some are written twice
        program("B[i * 4 + j] = A[j * 40 + i]", extent=3),  # some not at all
        program("B[i * 3 + j * 2] = A[j * 40 + i]", extent=3),
        program("B[i * 3 + j] = A[j * 40 + i] + B[i + 100]", extent=3),
        program("B[i * 3 + j] = T.call_extern('float32', 'f', A[j * 40 + i])", extent=3),
        program("B[i * 9 + j] = A[j * 40 + i]", extent=9, size=128),
    ],
)
def test_what_is_not_put_together(func) -> None:
    wide = run_pass(VectorizeLoop(), func)
    assert run_pass(TransposeTile(), wide) is wide
