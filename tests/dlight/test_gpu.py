"""Default schedules for GPUs: accepted as legal, and right on a simulated one."""

from __future__ import annotations

import numpy as np
import pytest

import mlcnb as mlc
from mlcnb import dlight as dl
from mlcnb import relax, te, tir
from mlcnb.codegen.interp import run_prim_func
from mlcnb.core.errors import PassError
from mlcnb.dlight.gpu import schedule_gpu
from mlcnb.ir.module import IRModule
from mlcnb.target import Target
from tests.dlight.test_cpu import loops_of
from tests.tir.schedule.programs import text

SIM = Target("cuda-sim")
op = relax.op


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype("float32")


CASES = {
    "add": (lambda x, y: op.add(x, y), (5, 7, 33), (7, 1)),
    "exp of nothing": (lambda x: op.exp(x), (0, 4)),
    "one number": (lambda x: op.exp(x), ()),
    "transpose": (lambda x: op.permute_dims(x, [0, 2, 1]), (3, 17, 40)),
    "concat": (lambda x, y: op.concat([x, y], axis=1), (2, 3, 5), (2, 4, 5)),
    "sum of rows": (lambda x: op.sum(x, axis=-1), (6, 300)),
    "sum of short rows": (lambda x: op.sum(x, axis=-1), (600, 5)),
    "sum of columns": (lambda x: op.sum(x, axis=0), (300, 70)),
    "sum of all": (lambda x: op.sum(x), (9, 70)),
    "mean": (lambda x: op.mean(x, axis=[2, 3]), (2, 8, 7, 7)),
    "argmax": (lambda x: op.argmax(x, axis=-1), (5, 100)),
    "softmax": (lambda x: op.nn.softmax(x, axis=-1), (3, 5, 130)),
    "log softmax": (lambda x: op.nn.log_softmax(x, axis=-1), (4, 70)),
    "softmax of rows beyond shared memory": (lambda x: op.nn.softmax(x, axis=-1), (2, 20000)),
    "softmax along columns": (lambda x: op.nn.softmax(x, axis=0), (70, 6)),
    "layer norm": (
        lambda x, g, b: op.nn.layer_norm(x, g, b, axes=[-1]), (4, 7, 96), (96,), (96,)
    ),
    "rms norm": (lambda x, g: op.nn.rms_norm(x, g, axes=[-1]), (6, 96), (96,)),
    "matmul": (lambda x, y: op.matmul(x, y), (33, 20), (20, 50)),
    "batched matmul": (lambda x, y: op.matmul(x, y), (3, 17, 20), (3, 20, 18)),
    "matmul with relu": (lambda x, y: op.nn.relu(op.matmul(x, y)), (70, 33), (33, 90)),
    "conv2d of many channels": (
        lambda x, w, b: op.nn.relu(op.add(op.nn.conv2d(x, w, strides=2, padding=1), b)),
        (1, 6, 15, 15), (18, 6, 3, 3), (1, 18, 1, 1),
    ),
    "conv2d 1 x 1": (lambda x, w: op.nn.conv2d(x, w), (2, 20, 7, 7), (33, 20, 1, 1)),
    "conv1d": (lambda x, w: op.nn.conv1d(x, w, padding=1), (2, 8, 40), (20, 8, 3)),
    "conv2d transposed": (
        lambda x, w: op.nn.conv2d_transpose(x, w, strides=2), (1, 6, 9, 9), (6, 17, 3, 3)
    ),
    "matrix by vector": (lambda x, y: op.matmul(x, y), (1, 64), (64, 50)),
    "conv2d": (
        lambda x, w: op.nn.conv2d(x, w, strides=2, padding=1), (1, 6, 15, 15), (8, 6, 3, 3)
    ),
    "grouped conv2d": (
        lambda x, w: op.nn.conv2d(x, w, padding=1, groups=4), (1, 8, 9, 9), (8, 2, 3, 3)
    ),
    "max pool": (
        lambda x: op.nn.max_pool2d(x, pool_size=[3, 3], strides=[2, 2], padding=[1, 1, 1, 1]),
        (1, 5, 14, 14),
    ),
    "take": (lambda x: op.take(x, op.ones([3], "int64"), axis=0), (4, 6)),
    "cumulative sum": (lambda x: op.cumsum(x, axis=1), (5, 12)),
    "top k": (lambda x: op.topk(x, 3)[0], (4, 11)),
    "resize": (lambda x: op.image.resize2d(x, (9, 13), layout="NCHW"), (1, 2, 6, 6)),
}  # fmt: skip


def module(make, *shapes) -> IRModule:
    """A graph of one operator."""
    bb = relax.BlockBuilder()
    params = [
        relax.Var(f"x{i}", relax.TensorStructInfo(shape, "float32"))
        for i, shape in enumerate(shapes)
    ]
    with bb.function("main", params):
        with bb.dataflow():
            out = bb.emit_output(make(*params))
        bb.emit_func_output(out)
    return bb.get()


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_operator(name):
    """What the CPU's own kernels compute, whichever rule takes it."""
    make, *shapes = CASES[name]
    mod = module(make, *shapes)
    args = [random(*shape) for shape in shapes]
    expected = mlc.compile(mod, target="interp")(*args)
    found = mlc.compile(mod, target=SIM)(*args)
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-5)
    assert np.asarray(found).dtype == np.asarray(expected).dtype


def test_open_sizes():
    n = te.var("n", "int64")
    A = te.placeholder((n, 40), name="A")
    k = te.reduce_axis((0, 40), name="k")
    B = te.compute((n,), lambda i: te.sum(A[i, k], axis=k), name="B")
    ex = mlc.compile(te.create_prim_func([A, B]), target=SIM, schedule="default")
    for rows in (1, 7, 300):
        a, b = random(rows, 40), np.empty(rows, "float32")
        ex(a, b)
        np.testing.assert_allclose(b, a.sum(1), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("make, shapes", [
    (lambda x, y: op.matmul(x, y), [(64, 32), (32, 80)]),
    (lambda x, w: op.nn.conv2d(x, w, padding=1), [(1, 8, 12, 12), (24, 8, 3, 3)]),
])  # fmt: skip
def test_operands_of_products_go_through_shared_memory(make, shapes):
    args = [random(*shape) for shape in shapes]
    func, expected = loops_of(make, *args)
    sch = schedule_gpu(func, SIM)
    script = text(sch)
    assert script.count('scope="shared"') == 2 and script.count('scope="local"') == 3
    assert script.count('T.thread_binding(16, thread="threadIdx.y")') == 3
    assert '"software_pipeline_async_stages": [0]' in script
    kernel = mlc.compile(sch, target=SIM).kernels[0]
    assert kernel.source.count("__shared__") == 2 and "__syncthreads" in kernel.source
    out = np.empty_like(expected)
    mlc.compile(sch, target=SIM)(*args, out)
    np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-4)


def test_rows_are_reduced_by_the_threads_of_a_block():
    func, _ = loops_of(lambda x: op.nn.softmax(x, axis=-1), random(8, 512))
    sch = schedule_gpu(func, SIM)
    script = text(sch)
    assert script.count('thread="blockIdx.x"') == 1
    assert script.count('T.thread_binding(256, thread="threadIdx.x")') >= 3
    assert 'scope="shared"' in script


def test_trace_replays():
    func, _ = loops_of(lambda x, y: op.matmul(x, y), random(20, 30), random(30, 40))
    sch = schedule_gpu(func, SIM)
    again = tir.Schedule(func)
    sch.trace.apply_to_schedule(again, remove_postproc=False)
    assert text(again) == text(sch)


def test_rules_by_their_names():
    func, expected = loops_of(lambda x: op.sum(x, axis=-1), random(4, 100))
    mod = IRModule.from_expr(func.with_attr("global_symbol", "main"))
    with SIM:
        made = dl.ApplyDefaultSchedule(dl.gpu.Reduction(), dl.gpu.Fallback())(mod)
    assert made["main"].attrs["tir.is_scheduled"]
    args = [random(4, 100), np.empty(4, "float32")]
    run_prim_func(made["main"], args, simulate=True)
    np.testing.assert_allclose(args[-1], expected, rtol=1e-5)
    again = dl.ApplyDefaultSchedule(dl.gpu.Fallback())(made)
    assert again is made


def test_a_rule_of_ones_own():
    class Nothing:
        def apply(self, func, target, tunable):
            return None

    func, _ = loops_of(lambda x: op.exp(x), random(4))
    mod = IRModule.from_expr(func)
    assert dl.ApplyDefaultSchedule(Nothing())(mod) is mod
    with pytest.raises(PassError, match="3 is no schedule rule"):
        dl.ApplyDefaultSchedule(3)
