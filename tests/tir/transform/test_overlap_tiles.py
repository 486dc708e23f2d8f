"""OverlapTiles: the last tile of an open row begins early, where no place of a tile minds."""

from __future__ import annotations

from textwrap import dedent

import numpy as np
import pytest

from mlcnb.codegen.interp import run_prim_func
from mlcnb.script import parse
from mlcnb.tir.transform import OverlapTiles
from tests.tir.transform.lowering import run_pass, statements

#: rows of tiles with a sum of their own: sums start at 0, and are stored with what lies beside
TEXT = """
@T.prim_func
def main(a: T.handle, w: T.Buffer((3,), "float32"), b: T.handle):
    T.func_attr({"tir.noalias": True})
    n = T.int32()
    A = T.match_buffer(a, (n + 2,))
    B = T.match_buffer(b, (n,))
    for i in T.serial((n + 3) // 4, annotations={"pragma_overlap_tiles": True}):
        data = T.allocate([4], "float32", "local")
        acc = T.decl_buffer((4,), data=data, scope="local")
        for j in T.unroll(4):
            if i * 4 + j < n:
                acc[j] = T.float32(0)
        for k in range(3):
            for j in T.unroll(4):
                if i * 4 + j < n:
                    acc[j] = acc[j] + A[i * 4 + j + k] * w[k]
        for j in T.unroll(4):
            if i * 4 + j < n:
                B[i * 4 + j] = acc[j] + T.Cast("float32", i * 4 + j)
"""
TILED = parse(TEXT)


def test_whole_tiles_and_what_is_shorter_than_one():
    wanted = """
        n = T.int32()
        A = T.match_buffer(a, (n + 2,))
        B = T.match_buffer(b, (n,))
        if n >= 4:
            for i in range((n + 3) // 4):
                start: T.int32 = T.min(i * 4, n - 4)
                data = T.allocate([4], "float32", "local")
                acc = T.decl_buffer((4,), data=data, scope="local")
                for j in T.unroll(4):
                    acc[j] = T.float32(0.0)
                for k in range(3):
                    for j in T.unroll(4):
                        acc[j] = acc[j] + A[j + k + start] * w[k]
                for j in T.unroll(4):
                    B[j + start] = acc[j] + T.Cast("float32", j + start)
        else:
            for i in range((n + 3) // 4):
                data = T.allocate([4], "float32", "local")
                acc = T.decl_buffer((4,), data=data, scope="local")
                for j in T.unroll(4):
                    if i * 4 + j < n:
                        acc[j] = T.float32(0.0)
                for k in range(3):
                    for j in T.unroll(4):
                        if i * 4 + j < n:
                            acc[j] = acc[j] + A[i * 4 + j + k] * w[k]
                for j in T.unroll(4):
                    if i * 4 + j < n:
                        B[i * 4 + j] = acc[j] + T.Cast("float32", i * 4 + j)
        """
    assert statements(run_pass(OverlapTiles(), TILED)) == dedent(wanted).strip()


@pytest.mark.parametrize("n", range(1, 10))
def test_every_length(n: int):
    rng = np.random.default_rng(n)
    a, w = rng.standard_normal(n + 2).astype(np.float32), rng.standard_normal(3).astype(np.float32)
    found = [np.full(n, np.nan, np.float32) for _ in range(2)]
    for func, out in zip((TILED, run_pass(OverlapTiles(), TILED)), found, strict=True):
        run_prim_func(func, [a, w, out])
    np.testing.assert_array_equal(*found)
    wanted = np.convolve(a, w[::-1], "valid") + np.arange(n)
    np.testing.assert_allclose(found[1], wanted, rtol=1e-4, atol=1e-5)


def same_for_rows(func, made):
    """Both compute the same, bit for bit, of rows of any length."""
    for n in range(1, 20):
        rng = np.random.default_rng(n)
        a, w = (rng.standard_normal(size).astype(np.float32) for size in (n + 2, 3))
        found = [np.full(n, np.nan, np.float32) for _ in range(2)]
        for each, out in zip((func, made), found, strict=True):
            run_prim_func(each, [a, w, out])
        np.testing.assert_array_equal(*found)


def test_rows_that_smaller_tiles_suit():
    """Tiles of 4; of 3 where they compute an eighth less, or where the row has but 3."""
    func = parse(TEXT.replace('"pragma_overlap_tiles": True', '"pragma_overlap_tiles": 3'))
    made = run_pass(OverlapTiles(), func)
    wide, rest = statements(made).split("elif n >= 3:")
    narrow, tested = rest.split("else:")
    assert "if n >= 4 and 7 * ((n + 3) // 4 * 4) <= 8 * ((n + 2) // 3 * 3):" in wide
    assert wide.count("in T.unroll(4)") == tested.count("in T.unroll(4)") == 3
    assert tested.count("if i * 4 + j < n:") == 3
    wanted = """
        for i in range((n + 2) // 3):
            start: T.int32 = T.min(i * 3, n - 3)
            data = T.allocate([4], "float32", "local")
            acc = T.decl_buffer((4,), data=data, scope="local")
            for j in T.unroll(3):
                acc[j] = T.float32(0.0)
            for k in range(3):
                for j in T.unroll(3):
                    acc[j] = acc[j] + A[j + k + start] * w[k]
            for j in T.unroll(3):
                B[j + start] = acc[j] + T.Cast("float32", j + start)
        """
    assert dedent(narrow).strip() == dedent(wanted).strip()
    same_for_rows(func, made)


def test_rows_shorter_than_smaller_tiles_have_still_smaller_ones():
    func = parse(TEXT.replace('"pragma_overlap_tiles": True', '"pragma_overlap_tiles": [3, 1]'))
    made = run_pass(OverlapTiles(), func)
    _, rest = statements(made).split("elif n >= 1:")
    single, tested = rest.split("else:")
    assert "if " not in single and "for i in range(n):" in single
    assert tested.count("if i * 4 + j < n:") == 3
    same_for_rows(func, made)


OTHERS = {
    "what is stored is read": ("* w[k]", "* B[i * 4 + j]"),
    "places of a tile read each other": (
        "acc[j] + A[i * 4 + j + k]",
        "acc[3 - j] + A[i * 4 + j + k]",
    ),
    "the place in the tile matters": ("A[i * 4 + j + k]", "A[j + k]"),
    "another step": ("A[i * 4 + j + k]", "A[i * 3 + j + k]"),
    "the number of the tile matters": ('T.Cast("float32", i * 4 + j)', 'T.Cast("float32", i)'),
    "one place for all": ("acc[j] = T.float32(0)", "B[0] = T.float32(0)"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_tiles_that_may_not_begin_elsewhere(name: str):
    """Whole ones come first, without a test; then the rest, once, with its tests: in order."""
    old, new = OTHERS[name]
    assert old in TEXT
    func = parse(TEXT.replace(old, new))
    made = run_pass(OverlapTiles(), func)
    text = statements(made)
    whole, rest = text.split("if n // 4 < (n + 3) // 4 and n // 4 >= 0:")
    assert "for i in range(n // 4):" in whole
    assert "if " not in whole
    assert "for i" not in rest
    assert rest.count("if n // 4 * 4 + j < n:") == 3
    for n in range(1, 10):
        rng = np.random.default_rng(n)
        a, w = (rng.standard_normal(size).astype(np.float32) for size in (n + 2, 3))
        found = [np.arange(n, dtype=np.float32) for _ in range(2)]
        for each, out in zip((func, made), found, strict=True):
            run_prim_func(each, [a, w, out])
        np.testing.assert_array_equal(*found)


def test_left_alone():
    """Tiles that do not cover the row."""
    func = parse(TEXT.replace("serial((n + 3) // 4", "serial(n // 4"))
    asked = ', annotations={"pragma_overlap_tiles": True}'
    made = run_pass(OverlapTiles(), func)
    assert statements(made) == statements(func).replace(asked, "").replace("T.serial", "range")


SUMS = parse("""
@T.prim_func
def main(a: T.handle, B: T.Buffer((4,), "float32")):
    T.func_attr({"tir.noalias": True})
    n = T.int32()
    A = T.match_buffer(a, (n,))
    for j in range(4):
        B[j] = T.float32(0)
    for i in T.serial((n + 3) // 4, annotations={"pragma_overlap_tiles": True}):
        for j in T.vectorized(4):
            B[j] = B[j] + T.if_then_else(i * 4 + j < n and A[0] > T.float32(-9), A[i * 4 + j],
                                         T.float32(0))
""")


def test_tests_in_values_of_whole_tiles_hold():
    made = run_pass(OverlapTiles(), SUMS)
    wanted = """
        n = T.int32()
        A = T.match_buffer(a, (n,))
        for j in range(4):
            B[j] = T.float32(0.0)
        for i in range(n // 4):
            for j in T.vectorized(4):
                B[j] = B[j] + T.if_then_else(A[0] > T.float32(-9.0), A[i * 4 + j], T.float32(0.0))
        if n // 4 < (n + 3) // 4 and n // 4 >= 0:
            for j in T.vectorized(4):
                B[j] = B[j] + T.if_then_else(n // 4 * 4 + j < n and A[0] > T.float32(-9.0), A[n // 4 * 4 + j], T.float32(0.0))
        """  # noqa: E501
    assert statements(made) == dedent(wanted).strip()
    for n in range(1, 14):
        a, found = np.arange(n, dtype=np.float32), np.zeros(4, np.float32)
        run_prim_func(made, [a, found])
        np.testing.assert_array_equal(found, [a[j::4].sum() for j in range(4)])


def test_arguments_that_may_overlap():
    func = parse(TEXT.replace('T.func_attr({"tir.noalias": True})', "pass"))
    assert run_pass(OverlapTiles(), func) is func
