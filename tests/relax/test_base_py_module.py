"""Modules with Python functions among loops and graphs: relax.BasePyModule."""

from __future__ import annotations

import numpy as np
import pytest

import mlcnb as mlc
from mlcnb import relax
from mlcnb.core.errors import ExecutionError, MLCError, ParseError, RuntimeInputError
from mlcnb.ir import IRModule
from mlcnb.relax.base_py_module import BasePyModule
from mlcnb.script import ir as I
from mlcnb.script import relax as R
from mlcnb.script import tir as T


@I.ir_module
class Model(BasePyModule):
    @I.pyfunc
    def main(self, x, w):
        n = x.shape[0]
        y = self.call_tir(self.matmul, [x, w], out_sinfo=R.Tensor((n, 3), "float32"))
        z = self.call_dps_packed("tests.clip", [y, 1.0], out_sinfo=R.Tensor((n, 3), "float32"))
        return self.keep(z)

    @T.prim_func
    def matmul(var_a: T.handle, B: T.Buffer((4, 3), "float32"), var_c: T.handle):
        n = T.int64()
        A = T.match_buffer(var_a, (n, 4), "float32")
        C = T.match_buffer(var_c, (n, 3), "float32")
        for i, j, k in T.grid(n, 3, 4):
            with T.block("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]

    @R.function(pure=False)
    def graph(x: R.Tensor(("n",), "float32")) -> R.Tensor(("n",), "float32"):
        n = T.int64()
        y = R.call_py_func("twice", (x,), out_sinfo=R.Tensor((n,), "float32"))
        z = R.add(y, x)
        return z

    @I.pyfunc
    def keep(self, x):
        return x

    @I.pyfunc
    def twice(self, x):
        self.seen = type(x).__module__.split(".")[0]
        return x * 2


@pytest.fixture
def clip():
    def clipped(x, limit, out):
        out.copyfrom(np.minimum(x.numpy(), limit))

    mlc.register_func("tests.clip", clipped, override=True)


def arrays():
    rng = np.random.default_rng(0)
    return rng.standard_normal((5, 4)).astype("float32"), np.ones((4, 3), "float32")


def test_a_class_is_a_factory_of_compiled_modules():
    assert isinstance(Model.mod, IRModule)
    assert Model.pyfunc_methods == ["main", "keep", "twice"]
    assert "matmul" in Model and Model["graph"].params[0].name_hint == "x"
    assert relax.BasePyModule is BasePyModule
    model = Model(mlc.cpu())
    assert isinstance(model, BasePyModule)
    assert (model.ir_mod, model.device) == (Model.mod, mlc.cpu())
    assert model.list_functions() == {
        "python": ["main", "keep", "twice"],
        "tir": ["matmul"],
        "relax": ["graph"],
    }
    assert model.get_function("graph").__name__ == "graph"
    assert model.get_function("nothing") is None


def test_python_calls_loops_and_registered_functions(clip):
    x, w = arrays()
    wanted = np.minimum(x @ w, 1)
    np.testing.assert_allclose(Model().main(x, w), wanted, rtol=1e-5)
    torch = pytest.importorskip("torch")
    found = Model().main(torch.from_numpy(x), torch.from_numpy(w))
    assert isinstance(found, torch.Tensor)
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-5)
    tensors = Model().main(mlc.runtime.tensor(x), mlc.runtime.tensor(w))
    np.testing.assert_allclose(tensors.numpy(), wanted, rtol=1e-5)


def test_graphs_call_python():
    model, x = Model(), np.arange(3, dtype="float32")
    np.testing.assert_array_equal(model.graph(x), 3 * x)
    assert model.seen == "numpy"
    torch = pytest.importorskip("torch")
    found = model.graph(torch.from_numpy(x))
    assert isinstance(found, torch.Tensor) and model.seen == "torch"
    np.testing.assert_array_equal(found.numpy(), 3 * x)


def test_a_python_function_must_give_what_the_graph_says():
    model = Model()
    model.add_python_function("twice", lambda x: x.astype("float64"))
    with pytest.raises(ExecutionError, match="the result of twice"):
        model.graph(np.ones(3, "float32"))


def test_sizes_of_a_result_by_their_names():
    x, w = arrays()
    model = Model()
    found = model.call_tir("matmul", [x, w], R.Tensor(("n", 3), "float32"))
    np.testing.assert_allclose(found, x @ w, rtol=1e-5)
    out = np.zeros((5, 3), "float32")
    model.matmul(x, w, out)
    np.testing.assert_array_equal(out, found)
    with pytest.raises(RuntimeInputError, match="matmul: the size .*m.* of the result"):
        model.call_tir(model.matmul, [x, w], R.Tensor(("m", 3), "float32"))
    with pytest.raises(RuntimeInputError, match="matmul: the result needs a shape and a dtype"):
        model.call_tir(model.matmul, [x, w], R.Tensor("float32", ndim=2))
    with pytest.raises(MLCError, match="no loop function 'matmull' in the module"):
        model.call_tir("matmull", [x, w], R.Tensor((5, 3), "float32"))


def test_functions_that_are_added():
    model = Model()
    model.add_python_function("more", lambda x: x + 1)
    model.add_python_function("me", lambda self: self)
    assert (model.more(1), model.call_py_func("more", [2]), model.me()) == (2, 3, model)
    with pytest.raises(MLCError, match="the module has a function 'graph'"):
        model.add_python_function("graph", len)
    with pytest.raises(MLCError, match="no Python function 'less' in the module"):
        model.call_py_func("less", [1])


def test_the_text_has_python_as_it_is_written():
    text = Model.script()
    assert "class Module(BasePyModule):" in text
    assert text.endswith(
        "    @I.pyfunc\n    def twice(self, x):\n"
        '        self.seen = type(x).__module__.split(".")[0]\n        return x * 2\n'
    )
    with pytest.raises(ParseError, match="main is Python, which no text runs"):
        mlc.script.from_source(text)


def test_python_in_another_module_is_refused():
    with pytest.raises(ParseError, match="Other has a Python function, f, and is no BasePyModule"):

        @I.ir_module
        class Other:
            @I.pyfunc
            def f(self, x):
                return x
