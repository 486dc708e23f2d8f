"""A comparison of scalars in a graph function stays what it says, or is refused: Python would ask
which object it is.
"""

from __future__ import annotations

import numpy as np
import pytest

import mlcnb as tvm
from mlcnb import relax
from mlcnb.core.errors import ExecutionError, MLCError, OperatorArgumentError, ParseError
from mlcnb.script import from_source
from mlcnb.script import relax as R
from mlcnb.script import tir as T
from tests.script.roundtrip import assert_round_trip

_PROGRAM = """
@R.function(pure=False)
def f(x: R.Tensor(("n",), "float32")):
    n = T.int64()
    y = {}
    return y
"""


def _value(text: str) -> str:
    """What a right side reads as."""
    func = from_source(_PROGRAM.format(text))
    assert_round_trip(func)
    [line] = [row for row in func.script().splitlines() if row.lstrip().startswith("y")]
    return line.partition(" = ")[2]


def test_a_condition_is_kept() -> None:
    @R.function(pure=False)
    def checked(x: R.Tensor(("n",), "float32")):
        n = T.int64()
        _ = R.assert_op(n % 16 == 0, n, format="{} is no multiple of 16")
        return x

    assert_round_trip(checked)
    assert "R.assert_op(R.prim_value(n % 16 == 0), R.prim_value(n), " in checked.script()
    mod = tvm.IRModule({"main": checked})
    for vm in (relax.VirtualMachine(relax.build(mod, "llvm")), tvm.compile(mod, "llvm")):
        np.testing.assert_array_equal(vm["main"](np.ones(32, "float32")), np.ones(32))
        with pytest.raises(ExecutionError, match="assert_op: 17 is no multiple of 16"):
            vm["main"](np.ones(17, "float32"))


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("R.assert_op(n == 4)", 'R.assert_op(R.prim_value(n == 4), format=R.str(""))'),
        ("R.assert_op(True)", 'R.assert_op(R.const(True, "bool"), format=R.str(""))'),
        ('R.print(n == 4, format="{}")', 'R.print(R.prim_value(n == 4), format=R.str("{}"))'),
        ("R.prim_value(bool(n == 4))", "R.prim_value(n == 4)"),
        ("R.prim_value(bool(n))", "R.prim_value(n != 0)"),
        ("R.prim_value((1, 2) == (1, 2))", "R.prim_value(T.bool(True))"),
        ("R.prim_value(4 in [3, 4])", "R.prim_value(T.bool(True))"),
    ],
)
def test_what_a_condition_reads_as(text: str, read: str) -> None:
    assert _value(text) == read


_WHOLE = "what holds a symbolic expression is not compared as a whole"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('R.const(n == 4, "bool")', "it is a scalar that the run finds out"),
        ("R.sum(x, keepdims=n == 4)", "sum: keepdims is True or False, not n == "),
        ("R.sort(x, descending=n == 4)", "sort: descending is True or False, not n == "),
        ("R.nn.batch_norm(x, x, x, x, x, training=n == 4)", "training is True or False"),
        ('R.Call(R.Op("relax.sum"), (x,), attrs={"keepdims": n == 4})', "True or False"),
        ("R.prim_value((n, 4) == (n, 4))", _WHOLE),
        ("R.prim_value([n + 1] != [n + 1])", _WHOLE),
        ('R.prim_value({"a": n} == {"a": 4})', _WHOLE),
        ("R.prim_value(4 in [n, 5])", "`in` works on Python values only"),
        (
            "R.assert_op(n % 16)",
            "the condition has to be a boolean scalar, it is a scalar of int64",
        ),
        ("R.assert_op(x)", r"boolean scalar, it is Tensor\(\(n,\), float32\)"),
    ],
)
def test_what_would_fold_is_refused(text: str, message: str) -> None:
    with pytest.raises(ParseError, match=message):
        _value(text)


def test_attributes_of_a_call_written_part_by_part_count() -> None:
    """They were kept beside the call, and read as the defaults."""
    text = 'R.Call(R.Op("relax.sum"), (x,), attrs={"keepdims": True})'
    assert _value(text) == "R.sum(x, keepdims=True)"
    with pytest.raises(ParseError, match="sum: no attribute 'keep'"):
        _value('R.Call(R.Op("relax.sum"), (x,), attrs={"keep": True})')


def test_a_constant_is_no_symbol() -> None:
    n = tvm.tir.Var("n", "int64")
    with pytest.raises(tvm.core.errors.ArgumentError, match="R.prim_value|the run finds out"):
        relax.const(n == 4, "bool")
    assert relax.const(tvm.tir.IntImm("int64", 4), "int32").data == 4
    with pytest.raises(OperatorArgumentError, match="boolean scalar"):
        relax.op.assert_op(n)


def test_astype_keeps_its_dtype() -> None:
    @R.function
    def main(x: R.Tensor((4,), "float32")):
        half = x.astype("float16")
        whole = (x + x).astype(T.int32)
        again = x.astype(half.dtype)
        return (half, whole, again)

    assert_round_trip(main)
    infos = [f.dtype for f in main.struct_info.ret.fields]
    assert infos == ["float16", "int32", "float16"]
    half, whole, again = tvm.compile(tvm.IRModule({"main": main}), "llvm")(np.ones(4, "float32"))
    assert (half.dtype, whole.dtype, again.dtype) == (np.float16, np.int32, np.float16)
    x = relax.Var("x", relax.TensorStructInfo((4,), "float32"))
    assert relax.BlockBuilder().normalize(x.astype("float16")).struct_info.dtype == "float16"
    with pytest.raises(tvm.core.errors.UnsupportedDtypeError, match="no dtype 'flot16'"):
        x.astype("flot16")


def test_attributes_given_by_name_count_in_a_call() -> None:
    x = relax.Var("x", relax.TensorStructInfo((4,), "float32"))
    call = relax.Call(relax.op.sum(x).op, [x], attrs={"keepdims": True})
    assert relax.BlockBuilder().normalize(call).struct_info.dims[0] == 1
    with pytest.raises(OperatorArgumentError, match="sum: no attribute 'keepdim'"):
        relax.BlockBuilder().normalize(relax.Call(call.op, [x], attrs={"keepdim": True}))


_SCALARS = """
@R.function
def main(x: R.Tensor(("n",), "float32"), p: R.Prim({})):
    n = T.int64()
    return (p, R.shape([n]))
"""


@pytest.mark.parametrize("build", ["compile", "bytecode", "lowered"])
@pytest.mark.parametrize(
    ("given", "good", "bad", "message"),
    [
        ('value="n"', 3, 7, "input 'p' is 7, expected n = 3"),
        ('value="n + 1"', 4, 3, "input 'p' is 3, expected .* = 4"),
        ("value=4", 4, 7, "input 'p' is 7, expected 4"),
        ('value="n == 3"', True, False, "input 'p' is False, expected n == .* = True"),
        ("value=2.5", 2.5, 3.5, "input 'p' is 3.5, expected 2.5"),
        ('value="m"', 5, 3.5, "expected a number of int64, got 3.5"),
        ('"int32"', 5, 2**40, "expected a number of int32, got 1099511627776"),
        ('"int64"', 5, "five", "expected a number of int64, got a str"),
    ],
)
def test_the_value_of_a_scalar_is_checked(
    build: str, given: str, good: object, bad: object, message: str
) -> None:
    mod = tvm.IRModule({"main": from_source(_SCALARS.format(given))})
    assert_round_trip(mod)
    if build == "compile":
        run = tvm.compile(mod, "llvm")["main"]
    elif build == "bytecode":
        run = relax.VirtualMachine(relax.build(mod, "llvm"))["main"]
    else:
        if isinstance(good, float):
            pytest.skip("sizes are whole numbers")
        lowered = relax.transform.VMShapeLower()(relax.transform.ComputePrimValue()(mod))
        run, message = relax.VirtualMachine(relax.build(lowered, "llvm"))["main"], "(?i)expected|is"
    x = np.ones(3, "float32")
    assert run(x, good)[0] == good
    with pytest.raises(MLCError, match=message):
        run(x, bad)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("value=x", "the value of a scalar type is a number, not a Var"),
        ("value=[4]", "a number, not a list"),
        ('"int32", value=T.int64(4)', r"the value of R.Prim\('int32'\) is of int64"),
        ('"int32", value="n"', r"the value of R.Prim\('int32'\) is of int64"),
        ("value=2.5", "y is said to be a scalar of float64, this gives a scalar of int64"),
        ("value=n == 4", "y is said to be a scalar of bool, this gives a scalar of int64"),
    ],
)
def test_the_value_of_a_scalar_type_fits(given: str, message: str) -> None:
    text = _PROGRAM.replace("y = {}", f"y: R.Prim({given}) = R.prim_value(n)")
    with pytest.raises(ParseError, match=message):
        from_source(text)
