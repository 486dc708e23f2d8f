"""Symbolic dimensions of arithmetic and reductions: inference, and loops for every size."""

from __future__ import annotations

import numpy as np
import pytest

import mlcnb
from mlcnb import relax, te
from mlcnb.codegen.interp import run_prim_func
from mlcnb.core.errors import ExecutionError
from mlcnb.ir.dtype import dtype
from mlcnb.ir.expr import SizeVar
from mlcnb.op import binary, reduction, scan, search, sorting, unary
from mlcnb.op._dims import tell
from mlcnb.relax.expr import PrimValue, Var, tensor_info
from mlcnb.relax.infer import infer
from mlcnb.relax.struct_info import TensorStructInfo

N, M = (SizeVar(name, dtype("int64")) for name in "nm")
op = relax.op


def var(*dims, kind="float32"):
    return Var("x", tensor_info(dims, kind))


INFERRED = [
    (op.add(var(N, 3), var(3)), "Tensor((n, 3), float32)"),
    (op.add(var(N, 1), var(N, M)), "Tensor((n, m), float32)"),
    (op.add(var(N), var(5)), "Tensor((5,), float32)"),
    (
        op.add(var(N), var(M)),
        "Tensor((T.Select(T.min(n, m) == T.int64(0), T.int64(0), T.max(n, m)),), float32)",
    ),
    (op.add(var(N), var(N + 2)), "Tensor((n + T.int64(2),), float32)"),
    (op.add(var(N * 2 + N), var(3 * N)), "Tensor((n * T.int64(3),), float32)"),
    (op.less(var(N), var(1)), "Tensor((n,), bool)"),
    (op.sum(var(N, 3, M), axis=1), "Tensor((n, m), float32)"),
    (op.max(var(N, 3), axis=0, keepdims=True), "Tensor((1, 3), float32)"),
    (op.argmax(var(N, 3), axis=1), "Tensor((n,), int64)"),
    (op.cumsum(var(N, 3)), "Tensor((n * T.int64(3),), float32)"),
    (op.topk(var(N, 9), k=2, ret_type="values"), "Tensor((n, 2), float32)"),
    (op.arange(PrimValue(N)), "Tensor((n,), int64)"),
    (
        op.image.resize3d(var(N, 3, M, 4, 5), [N, 2 * M, 7], layout="NCDHW"),
        "Tensor((n, 3, n, m * T.int64(2), 7), float32)",
    ),
    (
        op.nn.attention_var_len(
            *(var(1, d, 2, 8) for d in (N, M, M)), var(4, kind="int32"), var(kind="int32")
        ),
        "Tensor((1, n, 2, 8), float32)",
    ),
    (op.zeros([N, 4], "int8"), "Tensor((n, 4), int8)"),
    (op.where(var(N, kind="bool"), var(2, 1), var(N)), "Tensor((2, n), float32)"),
]


@pytest.mark.parametrize(("call", "text"), INFERRED, ids=[c.op.name for c, _ in INFERRED])
def test_inference(call, text):
    assert tell(infer(call)) == text


def test_what_is_not_known_stays_unknown():
    unknown = Var("u", TensorStructInfo())
    ranked = Var("r", TensorStructInfo(None, dtype("float32"), ndim=2))
    info = infer(op.add(unknown, ranked))
    assert (info.dims, info.dtype, info.ndim) == (None, None, -1)
    info = infer(op.sum(ranked, axis=0))
    assert (info.dims, info.dtype, info.ndim) == (None, "float32", 1)
    info = infer(op.sum(unknown))
    assert (info.dims, info.dtype, info.ndim) == ((), None, 0)
    info = infer(op.equal(ranked, ranked))
    assert (info.dims, info.dtype, info.ndim) == (None, "bool", 2)


SIZES = [(1, 1), (4, 3), (7, 2)]
DECLARED = [
    unary.Exp(),
    reduction.Sum(0),
    reduction.Mean(1, True),
    reduction.Variance(),
    scan.Cumsum(0),
    scan.Cumsum(),
    search.Argmax(1),
    sorting.Sort(0),
    sorting.Argsort(-1, True),
]


@pytest.mark.parametrize("decl", DECLARED, ids=lambda d: d.op_name)
def test_one_function_for_all_sizes(decl):
    x = te.placeholder((N, M), "float32", "x")
    func = te.create_prim_func([x, decl.compute(x)])
    for shape in SIZES:
        data = np.random.default_rng(0).normal(size=shape).astype("float32")
        expected = decl.numpy(data)
        out = np.zeros_like(expected)
        run_prim_func(func, [data, out])
        np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("n", "m"), [(3, 3), (1, 4), (5, 1)])
def test_dimensions_that_may_be_one_are_broadcast_at_run_time(n, m):
    x, y = te.placeholder((N,), "float32", "x"), te.placeholder((M,), "float32", "y")
    func = te.create_prim_func([x, y, binary.Add().compute(x, y)])
    a, b = np.arange(n, dtype="float32"), np.arange(m, dtype="float32") * 10
    out = np.zeros(max(n, m), "float32")
    run_prim_func(func, [a, b, out])
    np.testing.assert_array_equal(out, a + b)


def _compiled(call, target):
    bb = relax.BlockBuilder()
    with bb.function("main", list(dict.fromkeys(call.args))):
        bb.emit_func_output(bb.emit(call))
    return mlcnb.compile(bb.get(), target=target)


@pytest.mark.parametrize("target", ["llvm", "interp"])
def test_dimensions_that_do_not_broadcast_at_run_time_are_an_error(target):
    x, y = (Var(name, tensor_info([dim], "float32")) for name, dim in (("x", N), ("y", M)))
    ex = _compiled(op.add(x, y), target)
    a, b = np.arange(2, dtype="float32"), np.arange(4, dtype="float32")
    np.testing.assert_array_equal(np.asarray(ex(a, a)), a + a)
    np.testing.assert_array_equal(np.asarray(ex(a[:1], b)), b)
    with pytest.raises(ExecutionError) as caught:
        ex(a, b)
    assert str(caught.value) == (
        "y_dim0 is m = 4, but has to be n = 2, or one of the two 1\n"
        "hint: these dimensions are open in the program: call it with sizes that agree"
    )


def test_a_reduction_of_a_dimension_that_is_empty_at_run_time():
    ex = _compiled(op.max(Var("x", tensor_info([N, 3], "float32")), axis=0), "llvm")
    np.testing.assert_array_equal(np.asarray(ex(np.zeros((0, 3), "float32"))), [-np.inf] * 3)
