"""BlockBuilder: what it writes, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest

from mlcnb import relax, te, tir
from mlcnb.core.errors import CodegenError, MLCError, TypeInferError, WellFormedError
from mlcnb.ir import assert_structural_equal
from mlcnb.ir.expr import SizeVar
from mlcnb.ir.span import Span
from mlcnb.relax import op
from mlcnb.relax.analysis import assert_well_formed
from mlcnb.relax.expr import DataflowVar, If, SeqExpr, Tuple, TupleGetItem, Var, tensor_info
from mlcnb.relax.struct_info import FuncStructInfo, TupleStructInfo
from mlcnb.script import ir as I
from mlcnb.script import relax as R
from mlcnb.script import tir as T
from mlcnb.testing import evaluate


def tensor(name: str, *shape: object, dtype: str = "float32") -> Var:
    return Var(name, tensor_info(shape, dtype))


def test_a_function_binding_by_binding() -> None:
    bb = relax.BlockBuilder()
    x = tensor("x", 2, 4)
    with bb.function("main", [x], attrs={"num_input": 1}):
        with bb.dataflow():
            lv = bb.emit(op.nn.relu(x))
            gv = bb.emit_output(op.add(lv, x))
        bb.emit_func_output(gv)

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((2, 4), "float32")) -> R.Tensor((2, 4), "float32"):
            R.func_attr({"global_symbol": "main", "num_input": 1})
            with R.dataflow():
                lv = R.nn.relu(x)
                gv = R.add(lv, x)
                R.output(gv)
            return gv

    assert_structural_equal(bb.get(), Expected)
    assert (lv.name_hint, gv.name_hint) == ("lv", "gv")
    assert isinstance(lv, DataflowVar) and not isinstance(gv, DataflowVar)
    assert_well_formed(bb.get())


def test_nested_calls_become_bindings_with_struct_info() -> None:
    bb = relax.BlockBuilder()
    x = tensor("x", 2, 3)
    with bb.function("main", x):
        y = bb.emit(op.nn.relu(op.permute_dims(op.exp(x))))
        bb.emit_func_output(y)
    names = [b.var.name_hint for b in bb.get()["main"].body.bindings]
    assert names == ["gv", "gv1", "gv2"]
    assert [int(d) for d in y.struct_info.dims] == [3, 2]


def test_names_are_unique_and_hints_are_kept() -> None:
    bb = relax.BlockBuilder()
    x = tensor("lv", 2)
    with bb.function("main", [x]), bb.dataflow():
        a, b, c = bb.emit(op.exp(x)), bb.emit(op.exp(x), "conv"), bb.emit(op.exp(x), "conv")
        gv = bb.emit_output(Tuple((a, b, c)))
        assert [v.name_hint for v in (a, b, c, gv)] == ["lv1", "conv", "conv1", "gv"]
        with pytest.raises(MLCError, match="the dataflow block is still open"):
            bb.emit_func_output(gv)
        bb._close_block()
        bb._emitter("test").dataflow = False
        bb.emit_func_output(gv)


def test_symbolic_shapes_are_inferred_and_what_callers_cannot_know_is_erased() -> None:
    n, m = SizeVar("n", "int64"), SizeVar("m", "int64")
    bb = relax.BlockBuilder()
    x, y = tensor("x", n, 4), Var("y", tensor_info(None, "float32", 2))
    with bb.function("main", [x, y]):
        a = bb.emit(op.concat((x, x), axis=0))
        b = bb.match_cast(y, tensor_info((m, 4), "float32"))
        c = bb.emit(op.nn.relu(b))
        bb.emit_func_output((a, c))
    func = bb.get()["main"]
    assert_well_formed(bb.get())
    one, two = func.ret_struct_info.fields
    assert one.dims is not None and (two.dims, two.ndim, two.dtype) == (None, 2, "float32")
    ones = [np.ones((3, 4), np.float32), np.ones((5, 4), np.float32)]
    first, second = evaluate(bb.get(), *ones)
    assert first.shape == (6, 4) and second.shape == (5, 4)


def test_emit_te_adds_a_shared_loop_function() -> None:
    def double(a: te.Tensor, factor: float) -> te.Tensor:
        return te.compute(a.shape, lambda *i: a[i] * factor, name="double")

    bb = relax.BlockBuilder()
    x = tensor("x", 2, 4)
    with bb.function("main", [x]):
        with bb.dataflow():
            a = bb.emit_te(double, x, 2.0)
            b = bb.emit_te(double, a, 2.0)
            c = bb.emit_te(double, b, 3.0, primfunc_name_hint="triple")
            gv = bb.emit_output(c)
        bb.emit_func_output(gv)
    mod = bb.get()

    @I.ir_module
    class Expected:
        @T.prim_func(private=True)
        def double(
            A: T.Buffer((T.int64(2), T.int64(4)), "float32"),
            double: T.Buffer((T.int64(2), T.int64(4)), "float32"),
        ):
            T.func_attr({"tir.noalias": True})
            for i0, i1 in T.grid(T.int64(2), T.int64(4)):
                with T.block("double"):
                    v_i0, v_i1 = T.axis.remap("SS", [i0, i1])
                    T.reads(A[v_i0, v_i1])
                    T.writes(double[v_i0, v_i1])
                    double[v_i0, v_i1] = A[v_i0, v_i1] * T.float32(2.0)

        @T.prim_func(private=True)
        def triple(
            A: T.Buffer((T.int64(2), T.int64(4)), "float32"),
            double: T.Buffer((T.int64(2), T.int64(4)), "float32"),
        ):
            T.func_attr({"tir.noalias": True})
            for i0, i1 in T.grid(T.int64(2), T.int64(4)):
                with T.block("double"):
                    v_i0, v_i1 = T.axis.remap("SS", [i0, i1])
                    T.reads(A[v_i0, v_i1])
                    T.writes(double[v_i0, v_i1])
                    double[v_i0, v_i1] = A[v_i0, v_i1] * T.float32(3.0)

        @R.function
        def main(x: R.Tensor((2, 4), "float32")) -> R.Tensor((2, 4), "float32"):
            R.func_attr({"global_symbol": "main"})
            cls = Expected
            with R.dataflow():
                a = R.call_tir(cls.double, (x,), out_sinfo=R.Tensor((2, 4), "float32"))
                b = R.call_tir(cls.double, (a,), out_sinfo=R.Tensor((2, 4), "float32"))
                c = R.call_tir(cls.triple, (b,), out_sinfo=R.Tensor((2, 4), "float32"))
                gv = c
                R.output(gv)
            return gv

    assert_structural_equal(mod, Expected)
    value = np.arange(8, dtype=np.float32).reshape(2, 4)
    np.testing.assert_allclose(evaluate(mod, value), value * 12)


def test_emit_te_over_symbolic_shapes_hands_over_what_no_shape_defines() -> None:
    n = SizeVar("n", "int64")

    def halves(a: te.Tensor) -> te.Tensor:
        size = a.shape[0] // 2
        return te.compute((size,), lambda i: a[i] + a[i + size], name="halves")

    bb = relax.BlockBuilder()
    x = tensor("x", n * 2)
    with bb.function("main", [x, tensor("y", n)]):
        bb.emit_func_output(bb.emit_te(halves, x))
    mod = bb.get()
    assert_well_formed(mod)
    call = mod["main"].body.bindings[0].value
    assert call.args[2].values == (n,) or call.args[2].values[0] is n
    assert len(mod["halves"].params) == 3
    values = np.arange(6, dtype=np.float32)
    np.testing.assert_array_equal(evaluate(mod, values, np.zeros(3, np.float32)), [3, 5, 7])


def test_emit_te_with_several_results_and_lists_of_tensors() -> None:
    def both(parts: list[te.Tensor], name: str) -> tuple[te.Tensor, ...]:
        a, b = parts
        total = te.compute(a.shape, lambda i: a[i] + b[i], name=name)
        return total, a

    bb = relax.BlockBuilder()
    x, y = tensor("x", 3), tensor("y", 3)
    with bb.function("main", [x, y]):
        bb.emit_func_output(bb.emit_te(both, [x, y], name="total"))
    mod = bb.get()
    assert isinstance(mod["main"].ret_struct_info, TupleStructInfo)
    values = np.arange(3, dtype=np.float32)
    total, same = evaluate(mod, values, values + 1)
    np.testing.assert_array_equal(total, 2 * values + 1)
    np.testing.assert_array_equal(same, values)


def test_a_tensor_expression_needs_known_shapes() -> None:
    bb = relax.BlockBuilder()
    x = Var("x", tensor_info(None, "float32", 2))
    with pytest.raises(CodegenError) as caught, bb.function("main", [x]):
        bb.emit_te(lambda a: a, x)
    assert str(caught.value).splitlines()[0] == (
        "a tensor expression needs tensors of known shape and dtype"
    )
    assert "R.match_cast" in caught.value.hint


def test_functions_call_each_other_with_symbols_put_in() -> None:
    n = SizeVar("n", "int64")
    bb = relax.BlockBuilder()
    x = tensor("x", n, 2)
    with bb.function("twice", [x], private=True):
        bb.emit_func_output(bb.emit(op.concat((x, x), axis=0)))
    twice = bb.get().get_global_var("twice")
    y = tensor("y", 3, 2)
    with bb.function("main", [y]):
        result = bb.emit(relax.Call(twice, (y,)))
        bb.emit_func_output(result)
    assert [int(d) for d in result.struct_info.dims] == [6, 2]
    assert "global_symbol" not in bb.get()["twice"].attrs
    with pytest.raises(TypeInferError) as caught, bb.function("bad", [tensor("z", 3)]) as b:
        b.emit(relax.Call(twice, (b._frames[-1].params[0],)))
    assert caught.value.message == (
        "twice: argument 0 is Tensor((3,), float32), it takes Tensor((n, 2), float32)"
    )


def test_recursion_needs_a_declaration() -> None:
    bb = relax.BlockBuilder()
    info = tensor_info((), "int32")
    c, x = Var("c", tensor_info((), "bool")), Var("x", info)
    loop = bb.declare("loop", FuncStructInfo((c.struct_info, info), info))
    with bb.function("loop", [c, x]):
        again = relax.Call(loop, (relax.const(False), op.add(x, relax.const(1))))
        bb.emit_func_output(bb.emit(If(c, again, x)))
    mod = bb.get()
    assert_well_formed(mod)
    assert evaluate(mod, np.bool_(True), np.int32(4), name="loop") == 5


def test_branches_are_made_sequences_and_inferred() -> None:
    bb = relax.BlockBuilder()
    c, x = Var("c", tensor_info((), "bool")), tensor("x", 2)
    with bb.function("main", [c, x]):
        y = bb.emit(If(c, op.nn.relu(op.exp(x)), x))
        bb.emit_func_output(y)
        with pytest.raises(MLCError, match="an If stands in a dataflow block"), bb.dataflow():
            bb.emit(If(c, x, x))
        bb._emitter("test").dataflow = False
    value = bb.get()["main"].body.bindings[0].value
    assert isinstance(value.true_branch, SeqExpr) and len(value.true_branch.bindings) == 2
    assert_well_formed(bb.get())


def test_spans_of_the_origin_reach_calls_and_variables() -> None:
    bb = relax.BlockBuilder()
    x = tensor("x", 2)
    with bb.function("main", [x]):
        with bb.origin(Span("onnx", "node 7")):
            y = bb.emit(op.nn.relu(op.exp(x)))
        z = bb.emit(op.exp(y))
        bb.emit_func_output(z)
    first, second, third = (b.value.span for b in bb.get()["main"].body.bindings)
    assert (first.name, second.name, third) == ("node 7", "node 7", None)
    assert y.span.name == "node 7"


def test_tuples_are_taken_apart_where_they_are_known() -> None:
    bb = relax.BlockBuilder()
    x = tensor("x", 2)
    with bb.function("main", [x]):
        pair = Tuple((op.exp(x), x))
        y = bb.emit(TupleGetItem(pair, 1))
        bb.emit_func_output(y)
        assert bb.lookup_binding(y) is x


def test_normalize_outside_of_a_function() -> None:
    bb = relax.BlockBuilder()
    x = tensor("x", 2)
    with bb.testing_scope():
        call = bb.normalize(op.exp(x))
        assert [int(d) for d in call.struct_info.dims] == [2]
        assert bb.emit(call).name_hint == "gv"


@pytest.mark.parametrize(
    ("use", "error", "message"),
    [
        (
            lambda bb, x: relax.BlockBuilder().emit(x),
            MLCError,
            "BlockBuilder.emit: no function is being built\n"
            'hint: call it inside `with bb.function("main", params):`',
        ),
        (
            lambda bb, x: bb.emit(3),
            WellFormedError,
            "int is no graph expression: 3\n"
            "hint: numbers and arrays become expressions with relax.const(value)",
        ),
        (
            lambda bb, x: bb.emit_output(x),
            MLCError,
            "emit_output: no dataflow block is open\n"
            "hint: call it inside `with bb.dataflow():`, or use emit",
        ),
        (
            lambda bb, x: bb.emit_func_output(x, [x]),
            MLCError,
            "function 'main': parameters are given twice",
        ),
        (lambda bb, x: None, MLCError, "function 'main' has no result\n"
         "hint: end the `with bb.function` block with bb.emit_func_output(value)"),
        (
            lambda bb, x: bb.emit(TupleGetItem(x, 0)),
            TypeInferError,
            "[0] of what is no tuple: TensorStructInfo\n"
            "hint: only tuples have fields; a row of a tensor is R.take or R.strided_slice",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_built(use, error, message: str) -> None:
    bb = relax.BlockBuilder()
    x = tensor("x", 2)
    with pytest.raises(error) as caught, bb.function("main", [x]):
        use(bb, x)
    text = str(caught.value)
    assert text.startswith(message.split("\n")[0])
    assert text.endswith(message.split("\n")[-1])


def test_parameters_are_vars_and_names_are_free() -> None:
    bb = relax.BlockBuilder()
    x = tensor("x", 2)
    with pytest.raises(MLCError, match="a parameter has to be a relax.Var, got DataflowVar"):
        with bb.function("main", [DataflowVar("x")]):
            pass
    with bb.function("main", [x]):
        bb.emit_func_output(x)
    with pytest.raises(MLCError, match="the module has a function 'main' already"):
        with bb.function("main", [x]):
            bb.emit_func_output(x)


def test_a_local_value_cannot_be_returned() -> None:
    bb = relax.BlockBuilder()
    x = tensor("x", 2)
    with pytest.raises(MLCError) as caught, bb.function("main", [x]):
        with bb.dataflow():
            lv = bb.emit(op.exp(x))
        bb.emit_func_output(lv)
    assert caught.value.message == (
        "function 'main' returns lv, which lives only in its dataflow block"
    )


def test_adding_and_replacing_functions() -> None:
    bb = relax.BlockBuilder()
    x = tensor("x", 2)
    with bb.function("main", [x]):
        bb.emit_func_output(x)
    main = bb.get()["main"]
    again = bb.add_func(main, "main")
    assert again.name_hint == "main1"
    bb.update_func(again, main.with_attr("k", 1))
    assert bb.finalize()["main1"].attrs["k"] == 1
    assert relax.BlockBuilder(bb.get()).get() is not None


def test_numbers_are_taken_as_tvm_gives_them() -> None:
    x = Var("x", tensor_info((4,), "float32"))
    bb = relax.BlockBuilder()
    with bb.function("main", [x], attrs={"Primitive": 1}):
        y = bb.emit(relax.op.reshape(x, relax.ShapeExpr((2, 2))))
        bb.emit_func_output(y)

    @R.function
    def main(x: R.Tensor((4,), "float32")):
        R.func_attr({"Primitive": 1})
        y = R.reshape(x, R.shape([2, 2]))
        return y

    assert_structural_equal(bb.get()["main"], main)
    assert main.attrs["Primitive"] is True
    assert_structural_equal(relax.PrimValue(3).value, tir.IntImm("int64", 3))
    assert x.name == x.name_hint


def test_a_function_has_one_result() -> None:
    bb = relax.BlockBuilder()
    x = tensor("x", 2)
    with bb.function("main", [x]):
        bb.emit_func_output(x)
        with pytest.raises(MLCError, match="function 'main' has its result already"):
            bb.emit_func_output(x)


def test_sizes_of_a_call_may_be_a_list_and_places_out_of_range_say_so() -> None:
    x, size = tensor("x", 2), SizeVar("n", "int64")
    call = relax.call_tir(relax.GlobalVar("f"), (x,), x.struct_info, [size])
    assert call.args[2][0] is size
    with pytest.raises(IndexError, match="ShapeExpr index out of range: 1 of 1"):
        call.args[2][1]
    with pytest.raises(IndexError, match="Tuple index out of range: -3 of 2"):
        Tuple((x, x))[-3]
