"""Libraries that were made for phones: ncnn and MNN. Each reads a model in a form of its own.

    ncnn    the model as pnnx converts it, float32 throughout
    MNN     the model as its own converter does, with precision "high": float32

Both are given a copy of the model in which weights are no inputs, and in which a Softmax says its
axis: either takes the last one where none is named, whatever the opset says.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from tests.benchmarks.case import Case

Run = Callable[[], list[np.ndarray]]
#: milliseconds that ncnn's threads spin after a loop: they are at rest when the next has its turn
SPIN = 1


def ncnn(case: Case, threads: int) -> Run:
    """The model in ncnn."""
    import ncnn as library
    import pnnx

    dtypes = {"float32": "f32", "int64": "i64", "int32": "i32"}
    sizes = [f"[{','.join(map(str, x.shape))}]{dtypes[str(x.dtype)]}" for x in case.inputs]
    net = library.Net()
    for name in "use_fp16_packed use_fp16_storage use_fp16_arithmetic use_bf16_storage".split():
        setattr(net.opt, name, False)
    net.opt.num_threads, net.opt.openmp_blocktime = threads, SPIN
    with tempfile.TemporaryDirectory() as folder:
        onnx.save(plain(case.model), f"{folder}/model.onnx")
        command = [pnnx.EXEC_PATH, "model.onnx", f"inputshape={','.join(sizes)}", "fp16=0"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        made = [f"{folder}/model.ncnn.{kind}" for kind in ("param", "bin")]
        if not all(Path(path).is_file() for path in made):
            raise RuntimeError(f"pnnx: {(done.stderr or done.stdout).strip()[-200:]}")
        if net.load_param(made[0]) or net.load_model(made[1]):
            raise RuntimeError("ncnn cannot read what pnnx made")
    names, outputs = net.input_names(), net.output_names()
    first = [x[0] if x.shape[0] == 1 else x for x in case.inputs]  # its tensors have no batch
    given = [library.Mat(np.ascontiguousarray(x)) for x in first]

    def run() -> list[np.ndarray]:
        each = net.create_extractor()
        for name, value in zip(names, given, strict=True):
            each.input(name, value)
        return [np.array(each.extract(name)[1])[None] for name in outputs]

    return run


def mnn(case: Case, threads: int) -> Run:
    """The model in MNN."""
    # the converter is asked without MNN.tools, which installs a package as it is imported
    import _tools
    import MNN.expr as expr
    import MNN.nn as nn

    model = plain(case.model)
    with tempfile.TemporaryDirectory() as folder:
        onnx.save(model, f"{folder}/model.onnx")
        words = f"- -f ONNX --modelFile {folder}/model.onnx --MNNModel {folder}/model.mnn"
        _tools.mnnconvert([*words.split(), "--bizCode", "benchmark"])
        config = {"backend": "CPU", "numThread": threads, "precision": "high"}
        names = [[v.name for v in values] for values in (model.graph.input, model.graph.output)]
        net = nn.load_module_from_file(
            f"{folder}/model.mnn", *names, runtime_manager=nn.create_runtime_manager((config,))
        )
    given = [x.astype(np.int32) if x.dtype == np.int64 else x for x in case.inputs]

    def variable(value: np.ndarray) -> Any:
        dtype = expr.float if value.dtype == np.float32 else expr.int
        made = expr.placeholder(list(value.shape), expr.NCHW, dtype)
        made.write(value)
        return made

    def run() -> list[np.ndarray]:
        found = net.forward([variable(x) for x in given])
        return [np.array(expr.convert(y, expr.NCHW).read()) for y in found]

    return run


def plain(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy in which weights are no inputs and a Softmax says its axis."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    held = {t.name for t in made.graph.initializer}
    given = [i for i in made.graph.input if i.name not in held]
    del made.graph.input[:]
    made.graph.input.extend(given)
    made.ir_version = max(made.ir_version, 4)
    version = next(o.version for o in made.opset_import if o.domain in ("", "ai.onnx"))
    for node in made.graph.node:
        if node.op_type == "Softmax" and not any(a.name == "axis" for a in node.attribute):
            axis = 1 if version < 13 else -1
            node.attribute.append(onnx.helper.make_attribute("axis", axis))
    return made
