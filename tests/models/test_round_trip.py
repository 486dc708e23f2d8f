"""Every model's text reads back after every pass of every pipeline, and TVM reads its 0.27 text.

The models of the benchmarks, the encoders and quantised networks of `tests.models`, those of
torch.nn where PyTorch is installed, and those out of packages where they are at hand (see
`tests.models.packages`). TVM reads where apache-tvm 0.27 is installed beside mlcnb.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import pytest

import mlcnb as mlc
from mlcnb.ir.structural import assert_structural_equal
from mlcnb.meta_schedule.database import MemoryDatabase
from mlcnb.relax.expr import Constant
from mlcnb.relax.transform.pipeline import pipeline_names
from mlcnb.script import parse, script_with_constants
from tests.benchmarks.models import model_files
from tests.models import minilm, packages, quantized
from tests.models.test_real_models import CASES

STORED = model_files()
#: models that this repository writes in ONNX: name -> what makes one
MADE: dict[str, Callable[[], Any]] = {
    "minilm, fused": lambda: minilm.encoder(minilm.seeded(layers=1), 7),
    "minilm, decomposed": lambda: minilm.encoder(
        minilm.seeded(layers=1), 7, form="decomposed", opset=14
    ),
    **{
        f"quantised, {form}": partial(quantized.quantized_model, form, "channel")
        for form in quantized.FORMS
    },
}
#: networks that find faces: name -> its class in tests.frontend.torch_pretrained, size of images
TORCH_FACES = {"pnet": ("PNet", 48), "rnet": ("RNet", 24), "onet": ("ONet", 48)}
#: models of torch.nn, by their names in tests.frontend
TORCH = (
    *("bert", "efficientnet", "gpt2", "lstm", "mobilenet", "resnet18", "resnet50", "unet", "vit"),
    *(f"pretrained {name}" for name in (*TORCH_FACES, "minilm")),
)
#: those that every run of the tests reads back; the others are slow
QUICK = ("squeezenet", "voice, closed", "minilm, decomposed", "torch gpt2", "torch lstm")
NAMES = (*STORED, *CASES, *MADE, *(f"torch {name}" for name in TORCH))


def with_marks(names: Iterable[str]) -> list[Any]:
    """Parameters of a test; those that take long are marked."""
    return [pytest.param(n, marks=() if n in QUICK else pytest.mark.slow) for n in names]


each_model = pytest.mark.parametrize("name", with_marks((*STORED, *CASES)))
#: lists of passes that are run one after the other; each registered pipeline is one of these
PIPELINES = {
    "default, lower": (("default", "llvm"), ("lower", "llvm")),
    "default, cuda": (("default", "cuda"),),
    "zero": (("zero", "llvm"),),
    "default_build": (("default_build", "llvm"),),
    "cpu_generic": (("cpu_generic", "llvm"),),
    "static_shape_tuning": (("static_shape_tuning", "llvm"),),
}

#: what TVM 0.27 does not read of them, imported: model -> what it says
IMPORTED = {
    **dict.fromkeys(
        ("voice", "voice, opset 15", "voice, no rate", "voice, closed", "voice, sequence"),
        "no attribute 'lstm'",
    ),
    **dict.fromkeys(
        ("voice, no If", "file types", "notes", "ocr recogniser"), "Program is not well-formed"
    ),
}


def imported(name: str) -> mlc.IRModule:
    """A model by name."""
    if name.startswith("torch "):
        return from_torch(name.removeprefix("torch "))
    if name in MADE:
        return mlc.from_onnx(MADE[name]())
    source: Any = STORED[name] if name in STORED else packages.need(CASES[name].file)
    return mlc.from_onnx(source)


def from_torch(name: str) -> mlc.IRModule:
    """A model of torch.nn by name; the test is skipped where PyTorch is not installed."""
    torch = pytest.importorskip("torch", reason="the extra torch is not installed")
    from tests.frontend import torch_models, torch_pretrained

    torch.manual_seed(1)
    if name == "pretrained minilm":
        model, inputs = torch_pretrained.minilm(), (torch.ones(2, 5).long(), torch.ones(2, 5))
    elif name.startswith("pretrained "):
        kind, size = TORCH_FACES[name.removeprefix("pretrained ")]
        model = torch_pretrained.mtcnn(getattr(torch_pretrained, kind))
        inputs = (torch.rand(1, 3, size, size),)
    else:
        build, given = torch_models.MODELS[name]
        model, inputs = build().eval(), given()
    return mlc.from_torch(model, inputs)


def read_back(mod: mlc.IRModule) -> mlc.IRModule:
    """The module, printed and parsed."""
    text, arrays = script_with_constants(mod)
    return parse(text, metadata={"relax.expr.Constant": [Constant(a) for a in arrays]})


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("name", with_marks(NAMES))
@pytest.mark.parametrize("pipeline", PIPELINES)
def test_text_reads_back_after_every_pass(name: str, pipeline: str) -> None:
    mod = imported(name)
    assert_structural_equal(read_back(mod), mod)
    for part, target in PIPELINES[pipeline]:
        with MemoryDatabase():
            steps = mlc.transform.trace(
                mlc.get_pipeline(part, mlc.target.Target(target)), mod
            ).steps
        for step in steps:
            if step.after is not step.before:
                assert_structural_equal(read_back(step.after), step.after)
        mod = steps[-1].after


def test_every_pipeline_and_every_model_of_torch_is_read_back() -> None:
    """Names of pipelines that hold the same passes count once."""

    def passes(name: str, target: str) -> list[str]:
        return [*map(repr, mlc.get_pipeline(name, mlc.target.Target(target)).passes)]

    seen = [passes(*part) for parts in PIPELINES.values() for part in parts]
    names = [n for n in pipeline_names() if not n.startswith("tests.")]
    assert {n for n in names if passes(n, "llvm") not in seen} == set()
    pytest.importorskip("torch", reason="the extra torch is not installed")
    from tests.frontend.torch_models import MODELS

    assert set(MODELS) == {n for n in TORCH if not n.startswith("pretrained")}


def read_by_tvm(mod: mlc.IRModule) -> None:
    """Let Apache TVM read the module's text, its constants given by number."""
    tvm = pytest.importorskip("tvm", reason="apache-tvm is not installed")
    if not tvm.__version__.startswith("0.27"):
        pytest.skip(f"apache-tvm 0.27 is wanted, this is {tvm.__version__}")
    script = pytest.importorskip("tvm.script")
    text, arrays = script_with_constants(mod, dialect="0.27")
    held = [tvm.relax.const(a) for a in arrays]
    given = {"I": script.ir, "R": script.relax, "T": script.tirx}
    script.from_source(text, extra_vars={**given, "metadata": {"ir.GenericConst": held}})


@each_model
def test_tvm_reads_what_was_imported(name: str) -> None:
    pytest.importorskip("tvm", reason="apache-tvm is not installed")
    mod = imported(name)
    if name not in IMPORTED:
        read_by_tvm(mod)
        return
    with pytest.raises(Exception, match=IMPORTED[name]):
        read_by_tvm(mod)


@pytest.mark.slow
@pytest.mark.parametrize("name", STORED)
def test_tvm_reads_what_the_default_pipeline_makes(name: str) -> None:
    pytest.importorskip("tvm", reason="apache-tvm is not installed")
    read_by_tvm(mlc.get_pipeline("default")(imported(name)))
