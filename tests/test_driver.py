"""compile: targets, parameters, pipelines, schedules; the same program gives the same code."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import mlcnb as mlc
from mlcnb.core.errors import PassError, TargetError
from mlcnb.relax.transform import LegalizeOps
from mlcnb.target import Target
from tests.runtime.programs import module, random

ROOT = Path(__file__).parents[1]
X, Y = random(2, 3), random(3, seed=1)
RELU_ADD = np.maximum(X + Y, 0)


# what is compiled --------------------------------------------------------------------------------


def test_a_module_a_function_and_a_loop_function():
    mod = module("relu_add")
    for given in (mod, mod["main"]):
        np.testing.assert_array_equal(mlc.compile(given)(X, Y), RELU_ADD)
    kernels = module("matmul_kernel")
    a, b, c = random(8, 16), random(16, 4), np.zeros((8, 4), np.float32)
    for given in (kernels, kernels["matmul"]):
        mlc.compile(given, target="llvm")(a, b, c)
        np.testing.assert_allclose(c, a @ b, rtol=1e-5, atol=1e-5)
    sch = mlc.tir.Schedule(kernels["matmul"])
    sch.split(sch.get_loops(sch.get_block("C"))[0], [None, 4])
    ex = mlc.compile(sch)
    assert ex.kernels[0].scheduled is sch.mod[ex.entry]
    ex(a, b, c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-5, atol=1e-5)


def test_the_module_that_is_compiled_stays_as_it_is():
    mod = module("relu_add")
    text = mod.script()
    mlc.compile(mod)
    assert mod.script() == text


def test_every_step_is_timed():
    ex = mlc.compile(module("relu_add"))
    assert [name for name, _ in ex.timings] == ["graph passes", "kernels"]
    assert all(seconds > 0 for _, seconds in ex.timings)
    assert [name for name, _ in mlc.compile(module("matmul_kernel")).timings] == ["kernels"]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (
            {"target": "tpu"},
            TargetError,
            "no target kind 'tpu'\nhint: there are llvm, cuda, cuda-sim, interp: "
            "llvm is this CPU, cuda-sim a GPU simulated on it",
        ),
        (
            {"schedule": "fast"},
            TargetError,
            "no schedule rules 'fast'\n"
            'hint: "auto", "default", None, or a function (PrimFunc, Target) -> Schedule',
        ),
        (
            {"relax_pipeline": "fast"},
            PassError,
            "no pipeline 'fast'\nhint: there are cpu, cpu_generic, cuda, default, "
            "default_build, gpu_generic, lower, static_shape_tuning, zero",
        ),
        ({"params": {"z": Y}}, PassError, "BindParams: no parameter 'z'\nhint: there are x, y"),
        (
            {"params": {"y": X}},
            PassError,
            "BindParams: y is Tensor((3,), float32), the value is Tensor((2, 3), float32)",
        ),
    ],
    ids=range(5),
)
def test_what_cannot_be_compiled(arguments, error, message):
    with pytest.raises(error) as caught:
        mlc.compile(module("relu_add"), **arguments)
    assert str(caught.value) == message


def test_what_is_no_program():
    with pytest.raises(TargetError) as caught:
        mlc.compile(3)
    assert str(caught.value) == (
        "cannot compile an int\nhint: pass an IRModule, a Function or a PrimFunc"
    )


# parameters, pipelines, schedules, targets -------------------------------------------------------


@pytest.mark.parametrize("target", ["llvm", "interp"])
def test_parameters_become_constants(target):
    ex = mlc.compile(module("relu_add"), target=target, params={"y": Y})
    assert [p.name_hint for p in ex.mod["main"].params] == ["x"]
    np.testing.assert_array_equal(ex(X), RELU_ADD)
    tensors = mlc.compile(module("relu_add"), params={"y": mlc.nd.array(Y)})
    np.testing.assert_array_equal(tensors(X), RELU_ADD)


def test_parameters_are_taken_as_they_are_now():
    y = Y.copy()
    ex = mlc.compile(module("relu_add"), params={"y": y})
    y[...] = 100
    np.testing.assert_array_equal(ex(X), RELU_ADD)


@pytest.mark.parametrize("pipeline", ["default", "zero", "cpu", None, LegalizeOps()])
def test_pipelines_give_the_same_result(pipeline):
    ex = mlc.compile(module("relu_add"), relax_pipeline=pipeline)
    np.testing.assert_array_equal(ex(X, Y), RELU_ADD)


def test_rules_of_ones_own():
    """They are asked for every kernel, each time: nothing of what they did is kept."""
    seen, factors, texts = [], [], []

    def rules(func, target):
        seen.append(str(target))
        sch = mlc.tir.Schedule(func)
        sch.split(sch.get_loops(sch.get_block("C"))[2], [None, factors[-1]])
        return sch

    for factor in (2, 8):
        factors.append(factor)
        ex = mlc.compile(module("matmul_kernel"), schedule=rules)
        texts.append(ex.kernels[0].compiled.ir)
        c = np.zeros((8, 4), np.float32)
        ex(random(8, 16), random(16, 4), c)
        np.testing.assert_allclose(c, random(8, 16) @ random(16, 4), rtol=1e-5, atol=1e-5)
    assert "llvm" in seen and texts[0] != texts[1]


def test_the_current_target():
    with Target("interp"):
        assert mlc.compile(module("relu_add")).target == Target("interp")
    with Target("llvm -mcpu=x86-64-v2"):
        ex = mlc.compile(module("relu_add"))
        assert str(ex.target) == "llvm -mcpu=x86-64-v2"
        assert "zmm" not in ex.kernels[0].asm and "ymm" not in ex.kernels[0].asm
    np.testing.assert_array_equal(ex(X, Y), RELU_ADD)
    assert mlc.compile(module("relu_add")).target == Target("llvm")


# ONNX models -------------------------------------------------------------------------------------


def classifier() -> onnx.ModelProto:
    """Convolution, pooling and a matrix product, with an open batch size."""
    rng = np.random.default_rng(0)
    weights = {
        "w": rng.standard_normal((8, 3, 3, 3)) * 0.2,
        "b": rng.standard_normal(8),
        "m": rng.standard_normal((8, 5)),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1], strides=[2, 2]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("GlobalAveragePool", ["r"], ["g"]),
        helper.make_node("Flatten", ["g"], ["f"]),
        helper.make_node("MatMul", ["f", "m"], ["s"]),
        helper.make_node("Softmax", ["s"], ["y"], axis=-1),
    ]
    graph = helper.make_graph(
        nodes,
        "classifier",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3, 10, 12])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 5])],
        [onnx.numpy_helper.from_array(v.astype(np.float32), k) for k, v in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


@pytest.mark.parametrize("target", ["llvm", "interp"])
def test_a_model_of_any_batch_size(target):
    from onnx.reference import ReferenceEvaluator

    model = classifier()
    ex = mlc.compile(mlc.from_onnx(model), target=target)
    reference = ReferenceEvaluator(model)
    for batch in (1, 3, 2, 1):
        x = random(batch, 3, 10, 12, seed=batch)
        (expected,) = reference.run(None, {"x": x})
        np.testing.assert_allclose(ex(x), expected, rtol=1e-4, atol=1e-5)


# the same program, the same code -----------------------------------------------------------------

DIGEST = """
    import hashlib, sys
    import mlcnb as mlc
    from tests.runtime.programs import module
    from tests.test_driver import classifier
    for mod in (module("chain"), mlc.from_onnx(classifier())):
        ex = mlc.compile(mod)
        parts = [ex.mod.script(show_meta=True).encode()]
        for name, kernel in ex.kernels.items():
            parts += [name.encode(), kernel.compiled.ir.encode(), kernel.compiled.object]
        print(*(hashlib.sha256(part).hexdigest()[:16] for part in parts))
"""


def python(code: str, **environment: str) -> str:
    """What another Python prints."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env=env,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_two_processes_make_the_same_bytes():
    """No cache, other hashes of strings, other numbers of threads to compile on."""
    one = python(DIGEST, MLCNB_CACHE="0", PYTHONHASHSEED="1")
    two = python(DIGEST, MLCNB_CACHE="0", PYTHONHASHSEED="4711")
    assert one == two
    assert len(one.split()) > 20


# interrupted, forked -----------------------------------------------------------------------------

INTERRUPTED = """
    import os, signal, threading, time
    import numpy as np
    import mlcnb as mlc
    te = mlc.te
    n = 3000
    a = te.placeholder((n, n), name="a")
    k = te.reduce_axis((0, n), name="k")
    b = te.compute((n, n), lambda i, j: te.sum(a[i, k] * a[k, j] + a[j, k], axis=k), name="b")
    ex = mlc.compile(te.create_prim_func([a, b]))
    x, y = np.ones((n, n), np.float32), np.zeros((n, n), np.float32)
    sent = []

    def send():
        time.sleep(0.5)
        sent.append(time.perf_counter())
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=send).start()
    try:
        ex(x, y)
        print("finished")
    except KeyboardInterrupt:
        print(time.perf_counter() - sent[0])
    from tests.runtime.programs import compiled, random
    small = compiled("relu_add")(random(2, 3), random(3))
    print(np.array_equal(small, np.maximum(random(2, 3) + random(3), 0)))
"""


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="no POSIX signals")
def test_ctrl_c_stops_a_long_run_and_the_process_goes_on():
    seconds, right = python(INTERRUPTED).split()
    assert seconds != "finished" and float(seconds) < 5
    assert right == "True"


FORKED = """
    import os
    import numpy as np
    import mlcnb as mlc
    from tests.runtime.programs import chain, module, random
    mlc.set_num_threads(2)
    ex = mlc.compile(module("chain"))
    x = random(50, 64)
    expected = ex(x)
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        same = np.array_equal(ex(x), expected)
        other = np.allclose(mlc.compile(module("chain"))(x[:9]), chain(x[:9]), atol=1e-5)
        os.write(writer, b"right" if same and other else b"wrong")
        os._exit(0)
    os.waitpid(pid, 0)
    print(os.read(reader, 10).decode(), np.array_equal(ex(x), expected))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_the_child_of_a_fork_runs_and_compiles():
    assert python(FORKED).split() == ["right", "True"]
