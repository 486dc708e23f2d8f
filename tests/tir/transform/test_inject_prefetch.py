"""InjectPrefetch: one prefetch for each place that a load will be at."""

from __future__ import annotations

import mlcnb as mlc
from mlcnb.core.node import replace, rewrite
from mlcnb.script import tir as T
from mlcnb.tir.stmt import For
from mlcnb.tir.transform import InjectPrefetch
from tests.tir.transform.lowering import run_pass, same_bits, statements


@T.prim_func
def product(
    w: T.Buffer((512,), "float32"), x: T.Buffer((8,), "float32"), y: T.Buffer((64,), "float32")
):
    for k in T.serial(8, annotations={"pragma_prefetch": ["w", 128]}):
        for i in T.unroll(2):
            for j in T.unroll(2):
                for c in T.vectorized(16):
                    y[i * 32 + j * 16 + c] = x[k] * w[j * 256 + k * 16 + c]


def test_one_for_each_vector_of_the_tile():
    after = run_pass(InjectPrefetch(), product)
    assert statements(after).splitlines()[:4] == [
        "for k in range(8):",
        "    for j in T.unroll(2):",
        '        T.prefetch(T.tvm_access_ptr(T.type_annotation("float32"), w.data, '
        "j * 256 + k * 16 + 128, 1, 1))",
        "    for i in T.unroll(2):",
    ]
    same_bits(product, after)


@T.prim_func
def window(w: T.Buffer((40,), "float32"), y: T.Buffer((8,), "float32")):
    for k in T.serial(8, annotations={"pragma_prefetch": ["w", 16]}):
        y[k] = w[k] * T.float32(2) + w[k + 16] - w[k]


def test_one_for_each_load_that_differs():
    after = run_pass(InjectPrefetch(), window)
    places = [line for line in statements(after).splitlines() if "T.prefetch" in line]
    assert [line.split("w.data, ")[1] for line in places] == [
        "k + 16, 1, 1))",
        "k + 16 + 16, 1, 1))",
    ]


@T.prim_func
def to_the_second_cache(w: T.Buffer((512,), "float32"), y: T.Buffer((16,), "float32")):
    for k in T.serial(8, annotations={"pragma_prefetch": ["w", 128, 2]}):
        for c in T.vectorized(16):
            y[c] = y[c] + w[k * 16 + c]


def test_how_near_it_is_brought_is_said():
    after = run_pass(InjectPrefetch(), to_the_second_cache)
    assert "k * 16 + 128, 1, 1), 0, 2, 1)" in statements(after)
    same_bits(to_the_second_cache, after)
    target = mlc.target.Target({"kind": "llvm", "mcpu": "x86-64-v3"})
    assert "prefetcht1" in mlc.compile(to_the_second_cache, target=target).kernels[0].asm


@T.prim_func
def other(x: T.Buffer((8,), "float32"), y: T.Buffer((8,), "float32")):
    for k in T.serial(8, annotations={"pragma_prefetch": ["w", 128]}):
        y[k] = x[k]


def test_a_buffer_that_is_not_read_is_not_asked_for():
    after = run_pass(InjectPrefetch(), other)
    assert statements(after) == "for k in range(8):\n    y[k] = x[k]"


@T.prim_func
def plain(x: T.Buffer((8,), "float32"), y: T.Buffer((8,), "float32")):
    for k in range(8):
        y[k] = x[k]


def test_what_is_not_annotated_stays():
    assert run_pass(InjectPrefetch(), plain) is plain


@T.prim_func
def tiles(
    w: T.Buffer((512,), "float32"), x: T.Buffer((32,), "float32"), y: T.Buffer((64,), "float32")
):
    for i in T.serial(4, annotations={"pragma_prefetch_next": ["w", 256, 4]}):
        for c in T.vectorized(16):
            y[i * 16 + c] = T.float32(0)
        for k_0 in range(2):
            for k_1 in range(8):
                for c in T.vectorized(16):
                    y[i * 16 + c] = y[i * 16 + c] + x[i * 8 + k_1] * w[k_0 * 128 + k_1 * 16 + c]


def test_tiles_that_read_the_same_ask_for_what_lies_behind_it_together():
    """256 elements of 4 tiles in 2 steps each: two lines in a step."""
    after = run_pass(InjectPrefetch(), tiles)
    text = statements(after)
    assert text.count("T.prefetch") == 2
    found = [line.strip() for line in text.splitlines() if "prefetch" in line or " in " in line]
    head = 'T.prefetch(T.tvm_access_ptr(T.type_annotation("float32"), w.data, '
    assert found[0] == "for i in range(4):"
    assert [line for line in found if "prefetch" in line] == [
        head + "(i * 2 + k_0) * 32 + 256, 1, 1))",
        head + "(i * 2 + k_0) * 32 + 256 + 16, 1, 1))",
    ]
    same_bits(tiles, after)


def test_tiles_that_do_not_read_the_buffer_ask_for_nothing():
    other = tiles.with_body(rewrite(tiles.body, _renamed))
    text = statements(run_pass(InjectPrefetch(), other))
    assert "prefetch" not in text


def _renamed(n):
    if isinstance(n, For) and n.annotations:
        return replace(n, annotations={"pragma_prefetch_next": ["other", 256, 4]})
    return None
