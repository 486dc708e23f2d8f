"""relax.testing: packed functions, modules that emit, and builders that name the graph's sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mlcnb import relax, te, tir, topi
from mlcnb.core.errors import ExecutionError, MLCError, RuntimeInputError, TargetError
from mlcnb.ir import assert_structural_equal
from mlcnb.relax.testing import nn, runtime_builtin
from mlcnb.relax.testing.vm import check_saved_func
from mlcnb.runtime import ShapeTuple
from mlcnb.script import from_source
from mlcnb.script import relax as R
from mlcnb.testing import evaluate


def vm_of(mod: Any, mode: str = "bytecode") -> relax.VirtualMachine:
    return relax.VirtualMachine(relax.build(mod, "llvm", exec_mode=mode))


def rand(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype("float32")


@pytest.mark.parametrize("mode", ["bytecode", "compiled"])
def test_an_expression_may_name_the_sizes_of_the_graph(mode: str) -> None:
    n, m = tir.Var("n", "int64"), tir.Var("m", "int64")
    x, y = relax.Var("x", R.Tensor([n], "float32")), relax.Var("y", R.Tensor([m], "float32"))

    def joined(a: Any, b: Any) -> Any:
        return te.compute((n + m,), lambda i: te.if_then_else(i < n, a[i], b[i - n]))

    bb = relax.BlockBuilder()
    with bb.function("main", [x, y]):
        bb.emit_func_output(bb.emit_te(joined, x, y))
    mod = bb.get()
    assert_structural_equal(mod["main"].ret_struct_info, R.Tensor([n + m], "float32"))
    assert_structural_equal(from_source(mod.script()), mod)
    got = check_saved_func(vm_of(mod, mode), "main", rand(2), rand(3, 1)[:, 0])
    np.testing.assert_array_equal(got, np.append(rand(2), rand(3, 1)[:, 0]))


def test_a_size_that_the_arguments_do_not_have_is_handed_over() -> None:
    n = tir.Var("n", "int64")
    x, y = relax.Var("x", R.Tensor([n], "float32")), relax.Var("y", R.Tensor([n + 1], "float32"))
    bb = relax.BlockBuilder()
    with bb.function("main", [x, y]):
        bb.emit_func_output(bb.emit_te(lambda a: te.compute((n + 1,), lambda i: a[i] + n), y))
    got = vm_of(bb.get())["main"](rand(2), rand(3))
    np.testing.assert_allclose(got, rand(3) + 2)


def test_modules_write_themselves() -> None:
    bb = relax.BlockBuilder()
    with bb.function("main"):
        x = nn.Placeholder((2, 4), name="data")
        model = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2, bias=False))
        y = nn.LogSoftmax()(model(x))
        bb.emit_func_output(y, params=[x, *model.parameters()])
    mod = bb.get()
    names = [p.name_hint for p in mod["main"].params]
    assert names == ["data", "linear_weight", "linear_bias", "linear_weight1"]
    assert [w.shape for w in nn.init_params(mod)] == [(4, 3), (3,), (3, 2)]
    given = [rand(2, 4), rand(4, 3), rand(3), rand(3, 2)]
    hidden = np.maximum(given[0] @ given[1] + given[2], 0) @ given[3]
    expected = hidden - np.log(np.exp(hidden).sum(-1, keepdims=True))
    np.testing.assert_allclose(evaluate(mod, *given), expected, 1e-5, 1e-5)
    with pytest.raises(MLCError, match="no BlockBuilder is building a function"):
        nn.emit_te(topi.nn.relu, x)
    with pytest.raises(TypeError, match="the shape of data is a list or a tuple"):
        nn.Placeholder(3)  # type: ignore[arg-type]


def test_packed_functions() -> None:
    @R.function
    def main(x: R.Tensor((2, 3), "float32")):
        one = R.call_pure_packed("test.vm.subtract_one", x, sinfo_args=R.Tensor((2, 3), "float32"))
        two = R.call_pure_packed("test.vm.mul", one, x, sinfo_args=R.Tensor((2, 3), "float32"))
        gv = R.call_dps_packed("test.vm.tile", (two,), R.Tensor((2, 6), "float32"))
        return gv

    mod = main.with_attr("global_symbol", "main")
    got = check_saved_func(vm_of(mod), "main", rand(2, 3))
    np.testing.assert_allclose(got, np.tile((rand(2, 3) - 1) * rand(2, 3), (1, 2)), 1e-6)


def test_errors_are_python_s_too() -> None:
    assert issubclass(RuntimeInputError, ValueError) and issubclass(RuntimeInputError, RuntimeError)
    assert issubclass(ExecutionError, RuntimeError)
    with pytest.raises(TargetError, match="no exec_mode 'fast'"):
        relax.build(relax.BlockBuilder().get(), "llvm", exec_mode="fast")
    assert runtime_builtin.MatchShapeCode.ASSERT_EQUAL_TO_LOAD == 3
    assert runtime_builtin.MakeShapeCode.LOAD_SHAPE == 1


def test_ways_of_calling_stand_under_op() -> None:
    x = relax.Var("x", R.Tensor((2,), "float32"))
    closure = relax.op.make_closure(relax.GlobalVar("f"), (x,))
    assert closure.op.name == "relax.make_closure"
    call = relax.op.call_inplace_packed("f", x, inplace_indices=[0], sinfo_args=[x.struct_info])
    assert call.op.name == "relax.call_inplace_packed" and call.attrs["inplace_indices"] == (0,)
    assert relax.op.null_value().name == "relax.null_value"
    assert {"invoke_closure", "call_tir_with_grad"} <= set(dir(relax.op))


def test_shape_tuples() -> None:
    shape = ShapeTuple([2, np.int64(3)])
    assert shape == (2, 3) and repr(shape) == "ShapeTuple([2, 3])"
    with pytest.raises(TypeError):
        ShapeTuple([2.5])
