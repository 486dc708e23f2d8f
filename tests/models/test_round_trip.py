"""Every model's text reads back after every pass of every pipeline, and TVM reads its 0.27 text.

The models of the benchmarks, and those out of packages where they are at hand (see
`tests.models.packages`). TVM reads where apache-tvm 0.27 is installed beside mlcnb.
"""

from __future__ import annotations

from typing import Any

import pytest

import mlcnb as mlc
from mlcnb.ir.structural import assert_structural_equal
from mlcnb.relax.expr import Constant
from mlcnb.script import parse, script_with_constants
from tests.benchmarks.models import model_files
from tests.models import packages
from tests.models.test_real_models import CASES

STORED = model_files()
#: those that every run of the tests reads back; the others are slow
QUICK = ("squeezenet", "voice, closed")
each_model = pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=() if n in QUICK else pytest.mark.slow) for n in (*STORED, *CASES)],
)
PIPELINES = {
    "default, lower": ("default", "lower"),
    "zero": ("zero",),
    "default_build": ("default_build",),
    "cpu_generic": ("cpu_generic",),
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
    source: Any = STORED[name] if name in STORED else packages.need(CASES[name].file)
    return mlc.from_onnx(source)


def read_back(mod: mlc.IRModule) -> mlc.IRModule:
    """The module, printed and parsed."""
    text, arrays = script_with_constants(mod)
    return parse(text, metadata={"relax.expr.Constant": [Constant(a) for a in arrays]})


@each_model
@pytest.mark.parametrize("pipeline", PIPELINES)
def test_text_reads_back_after_every_pass(name: str, pipeline: str) -> None:
    mod = imported(name)
    assert_structural_equal(read_back(mod), mod)
    for part in PIPELINES[pipeline]:
        steps = mlc.transform.trace(mlc.get_pipeline(part), mod).steps
        for step in steps:
            if step.after is not step.before:
                assert_structural_equal(read_back(step.after), step.after)
        mod = steps[-1].after


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
