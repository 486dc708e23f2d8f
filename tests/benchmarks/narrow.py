"""Matrix products of narrow types beside PyTorch, ONNX Runtime, OpenVINO; models rounded to them.

python -m tests.benchmarks narrow --threads 1 2

Milliseconds, medians; all programs of a row take turns. `known`: the right matrix is a constant, as
weights are; int8 is uint8 times int8, summed in int32. `by float32`: our time (with a known matrix,
if there is no other) by ours in float32. OpenVINO is given float32 and told to compute in bfloat16
or float16. The error is ours, the largest difference from float64 of the rounded numbers, relative
to the largest element; that of a model is relative to its own result in float32.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

import mlcnb as mlc
from mlcnb.ir.dtype import dtype
from mlcnb.observe.peers import onnxruntime_session
from mlcnb.relax import BlockBuilder, op
from mlcnb.relax.expr import Var, const, tensor_info
from mlcnb.relax.transform import get_pipeline
from mlcnb.runtime.turns import interleaved
from tests.benchmarks.models import cases

Run = Callable[[], Any]
#: rows, columns, depth
SHAPES = ((256, 256, 256), (1024, 1024, 1024), (128, 1536, 384), (512, 768, 768), (1, 4096, 4096))
KINDS = ("bfloat16", "float16", "int8")
MODELS = ("resnet50", "efficientnet_lite0", "minilm")
HEAD = "mlcnb known torch onnxruntime openvino".split()


def run(args: argparse.Namespace) -> None:
    """Time the products, then the models; a row for each."""
    wanted = args.names or ["gemm", *MODELS]
    for threads in args.threads:
        mlc.set_num_threads(threads)
        if "gemm" in wanted:
            _heading("by float32")
            for kind in KINDS:
                for shape in SHAPES[:2] if args.quick else SHAPES:
                    _product(kind, shape, threads, args.seconds or 1.0)
        models = tuple(m for m in MODELS if m in wanted)
        if models and not args.quick:
            _models(models, threads, args.seconds or 2.0)


def _heading(last: str) -> None:
    columns = "".join(f"{name:>13}" for name in HEAD)
    print(f"{'ms':34}{'threads':>8}{columns}{last:>12}{'error':>9}", flush=True)


def _product(kind: str, shape: tuple[int, int, int], threads: int, seconds: float) -> None:
    m, n, k = shape
    a, b = _operands(kind, m, n, k)
    wide = np.float64 if kind != "int8" else np.int64
    expected = a.astype(wide) @ b.astype(wide)
    plain = [x.astype(np.float32) for x in (a, b)]
    runs = {"float32": _ours(*plain, known=kind == "int8"), "known": _ours(a, b, known=True)}
    if kind != "int8":
        runs["mlcnb"] = _ours(a, b, known=False)
    for name, make in (("torch", _torch), ("onnxruntime", _onnx), ("openvino", _openvino)):
        peer = make(kind, a, b, threads)
        if peer is not None:
            runs[name] = peer
    found = np.asarray(runs["known"]()).astype(wide)
    error = float(np.abs(found - expected).max() / np.abs(expected).max())
    times = _medians(runs, seconds)
    gain = times.get("mlcnb", times["known"]) / times["float32"]
    _row(f"{kind} {m}x{n}x{k}", threads, times, gain, error)


def _row(name: str, threads: int, times: dict[str, float], gain: float, error: float) -> None:
    cells = "".join(f"{times[c]:>13.3f}" if c in times else f"{'':>13}" for c in HEAD)
    print(f"{name:34}{threads:>8}{cells}{gain:>12.2f}{error:>9.0e}", flush=True)


def _medians(runs: dict[str, Run], seconds: float) -> dict[str, float]:
    return {k: statistics.median(v) * 1e3 for k, v in interleaved(runs, seconds).items()}


def _operands(kind: str, m: int, n: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    if kind == "int8":
        left = rng.integers(0, 256, (m, k), dtype=np.uint8)
        return left, rng.integers(-128, 128, (k, n), dtype=np.int8)
    numpy = dtype(kind).numpy
    return rng.standard_normal((m, k)).astype(numpy), rng.standard_normal((k, n)).astype(numpy)


def _ours(a: np.ndarray, b: np.ndarray, known: bool) -> Run:
    bb = BlockBuilder()
    infos = [tensor_info(x.shape, x.dtype.name) for x in (a, b)]
    params = [Var(name, info) for name, info in zip("ab", infos, strict=True)]
    multiply = op.qnn.matmul if a.dtype == np.uint8 else op.matmul
    with bb.function("main", params[:1] if known else params):
        with bb.dataflow():
            product = multiply(params[0], const(b) if known else params[1])
            out = bb.emit_output(product)
        bb.emit_func_output(out)
    ex = mlc.compile(bb.get(), target="llvm")
    return (lambda: ex(a)) if known else (lambda: ex(a, b))


def _torch(kind: str, a: np.ndarray, b: np.ndarray, threads: int) -> Run | None:
    """Nothing for uint8 times int8, which it has not."""
    try:
        import torch
    except ImportError:
        return None
    if kind == "int8" or (kind == "float16" and a.size > 1 << 18):
        return None  # float16 takes it two seconds at 1024
    torch.set_num_threads(threads)
    x, y = (torch.from_numpy(v.astype(np.float32)).to(getattr(torch, kind)) for v in (a, b))
    out = torch.empty((a.shape[0], b.shape[1]), dtype=x.dtype)
    return lambda: torch.matmul(x, y, out=out)


def _onnx(kind: str, a: np.ndarray, b: np.ndarray, threads: int) -> Run | None:
    """MatMulInteger with a known matrix; of half precision ONNX Runtime has no product here."""
    if kind != "int8":
        return None
    node = helper.make_node("MatMulInteger", ["a", "b"], ["c"])
    given = helper.make_tensor_value_info("a", TensorProto.UINT8, a.shape)
    result = helper.make_tensor_value_info("c", TensorProto.INT32, (a.shape[0], b.shape[1]))
    graph = helper.make_graph([node], "g", [given], [result], [numpy_helper.from_array(b, "b")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    session = onnxruntime_session(model.SerializeToString(), threads)
    return lambda: session.run(None, {"a": a})


def _openvino(kind: str, a: np.ndarray, b: np.ndarray, threads: int) -> Run | None:
    """A product of float32 inputs, computed in another precision; bytes it takes from models."""
    if kind == "int8":
        return None
    node = helper.make_node("MatMul", ["a", "b"], ["c"])
    shapes = {"a": a.shape, "b": b.shape, "c": (a.shape[0], b.shape[1])}
    infos = {n: helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in shapes.items()}
    graph = helper.make_graph([node], "g", [infos["a"], infos["b"]], [infos["c"]])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    plain = [x.astype(np.float32) for x in (a, b)]
    return _openvino_run(model.SerializeToString(), plain, kind, threads)


def _openvino_run(model: Any, inputs: list[np.ndarray], kind: str, threads: int) -> Run | None:
    try:
        import openvino
    except ImportError:
        return None
    core = openvino.Core()
    options = {
        "INFERENCE_NUM_THREADS": threads,
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": {"bfloat16": "bf16", "float16": "f16"}[kind],
    }
    request = core.compile_model(core.read_model(model), "CPU", options).create_infer_request()
    return lambda: request.infer(inputs, share_inputs=True, share_outputs=True)


def _models(names: tuple[str, ...], threads: int, seconds: float) -> None:
    """Rounded to each kind, beside themselves in float32."""
    _heading("by float32")
    for case in cases(False, names):
        inputs = list(case.inputs)
        plain = mlc.compile(mlc.from_onnx(case.path), target="llvm")
        expected = np.asarray(plain(*inputs))
        for kind in KINDS[:2]:
            pipeline = get_pipeline("default", precision=kind)
            ex = mlc.compile(mlc.from_onnx(case.path), target="llvm", relax_pipeline=pipeline)
            error = float(np.abs(np.asarray(ex(*inputs)) - expected).max() / np.abs(expected).max())
            runs: dict[str, Run] = {
                "mlcnb": _bound(ex, inputs),
                "float32": _bound(plain, inputs),
            }
            peer = _openvino_run(case.path, inputs, kind, threads)
            if peer is not None:
                runs["openvino"] = peer
            times = _medians(runs, seconds)
            _row(f"{case.name} {kind}", threads, times, times["mlcnb"] / times["float32"], error)


def _bound(ex: Any, inputs: list[np.ndarray]) -> Run:
    return lambda: ex(*inputs)
