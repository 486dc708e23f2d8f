"""Calls that write their outputs over arguments: each output has one place."""

from __future__ import annotations

import pytest

from mlcnb import IRModule, relax
from mlcnb.core.errors import ArgumentError, WellFormedError
from mlcnb.core.node import FrozenDict
from mlcnb.ir.expr import GlobalVar
from mlcnb.relax.analysis import assert_well_formed
from mlcnb.script import relax as R

_INFO = relax.TensorStructInfo((4,), "float32")
_WRONG = [
    ([0, 0], "call_tir_inplace: two outputs are written to argument 0"),
    ([0], "call_tir_inplace: 1 inplace_indices for 2 outputs"),
    ([0, 2], "call_tir_inplace: inplace_indices has 2, there are 2 arguments"),
    ([-2, 0], "call_tir_inplace: inplace_indices has -2, there are 2 arguments"),
    ([-1, -1], "call_tir_inplace: no output is written to an argument: .*"),
    (["x", 0], "call_tir_inplace: inplace_indices are numbers of arguments, .*"),
]


def _call(places: list, same: bool = False) -> relax.Call:
    x, y = (relax.Var(name, _INFO) for name in "xy")
    args = [x, x if same else y]
    return relax.call_tir_inplace(GlobalVar("f"), args, places, [_INFO, _INFO])


@pytest.mark.parametrize(("places", "message"), _WRONG)
def test_outputs_have_places_of_their_own(places: list, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        _call(places)
    x, y = (relax.Var(name, _INFO) for name in "xy")
    with pytest.raises(ArgumentError, match=message):
        R.call_tir_inplace(GlobalVar("f"), (x, y), places, [_INFO, _INFO])


def test_one_value_given_twice_is_one_place() -> None:
    assert _call([0, 1]).attrs["inplace_indices"] == (0, 1)
    with pytest.raises(ArgumentError, match="to arguments 0 and 1, one value"):
        _call([0, 1], same=True)


@pytest.mark.parametrize(("places", "message"), _WRONG)
def test_well_formed_finds_them(places: list, message: str) -> None:
    call = _call([0, 1])
    attrs = FrozenDict(inplace_indices=tuple(places))
    bad = relax.Call(call.op, call.args, attrs, call.sinfo_args, call.struct_info)
    var = relax.Var("r", call.struct_info)
    body = relax.SeqExpr((relax.BindingBlock((relax.VarBinding(var, bad),)),), var)
    func = relax.Function(call.args[1].fields, body, call.struct_info)
    with pytest.raises(WellFormedError, match=message):
        assert_well_formed(IRModule({"main": func}))


def test_packed_functions_too() -> None:
    x = relax.Var("x", _INFO)
    for places, message in [
        ([0, 0], "call_inplace_packed: two outputs are written to argument 0"),
        ([1], "call_inplace_packed: inplace_indices has 1, there are 1 arguments"),
    ]:
        with pytest.raises(ArgumentError, match=message):
            relax.op.call_inplace_packed("f", x, inplace_indices=places, sinfo_args=_INFO)
