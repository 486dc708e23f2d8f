"""The rule for any sum whose operands are read again: what it takes, what it makes, what that
computes."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mlcnb as mlc
from mlcnb import te
from mlcnb.codegen.llvm.inspect import facts
from mlcnb.dlight.cpu import schedule_cpu
from mlcnb.dlight.decide import Decisions
from mlcnb.dlight.register_tiles import Summed, tiled
from mlcnb.meta_schedule.space import DefaultSpace
from mlcnb.target import Target
from mlcnb.tir.schedule import Schedule
from tests.tir.schedule.test_winograd import convolution, expected, letters

AVX2 = Target("llvm -mcpu=x86-64-v3 -num-cores=2")
AVX512 = Target("llvm -mcpu=x86-64-v4 -num-cores=2")


def einsum(spec, **sizes):
    """The loops of an einsum of two operands, each axis a loop in the order of the letters."""
    (left, right), out = spec.split("->")[0].split(","), spec.split("->")[1]
    operands = [
        te.placeholder([sizes[c] for c in x], name=n) for x, n in ((left, "A"), (right, "B"))
    ]
    summed = {
        c: te.reduce_axis((0, sizes[c]), c) for c in dict.fromkeys(left + right) if c not in out
    }

    def element(*index):
        at = dict(zip(out, index, strict=True)) | summed
        x, y = (a(*[at[c] for c in x]) for a, x in zip(operands, (left, right), strict=True))
        return te.sum(x * y, axis=list(summed.values()))

    result = te.compute([sizes[c] for c in out], element, name="C")
    return te.create_prim_func([*operands, result])


def ran(func, **options):
    """(inputs, result) of the default schedule on random numbers."""
    random = np.random.default_rng(0)
    args = [
        random.standard_normal([int(n) for n in b.shape]).astype("float32") for b in func.buffers
    ]
    mlc.compile(func, schedule="default", **options)(*args)
    return args


def rule_of(func, target=AVX512):
    return DefaultSpace(func, target).first().decisions["rule"]


SPECS = (
    "bqhd,bkhd->bhqk", "bhqk,bkhd->bqhd", "abc,cbd->ad", "aib,ijc->abjc", "abk,kb->ab", "ka,kb->ba",
    "kab,kcb->bac",
)  # fmt: skip


@pytest.mark.slow
@given(data=st.data(), spec=st.sampled_from(SPECS))
def test_any_contraction(data, spec):
    names = sorted(set(spec) - set(",->"))
    most = 18 if len(names) > 4 else 34
    a, b, c = ran(einsum(spec, **{n: data.draw(st.integers(1, most), label=n) for n in names}))
    wanted = np.einsum(spec, a.astype("float64"), b.astype("float64"))
    np.testing.assert_allclose(c, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.slow
@given(
    sizes=st.tuples(st.integers(1, 3), st.integers(1, 20), st.integers(1, 40)),
    places=st.tuples(st.integers(1, 20), st.integers(1, 20)),
    way=st.sampled_from(["direct", "Winograd's tiles of 4"]),
    **letters,
)
def test_a_convolution_of_any_layout(sizes, places, way, image, kernel, result, order):
    func = convolution(*sizes, places, image=image, kernel=kernel, result=result, order=order)
    with Decisions({"convolution": way}):
        x, w, y = ran(func)
    wanted = expected(x, w, image, kernel, result)
    np.testing.assert_allclose(y, wanted, rtol=0, atol=1e-4 * max(1, np.abs(wanted).max()))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("read", "result"),
    [("int8", "int32"), ("uint8", "int32"), ("int32", "int32"), ("int64", "int64"),
     ("float16", "float16"), ("float16", "float32"), ("float64", "float64")],
)  # fmt: skip
def test_other_dtypes(read, result):
    """Small whole numbers, so that every sum is exact; int8 is widened before it is multiplied."""
    X, W = te.placeholder((5, 20, 9), read, name="X"), te.placeholder((33, 5, 3), read, name="W")
    c, r = te.reduce_axis((0, 5), "c"), te.reduce_axis((0, 3), "r")
    Y = te.compute(
        (33, 20, 7),
        lambda f, y, x: te.sum(
            X[c, y, x + r].astype(result) * W[f, c, r].astype(result), axis=[c, r]
        ),
        name="Y",
    )
    func = te.create_prim_func([X, W, Y])
    assert rule_of(func) == "sums"
    random = np.random.default_rng(0)
    x, w = (random.integers(0, 5, [int(n) for n in b.shape]).astype(read) for b in func.buffers[:2])
    y = np.zeros((33, 20, 7), result)
    mlc.compile(func, schedule="default")(x, w, y)
    windows = np.lib.stride_tricks.sliding_window_view(x.astype("int64"), 3, 2)
    np.testing.assert_array_equal(y, np.einsum("cyxr,fcr->fyx", windows, w).astype(result))


def test_what_it_takes():
    for image, result in (("ncyx", "nfyx"), ("nyxc", "nyxf"), ("cyxn", "fyxn")):
        assert rule_of(convolution(2, 16, 32, (8, 8), image=image, result=result)) == "sums"
    assert rule_of(einsum("abc,cbd->ad", a=16, b=8, c=8, d=16)) == "sums"


def test_what_it_leaves():
    """A product of matrices has a rule of its own; a mean reads nothing again."""
    assert rule_of(einsum("ik,kj->ij", i=32, j=32, k=32)) == "matmul"
    A, axis = te.placeholder((64, 100), name="A"), te.reduce_axis((0, 100), "k")
    mean = te.compute((64, 1), lambda i, _: te.sum(A[i, axis], axis=[axis]), name="M")
    assert rule_of(te.create_prim_func([A, mean])) != "sums"


def innermost(asm):
    """The lines of the loop without another in it that has the most multiply-adds."""
    bodies, body, label = [[]], [], None
    for line in asm.splitlines():
        if line.startswith(".L") and line.rstrip().endswith(":"):
            body, label = [], line.strip()[:-1]
        elif label and re.match(rf"\s*j\w+\s+{re.escape(label)}$", line):
            bodies.append(body)
            body, label = [], None
        else:
            body.append(line)
    return max(bodies, key=lambda lines: sum("vfmadd" in x for x in lines))


def of_any_size():
    """A convolution of any height and width."""
    h, w = te.var("h"), te.var("w")
    X, W = te.placeholder((64, h, w), name="X"), te.placeholder((64, 64, 3, 3), name="W")
    c, r, q = (te.reduce_axis((0, n), a) for n, a in ((64, "c"), (3, "r"), (3, "q")))

    def element(f, y, x):
        return te.sum(X[c, y + r, x + q] * W[f, c, r, q], axis=[c, r, q])

    return te.create_prim_func([X, W, te.compute((64, h - 2, w - 2), element, name="Y")])


@pytest.mark.parametrize(
    "func",
    [
        of_any_size(),
        convolution(1, 64, 64, (56, 56)),
        convolution(1, 64, 64, (56, 56), image="nyxc", kernel="rqcf", result="nyxf"),
        einsum("bhqk,bkhd->bqhd", b=1, h=8, q=128, k=128, d=64),
    ],
)
def test_sums_stay_in_registers(func):
    """In the innermost loop most is multiply-adds, and nothing is stored."""
    body = innermost(mlc.compile(func, AVX512, schedule="default").kernels[0].asm)
    adds = sum("vfmadd" in line for line in body)
    assert adds >= 12
    assert adds > len(body) / 2
    assert not any(re.search(r"%zmm\d+, .*\(", line) for line in body if "vmov" in line)


@pytest.mark.parametrize(
    ("vectors", "rows"),
    [(4, (1, 1, 1, 3)), (1, (1, 3, 4, 1)), (1, (1, 4, 3, 1)), (2, (1, 1, 3, 2))],
)
def test_sixteen_registers_hold_twelve_sums(vectors, rows):
    """The smaller operand is the one that is held: three numbers and, one by one, four vectors; of
    four vectors and a number the last would be spilled."""
    target = Target("llvm -mcpu=x86-64-v3 -num-cores=1")
    sch = Schedule(convolution(1, 24, 32, (12, 24)))
    block = sch.get_block("Y")
    summed = Summed.of(sch.get(block))
    tile = next(
        t for t in summed.tiles(target, 8) if (t.vectors, t.rows[: len(rows)]) == (vectors, rows)
    )
    order = [n for n, letter in enumerate(summed.letters) if letter == "S"]
    tiled(sch, block, summed, tile, order)
    kernel = mlc.compile(sch.mod, target, schedule=None).kernels["main"]
    hot = max((f.hot for f in facts(kernel.compiled).values() if f.hot), key=lambda x: x.fma)
    assert (hot.fma, hot.spills, hot.stores) == (12, 0, 0)


def test_what_stores_the_result_stands_in_the_tiles():
    """A bias and a maximum after the sum are made of registers: the sum is never in memory."""
    X, W = te.placeholder((16, 18, 18), name="X"), te.placeholder((32, 16, 3, 3), name="W")
    bias = te.placeholder((32,), name="b")
    c, r, q = (te.reduce_axis((0, n), a) for n, a in ((16, "c"), (3, "r"), (3, "q")))
    Y = te.compute(
        (32, 16, 16),
        lambda f, y, x: te.sum(X[c, y + r, x + q] * W[f, c, r, q], axis=[c, r, q]),
        name="Y",
    )

    def positive(f, y, x):
        shifted = Y[f, y, x] + bias[f]
        return te.if_then_else(shifted > 0.0, shifted, 0.0)

    Z = te.compute((32, 16, 16), positive, name="Z")
    func = te.create_prim_func([X, W, bias, Z])
    x, w, b, z = ran(func)
    windows = np.lib.stride_tricks.sliding_window_view(x.astype("float64"), (3, 3), (1, 2))
    wanted = np.maximum(np.einsum("cyxrq,fcrq->fyx", windows, w) + b[:, None, None], 0)
    np.testing.assert_allclose(z, wanted, rtol=1e-4, atol=1e-4)
    made = schedule_cpu(func, AVX512)
    (sums,) = (b for b in made.get(made.get_block("root")).alloc_buffers if b.name.startswith("Y"))
    assert sums.scope == "local"


def test_a_search_may_compute_a_convolution_by_tiles():
    space = DefaultSpace(convolution(1, 32, 32, (14, 14)), AVX512)
    first = space.first()
    assert first.decisions["convolution"] == "direct"
    ways = [choices for choices, _ in space.around(first)]
    assert {"convolution": "Winograd's tiles of 4"} in ways
    made = space.make({"convolution": "Winograd's tiles of 4"})
    assert "products" in made.text


def test_two_sums_in_one_function():
    """Each is tiled by itself."""
    A, V, W = (
        te.placeholder(s, name=n) for s, n in (((24, 32), "A"), ((32, 48), "V"), ((48, 20), "W"))
    )
    k, j = te.reduce_axis((0, 32), "k"), te.reduce_axis((0, 48), "j")
    C = te.compute((24, 48), lambda i, n: te.sum(A[i, k] * V[k, n], axis=[k]), name="C")
    D = te.compute((24, 20), lambda i, n: te.sum(C[i, j] * W[j, n], axis=[j]), name="D")
    func = te.create_prim_func([A, V, W, D])
    assert rule_of(func) == "sums"
    a, v, w, d = ran(func)
    np.testing.assert_allclose(d, a.astype("float64") @ v @ w, rtol=1e-3, atol=1e-3)
