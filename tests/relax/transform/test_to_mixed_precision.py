"""ToMixedPrecision: TVM's decisions, operator by operator, and the numbers that come of them.

The programs are compared with Apache TVM 0.27 where it is installed (`pip install apache-tvm`).
"""

from __future__ import annotations

import pytest

from mlcnb.core.errors import PassError
from mlcnb.ir import IRModule, assert_structural_equal
from mlcnb.relax.analysis import assert_well_formed
from mlcnb.relax.transform import ToMixedPrecision
from mlcnb.script import parse
from mlcnb.script import relax as R
from tests.relax.harness import as_module, check_pass, same_numbers
from tests.relax.transform.legalized import typed

#: name -> (parameters, statements of a dataflow block, what it gives)
PROGRAMS = {
    "conv": (
        "x: (2, 3, 28, 28), w: (4, 3, 3, 3)",
        "gv = R.nn.conv2d(x, w)",
        "gv",
    ),
    "conv_relu": (
        "x: (2, 3, 28, 28), w: (4, 3, 3, 3)",
        "a = R.nn.conv2d(x, w); gv = R.nn.relu(a)",
        "gv",
    ),
    "relu_conv_relu": (
        "x: (2, 3, 28, 28), w: (4, 3, 3, 3)",
        "x0 = R.nn.relu(x); a = R.nn.conv2d(x0, w); gv = R.nn.relu(a)",
        "gv",
    ),
    "conv_relu_conv": (
        "x: (2, 3, 28, 28), w: (4, 3, 3, 3), v: (4, 4, 3, 3)",
        "a = R.nn.conv2d(x, w); b = R.nn.relu(a); gv = R.nn.conv2d(b, v)",
        "gv",
    ),
    "gemm_add_silu": (
        "x: (2, 320), w1: (320, 1280), w2: (2, 1280)",
        "a = R.matmul(x, w1); b = R.add(a, w2); gv = R.nn.silu(b)",
        "gv",
    ),
    "tuple": (
        "x: (2, 3, 28, 28), w: (4, 3, 3, 3), v: (4, 3, 3, 3)",
        "a = R.nn.conv2d(x, w); b = R.nn.conv2d(x, v); t = (a, b); gv = R.concat(t, axis=1)",
        "gv",
    ),
    "concat_matmul": (
        "x: (1, 10), y: (1, 10), w: (20, 5)",
        "a = R.concat((x, y), axis=1); gv = R.matmul(a, w)",
        "gv",
    ),
    "split": (
        "x: (2, 8), w: (8, 8), v: (4, 4)",
        "a = R.matmul(x, w); s = R.split(a, 2, axis=1); b = s[0]; "
        "c = s[1]; d = R.matmul(b, v); gv = R.add(d, c)",
        "gv",
    ),
    "softmax": (
        "x: (2, 8), w: (8, 8)",
        "a = R.matmul(x, w); b = R.nn.softmax(a); gv = R.matmul(b, w)",
        "gv",
    ),
    "bias_const": (
        "x: (2, 3, 8, 8), w: (4, 3, 3, 3)",
        "a = R.nn.conv2d(x, w); b = R.add(a, R.const(1, 'float32')); gv = R.nn.relu(b)",
        "gv",
    ),
    "big_const": (
        "x: (2, 3, 8, 8), w: (4, 3, 3, 3)",
        "a = R.nn.conv2d(x, w); b = R.multiply(a, R.const(65536, 'float32')); gv = R.nn.relu(b)",
        "gv",
    ),
    "residual": (
        "x: (2, 4, 8, 8), w: (4, 4, 1, 1)",
        "a = R.nn.conv2d(x, w); b = R.add(a, x); "
        "c = R.nn.conv2d(b, w); d = R.nn.max_pool2d(c); gv = R.mean(d, axis=[1])",
        "gv",
    ),
    "two_out": (
        "x: (2, 8), w: (8, 8)",
        "a = R.matmul(x, w); b = R.nn.relu(a); gv = R.exp(b)",
        "a, gv",
    ),
    "int": (
        "x: (2, 8), w: (8, 8), i: (2, 8) int64",
        "a = R.matmul(x, w); b = R.astype(i, 'float32'); gv = R.add(a, b)",
        "gv",
    ),
}
OPTIONS = [("float32", None), ("float16", None), ("float32", ["w", "w1"])]


def source(name: str) -> str:
    """The module of a program; products say that they give float32."""
    params, statements, out = PROGRAMS[name]
    lines = [f"        {s.strip()}" for s in statements.split(";")]
    given = ["@I.ir_module", "class Module:", "  @R.function", f"  def main({typed(params)}):"]
    block = ["    with R.dataflow():", *lines, f"        R.output({out})"]
    return "\n".join([*given, *block, f"    return ({out})", ""])


def program(name: str) -> IRModule:
    """A program by name."""
    return parse(source(name))


@pytest.mark.parametrize(("out_dtype", "names"), OPTIONS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_decisions_are_those_of_tvm(name: str, out_dtype: str, names: list[str] | None) -> None:
    tvm = pytest.importorskip("tvm", reason="apache-tvm is not installed")
    if not tvm.__version__.startswith("0.27"):
        pytest.skip(f"apache-tvm 0.27 is wanted, this is {tvm.__version__}")
    spaces = {"I": tvm.script.ir, "R": tvm.script.relax, "T": tvm.script.tirx}
    theirs = tvm.script.from_source(source(name), extra_vars=spaces)
    want = tvm.relax.transform.ToMixedPrecision(out_dtype, names)(theirs)
    got = ToMixedPrecision(out_dtype, names)(parse(theirs.script()))
    assert_structural_equal(got, parse(want.script()))


@pytest.mark.parametrize("out_dtype", ["float32", "float16"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_numbers_are_those_before_but_for_roundings(name: str, out_dtype: str) -> None:
    before = program(name)
    after = ToMixedPrecision(out_dtype)(before)
    assert_well_formed(after)
    assert_structural_equal(parse(after.script()), after)
    if name != "big_const":  # of large numbers a rounding is large
        same_numbers(before, after, tolerance=1e-1)


def test_products_are_rounded_what_follows_does_and_the_result_is_as_it_was() -> None:
    @R.function
    def before(x: R.Tensor((2, 8), "float32"), w: R.Tensor((8, 8), "float32")):
        with R.dataflow():
            a = R.matmul(x, w)
            b = R.nn.relu(a)
            c = R.nn.softmax(b)
            d = R.matmul(c, w)
            R.output(d)
        return d

    @R.function
    def after(x: R.Tensor((2, 8), "float32"), w: R.Tensor((8, 8), "float32")):
        with R.dataflow():
            x1 = R.astype(x, dtype="float16")
            w1 = R.astype(w, dtype="float16")
            a1 = R.matmul(x1, w1, out_dtype="float32")
            a = R.astype(a1, dtype="float16")
            b = R.nn.relu(a)
            b1 = R.astype(b, dtype="float32")
            c = R.nn.softmax(b1)
            c1 = R.astype(c, dtype="float16")
            d = R.matmul(c1, w1, out_dtype="float32")
            R.output(d)
        return d

    check_pass(ToMixedPrecision(), before, after, again=False, tolerance=2e-2)


def test_parameters_by_name_are_handed_over_in_half_precision() -> None:
    @R.function
    def before(x: R.Tensor((2, 8), "float32"), w: R.Tensor((8, 8), "float32")):
        with R.dataflow():
            a = R.matmul(x, w)
            b = R.nn.softmax(w)
            c = R.matmul(a, b)
            R.output(c)
        return c

    @R.function
    def after(x: R.Tensor((2, 8), "float32"), w: R.Tensor((8, 8), "float16")):
        with R.dataflow():
            x1 = R.astype(x, dtype="float16")
            a1 = R.matmul(x1, w, out_dtype="float32")
            a = R.astype(a1, dtype="float16")
            w1 = R.astype(w, dtype="float32")
            b = R.nn.softmax(w1)
            b1 = R.astype(b, dtype="float16")
            c = R.matmul(a, b1, out_dtype="float32")
            R.output(c)
        return c

    got = ToMixedPrecision(fp16_input_names=["w"])(as_module(before))
    assert_structural_equal(got, as_module(after))


def test_what_stands_outside_of_dataflow_stays() -> None:
    @R.function
    def before(x: R.Tensor((2, 8), "float32"), w: R.Tensor((8, 8), "float32")):
        return R.matmul(x, w)

    mod = as_module(before)
    assert ToMixedPrecision()(mod) is mod


def test_other_dtypes_are_refused() -> None:
    with pytest.raises(PassError, match="ToMixedPrecision: no out_dtype 'int8'"):
        ToMixedPrecision("int8")(program("conv"))
