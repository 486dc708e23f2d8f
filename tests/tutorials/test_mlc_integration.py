"""The calls of the course's chapter on frameworks: from expressions, builders and torch.fx."""

from __future__ import annotations

import numpy as np
import pytest

import mlcnb as tvm
from mlcnb import relax, te, topi


def te_matmul(A: te.Tensor, B: te.Tensor) -> te.Tensor:
    assert A.shape[1] == B.shape[0]
    n = A.shape[0]
    m = B.shape[1]
    k = te.reduce_axis((0, A.shape[1]), name="k")
    return te.compute((n, m), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="matmul")


def te_relu(A: te.Tensor) -> te.Tensor:
    return te.compute(A.shape, lambda *i: te.max(A(*i), 0), name="relu")


def test_expressions_of_any_rank():
    for shape in ((10,), (3, 5), (2, 3, 4)):
        X1 = te.placeholder(shape, name="X1", dtype="float32")
        Y1 = te_relu(X1)
        lib = tvm.build(te.create_prim_func([X1, Y1]), target="llvm")
        x = np.random.standard_normal(shape).astype("float32")
        y = np.zeros(shape, "float32")
        lib(x, y)
        np.testing.assert_array_equal(y, np.maximum(x, 0))
    A = te.placeholder((8, 6), name="A", dtype="float32")
    B = te.placeholder((6, 4), name="B", dtype="float32")
    assert type(A) is te.Tensor and [int(d) for d in A.shape] == [8, 6]
    C = te_matmul(A, B)
    D = te_relu(C)
    inside, outside = te.create_prim_func([A, B, D]), te.create_prim_func([A, B, C, D])
    assert (len(inside.params), len(outside.params)) == (3, 4)
    assert "matmul = T.alloc_buffer" in inside.script()
    assert "T.alloc_buffer" not in outside.script()


def test_a_builder_told_its_parameters_at_the_end():
    A = relax.Var("A", relax.TensorStructInfo((8, 8), "float32"))
    B = relax.Var("B", relax.TensorStructInfo((8, 8), "float32"))
    bb = relax.BlockBuilder()
    with bb.function("main"):
        with bb.dataflow():
            C = bb.emit_te(te_matmul, A, B)
            D = bb.emit_te(te_relu, C)
            Out = bb.emit_output(D)
        bb.emit_func_output(Out, params=[A, B])
    MyModule = bb.get()
    assert type(C) is relax.DataflowVar and isinstance(C, relax.Var)
    a, b = (np.random.standard_normal((8, 8)).astype("float32") for _ in range(2))
    ex = relax.build(MyModule, target="llvm")
    np.testing.assert_allclose(ex(a, b), np.maximum(a @ b, 0), rtol=1e-5, atol=1e-5)


def fetch_attr(fx_mod, target: str):
    found = fx_mod
    for atom in target.split("."):
        found = getattr(found, atom)
    return found


def map_param(param):
    return relax.const(
        param.data.cpu().numpy(), relax.TensorStructInfo(param.data.shape, "float32")
    )


def from_fx(fx_mod, input_shapes, call_function_map, call_module_map):
    input_index = 0
    node_map = {}
    named_modules = dict(fx_mod.named_modules())
    bb = relax.BlockBuilder()
    fn_inputs = []
    fn_output = None
    with bb.function("main"):
        with bb.dataflow():
            for node in fx_mod.graph.nodes:
                if node.op == "placeholder":
                    shape = input_shapes[input_index]
                    input_index += 1
                    input_var = relax.Var(node.target, relax.TensorStructInfo(shape, "float32"))
                    fn_inputs.append(input_var)
                    node_map[node] = input_var
                elif node.op == "get_attr":
                    node_map[node] = map_param(fetch_attr(fx_mod, node.target))
                elif node.op == "call_function":
                    node_map[node] = call_function_map[node.target](bb, node_map, node)
                elif node.op == "call_module":
                    named_module = named_modules[node.target]
                    rule = call_module_map[type(named_module)]
                    node_map[node] = rule(bb, node_map, node, named_module)
                elif node.op == "output":
                    output = node_map[node.args[0]]
                    assert fn_output is None
                    fn_output = bb.emit_output(output)
        bb.emit_func_output(output, fn_inputs)
    return bb.get()


def map_matmul(bb, node_map, node):
    return bb.emit_te(te_matmul, node_map[node.args[0]], node_map[node.args[1]])


def map_relu(bb, node_map, node):
    return bb.emit_te(te_relu, node_map[node.args[0]])


def map_nn_linear(bb, node_map, node, nn_mod):
    x = node_map[node.args[0]]
    w = map_param(nn_mod.weight)
    b = map_param(nn_mod.bias)
    y = bb.emit_te(topi.nn.dense, x, w)
    return bb.emit_te(topi.add, y, b)


def map_nn_relu(bb, node_map, node, nn_mod):
    return map_relu(bb, node_map, node)


def map_nn_relu_op(bb, node_map, node, nn_mod):
    return bb.emit(relax.op.nn.relu(node_map[node.args[0]]))


def map_nn_linear_op(bb, node_map, node, nn_mod):
    x = node_map[node.args[0]]
    return bb.emit(relax.op.linear(x, map_param(nn_mod.weight), map_param(nn_mod.bias)))


def test_from_torch_fx():
    torch = pytest.importorskip("torch")

    class MyModel(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.randn(8, 6))

        def forward(self, x):
            return torch.relu(torch.matmul(x, self.weight))

    model = MyModel()
    MyModule = from_fx(
        torch.fx.symbolic_trace(model),
        input_shapes=[(1, 8)],
        call_function_map={torch.matmul: map_matmul, torch.relu: map_relu},
        call_module_map={},
    )
    x = torch.randn(1, 8)
    out = relax.VirtualMachine(relax.build(MyModule, target="llvm"), tvm.cpu())["main"](
        tvm.nd.array(x.numpy())
    )
    np.testing.assert_allclose(out.numpy(), model(x).detach().numpy(), rtol=1e-4, atol=1e-5)


def test_from_torch_fx_by_modules():
    torch = pytest.importorskip("torch")
    nn = torch.nn
    mlp_model = nn.Sequential(nn.Linear(8, 6), nn.ReLU(), nn.Linear(6, 3))
    x = torch.randn(1, 8)
    expected = mlp_model(x).detach().numpy()
    for rules in (
        {nn.Linear: map_nn_linear, nn.ReLU: map_nn_relu},
        {nn.Linear: map_nn_linear_op, nn.ReLU: map_nn_relu_op},
    ):
        traced = torch.fx.symbolic_trace(mlp_model)
        mod = from_fx(traced, [(1, 8)], call_function_map={}, call_module_map=rules)
        ex = relax.build(mod, target="llvm")
        vm = relax.VirtualMachine(ex, tvm.cpu())
        nd_res = vm["main"](tvm.nd.array(x.numpy()))
        np.testing.assert_allclose(nd_res.numpy(), expected, rtol=1e-4, atol=1e-5)
