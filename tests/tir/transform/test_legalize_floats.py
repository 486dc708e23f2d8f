"""Small floats computed in wider ones, and stored as their bits."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import mlcnb as tvm
from mlcnb.codegen.interp import run_prim_func as run
from mlcnb.core.errors import PassError
from mlcnb.script import tir as T
from mlcnb.tir import transform

SMALL = {"bfloat16": ml_dtypes.bfloat16, "float8_e4m3fn": ml_dtypes.float8_e4m3fn,
         "float8_e5m2": ml_dtypes.float8_e5m2}  # fmt: skip


def applied(pass_, func):
    return pass_(tvm.IRModule.from_expr(func))["main"]


def passes(kind, wide="float32"):
    if kind == "bfloat16":
        return transform.BF16ComputeLegalize(), transform.BF16StorageLegalize()
    return transform.FP8ComputeLegalize(wide), transform.FP8StorageLegalize()


def test_the_form():
    @T.prim_func(private=True)
    def before(A: T.Buffer((8,), "bfloat16"), C: T.Buffer((8,), "bfloat16")):
        B = T.decl_buffer((8,), "bfloat16")
        for i in range(8):
            B[i] = A[i]
            C[i] = B[i] * T.bfloat16(2) + T.exp(A[i])

    @T.prim_func(private=True)
    def computed(A: T.Buffer((8,), "bfloat16"), C: T.Buffer((8,), "bfloat16")):
        B = T.decl_buffer((8,), "float32")
        for i in range(8):
            B[i] = T.reinterpret(
                "float32",
                T.Cast("uint32", T.reinterpret("uint16", A[i])) << T.uint32(16),
            )
            C[i] = T.reinterpret(
                "bfloat16",
                T.Let(
                    T.Cast(
                        "uint16",
                        T.Select(
                            bits & T.uint32(0x7FFFFFFF) > T.uint32(0x7F800000),
                            bits >> T.uint32(16) | T.uint32(0x40),
                            bits + ((bits >> T.uint32(16) & T.uint32(1)) + T.uint32(0x7FFF))
                            >> T.uint32(16),
                        ),
                    ),
                    where={
                        bits: T.reinterpret(
                            "uint32",
                            B[i] * T.float32(2)
                            + T.exp(
                                T.reinterpret(
                                    "float32",
                                    T.Cast("uint32", T.reinterpret("uint16", A[i])) << T.uint32(16),
                                )
                            ),
                        )
                    },
                ),
            )

    bits = tvm.tir.Var("bits", "uint32")
    after = applied(transform.BF16ComputeLegalize(), before)
    assert after.script() == computed.script()
    stored = applied(transform.BF16StorageLegalize(), after)
    assert [b.dtype for b in stored.buffers] == ["uint16", "uint16"]
    assert "bfloat16" not in stored.script()
    assert tvm.script.from_source(stored.script()).script() == stored.script()


@pytest.mark.parametrize("arch, stays", [("sm_75", False), ("sm_80", True), ("sm_90a", True)])
def test_a_machine_that_has_the_dtype_keeps_it(arch, stays):
    @T.prim_func(private=True)
    def func(A: T.Buffer((8,), "bfloat16")):
        for i in range(8):
            A[i] = A[i] + A[i]

    bound = func.with_attr("target", tvm.target.Target({"kind": "cuda", "arch": arch}))
    assert (applied(transform.BF16ComputeLegalize(), bound) is bound) is stays


UP = [(kind, "float32") for kind in SMALL] + [
    (kind, "float16") for kind in SMALL if kind != "bfloat16"
]


@pytest.mark.parametrize("kind, wide", UP)
def test_every_number_up(kind, wide):
    count = 256 if kind != "bfloat16" else 4096

    @T.prim_func(private=True)
    def up(A: T.Buffer((count,), kind), B: T.Buffer((count,), "float32")):
        for i in range(count):
            B[i] = T.Cast("float32", A[i])

    compute, storage = passes(kind, wide)
    given = np.arange(0, 1 << (8 if count == 256 else 16), 1 if count == 256 else 16)
    given = given.astype("uint8" if count == 256 else "uint16")
    out = np.zeros(count, "float32")
    run(applied(storage, applied(compute, up)), [given, out])
    np.testing.assert_array_equal(out, given.view(SMALL[kind]).astype("float32"))


@pytest.mark.parametrize("kind", SMALL)
def test_numbers_down(kind):
    rng = np.random.default_rng(0)
    all_of = np.arange(256, dtype="uint8").view(SMALL.get(kind)) if kind != "bfloat16" else None
    exact = rng.normal(size=64) if all_of is None else all_of.astype("float64")
    near = np.concatenate([exact, (exact[1:] + exact[:-1]) / 2])
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, 3.4e38, -3.4e38, 447, 448, 464, 465, 1e5]
    scaled = rng.normal(size=200) * 10.0 ** rng.integers(-8, 6, 200)
    given = np.concatenate([near, scaled, special]).astype("float32")
    odd = np.array([0x7F800001, 0xFFFFFFFF, 0x7FFFFFFF], "uint32").view("float32")
    given = np.concatenate([given, odd])

    @T.prim_func(private=True)
    def down(A: T.Buffer((len(given),), "float32"), B: T.Buffer((len(given),), kind)):
        for i in range(len(given)):
            B[i] = T.Cast(kind, A[i])

    compute, storage = passes(kind)
    out = np.zeros(len(given), "uint16" if kind == "bfloat16" else "uint8")
    run(applied(storage, applied(compute, down)), [given, out])
    with np.errstate(all="ignore"):
        expected = given.astype(SMALL[kind])
    np.testing.assert_array_equal(
        out.view(SMALL[kind]).astype("float32"), expected.astype("float32")
    )


def test_storage_alone_computes_nothing():
    @T.prim_func(private=True)
    def func(A: T.Buffer((8,), "bfloat16")):
        A[0] = A[1] + A[2]

    with pytest.raises(PassError) as error:
        applied(transform.BF16StorageLegalize(), func)
    assert error.value.message == "StorageLegalize: A[1] + A[2] computes with bfloat16"
    assert error.value.hint == "run the ComputeLegalize pass of that dtype first"


def test_memory_that_others_see_keeps_its_dtype():
    @T.prim_func(private=True)
    def func(A: T.Buffer((8,), "bfloat16")):
        B = T.decl_buffer((8,), "bfloat16")
        B[0] = A[0] + A[1]
        T.call_extern("int32", "f", B.data, A[2])

    after = applied(transform.BF16ComputeLegalize(), func)
    text = after.script()
    assert 'B = T.allocate([8], "bfloat16", "global")' in text
    assert 'T.call_extern("int32", "f", B, A[2])' in text


def test_a_program_means_the_same():
    @T.prim_func(private=True)
    def func(A: T.Buffer((16,), "bfloat16"), B: T.Buffer((16,), "bfloat16")):
        for i in range(4):
            B[i * 4 : i * 4 + 4] = A[i * 4 : i * 4 + 4] * T.broadcast(T.bfloat16(3), 4)
        for i in range(16):
            B[i] = T.if_then_else(A[i] > T.bfloat16(0), A[i] / B[i], T.max(A[i], B[i]))
            B[i] = T.Select(B[i] < A[i], T.Cast("bfloat16", i), B[i]) - T.exp(A[i])

    compute, storage = passes("bfloat16")
    given = np.random.default_rng(1).normal(size=16).astype(ml_dtypes.bfloat16)
    expected, out = np.zeros(16, ml_dtypes.bfloat16), np.zeros(16, "uint16")
    run(func, [given, expected])
    stored = applied(storage, applied(compute, func))
    run(stored, [given.view("uint16"), out])
    found = out.view(ml_dtypes.bfloat16).astype("float32")
    np.testing.assert_allclose(found, expected.astype("float32"), rtol=0.02, atol=0.02)
