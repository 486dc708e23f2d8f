"""Graph functions: types, bindings, calls, branches, constants."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest

import mlcnb
from mlcnb import relax, tir
from mlcnb.core.errors import MLCError, ParseError
from mlcnb.core.node import FrozenDict
from mlcnb.ir import assert_structural_equal, structural_equal
from mlcnb.ir.expr import GlobalVar, Var
from mlcnb.ir.module import IRModule
from mlcnb.relax import expr as rx
from mlcnb.relax.struct_info import TensorStructInfo
from mlcnb.relax.transform import CanonicalizeBindings
from mlcnb.script import from_source, parse, script
from mlcnb.script import ir as I
from mlcnb.script import relax as R
from tests.script.roundtrip import assert_round_trip, assert_text

TYPES = [
    'R.Tensor((2, 3), dtype="float32")',
    'R.Tensor((), dtype="bool")',
    'R.Tensor((1,), dtype="int8")',
    "R.Tensor((2, 3))",
    'R.Tensor(dtype="float32", ndim=2)',
    'R.Tensor(dtype="float32")',
    "R.Tensor(ndim=3)",
    "R.Tensor",
    'R.Tensor((2,), dtype="float32", vdevice="cuda:0")',
    "R.Shape([2, 3])",
    "R.Shape(ndim=2)",
    "R.Shape(ndim=-1)",
    'R.Tuple(R.Tensor((2,), dtype="float32"), R.Shape([3]))',
    "R.Tuple",
    'R.Tuple(R.Tuple(R.Tensor((2,), dtype="float32")))',
    'R.Callable((R.Tensor((2,), dtype="float32"),), R.Tensor((2,), dtype="float32"), True)',
    "R.Callable((), R.Shape([1]), False)",
    "R.Callable",
    "R.Callable(ret=R.Shape([1]), purity=False)",
]


@pytest.mark.parametrize("info", TYPES)
def test_types(info: str) -> None:
    assert_text(f"@R.function\ndef main(x: {info}) -> {info}:\n    return x")


@pytest.mark.parametrize(
    ("old", "new"),
    [("R.Object", "R.Any"), ('R.Prim("int64")', "T.int64"), ('R.Prim("float16")', "T.float16")],
)
def test_types_that_0_27_renamed(old: str, new: str) -> None:
    func = assert_text(f"@R.function\ndef main(x: {old}) -> {old}:\n    return x")
    assert f"x: {new}) -> {new}:" in script(func, dialect="0.27")


def test_symbolic_dimensions() -> None:
    assert_text("""
        @R.function
        def main(x: R.Tensor(("n", "m * 2", 4), dtype="float32"), s: R.Shape(["n", 2]), p: R.Prim(value="k")) -> R.Tensor(("n + k", "T.max(m, 1)"), dtype="float32"):
            n = T.int64()
            m = T.int64()
            k = T.int64()
            return x
    """)  # noqa: E501


def test_symbolic_dimensions_need_no_declaration() -> None:
    text = '@R.function\ndef f(x: R.Tensor(("n", 4)), y: R.Tensor(("n",))):\n    return x'
    func = parse(text)
    first, second = (p.struct_info.shape.values[0] for p in func.params)
    assert first is second and first.dtype == "int64"
    assert script(func, header=False) == (
        '@R.function\ndef f(x: R.Tensor(("n", 4)), y: R.Tensor(("n",))) -> R.Tensor(("n", 4)):\n'
        "    n = T.int64()\n    return x"
    )


@pytest.mark.parametrize("declared", ["m, n = T.int64(), T.int64()", "m = T.int64()"])
def test_symbolic_dimensions_declared_inside_of_a_block(declared: str) -> None:
    func = parse(f"""
@R.function
def main(c: R.Tensor((), "bool"), x: R.Tensor(("n", "m"), "float32")) -> R.Tensor(("m", "n"), "float32"):
    with R.dataflow():
        {declared}
        y = R.reshape(x, R.shape([m, n]))
        R.output(y)
    if c:
        {declared}
        z = R.reshape(y, R.shape([m * n]))
        w = R.reshape(z, R.shape([m, n]))
    else:
        {declared}
        w = R.reshape(R.exp(y), R.shape([m, n]))
    return w
""")  # noqa: E501
    assert script(func, header=False) == (
        "@R.function\n"
        'def main(c: R.Tensor((), dtype="bool"), x: R.Tensor(("n", "m"), dtype="float32"))'
        ' -> R.Tensor(("m", "n"), dtype="float32"):\n'
        "    n = T.int64()\n"
        "    m = T.int64()\n"
        "    with R.dataflow():\n"
        '        y: R.Tensor((m, n), dtype="float32") = R.reshape(x, R.shape([m, n]))\n'
        "        R.output(y)\n"
        "    if c:\n"
        '        z: R.Tensor((m * n,), dtype="float32") = R.reshape(y, R.shape([m * n]))\n'
        '        w_then: R.Tensor((m, n), dtype="float32") = R.reshape(z, R.shape([m, n]))\n'
        '        w: R.Tensor((m, n), dtype="float32") = w_then\n'
        "    else:\n"
        '        gv: R.Tensor((m, n), dtype="float32") = R.exp(y)\n'
        '        w_else: R.Tensor((m, n), dtype="float32") = R.reshape(gv, R.shape([m, n]))\n'
        '        w: R.Tensor((m, n), dtype="float32") = w_else\n'
        "    return w"
    )


def test_type_variables_of_0_27() -> None:
    func = parse("""
# from tvm.script import relax as R
n = TypeVar("n")
@R.function
def main(x: R.Tensor((n, n * 2), dtype="float32")) -> R.Tensor((n, n * 2), dtype="float32"):
    y: R.Tensor((n * 2, n), dtype="float32") = R.reshape(x, R.shape([n * 2, n]))
    return x
""")
    assert script(func, header=False) == (
        "@R.function\n"
        'def main(x: R.Tensor(("n", "n * 2"), dtype="float32"))'
        ' -> R.Tensor(("n", "n * 2"), dtype="float32"):\n'
        "    n = T.int64()\n"
        '    y: R.Tensor((n * 2, n), dtype="float32") = R.reshape(x, R.shape([n * 2, n]))\n'
        "    return x"
    )


def test_bindings_and_dataflow_blocks() -> None:
    func = assert_text("""
        @R.function
        def main(x: R.Tensor((2, 4), dtype="float32")) -> R.Tensor((2, 4), dtype="float32"):
            R.func_attr({"num_input": 1})
            a: R.Tensor((2, 4), dtype="float32") = R.add(x, x)
            with R.dataflow():
                lv: R.Tensor((2, 4), dtype="float32") = R.nn.relu(a)
                lv1: R.Tensor((2, 4), dtype="float32") = R.multiply(lv, R.const(2.0, "float32"))
                gv: R.Tensor((2, 4), dtype="float32") = R.subtract(lv1, lv)
                gv1: R.Tensor((2, 4), dtype="float32") = lv
                R.output(gv, gv1)
            with R.dataflow():
                R.output()
            b: R.Tensor((2, 4), dtype="float32") = R.add(gv, gv1)
            return b
    """)
    first, block, empty, last = func.body.blocks
    assert [type(b) for b in func.body.blocks] == [
        rx.BindingBlock,
        rx.DataflowBlock,
        rx.DataflowBlock,
        rx.BindingBlock,
    ]
    assert [type(b.var) for b in block.bindings] == [rx.DataflowVar] * 2 + [rx.Var] * 2
    assert empty.bindings == ()


def test_bindings_without_annotations() -> None:
    func = parse("""
@R.function
def main(x: R.Tensor((2, 4), dtype="float32")):
    y = R.nn.relu(R.add(x, x))
    return R.permute_dims(y)
""")
    assert script(func, header=False) == (
        "@R.function\n"
        'def main(x: R.Tensor((2, 4), dtype="float32")) -> R.Tensor((4, 2), dtype="float32"):\n'
        '    gv: R.Tensor((2, 4), dtype="float32") = R.add(x, x)\n'
        '    y: R.Tensor((2, 4), dtype="float32") = R.nn.relu(gv)\n'
        '    gv1: R.Tensor((4, 2), dtype="float32") = R.permute_dims(y)\n'
        "    return gv1"
    )
    bare = script(func, header=False, show_all_struct_info=False)
    assert "    y = R.nn.relu(gv)\n" in bare
    assert structural_equal(parse(bare), func)


def test_python_operators_make_calls() -> None:
    func = parse("""
@R.function
def main(x: R.Tensor((2,), dtype="float32"), y: R.Tensor((2,), dtype="float32")):
    a = x + y * 2.0
    b = -a
    c = b < 1
    return c
""")
    lines = [line.split(" = ")[1] for line in script(func, header=False).split("\n")[2:-1]]
    assert lines == [
        'R.multiply(y, R.const(2.0, "float32"))',
        "R.add(x, gv)",
        "R.negative(a)",
        'R.less(b, R.const(1.0, "float32"))',
    ]


def test_attributes_that_are_the_default_are_left_out() -> None:
    text = """
        @R.function
        def main(x: R.Tensor((1, 3, 8, 8), dtype="float32"), w: R.Tensor((4, 3, 3, 3), dtype="float32")) -> R.Tensor((1, 4, 3, 3), dtype="float32"):
            y: R.Tensor((1, 4, 3, 3), dtype="float32") = R.nn.conv2d(x, w, strides=[2, 2])
            return y
    """  # noqa: E501
    func = assert_text(text)
    assert func.body.bindings[0].value.attrs.groups == 1


def test_shapes_scalars_strings_and_dtypes_as_arguments() -> None:
    assert_text(
        """
        @R.function
        def main(x: R.Tensor(("n", 4), dtype="float32")) -> R.Object:
            n = T.int64()
            a: R.Tensor((n * 2, 2), dtype="float32") = R.reshape(x, R.shape([n * 2, 2]))
            b: R.Object = R.call_packed("f", a, R.prim_value(1), R.prim_value(T.float32(0.5)), R.str("t\\"x"), R.dtype("int8"), R.prim_value(n + 1))
            c: R.Tensor((4,), dtype="int64") = R.arange(R.prim_value(0), R.prim_value(4), R.prim_value(1), dtype="int64")
            d: R.Shape([n, 4]) = R.shape([n, 4])
            return b
        """  # noqa: E501
    )


def test_tuples() -> None:
    assert_text("""
        @R.function
        def main(t: R.Tuple(R.Tensor((2,), dtype="float32"), R.Tensor((3,), dtype="float32"))) -> R.Tuple(R.Tensor((2,), dtype="float32"), R.Tuple(R.Tensor((3,), dtype="float32"))):
            a: R.Tensor((2,), dtype="float32") = t[0]
            b: R.Tensor((3,), dtype="float32") = t[1]
            c: R.Tuple(R.Tensor((2,), dtype="float32"), R.Tensor((3,), dtype="float32")) = (a, b)
            d: R.Tuple(R.Tensor((2,), dtype="float32")) = (a,)
            e: R.Tuple = R.tuple()
            return (a, (b,))
    """)  # noqa: E501


def test_fields_of_a_tuple_can_be_unpacked() -> None:
    func = parse("""
@R.function
def main(x: R.Tensor((4,), dtype="float32")):
    a, b = R.split(x, 2)
    return b
""")
    assert [line.strip() for line in script(func, header=False).split("\n")[3:]] == [
        'a: R.Tensor((2,), dtype="float32") = gv[0]',
        'b: R.Tensor((2,), dtype="float32") = gv[1]',
        "return b",
    ]


def test_match_cast_brings_in_variables() -> None:
    assert_text("""
        @R.function
        def main(x: R.Tensor(dtype="float32", ndim=2)) -> R.Tensor(dtype="float32", ndim=2):
            n = T.int64()
            m = T.int64()
            y: R.Tensor((n, m), dtype="float32") = R.match_cast(x, R.Tensor((n, m), dtype="float32"))
            z: R.Tensor((n * m,), dtype="float32") = R.reshape(y, R.shape([n * m]))
            return x
    """)  # noqa: E501


def test_branches() -> None:
    assert_text("""
        @R.function
        def main(c: R.Tensor((), dtype="bool"), x: R.Tensor((4,), dtype="float32")) -> R.Tensor((4,), dtype="float32"):
            if c:
                w: R.Tensor((4,), dtype="float32") = R.add(x, x)
                y: R.Tensor((4,), dtype="float32") = w
            else:
                if c:
                    z: R.Tensor((4,), dtype="float32") = x
                else:
                    w: R.Tensor((4,), dtype="float32") = R.nn.relu(x)
                    z: R.Tensor((4,), dtype="float32") = w
                y: R.Tensor((4,), dtype="float32") = z
            return y
    """)  # noqa: E501


def test_a_branch_that_ends_with_a_call_gets_a_variable_for_it() -> None:
    func = parse("""
@R.function
def main(c: R.Tensor((), dtype="bool"), x: R.Tensor((4,), dtype="float32")):
    if c:
        y = R.add(x, x)
    elif c:
        y = x
    else:
        y = R.nn.relu(x)
    return y
""")
    lines = script(func, header=False, show_all_struct_info=False).split("\n")
    assert lines[2:] == [
        "    if c:",
        "        y_then = R.add(x, x)",
        "        y = y_then",
        "    else:",
        "        if c:",
        "            y_1 = x",
        "        else:",
        "            y_else = R.nn.relu(x)",
        "            y_1 = y_else",
        "        y = y_1",
        "    return y",
    ]


def test_functions_inside_functions() -> None:
    assert_text("""
        @R.function
        def main(x: R.Tensor(("n", 4), dtype="float32")) -> R.Tensor(("n", 4), dtype="float32"):
            n = T.int64()
            @R.function
            def inner(y: R.Tensor((n, "k"), dtype="float32")) -> R.Tensor((n, "k"), dtype="float32"):
                k = T.int64()
                z: R.Tensor((n, k), dtype="float32") = R.nn.relu(y)
                return z
            @R.function(pure=False)
            def impure(y: R.Object) -> R.Object:
                _: R.Object = R.call_packed("f", y, x)
                return y
            w: R.Tensor((n, 4), dtype="float32") = inner(x)
            return w
    """)  # noqa: E501


def test_calls_across_levels() -> None:
    assert_text("""
        @R.function
        def main(x: R.Tensor(("n",), dtype="float32")) -> R.Tensor(("n",), dtype="float32"):
            n = T.int64()
            a = R.call_tir(cls.f, (x,), out_sinfo=R.Tensor((n,), dtype="float32"))
            b = R.call_tir(cls.f, (x, a), out_sinfo=[R.Tensor((n,), dtype="float32"), R.Tensor((4,), dtype="int8")], tir_vars=R.shape([n, 4]))
            c = R.call_tir(cls.f, R.tuple(), out_sinfo=R.Tensor((4,), dtype="float32"))
            d = R.call_tir_inplace(cls.f, (x, a), out_sinfo=[R.Tensor((n,), dtype="float32"), R.Tensor((n,), dtype="float32")], inplace_indices=[0, -1])
            e = R.call_dps_packed("my.f", (x,), out_sinfo=R.Tensor((n,), dtype="float32"))
            f: R.Tensor((4,), dtype="float32") = R.call_packed("my.g", x, sinfo_args=(R.Tensor((4,), dtype="float32"),))
            g: R.Tensor((4,), dtype="float32") = R.call_pure_packed("my.g", x, a, sinfo_args=(R.Tensor((4,), dtype="float32"),))
            h: R.Object = R.invoke_pure_closure(g, (x,), sinfo_args=(R.Object,))
            i: R.Object = R.memory.alloc_tensor(h, R.prim_value(0), R.shape([n]), R.dtype("float32"))
            j: R.Object = cls.helper(x, a)
            return x
    """)  # noqa: E501


def test_calls_across_levels_in_0_27() -> None:
    func = parse("""
@R.function
def main(x: R.Tensor(("n",), dtype="float32")) -> R.Object:
    n = T.int64()
    a = R.call_tir(cls.f, (x, n), out_ty=R.Tensor((n,), dtype="float32"))
    b: R.Any = R.call_packed("f", a, 1, ty_args=(R.Any,))
    return b
""")
    lines = [line.strip() for line in script(func, header=False).split("\n")]
    assert lines[3] == (
        'a = R.call_tir(cls.f, (x,), out_sinfo=R.Tensor((n,), dtype="float32"), '
        "tir_vars=R.shape([n]))"
    )
    assert lines[4] == (
        'b: R.Object = R.call_packed("f", a, R.prim_value(1), sinfo_args=(R.Object,))'
    )
    new = [line.strip() for line in script(func, header=False, dialect="0.27").split("\n")]
    assert new[3] == 'a = R.call_tir(cls.f, (x, n), out_ty=R.Tensor((n,), dtype="float32"))'
    assert new[4] == 'b: R.Any = R.call_packed("f", a, 1, ty_args=(R.Any,))'


def test_a_call_that_no_word_fits_is_written_part_by_part() -> None:
    x = rx.Var("x", R.Tensor((4,), "float32"))
    call = rx.Call(rx.Op("relax.unheard_of"), (x,), FrozenDict(k=(1, 2)), (R.Object(),))
    binding = rx.VarBinding(rx.Var("y", R.Object()), call)
    func = rx.Function(
        (x,), rx.SeqExpr((rx.BindingBlock((binding,)),), binding.var), R.Object()
    )  # fmt: skip
    text = assert_round_trip(func)
    assert text.split("\n")[2] == (
        '    y: R.Object = R.Call(R.Op("relax.unheard_of"), (x,), '
        'attrs={"k": [1, 2]}, sinfo_args=(R.Object,))'
    )


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (np.float32(0.1), 'R.const(0.1, "float32")'),
        (np.float64(0.1), 'R.const(0.1, "float64")'),
        (np.float16(0.1), 'R.const(0.1, "float16")'),
        (np.float32(-0.0), 'R.const(-0.0, "float32")'),
        (np.float32(math.inf), 'R.const(float("inf"), "float32")'),
        (np.float32(math.nan), 'R.const(float("nan"), "float32")'),
        (np.int64(-(2**63)), 'R.const(-9223372036854775808, "int64")'),
        (np.uint8(255), 'R.const(255, "uint8")'),
        (np.bool_(True), 'R.const(True, "bool")'),
        (ml_dtypes.bfloat16(1.5), 'R.const(1.5, "bfloat16")'),
        (ml_dtypes.float8_e4m3fn(0.5), 'R.const(0.5, "float8_e4m3fn")'),
    ],
)
def test_scalar_constants(data: np.generic, text: str) -> None:
    constant = rx.Constant(np.asarray(data))
    assert repr(constant) == text
    func = rx.Function((), rx.SeqExpr((), constant), constant.struct_info)
    assert_round_trip(func)


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6, dtype="float32").reshape(2, 3),
        np.zeros((0, 3), "int8"),
        np.array([True, False]),
        np.array([math.nan, -0.0], "float64"),
        np.ones((2, 2), ml_dtypes.bfloat16),
        np.arange(6, dtype="int64").reshape(2, 3).T,
    ],
)
def test_arrays_come_back_from_the_metadata(array: np.ndarray) -> None:
    constant = rx.Constant(array)
    func = rx.Function((), rx.SeqExpr((), constant), constant.struct_info)
    for dialect in ("0.21", "0.27"):
        again = parse(script(func, show_meta=True, dialect=dialect)).body.body.data
        assert again.dtype == array.dtype and again.shape == array.shape
        assert again.tobytes() == np.ascontiguousarray(array).tobytes()
        assert not again.flags.writeable


def test_an_array_is_printed_once_however_often_it_is_used() -> None:
    w = R.const(np.ones(4, "float32"))
    func = rx.Function((), rx.SeqExpr((), rx.Tuple((w, w))), rx.Tuple((w, w)).struct_info)
    assert script(func) == (
        "# from tvm.script import relax as R\n"
        "\n"
        "@R.function(private=True)\n"
        'def main() -> R.Tuple(R.Tensor((4,), dtype="float32"), R.Tensor((4,), dtype="float32")):\n'
        '    return (metadata["relax.expr.Constant"][0], metadata["relax.expr.Constant"][0])\n'
        "\n"
        "# Metadata omitted. Use show_meta=True in script() method to show it."
    )
    assert script(func, show_meta=True).split("\n")[2:7] == [
        "metadata = {",
        '    "relax.expr.Constant": [',
        '        {"dtype": "float32", "shape": [4], "data": "AACAPwAAgD8AAIA/AACAPw=="},',
        "    ],",
        "}",
    ]


def test_names_that_clash_get_a_number() -> None:
    info = R.Tensor((2,), "float32")
    x, y = rx.Var("x", info), rx.Var("x", info)
    func = rx.Function((x, y), rx.SeqExpr((), rx.Tuple((x, y))), None)
    lines = script(func, header=False).split("\n")
    assert lines[1:] == [
        'def main(x: R.Tensor((2,), dtype="float32"), x_1: R.Tensor((2,), dtype="float32")):',
        "    return (x, x_1)",
    ]


def test_the_same_symbol_in_two_parameters_is_one() -> None:
    n = Var("n", R.Tensor(("n",), "float32").shape.values[0].dtype)
    info = TensorStructInfo(rx.shape_expr([n]))
    func = rx.Function((rx.Var("x", info), rx.Var("y", info)), rx.SeqExpr((), rx.Tuple(())), None)
    assert script(func, header=False).split("\n")[1:3] == [
        'def main(x: R.Tensor(("n",)), y: R.Tensor(("n",))):',
        "    n = T.int64()",
    ]


def test_impure_and_private_functions() -> None:
    func = assert_text("""
        @R.function(private=True, pure=False)
        def main(x: R.Object) -> R.Object:
            return x
    """)
    assert not func.is_pure and "global_symbol" not in func.attrs


def test_words_work_outside_of_programs() -> None:
    x = rx.Var("x", R.Tensor(("n", 4), "float32"))
    assert repr(R.nn.relu(x)) == "R.nn.relu(x)"
    assert repr(R.call_tir(GlobalVar("f"), (x,), R.Tensor((4,), "float32"))) == (
        'R.call_tir(cls.f, (x,), out_sinfo=R.Tensor((4,), dtype="float32"))'
    )
    assert R.const(1.0).data.dtype == "float32"
    assert {"add", "nn", "Tensor", "call_tir", "function"} <= set(dir(R))
    with pytest.raises(AttributeError, match="no attribute 'addd'"):
        R.addd


def test_a_module_of_ten_thousand_bindings_prints_and_parses() -> None:
    info = R.Tensor((4,), "float32")
    var = x = rx.Var("x", info)
    bindings = []
    for _ in range(10_000):
        call = rx.Call(rx.Op("relax.nn.relu"), (var,), struct_info=info)
        var = rx.DataflowVar("lv", info)
        bindings.append(rx.VarBinding(var, call))
    last = rx.Var("gv", info)
    bindings.append(rx.VarBinding(last, var))
    body = rx.SeqExpr((rx.DataflowBlock(tuple(bindings)),), last)
    func = rx.Function((x,), body, info, attrs=FrozenDict(global_symbol="main"))
    text = script(IRModule.make({"main": func}))
    assert text.count("\n") == 10_010
    assert script(parse(text)) == text


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("(2, 3), ndim=3", "a shape of 2 dimensions has not ndim=3"),
        ("ndim=-2", "ndim is how many dimensions, or -1 (not known), not -2"),
        ("ndim='1'", "ndim is how many dimensions, or -1 (not known), not '1'"),
    ],
)
def test_ranks_that_contradict(given: str, message: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse(f"@R.function\ndef main(x: R.Tensor({given})):\n    return x")
    assert caught.value.message.startswith(message)


def test_types_by_the_names_of_0_27() -> None:
    func = parse(
        """
@R.function
def main(x: R.Tensor((4,), "float32")):
    y = R.call_packed("f", x, sinfo_args=R.Tensor((4,), "float32"))
    return x
""",
        check_well_formed=False,
    )
    [x], call = func.params, func.body.blocks[0].bindings[0].value
    assert x.ty is x.struct_info and func.ret_ty is func.ret_struct_info
    assert call.ty_args is call.sinfo_args
    assert TensorStructInfo(dtype="float32").is_base_of(x.ty)
    assert not x.ty.is_base_of(TensorStructInfo(dtype="float32"))


def test_a_result_is_as_known_as_the_body() -> None:
    @R.function
    def func(x: R.Tensor((2, 3), "float32")) -> R.Tensor:
        return R.exp(x)

    assert_structural_equal(func.ret_struct_info, func.params[0].struct_info)

    @R.function
    def wider(x: R.Tensor("float32", ndim=2)) -> R.Tensor((2, 3), "float32"):
        return R.exp(x)

    assert str(wider.ret_struct_info) == 'R.Tensor((2, 3), dtype="float32")'


def test_a_local_function_is_an_output_of_its_block() -> None:
    @R.function
    def func(x: R.Tensor((2,), "float32")):
        with R.dataflow():

            @R.function
            def inner(y: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
                return R.exp(y)

            R.output(inner)
        return inner(x)

    assert type(func.body.bindings[0].var) is relax.Var
    assert_structural_equal(func, from_source(func.script()))


def test_a_part_of_a_graph_says_what_its_variables_are() -> None:
    x = tir.Var("x", "int64")
    info = relax.TensorStructInfo((1, x, 3), "float32")
    a, b = relax.Var("a", info), relax.Var("b", info)
    told = 'x = T.int64()\na: R.Tensor((1, x, 3), dtype="float32")\n'
    binding = relax.VarBinding(b, relax.op.sin(a))
    line = 'b: R.Tensor((1, x, 3), dtype="float32") = R.sin(a)'
    assert binding.script(verbose_expr=True) == told + line
    block = relax.BindingBlock((binding,))
    assert block.script(verbose_expr=True) == told + line
    call = relax.call_tir(relax.GlobalVar("f"), (a,), info, [x])
    out = 'out_sinfo=R.Tensor((1, x, 3), dtype="float32"), tir_vars=R.shape([x])'
    assert call.script(verbose_expr=True) == told + f"R.call_tir(f, (a,), {out})"


def test_modules_in_the_words_of_0_27() -> None:
    @I.ir_module(s_tir=True)
    class Mod:
        @R.function
        def main(x: R.Tensor((2,), "float32")):
            return R.exp(x)

    assert_structural_equal(Mod, from_source(Mod.script()))


def test_what_a_run_tells_of_a_tensor() -> None:
    @R.function(private=True)
    def main(x: R.Tensor, k: R.Prim("int64"), y: R.Tensor(("n", 4), "float32")):
        kind = (x.dtype.type_code, x.dtype.bits, x.dtype.lanes)
        place = (x.ndim, x.shape[k], x.shape[1], x.strides[k], x.byte_offset, x.elem_offset)
        known = R.expand_dims(y, y.ndim)
        return (kind, place, known)

    @R.function(private=True)
    def written(x: R.Tensor, k: R.Prim("int64"), y: R.Tensor(("n", 4), "float32")):
        kind = (
            R.inspect.tensor_dtype_code(x), R.inspect.tensor_dtype_bits(x),
            R.inspect.tensor_dtype_lanes(x),
        )  # fmt: skip
        place = (
            R.inspect.tensor_ndim(x), R.inspect.tensor_shape_i(x, k),
            R.inspect.tensor_shape_i(x, R.prim_value(1)), R.inspect.tensor_stride_i(x, k),
            R.inspect.tensor_byte_offset(x), R.inspect.tensor_elem_offset(x),
        )  # fmt: skip
        known = R.expand_dims(y, 2)
        return (kind, place, known)

    as_read, as_written = (CanonicalizeBindings()(IRModule({"main": f})) for f in (main, written))
    assert_structural_equal(as_read, as_written)
    assert_structural_equal(parse(main.script()), main)
    x, y = np.zeros((2, 3), "int16"), np.ones((5, 4), "float32")
    module = IRModule({"main": main.with_attr("global_symbol", "main")})
    for target in ("llvm", "interp"):
        kind, place, known = mlcnb.compile(module, target=target)(x, 0, y)
        assert [int(v) for v in (*kind, *place)] == [0, 16, 1, 2, 2, 3, 3, 0, 0]
        np.testing.assert_array_equal(known, y[..., None])


def test_a_part_of_a_tensor_is_no_item() -> None:
    with pytest.raises(MLCError, match="only a tuple can be indexed, by a constant"):

        @R.function
        def main(x: R.Tensor((2,), "float32"), k: R.Prim("int64")):
            return x[k]
