"""Visitors and mutators that a person writes."""

from __future__ import annotations

import numpy as np
import pytest

import mlcnb as tvm
from mlcnb import relax, topi
from mlcnb.relax.expr_functor import PyExprMutator, PyExprVisitor, mutator, visitor
from mlcnb.script import ir as I
from mlcnb.script import relax as R


@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((3, 4), "float32"), c: R.Tensor((), "bool")):
        with R.dataflow():
            lv = R.multiply(x, x)
            gv = R.nn.relu(lv)
            R.output(gv)
        if c:
            y = R.nn.relu(gv)
        else:
            t = (gv, x)
            u = t[0]
            y = R.exp(u)
        z = R.match_cast(y, R.Tensor((3, 4), "float32"))
        return (z, R.shape([3]))


def test_a_mutator_that_does_nothing_gives_the_very_function():
    main = Module["main"]
    assert PyExprMutator(Module).visit_expr(main) is main
    assert PyExprMutator().visit_expr(main) is main


@mutator
class ReluToGelu(PyExprMutator):
    def visit_call_(self, call):
        call = self.visit_expr_post_order(call)
        if call.op == tvm.ir.Op.get("relax.nn.relu"):
            return relax.op.nn.gelu(relax.op.negative(call.args[0]))
        return call


@mutator
class Doubled(PyExprMutator):
    """Each `relu` is doubled, by bindings of one's own; what reads it reads the new variable."""

    def visit_var_binding_(self, binding):
        value = self.visit_expr(binding.value)
        new = self.visit_var_def(binding.var)
        if isinstance(value, relax.Call) and value.op == tvm.ir.Op.get("relax.nn.relu"):
            once = self.builder_.emit(value)
            value = relax.op.add(once, once)
            new = relax.DataflowVar("twice", binding.var.struct_info)
        value = self.builder_.normalize(value)
        new = self.with_struct_info(new, value.struct_info)
        self.set_var_remap(binding.var.vid, new)
        assert self.get_var_remap(binding.var.vid) is new
        self.builder_.emit_normalized(relax.VarBinding(new, value))


def test_bindings_made_by_hand():
    @R.function
    def main(x: R.Tensor((3, 4), "float32")):
        with R.dataflow():
            a = R.nn.relu(x)
            gv = R.negative(a)
            R.output(gv)
        return gv

    func = Doubled().visit_expr(main)
    assert relax.analysis.well_formed(func)
    assert (
        func.script(header=False)
        == """\
@R.function
def main(x: R.Tensor((3, 4), dtype="float32")) -> R.Tensor((3, 4), dtype="float32"):
    with R.dataflow():
        lv: R.Tensor((3, 4), dtype="float32") = R.nn.relu(x)
        twice: R.Tensor((3, 4), dtype="float32") = R.add(lv, lv)
        gv: R.Tensor((3, 4), dtype="float32") = R.negative(twice)
        R.output(gv)
    return gv"""
    )


def test_calls_are_rewritten_in_blocks_and_branches():
    func = ReluToGelu(Module).visit_expr(Module["main"])
    assert relax.analysis.well_formed(func)
    assert (
        func.script(header=False)
        == """\
@R.function
def main(x: R.Tensor((3, 4), dtype="float32"), c: R.Tensor((), dtype="bool")) -> R.Tuple(R.Tensor((3, 4), dtype="float32"), R.Shape([3])):
    with R.dataflow():
        lv: R.Tensor((3, 4), dtype="float32") = R.multiply(x, x)
        lv1: R.Tensor((3, 4), dtype="float32") = R.negative(lv)
        gv: R.Tensor((3, 4), dtype="float32") = R.nn.gelu(lv1)
        R.output(gv)
    if c:
        gv1: R.Tensor((3, 4), dtype="float32") = R.negative(gv)
        y_then: R.Tensor((3, 4), dtype="float32") = R.nn.gelu(gv1)
        y: R.Tensor((3, 4), dtype="float32") = y_then
    else:
        t: R.Tuple(R.Tensor((3, 4), dtype="float32"), R.Tensor((3, 4), dtype="float32")) = (gv, x)
        u: R.Tensor((3, 4), dtype="float32") = t[0]
        y_else: R.Tensor((3, 4), dtype="float32") = R.exp(u)
        y: R.Tensor((3, 4), dtype="float32") = y_else
    z: R.Tensor((3, 4), dtype="float32") = R.match_cast(y, R.Tensor((3, 4), dtype="float32"))
    return (z, R.shape([3]))"""  # noqa: E501
    )


def test_a_call_of_another_struct_info_changes_those_after():
    class Wider(PyExprMutator):
        def visit_call_(self, call):
            call = self.visit_expr_post_order(call)
            return relax.op.astype(call, "float64") if call.op.name == "relax.multiply" else call

    @R.function
    def main(x: R.Tensor((4,), "float32")):
        y = R.multiply(x, x)
        z = R.exp(y)
        return z

    func = Wider().visit_expr(main)
    assert str(func.ret_struct_info.dtype) == "float64" and relax.analysis.well_formed(func)


def test_a_visitor_sees_every_part():
    @visitor
    class Seen(PyExprVisitor):
        def __init__(self):
            super().__init__()
            self.names, self.calls, self.dims = [], [], []

        def visit_var_def_(self, var):
            self.names.append(var.name_hint)

        def visit_call_(self, call):
            self.calls.append(call.op.name)
            super().visit_call_(call)

        def visit_prim_expr(self, expr):
            self.dims.append(int(expr))

    seen = Seen()
    seen.visit_expr(Module["main"])
    assert seen.names == ["x", "c", "lv", "gv", "y_then", "t", "u", "y_else", "y", "z"]
    assert seen.calls == ["relax.multiply", "relax.nn.relu", "relax.nn.relu", "relax.exp"]
    assert seen.dims == [3]


def test_a_mutator_whose_init_calls_no_other_and_a_lookup():
    class Fma(relax.PyExprMutator):
        def __init__(self, add):
            self.add = add

        def visit_call_(self, call):
            call = self.visit_expr_post_order(call)
            value = self.lookup_binding(call.args[0]) if call.op == self.add else None
            if not isinstance(value, relax.Call) or value.op.name != "relax.multiply":
                return call
            return relax.Call(tvm.ir.Op.get("relax.ewise_fma"), [*value.args, call.args[1]])

    @R.function
    def main(x: R.Tensor((4,), "float32")):
        with R.dataflow():
            y = R.multiply(x, x)
            z = R.add(y, x)
            R.output(z)
        return z

    func = Fma(tvm.ir.Op.get("relax.add")).visit_expr(main)
    func = relax.analysis.remove_all_unused(func)
    assert [b.value.op.name for b in func.body.blocks[0].bindings] == ["relax.ewise_fma"]
    x = np.arange(4, dtype="float32")
    np.testing.assert_array_equal(tvm.compile(func)(x), x * x + x)


def test_te_functions_go_into_the_builder():
    class Lower(PyExprMutator):
        def visit_call_(self, call):
            call = self.visit_expr_post_order(call)
            if call.op == tvm.ir.Op.get("relax.nn.relu"):
                return self.builder_.call_te(topi.nn.relu, call.args[0])
            return call

        def transform(self, mod):
            for gv, func in mod.functions.items():
                self.builder_.update_func(gv, self.visit_expr(func))
            return self.builder_.get()

    mod = Lower().transform(Module)
    assert [v.name_hint for v in mod] == ["relu", "main"]
    assert relax.analysis.well_formed(mod)


def test_operators_by_name():
    add = tvm.ir.Op.get("relax.add")
    assert add == relax.Op("relax.add") and add in {relax.Op("relax.add"): 1}
    assert add.same_as(relax.Op("relax.add")) and add != relax.Op("relax.exp")
    assert tvm.ir.Op.get("relax.call_tir").name == "relax.call_tir"
    with pytest.raises(tvm.MLCError, match="no operator 'relax.ad' is declared"):
        tvm.ir.Op.get("relax.ad")


def test_nodes_take_lists_and_shapes_are_sequences():
    x = relax.Var("x", R.Tensor((4,), "float32"))
    call = relax.Call(relax.Op("relax.exp"), [x], None, None)
    assert call.args == (x,) and call.sinfo_args == () and relax.Tuple([x, x]).fields == (x, x)
    shape = relax.ShapeExpr([2, 3])
    assert [int(d) for d in shape] == [2, 3] and len(shape) == 2 and int(shape[1]) == 3


def test_parameters_and_sizes_bound_on_a_function():
    @R.function
    def main(x: R.Tensor(("n", 4), "float32"), y: R.Tensor((4,), "float32")):
        z = R.add(x, y)
        return z

    ones = np.ones(4, "float32")
    for key in ("y", main.params[1]):
        bound = main.bind_params({key: tvm.nd.array(ones)})
        assert [p.name_hint for p in bound.params] == ["x"]
    fixed = main.bind_symbolic_vars({"n": 2})
    assert [int(d) for d in fixed.ret_struct_info.shape] == [2, 4]
    with pytest.raises(tvm.MLCError, match="bind_symbolic_vars: no symbolic variable m"):
        main.bind_symbolic_vars({"m": 2})
