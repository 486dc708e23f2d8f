"""The calls of the course's chapter on graphs: match, fuse and lower by mutators of one's own."""

from __future__ import annotations

import numpy as np

import mlcnb as tvm
from mlcnb import relax, topi
from mlcnb.ir.module import IRModule
from mlcnb.script import relax as R

rng = np.random.default_rng(0)
shapes = {"w0": (20, 12), "b0": (12,), "w1": (12, 5), "b1": (5,)}
mlp_params = {k: rng.standard_normal(s).astype("float32") for k, s in shapes.items()}
img = rng.standard_normal((1, 20)).astype("float32")


@tvm.script.ir_module
class MyModule:
    @R.function
    def main(x: R.Tensor((3, 4), "float32"), y: R.Tensor((3, 4), "float32")):
        with R.dataflow():
            lv0 = R.multiply(x, y)
            gv0 = R.add(lv0, y)
            R.output(gv0)
        return gv0


@relax.expr_functor.mutator
class EwiseFMARewriter(relax.PyExprMutator):
    def visit_call_(self, call):
        call = self.visit_expr_post_order(call)
        add_op = tvm.ir.Op.get("relax.add")
        multiply_op = tvm.ir.Op.get("relax.multiply")
        ewise_fma_op = tvm.ir.Op.get("relax.ewise_fma")
        if call.op != add_op:
            return call
        value = self.lookup_binding(call.args[0])
        if not isinstance(value, relax.Call) or value.op != multiply_op:
            return call
        args = [value.args[0], value.args[1], call.args[1]]
        return relax.Call(ewise_fma_op, args, None, None)


def test_two_calls_become_one(capsys):
    relax_func = MyModule["main"]
    assert type(relax_func) is relax.Function and len(relax_func.params) == 2
    assert type(relax_func.body) is relax.SeqExpr
    dataflow_block = relax_func.body.blocks[0]
    binding = dataflow_block.bindings[0]
    assert binding.var.name_hint == "lv0" and type(binding.value) is relax.Call
    updated_fn = EwiseFMARewriter().visit_expr(MyModule["main"])
    updated_fn.show()
    relax.analysis.remove_all_unused(updated_fn).show()
    before, after = capsys.readouterr().out.split("@R.function")[1:]
    assert "R.multiply" in before and "R.multiply" not in after
    assert "R.ewise_fma(x, y, y)" in before and "R.ewise_fma(x, y, y)" in after


def create_model():
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorStructInfo((1, 20), "float32"))
    w0 = relax.const(mlp_params["w0"], "float32")
    b0 = relax.const(mlp_params["b0"], "float32")
    w1 = relax.const(mlp_params["w1"], "float32")
    b1 = relax.const(mlp_params["b1"], "float32")
    with bb.function("main", [x]):
        with bb.dataflow():
            lv0 = bb.emit(relax.op.matmul(x, w0))
            lv1 = bb.emit(relax.op.add(lv0, b0))
            lv2 = bb.emit(relax.op.nn.relu(lv1))
            lv3 = bb.emit(relax.op.matmul(lv2, w1))
            lv4 = bb.emit(relax.op.add(lv3, b1))
            gv = bb.emit_output(lv4)
        bb.emit_func_output(gv)
    return bb.get()


@relax.expr_functor.mutator
class MatmulAddFusor(relax.PyExprMutator):
    def __init__(self, mod: IRModule) -> None:
        super().__init__()
        self.mod_ = mod
        self.add_op = tvm.ir.Op.get("relax.add")
        self.matmul_op = tvm.ir.Op.get("relax.matmul")
        self.counter = 0

    def transform(self) -> IRModule:
        for global_var, func in self.mod_.functions.items():
            if not isinstance(func, relax.Function):
                continue
            if "Primitive" in func.attrs.keys() and func.attrs["Primitive"] != 0:
                continue
            updated_func = self.visit_expr(func)
            updated_func = relax.analysis.remove_all_unused(updated_func)
            self.builder_.update_func(global_var, updated_func)
        return self.builder_.get()

    def visit_call_(self, call):
        call = self.visit_expr_post_order(call)

        def match_call(node, op):
            return isinstance(node, relax.Call) and node.op == op

        if not match_call(call, self.add_op):
            return call
        value = self.lookup_binding(call.args[0])
        if value is None or not match_call(value, self.matmul_op):
            return call
        x, w, b = value.args[0], value.args[1], call.args[1]
        param_x = relax.Var("x", relax.TensorStructInfo(x.struct_info.shape, "float32"))
        param_w = relax.Var("w", relax.TensorStructInfo(w.struct_info.shape, "float32"))
        param_b = relax.Var("b", relax.TensorStructInfo(b.struct_info.shape, "float32"))
        bb = relax.BlockBuilder()
        fn_name = f"fused_matmul_add{self.counter}"
        self.counter += 1
        with bb.function(fn_name, [param_x, param_w, param_b]):
            with bb.dataflow():
                lv0 = bb.emit(relax.op.matmul(param_x, param_w))
                gv = bb.emit_output(relax.op.add(lv0, param_b))
            bb.emit_func_output(gv)
        fused_fn = bb.get()[fn_name].with_attr("Primitive", 1)
        global_var = self.builder_.add_func(fused_fn, fn_name)
        return relax.Call(global_var, [x, w, b], None, None)


@tvm.ir.transform.module_pass(opt_level=2, name="MatmulAddFuse")
class FuseMatmulAddPass:
    def transform_module(self, mod, ctx):
        return MatmulAddFusor(mod).transform()


@relax.expr_functor.mutator
class LowerToTensorIR(relax.PyExprMutator):
    def __init__(self, mod: IRModule, op_map) -> None:
        super().__init__()
        self.mod_ = mod
        self.op_map = {tvm.ir.Op.get(k): v for k, v in op_map.items()}

    def visit_call_(self, call):
        call = self.visit_expr_post_order(call)
        if call.op in self.op_map:
            return self.op_map[call.op](self.builder_, call)
        return call

    def transform(self) -> IRModule:
        for global_var, func in self.mod_.functions.items():
            if not isinstance(func, relax.Function):
                continue
            updated_func = self.visit_expr(func)
            self.builder_.update_func(global_var, updated_func)
        return self.builder_.get()


def map_matmul(bb, call):
    x, w = call.args
    return bb.call_te(topi.nn.matmul, x, w)


def map_add(bb, call):
    a, b = call.args
    return bb.call_te(topi.add, a, b)


def map_relu(bb, call):
    return bb.call_te(topi.nn.relu, call.args[0])


op_map = {"relax.matmul": map_matmul, "relax.add": map_add, "relax.nn.relu": map_relu}


@tvm.ir.transform.module_pass(opt_level=0, name="LowerToTensorIR")
class LowerToTensorIRPass:
    def transform_module(self, mod, ctx):
        return LowerToTensorIR(mod, op_map).transform()


def test_fused_lowered_built_and_run():
    MLPModel = create_model()
    text = MLPModel.script()
    MLPFused = FuseMatmulAddPass()(MLPModel)
    names = {v.name_hint for v in MLPFused.get_global_vars()}
    assert names == {"main", "fused_matmul_add0", "fused_matmul_add1"}
    MLPModelTIR = LowerToTensorIRPass()(MLPFused)
    MLPModelFinal = relax.transform.FuseTIR()(MLPModelTIR)
    assert MLPModel.script() == text
    kernels = [f for f in MLPModelFinal.functions.values() if isinstance(f, tvm.tir.PrimFunc)]
    assert len(kernels) == 3 and relax.analysis.well_formed(MLPModelFinal)
    ex = relax.build(MLPModelFinal, target="llvm")
    vm = relax.VirtualMachine(ex, tvm.cpu())
    data_nd = tvm.nd.array(img)
    nd_res = vm["main"](data_nd)
    w0, b0, w1, b1 = mlp_params.values()
    expected = np.maximum(img @ w0 + b0, 0) @ w1 + b1
    np.testing.assert_allclose(nd_res.numpy(), expected, rtol=1e-4, atol=1e-5)
