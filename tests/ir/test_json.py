"""Modules as JSON: the round trip, sharing, and damaged text."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from mlcnb.core import options
from mlcnb.core.errors import MLCError, ModelError
from mlcnb.core.node import Node, replace, walk
from mlcnb.ir import assert_structural_equal, load_json, save_json
from mlcnb.ir.expr import FloatImm, PrimExpr, Var
from mlcnb.ir.module import IRModule
from mlcnb.ir.span import Span
from mlcnb.relax.expr import DataTypeImm, const
from mlcnb.relax.transform import get_pipeline
from mlcnb.script import ir as I
from mlcnb.script import relax as R
from mlcnb.script import tir as T
from mlcnb.tir.stmt import For
from tests.ir.damage import damaged
from tests.tir.programs import FUZZ


@I.ir_module
class Mod:
    I.module_attrs({"stage": 3, "ratio": 0.1})

    @T.prim_func
    def scale(A: T.Buffer((4, 4), "float32"), B: T.Buffer((4, 4), "float32")):
        T.func_attr({"tir.noalias": True})
        for i, j in T.grid(4, 4):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi, vj] * T.float32(0.1)

    @R.function
    def main(x: R.Tensor(("n", 4), "float32"), c: R.Tensor((), "bool")) -> R.Tensor:
        n = T.int64()
        with R.dataflow():
            lv = R.nn.conv2d(
                R.reshape(x, R.shape([1, 1, n, 4])), R.const([[[[2.0]]]], "float32"), padding=1
            )
            gv = R.nn.softmax(lv, axis=-1)
            R.output(gv)
        if c:
            z = R.nn.relu(gv)
        else:
            z = R.exp(gv)
        return z


def test_the_round_trip_keeps_meaning_text_and_bytes() -> None:
    for mod in (Mod, get_pipeline("zero")(Mod)):
        text = save_json(mod)
        back = load_json(text)
        assert_structural_equal(mod, back)
        assert back.script() == mod.script()
        assert save_json(back) == text


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan"), -0.0, 0.1, 1e-320])
def test_every_float_survives(value: float) -> None:
    back = load_json(save_json(FloatImm("float64", value)))
    assert np.float64(back.value).tobytes() == np.float64(value).tobytes()


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "int8", "bool", "float8_e4m3fn"])
@pytest.mark.parametrize("shape", [(), (0, 3), (2, 3)])
def test_constants_of_any_dtype_and_shape_survive(kind: str, shape: tuple[int, ...]) -> None:
    one = const(np.ones(shape), kind)
    back = load_json(save_json(one))
    assert back.data.dtype == one.data.dtype and back.data.shape == shape
    assert back.data.tobytes() == one.data.tobytes()


def test_what_is_shared_is_shared_again_and_spans_are_kept() -> None:
    weight = const(np.arange(3.0), "float32")

    @R.function
    def main(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
        y = R.add(x, x)
        return y

    call = replace(
        main.body.bindings[0].value, span=Span("onnx", "node <1>"), args=(weight, weight)
    )
    text = save_json(call)
    back = load_json(text)
    assert back.span.name == "node <1>" and back.args[0] is back.args[1]
    assert len(json.loads(text)["arrays"]) == 1


def _damaged(change: Any) -> str:
    data = json.loads(save_json(const([1.0, 2.0], "float32")))
    change(data)
    return json.dumps(data)


def _set(path: str, value: Any) -> Any:
    def change(data: dict) -> None:
        *way, last = path.split("/")
        for step in way:
            data = data[int(step) if step.isdigit() else step]
        data[int(last) if last.isdigit() else last] = value

    return change


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "load_json: no JSON text: Expecting property name enclosed in double quotes"),
        ("[]", "load_json: no module of mlcnb"),
        ('{"format": "mlcnb-ir", "version": 99}', "load_json: version 99, this is 1"),
        (_damaged(_set("root", {"node": 7})), "load_json: damaged text, IndexError"),
        (_damaged(_set("root", {"node": -1})), "load_json: -1 stands where a whole number"),
        (_damaged(_set("nodes/0/class", "os.system")), "load_json: no node class 'os.system'"),
        (_damaged(_set("nodes/0/fields", {"evil": 1})), "relax.Constant has no field 'evil'"),
        (_damaged(_set("nodes/0/fields", {"data": {"node": 0}})), "damaged text, IndexError"),
        (_damaged(_set("nodes/0/fields", [1])), "damaged text, AttributeError"),
        (_damaged(_set("nodes/0/class", None)), "no node class None"),
        (_damaged(_set("nodes/0/fields/data", 3)), "relax.Constant.data is an int: <class 'numpy"),
        (_damaged(_set("arrays/0/data", "AAAA")), "a tensor of 8 bytes has 3 bytes of data"),
        (_damaged(_set("arrays/0/data", "??")), "load_json: damaged tensor data"),
        (_damaged(_set("arrays/0/shape", [1 << 40, 1 << 20])), "load_json: a tensor of"),
        (_damaged(_set("arrays/0/dtype", "object")), "no dtype 'object'"),
    ],
)
def test_damaged_text_is_refused(text: str, message: str) -> None:
    with pytest.raises(Exception, match=message.replace("[", r"\[")) as caught:
        load_json(text)
    assert type(caught.value).__module__ == "mlcnb.core.errors"


@settings(max_examples=200 * FUZZ, deadline=None, suppress_health_check=list(HealthCheck))
@given(damaged(json.loads(save_json(Mod))))
def test_random_damage_is_refused_or_read(data: Any) -> None:
    """Nodes whose fields hold what they say, or a typed error."""
    try:
        found = load_json(json.dumps(data))
    except MLCError:
        return
    for node in walk(found) if isinstance(found, Node) else ():
        assert not isinstance(node, Var) or isinstance(node.name, str)
        assert not isinstance(node, For) or isinstance(node.extent, PrimExpr)


def test_tensors_larger_than_the_option_are_refused() -> None:
    text = save_json(const(np.zeros(64), "float32"))
    with options.scoped(max_tensor_bytes=100), pytest.raises(ModelError, match="256 bytes"):
        load_json(text)


def test_a_module_is_no_place_for_other_objects() -> None:
    with pytest.raises(Exception, match="a set is no part of a program"):
        save_json(IRModule.make({}).with_attr("odd", {1}))


def test_a_dtype_as_a_value_comes_back() -> None:
    value = DataTypeImm("int32")
    assert value.value == "int32"
    assert_structural_equal(load_json(save_json(value)), value)
