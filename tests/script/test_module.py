"""Modules: header, order of functions, attributes, calls between functions, constants."""

from __future__ import annotations

import numpy as np

from mlcnb.ir import assert_structural_equal
from mlcnb.ir.expr import GlobalVar
from mlcnb.ir.module import IRModule
from mlcnb.relax import expr as rx
from mlcnb.script import document, from_source, parse, script
from mlcnb.script import relax as R
from mlcnb.tir.function import PrimFunc
from tests.script.roundtrip import assert_round_trip, assert_text

MODULE = """\
@I.ir_module
class Module:
    I.module_attrs({"author": "x", "version": 3})
    @T.prim_func(private=True)
    def add_one(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
        # with T.block("root"):
        for i in range(16):
            with T.block("B"):
                vi = T.axis.spatial(16, i)
                T.reads(A[vi])
                T.writes(B[vi])
                B[vi] = A[vi] + T.float32(1.0)

    @T.prim_func
    def zero(A: T.Buffer((16,), "float32")):
        A[0] = T.float32(0.0)

    external = R.ExternFunc("my_external")

    @R.function(private=True)
    def helper(x: R.Tensor((16,), dtype="float32")) -> R.Tensor((16,), dtype="float32"):
        cls = Module
        y = R.call_tir(cls.add_one, (x,), out_sinfo=R.Tensor((16,), dtype="float32"))
        return y

    @R.function
    def main(x: R.Tensor((16,), dtype="float32")) -> R.Tensor((16,), dtype="float32"):
        R.func_attr({"num_input": 1})
        cls = Module
        with R.dataflow():
            lv: R.Tensor((16,), dtype="float32") = cls.helper(x)
            gv = R.call_dps_packed(cls.external, (lv,), out_sinfo=R.Tensor((16,), dtype="float32"))
            R.output(gv)
        return gv"""

# `s = sum(relu(matmul(x, w)))` through Relax' pipeline "zero", as TVM 0.27 prints it
GOLDEN_0_27 = """\
# from tvm.script import ir as I
# from tvm.script import tirx as T
# from tvm.tirx.layout import Axis
# from tvm.script import relax as R

@I.ir_module
class Module:
    @T.prim_func(private=True, s_tir=True)
    def fused_matmul_relu(x: T.Buffer((T.int64(2), T.int64(3)), "float32"), w: T.Buffer((T.int64(3), T.int64(4)), "float32"), compute_intermediate: T.Buffer((T.int64(2), T.int64(4)), "float32")):
        T.func_attr({"tirx.noalias": True})
        # with T.sblock("root"):
        matmul_intermediate = T.sblock_alloc_buffer((T.int64(2), T.int64(4)))
        for i0, i1, k in T.grid(T.int64(2), T.int64(4), T.int64(3)):
            with T.sblock("matmul"):
                v_i0, v_i1, v_k = T.axis.remap("SSR", [i0, i1, k])
                T.reads(x[v_i0, v_k], w[v_k, v_i1])
                T.writes(matmul_intermediate[v_i0, v_i1])
                with T.init():
                    matmul_intermediate[v_i0, v_i1] = T.float32(0.0)
                matmul_intermediate[v_i0, v_i1] = matmul_intermediate[v_i0, v_i1] + x[v_i0, v_k] * w[v_k, v_i1]
        for i0, i1 in T.grid(T.int64(2), T.int64(4)):
            with T.sblock("compute"):
                v_i0, v_i1 = T.axis.remap("SS", [i0, i1])
                T.reads(matmul_intermediate[v_i0, v_i1])
                T.writes(compute_intermediate[v_i0, v_i1])
                compute_intermediate[v_i0, v_i1] = T.max(matmul_intermediate[v_i0, v_i1], T.float32(0.0))

    @R.function
    def main(x: R.Tensor((2, 3), dtype="float32"), w: R.Tensor((3, 4), dtype="float32")) -> R.Tensor((2, 4), dtype="float32"):
        cls = Module
        with R.dataflow():
            lv = R.call_tir(cls.fused_matmul_relu, (x, w), out_ty=R.Tensor((2, 4), dtype="float32"))
            R.output(lv)
        return lv"""  # noqa: E501


def test_a_module() -> None:
    mod = assert_text(MODULE)
    assert mod.attrs == {"author": "x", "version": 3}
    assert isinstance(mod["add_one"], PrimFunc)
    assert "global_symbol" not in mod["add_one"].attrs
    assert mod["zero"].attrs["global_symbol"] == "zero"


def test_the_header_names_the_namespaces_that_are_used() -> None:
    mod = parse(MODULE)
    assert script(mod).split("\n")[:5] == [
        "# from tvm.script import ir as I",
        "# from tvm.script import tir as T",
        "# from tvm.script import relax as R",
        "",
        "@I.ir_module",
    ]
    assert script(mod["helper"]).split("\n")[0] == "# from tvm.script import relax as R"
    assert script(mod["zero"]).split("\n")[:2] == ["# from tvm.script import tir as T", ""]
    assert script(IRModule()) == (
        "# from tvm.script import ir as I\n\n@I.ir_module\nclass Module:\n    pass"
    )


def test_the_0_27_text_is_what_tvm_prints() -> None:
    mod = from_source(GOLDEN_0_27)
    assert script(mod, dialect="0.27") == GOLDEN_0_27
    old = script(mod)
    assert 'T.func_attr({"tir.noalias": True})' in old
    assert "matmul_intermediate = T.alloc_buffer((T.int64(2), T.int64(4)))" in old
    assert 'out_sinfo=R.Tensor((2, 4), dtype="float32"))' in old
    assert_structural_equal(parse(old), mod)


def test_the_order_of_functions_does_not_depend_on_the_module() -> None:
    mod = parse(MODULE)
    items = dict(reversed(list(mod.functions.items())))
    assert script(IRModule.make(items, **mod.attrs)) == script(mod)


def test_another_name_and_no_alias() -> None:
    text = script(parse(MODULE), header=False, name="Net", module_alias="")
    assert text.split("\n")[1] == "class Net:"
    assert "cls" not in text
    assert "R.call_tir(Net.add_one, (x,)" in text
    assert_structural_equal(parse(text), parse(MODULE))


def test_indentation_can_be_chosen() -> None:
    text = script(parse(MODULE), header=False, indent_spaces=2)
    assert text.split("\n")[2] == '  I.module_attrs({"author": "x", "version": 3})'
    assert_structural_equal(parse(text), parse(MODULE))


def test_unknown_options_are_refused() -> None:
    import pytest

    from mlcnb.core.errors import MLCError

    with pytest.raises(MLCError, match="no option 'dialekt'") as caught:
        script(parse(MODULE), dialekt="0.27")
    assert caught.value.hint.startswith("there are dialect, name, show_meta")
    with pytest.raises(MLCError, match="no TVMScript dialect '0.3'"):
        script(parse(MODULE), dialect="0.3")


def test_functions_call_each_other_whatever_their_order() -> None:
    mod = parse("""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor(("n", 4), dtype="float32")):
        y = Module.second(x)
        return y
    @R.function(private=True)
    def second(x: R.Tensor(("m", 4), dtype="float32")) -> R.Tensor(("m", 2, 2), dtype="float32"):
        m = T.int64()
        y = R.reshape(x, R.shape([m, 2, 2]))
        return y
""")
    shown = script(mod["main"], header=False)
    assert '    y: R.Tensor((n, 2, 2), dtype="float32") = cls.second(x)' in shown


def test_prim_funcs_call_each_other() -> None:
    assert_text("""
        @I.ir_module
        class Module:
            @T.prim_func
            def first(n: T.int32) -> T.int32:
                return n + 1

            @T.prim_func
            def second(A: T.Buffer((4,), "int32"), n: T.int32):
                cls = Module
                cls.third(n, 4)
                A[0] = T.Call("int32", cls.first, [n])

            @T.prim_func(private=True)
            def third(n: T.int32, m: T.int32):
                T.evaluate(n)
    """)


def test_constants_of_all_functions_are_counted_together() -> None:
    a, b = R.const(np.zeros(2, "float32")), R.const(np.ones(2, "float32"))

    def returning(*values: rx.Expr) -> rx.Function:
        body = rx.Tuple(values)
        return rx.Function((), rx.SeqExpr((), body), body.struct_info)

    mod = IRModule.make({"f": returning(a, b), "g": returning(b)})
    text = script(mod)
    assert text.endswith(
        "\n\n# Metadata omitted. Use show_meta=True in script() method to show it."
    )
    assert 'return (metadata["relax.expr.Constant"][1],)' in text
    assert script(mod, show_meta=True).count('"data":') == 2
    assert_round_trip(mod)


def test_every_node_has_its_place() -> None:
    mod = parse(MODULE)
    page = document(mod)
    call = mod["main"].body.blocks[0].bindings[0].value
    (where,) = page.spans_of(call)
    line = page.text_lines[where.line - 1]
    assert line[where.column - 1 : where.end_column - 1] == "cls.helper(x)"
    assert page.node_at(where.line, where.column + 11) is mod["main"].params[0]
    loop = mod["add_one"].body.block.body
    (where,) = page.spans_of(loop)
    assert page.text_lines[where.line - 1].strip() == "for i in range(16):"
    assert page.text_lines[where.end_line - 1].strip() == "B[vi] = A[vi] + T.float32(1.0)"
    for gv in mod.functions:
        assert len(page.spans_of(mod[gv])) == 1


def test_the_same_module_is_the_same_text() -> None:
    assert script(parse(MODULE)) == script(parse(MODULE))


def test_a_module_made_by_hand_prints_what_it_has() -> None:
    mod = IRModule.make({GlobalVar("a b"): parse(MODULE)["zero"].without_attr("global_symbol")})
    assert "    def a_b(A: T.Buffer" in script(mod)
