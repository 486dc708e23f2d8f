"""Programs as compact text with arrays apart: the same program comes back."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import mlcnb as mlc
from mlcnb.core.errors import MLCError
from mlcnb.core.node import Node, node, walk
from mlcnb.ir import assert_structural_equal
from mlcnb.ir.expr import FloatImm
from mlcnb.ir.module import IRModule
from mlcnb.ir.packed import pack, unpack
from mlcnb.relax.expr import const
from mlcnb.relax.transform import get_pipeline
from tests.benchmarks.models import model_files
from tests.ir.test_json import Mod
from tests.relax.graphs import graphs


def assert_comes_back(mod: IRModule) -> None:
    text, arrays = pack(mod)
    back = unpack(text, arrays)
    assert_structural_equal(mod, back)
    assert back.script() == mod.script()
    again, same = pack(back)
    assert again == text  # spans and names too
    assert all(a is b for a, b in zip(arrays, same, strict=True))


@pytest.mark.parametrize("pipeline", [None, "zero", "default", "lower", "default_build", "cuda"])
def test_every_stage_comes_back(pipeline: str | None) -> None:
    mod = Mod
    if pipeline is not None:
        with mlc.target.Target("cuda -arch=sm_80" if pipeline == "cuda" else "llvm"):
            mod = get_pipeline(pipeline)(mod)
    assert_comes_back(mod)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["squeezenet", "shufflenet", "efficientnet_lite0"])
def test_models_come_back_with_their_nodes_names(name: str) -> None:
    mod = mlc.from_onnx(model_files()[name])
    assert_comes_back(mod)
    lowered = get_pipeline("default")(mod)
    assert_comes_back(lowered)
    spans = {n.span.name for n in walk(lowered["main"]) if getattr(n, "span", None)}
    assert len(spans) > 20


@given(mod=graphs())
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_random_graphs_come_back(mod: IRModule) -> None:
    assert_comes_back(mod)


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan"), -0.0, 0.1, 1e-320])
def test_every_float_comes_back(value: float) -> None:
    back = unpack(*pack(FloatImm("float64", value)))
    assert np.float64(back.value).tobytes() == np.float64(value).tobytes()


def test_what_is_shared_is_shared_again() -> None:
    weight = const(np.arange(3.0), "float32")
    text, arrays = pack((weight, weight, const(np.arange(3.0), "float32")))
    one, two, three = unpack(text, arrays)
    assert one is two and one is not three and len(arrays) == 2


def test_what_says_the_same_is_written_once() -> None:
    x, y = FloatImm("float64", 0.1), FloatImm("float64", 0.1)
    text, arrays = pack(((x, y), (x, y)))
    assert text.count("float64") == text.count(float.hex(0.1)) == 1
    (one, two), again = unpack(text, arrays)
    assert one is not two and again == (one, two)


def test_nodes_that_no_name_finds_are_refused() -> None:
    @node
    class Strange(Node):
        value: int

    with pytest.raises(MLCError, match="Strange"):
        pack(Strange(1))
    with pytest.raises(MLCError, match="no part of a program"):
        pack((object(),))
