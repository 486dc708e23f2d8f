"""Graphs on a GPU: operators, models, memory, tensors, artifacts, libraries, errors."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import numpy as np
import pytest

import mlcnb as mlc
from mlcnb import relax
from mlcnb.core.errors import DeviceError
from mlcnb.relax import backend
from mlcnb.relax.struct_info import TensorStructInfo
from mlcnb.relax.transform import RunCodegen
from tests.benchmarks.case import Case
from tests.benchmarks.models import MINILM, cases, model_files
from tests.dlight.test_gpu import CASES, module, random
from tests.relax.backend.test_libraries import EXPECTED, B, Dense, W, X
from tests.runtime.test_device_graph import inputs, network

pytestmark = pytest.mark.gpu
op = relax.op


@pytest.mark.parametrize("name", CASES)
def test_operators(name):
    make, *shapes = CASES[name]
    mod = module(make, *shapes)
    args = [random(*shape) for shape in shapes]
    expected = mlc.compile(mod, target="llvm")(*args)
    found = mlc.compile(mod, target="cuda")(*args)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    assert np.asarray(found).dtype == np.asarray(expected).dtype


@pytest.fixture
def case(name: str) -> Iterator[Case]:
    """A model, its file and inputs, while the test lasts."""
    with closing(cases(names=(name,))) as found:  # type: ignore[type-var]
        yield next(found)


@pytest.mark.parametrize("name", [*model_files(), MINILM])
def test_models(name, case):
    expected = mlc.compile(mlc.from_onnx(case.path), target="llvm")(*case.inputs)
    ex = mlc.compile(mlc.from_onnx(case.path), target="cuda")
    wanted = expected if isinstance(expected, tuple | list) else [expected]
    for _ in range(2):  # the second call finds its memory dirty
        made = ex(*case.inputs)
        found = made if isinstance(made, tuple | list) else [made]
        for a, b in zip(found, wanted, strict=True):
            assert (a.shape, a.dtype) == (b.shape, b.dtype)
            np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4 * np.abs(b).max())


def check(found, expected) -> None:
    for x, y in zip(found, expected, strict=True):
        host = x if isinstance(x, np.ndarray) else x.get() if hasattr(x, "get") else x.numpy()
        np.testing.assert_allclose(host, y, rtol=1e-4, atol=1e-5)


def test_what_is_given_on_the_gpu_comes_back_there():
    import cupy

    ex = mlc.compile(network(), target="cuda")
    args = inputs()
    expected = mlc.compile(network(), target="llvm")(*args)
    check(ex(*args), expected)
    found = ex(*(cupy.asarray(x) for x in args))
    assert all(hasattr(x, "__cuda_array_interface__") for x in found)
    check(found, expected)
    tensors = [mlc.nd.array(x, mlc.cuda(0)) for x in args]
    found = ex(*tensors)
    assert all(x.device == mlc.cuda(0) for x in found)
    check(found, expected)
    vm = relax.VirtualMachine(ex, mlc.cuda(0))
    check(vm["main"](*tensors), expected)
    np.testing.assert_array_equal(tensors[0].numpy(), args[0])


def test_open_sizes():
    n = mlc.tir.Var("n", "int64")
    x = relax.Var("x", TensorStructInfo((n, 80), "float32"))
    bb = relax.BlockBuilder()
    with bb.function("main", [x]):
        with bb.dataflow():
            out = bb.emit_output(op.nn.softmax(op.matmul(x, op.permute_dims(x)), axis=-1))
        bb.emit_func_output(out)
    ex, cpu = (mlc.compile(bb.get(), target=t) for t in ("cuda", "llvm"))
    for rows in (3, 1, 200, 3):
        given = random(rows, 80)
        np.testing.assert_allclose(ex(given), cpu(given), rtol=1e-3, atol=1e-5)


def test_an_artifact_runs_without_a_compiler(tmp_path, monkeypatch):
    import cupy

    from mlcnb.codegen.cuda import nvrtc

    arch = f"sm_{cupy.cuda.Device().compute_capability}"
    path = mlc.compile(network(), target=f"cuda -arch={arch}").export_library(tmp_path / "m.tar")

    def refused(*_):
        raise AssertionError("a compiler was asked")

    monkeypatch.setattr(nvrtc, "_library", refused)
    check(mlc.load_module(path)(*inputs()), mlc.compile(network(), target="llvm")(*inputs()))


def test_code_of_an_older_architecture_is_translated_and_of_a_newer_one_refused():
    expected = mlc.compile(network(), target="llvm")(*inputs())
    check(mlc.compile(network(), target="cuda -arch=sm_75")(*inputs()), expected)
    with pytest.raises(DeviceError, match="was compiled for sm_120, and this GPU is"):
        mlc.compile(network(), target="cuda -arch=sm_120")(*inputs())


def test_threads_and_streams():
    import cupy

    ex = mlc.compile(network(), target="cuda")
    expected = mlc.compile(network(), target="llvm")(*inputs())

    def run(_: int) -> None:
        with cupy.cuda.Stream(non_blocking=True) as stream:
            for _ in range(20):
                found = ex(*(cupy.asarray(x) for x in inputs()))
                stream.synchronize()
                check(found, expected)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(run, range(4)))


def test_too_little_memory():
    x = relax.Var("x", TensorStructInfo((1 << 20, 1), "float32"))
    bb = relax.BlockBuilder()
    with bb.function("main", [x]):
        with bb.dataflow():
            whole = bb.emit(op.broadcast_to(x, (1 << 20, 1 << 17)))
            out = bb.emit_output(op.sum(op.nn.softmax(whole, axis=0), axis=1))
        bb.emit_func_output(out)
    with pytest.raises(DeviceError, match="out of memory"):
        mlc.compile(bb.get(), target="cuda")(random(1 << 20, 1))


def test_there_is_no_such_gpu():
    with pytest.raises(DeviceError, match=r"no cuda\(99\)"):
        mlc.nd.array(inputs()[0], mlc.cuda(99))


@pytest.mark.parametrize("library", ["cublas", "cudnn"])
def test_libraries(library):
    made = RunCodegen()(backend.partition(Dense, library))
    np.testing.assert_allclose(mlc.compile(made)(X, W, B), EXPECTED, rtol=1e-4)


def test_a_cuda_graph_is_replayed():
    import cupy

    with mlc.transform.PassContext(config={"relax.backend.use_cuda_graph": True}):
        ex = mlc.compile(network(), target="cuda")
    cpu = mlc.compile(network(), target="llvm")
    kept = []
    for n in range(4):
        args = [x + n for x in inputs()]
        kept.append((ex(*(cupy.asarray(x) for x in args)), cpu(*args)))
    for found, expected in kept:
        check(found, expected)
    assert ex.plans().plan().bound.replay is not None
