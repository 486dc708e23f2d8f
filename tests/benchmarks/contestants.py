"""Who is timed: mlcnb and the libraries that are installed, each ready to run a case.

    mlcnb         the model, or the case's loops, by the default schedules
    numpy         what the case says, on OpenBLAS's threads
    torch         what the case says, eager, without gradients
    onnxruntime   the model, all optimisations; its threads stop spinning when a call returns
    openvino      the model, float32 throughout, for latency
    ncnn, mnn     the model, float32 throughout (`phones`); only when asked for
    tvm           the model, untuned: what Apache TVM does by default; only when asked for

Each is a function of a case and a number of threads that gives a function of nothing. One that is
not installed, or that cannot do a case, says why.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import metadata
from typing import Any

import numpy as np

import mlcnb as mlc
from mlcnb.observe.benchmark import fixed_threads
from mlcnb.observe.peers import as_list, onnxruntime_session
from tests.benchmarks import phones
from tests.benchmarks.case import Case

OURS = "mlcnb"
#: name -> (module, distribution) of each peer, in the order of the tables
PEERS = {
    "numpy": ("numpy", "numpy"),
    "torch": ("torch", "torch"),
    "onnxruntime": ("onnxruntime", "onnxruntime"),
    "openvino": ("openvino", "openvino"),
    "ncnn": ("ncnn", "ncnn"),
    "mnn": ("MNN", "MNN"),
    "tvm": ("tvm", "apache-tvm"),
}
#: without --peers; TVM's default schedules take seconds for what the others do in milliseconds
DEFAULT = ("numpy", "torch", "onnxruntime", "openvino")
#: how mlcnb is asked for AVX2 only, and the peers, before they are loaded; ONNX Runtime has no word
AVX2_TARGET = "llvm -mcpu=x86-64-v3"
AVX2_WORDS = {
    "OPENBLAS_CORETYPE": "Haswell",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "ATEN_CPU_CAPABILITY": "avx2",
}

Run = Callable[[], list[np.ndarray]]


class NotForThis(Exception):
    """A contestant that has no way to do a case; the text says why."""


def installed(wanted: tuple[str, ...]) -> tuple[list[str], dict[str, str]]:
    """The peers that are there, and of the others why not."""
    missing = {p: "not installed" for p in wanted if importlib.util.find_spec(PEERS[p][0]) is None}
    return [p for p in wanted if p not in missing], missing


def versions(peers: list[str]) -> dict[str, str]:
    """The version of each."""
    return {p: metadata.version(PEERS[p][1]) for p in peers}


@contextmanager
def threads_of_all(threads: int, peers: list[str]) -> Iterator[None]:
    """So many threads for mlcnb, the BLAS of NumPy, PyTorch and TVM."""
    if "torch" in peers:
        import torch

        torch.set_num_threads(threads)
    if "tvm" in peers:
        import tvm

        tvm.get_global_func("runtime.config_threadpool")(1, threads)
    with fixed_threads(threads):
        yield


def ready(
    name: str, case: Case, threads: int, times: dict[str, float], target: str = "llvm"
) -> Run:
    """A contestant on a case; how long it took to get there goes into `times`, in seconds.

    Raises:
        NotForThis: it cannot do that.
    """
    start = time.perf_counter()
    run = _mlcnb(case, target) if name == OURS else _MAKERS[name](case, threads)
    times[f"{name} ready"] = time.perf_counter() - start
    return run


def _mlcnb(case: Case, target: str) -> Run:
    if case.loops is not None:
        kernel = mlc.compile(case.loops, target=target, schedule="default")
        (told,) = case.model.graph.output  # the loops may be of any size
        out = np.empty([d.dim_value for d in told.type.tensor_type.shape.dim], np.float32)

        def in_place() -> list[np.ndarray]:
            kernel(*case.inputs, out)
            return [out]

        return in_place
    ex = mlc.compile(mlc.from_onnx(case.path or case.model), target=target)
    return lambda: as_list(ex(*case.inputs))


def _numpy(case: Case, threads: int) -> Run:
    if case.numpy is None:
        raise NotForThis("NumPy has no such operator")
    run = case.numpy(*case.inputs)
    return lambda: [run()]


def _torch(case: Case, threads: int) -> Run:
    if case.torch is None:
        raise NotForThis("no PyTorch program beside this model")
    import torch

    with torch.inference_mode():
        run = case.torch(*(torch.from_numpy(x) for x in case.inputs))

    def in_inference() -> list[np.ndarray]:
        with torch.inference_mode():
            found = run()
            return [y.numpy() for y in (found if isinstance(found, list | tuple) else [found])]

    return in_inference


def _onnxruntime(case: Case, threads: int) -> Run:
    session = onnxruntime_session(case.path or case.model.SerializeToString(), threads)
    feed = dict(zip((i.name for i in session.get_inputs()), case.inputs, strict=True))
    return lambda: session.run(None, feed)


def _openvino(case: Case, threads: int) -> Run:
    import openvino

    core = openvino.Core()
    model = core.read_model(case.path or case.model.SerializeToString())
    model.reshape({i: list(x.shape) for i, x in enumerate(case.inputs)})
    options = {
        "INFERENCE_NUM_THREADS": threads,
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32",
    }
    request = core.compile_model(model, "CPU", options).create_infer_request()

    def run() -> list[np.ndarray]:
        found = request.infer(list(case.inputs), share_inputs=True, share_outputs=True)
        return [found[i] for i in range(len(found))]

    return run


def _tvm(case: Case, threads: int) -> Run:
    import tvm
    from tvm import relax
    from tvm.relax.frontend.onnx import from_onnx

    mod = from_onnx(case.model, keep_params_in_input=False)
    target = tvm.target.Target({"kind": "llvm", "mcpu": _host_cpu(), "num-cores": threads})
    with target, tvm.transform.PassContext(opt_level=3):
        vm = relax.VirtualMachine(tvm.compile(mod, target), tvm.cpu())
    arrays = [tvm.runtime.tensor(x) for x in case.inputs]
    return lambda: [np.asarray(y.numpy()) for y in _tuple(vm["main"](*arrays))]


def _tuple(value: Any) -> list[Any]:
    return [value] if hasattr(value, "numpy") else list(value)


def _host_cpu() -> str:
    import llvmlite.binding as llvm

    return llvm.get_host_cpu_name()


_MAKERS: dict[str, Callable[[Case, int], Run]] = {
    "numpy": _numpy,
    "torch": _torch,
    "onnxruntime": _onnxruntime,
    "openvino": _openvino,
    "ncnn": phones.ncnn,
    "mnn": phones.mnn,
    "tvm": _tvm,
}
