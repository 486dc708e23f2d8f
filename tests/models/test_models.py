"""The ten models: right at one and two threads, and printable and readable at every stage.

The nine `light_*` models of the onnx package come with stored outputs; EfficientNet-Lite0 is
compared with ONNX Runtime, and with what its own PyTorch says of the photos.
"""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import mlcnb as mlc
from mlcnb.core.node import walk
from mlcnb.ir.structural import assert_structural_equal
from mlcnb.ir.transform import PassContext
from mlcnb.observe.peers import onnxruntime_session
from mlcnb.relax.expr import Constant
from mlcnb.script import parse, script_with_constants
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.transform import lower
from tests.benchmarks.models import input_of, model_files

MODELS = model_files()
LIGHT = [name for name in MODELS if name != "efficientnet_lite0"]
#: models whose every stage is read back; the others when imported and when fused
EVERY_STAGE = ["squeezenet", "shufflenet", "resnet50", "efficientnet_lite0"]


def stored_output(name: str) -> np.ndarray:
    """The output that the onnx package stores for a light model."""
    path = MODELS[name].with_name(f"light_{name}_output_0.pb")
    return numpy_helper.to_array(onnx.load_tensor(str(path)))


@pytest.fixture(scope="module")
def compiled():
    """Executables by name, each made once."""
    made: dict[str, object] = {}

    def get(name: str):
        if name not in made:
            made[name] = mlc.compile(mlc.from_onnx(MODELS[name]), target="llvm")
        return made[name]

    return get


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_output_equals_onnxruntime_on_one_and_two_threads(name, compiled):
    ex = compiled(name)
    session = onnxruntime_session(MODELS[name], 2)
    input_name, x = input_of(session)
    (expected,) = session.run(None, {input_name: x})
    for threads in (1, 2):
        mlc.set_num_threads(threads)
        np.testing.assert_allclose(ex(x), expected, rtol=1e-3, atol=1e-4)
    if name in LIGHT:
        np.testing.assert_allclose(ex(x), stored_output(name), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", ["shufflenet", "efficientnet_lite0"])
def test_random_weights_and_inputs_equal_onnxruntime(name, tmp_path):
    """The light models' weights are all alike; with random ones every place of a kernel shows."""
    model = with_random_weights(onnx.load(MODELS[name]))
    path = tmp_path / "random.onnx"
    onnx.save(model, path)
    session = onnxruntime_session(path, 2)
    first = session.get_inputs()[0]
    shape = [d if isinstance(d, int) else 2 for d in first.shape]
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    (expected,) = session.run(None, {first.name: x})
    ex = mlc.compile(mlc.from_onnx(path), target="llvm")
    np.testing.assert_allclose(ex(x), expected, rtol=1e-3, atol=1e-4)


def with_random_weights(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with every ConstantOfShape of a weight replaced by small random numbers."""
    rng = np.random.default_rng(1)
    shapes = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    kept = []
    for node in model.graph.node:
        if node.op_type == "ConstantOfShape" and node.input[0] in shapes:
            dims = tuple(int(d) for d in shapes[node.input[0]])
            scale = 1.0 / max(1.0, np.sqrt(np.prod(dims[1:])))
            value = np.abs(rng.standard_normal(dims) * scale).astype(np.float32)
            model.graph.initializer.append(numpy_helper.from_array(value, node.output[0]))
            kind = onnx.TensorProto.FLOAT
            model.graph.input.append(
                onnx.helper.make_tensor_value_info(node.output[0], kind, dims)
            )  # before IR version 4 an initializer is an input as well
        else:
            kept.append(node)
    del model.graph.node[:]
    model.graph.node.extend(kept)
    return model


def read_back(mod: mlc.IRModule) -> mlc.IRModule:
    """The module, printed and parsed."""
    text, arrays = script_with_constants(mod)
    table = {"relax.expr.Constant": [Constant(a) for a in arrays]}
    return parse(text, metadata=table)


@pytest.mark.parametrize("name", EVERY_STAGE)
def test_text_reads_back_at_every_stage(name):
    mod = mlc.from_onnx(MODELS[name])
    assert_structural_equal(read_back(mod), mod)
    steps = mlc.transform.trace(mlc.get_pipeline("default"), mod).steps
    for step in steps:
        if step.after is not step.before:
            assert_structural_equal(read_back(step.after), step.after)


@pytest.mark.parametrize("name", [n for n in MODELS if n not in EVERY_STAGE])
def test_text_reads_back_when_imported_and_when_fused(name):
    mod = mlc.from_onnx(MODELS[name])
    assert_structural_equal(read_back(mod), mod)
    with PassContext():
        final = mlc.get_pipeline("default")(mod)
    assert_structural_equal(read_back(final), final)


def test_scheduled_and_lowered_kernels_read_back(compiled):
    """Every kernel of a model: as scheduled, and after every lowering pass."""
    for kernel in compiled("squeezenet").kernels.values():
        stages = [kernel.scheduled, *(func for _, func, _ in kernel.steps)]
        for func in stages:
            assert isinstance(func, PrimFunc)
            assert_structural_equal(parse(func.script()), func)


def test_kernels_remember_the_onnx_nodes_they_came_from():
    mod = mlc.get_pipeline("default")(mlc.from_onnx(MODELS["squeezenet"]))
    spans = {n.span.source for n in walk(mod["main"]) if getattr(n, "span", None) is not None}
    assert spans == {"onnx"}


def test_lowering_is_a_list_of_named_passes(compiled):
    kernel = compiled("squeezenet").kernels[0]
    names = [name for name, _, _ in lower(kernel.scheduled, steps=True)]
    assert names == [
        "LowerInitBlock",
        "PlanAndUpdateBufferAllocationLocation",
        "ConvertBlocksToOpaque",
        "CompactBufferAllocation",
        "LowerMatchBuffer",
        "InjectDoubleBuffer",
        "InjectSoftwarePipeline",
        "LowerOpaqueBlock",
        "SkipPadding",
        "OverlapTiles",
        "LoopPartition",
        "FlattenBuffer",
        "NarrowDataType",
        "Simplify",
        "InjectPrefetch",
        "VectorizeLoop",
        "TransposeTile",
        "StorageRewrite",
        "UnrollLoop",
        "RemoveNoOp",
    ]


PHOTOS = {
    "chelsea.png": [("tiger cat", 0.386), ("Egyptian cat", 0.356), ("tabby", 0.169)],
    "coffee.png": [("espresso", 0.951)],
    "rocket.jpg": [("missile", 0.296)],
}


@pytest.mark.parametrize("photo", PHOTOS)
def test_photos_are_what_pytorch_says_they_are(photo, compiled):
    ex = compiled("efficientnet_lite0")
    assets = MODELS["efficientnet_lite0"].parent
    found = mlc.image.top(ex(mlc.image.load(assets / photo)), assets / "imagenet_classes.txt")
    for score, (name, probability) in zip(found, PHOTOS[photo], strict=False):
        assert score.name == name
        assert score.probability == pytest.approx(probability, abs=0.002)
