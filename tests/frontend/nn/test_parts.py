"""Subroutines, and walking a module to change it."""

import numpy as np
import pytest

from mlcnb.ir import assert_structural_equal
from mlcnb.relax.frontend import nn
from mlcnb.script import ir as I
from mlcnb.script import relax as R
from mlcnb.testing import evaluate


class Layer(nn.Module):
    define_subroutine = True

    def __init__(self, rows, columns):
        self.weights = nn.Parameter((rows, columns), "float32")

    def forward(self, input):
        return nn.silu(nn.matmul(input, self.weights))


def test_a_subroutine():
    @I.ir_module
    class Expected:
        @R.function
        def forward(
            state: R.Tensor(("batch_size", 64), "float32"),
            weights: R.Tensor((64, 32), "float32"),
        ) -> R.Tensor(("batch_size", 32), "float32"):
            R.func_attr({"num_input": 1})
            cls = Expected
            with R.dataflow():
                state = cls.layer(state, weights)
                out = state
                R.output(out)
            return out

        @R.function(private=True)
        def layer(
            state: R.Tensor(("batch_size", 64), "float32"),
            weights: R.Tensor((64, 32), "float32"),
        ) -> R.Tensor(("batch_size", 32), "float32"):
            with R.dataflow():
                made = R.matmul(state, weights)
                active = R.nn.silu(made)
                out = active
                R.output(out)
            return out

    spec = {"forward": {"input": nn.spec.Tensor(("batch_size", 64), "float32")}}
    mod, _ = Layer(64, 32).export_tvm(spec)
    assert_structural_equal(mod, Expected)


class Scaled(nn.Module):
    define_subroutine = True

    def __init__(self, factor):
        self.factor = factor

    def forward(self, x):
        return x * self.factor


class Model(nn.Module):
    def __init__(self):
        layers = Layer(4, 4), Layer(4, 4), Scaled(2), Scaled(3), Layer(4, 2)
        self.layers = nn.Sequential(*layers)

    def forward(self, x):
        return self.layers(x)


def test_equal_functions_are_kept_once_and_others_are_not():
    model = Model()
    before = [p._expr for p in model.parameters()]
    spec = {"forward": {"x": nn.spec.Tensor((3, 4), "float32")}}
    mod, _ = model.export_tvm(spec)
    names = sorted(v.name_hint for v in mod.functions)
    assert names == ["forward", "layer", "layer1", "scaled", "scaled1"]
    assert [p._expr for p in model.parameters()] == before
    rng = np.random.default_rng(0)
    for parameter in model.parameters():
        parameter.data = rng.standard_normal(parameter.shape).astype("float32")
    x = rng.standard_normal((3, 4)).astype("float32")
    a, b, c = (p.data.numpy() for p in model.parameters())

    def silu(x):
        return x / (1 + np.exp(-x))

    wanted = silu(6 * silu(silu(x @ a) @ b) @ c)
    made = model.jit(spec, out_format="numpy")(x)
    np.testing.assert_allclose(made, wanted, rtol=1e-4, atol=1e-5)


class Seen(nn.Mutator):
    """Notes what it meets, and changes some of it."""

    def __init__(self):
        self.names = []

    def visit_module(self, name, node):
        self.names.append(name)
        return nn.Identity() if isinstance(node, nn.ReLU) else self.visit(name, node)

    def visit_param(self, name, node):
        self.names.append(name)
        return nn.Parameter(node.shape, "float16")

    def visit_effect(self, name, node):
        self.names.append(name)
        return node


class Nested(nn.Module):
    def __init__(self):
        self.body = nn.ModuleList([nn.Linear(2, 2, bias=False), nn.ReLU()])
        self.heads = nn.ModuleDict({"a": nn.Linear(2, 3)})
        self.cache = nn.KVCache(1, [2])
        self.size = 2


def test_mutator():
    model = Nested()
    seen = Seen()
    assert seen.visit("", model) is model
    names = "body.0 body.0.weight body.1 heads.a heads.a.weight heads.a.bias cache"
    assert seen.names == names.split()
    assert isinstance(model.body[1], nn.Identity)
    assert {p.dtype for p in model.parameters()} == {"float16"}


def test_mutator_of_a_part():
    class Rows(nn.Mutator):
        def visit_modulelist(self, name, node):
            return nn.ModuleList([nn.Identity() for _ in node])

    model = Rows().visit("model", Nested())
    assert [type(m).__name__ for m in model.body] == ["Identity", "Identity"]


def test_containers_as_python_has_them():
    rows = nn.ModuleList([nn.ReLU()])
    rows.append(nn.SiLU())
    rows[0] = nn.Tanh()
    assert [type(m).__name__ for m in rows] == ["Tanh", "SiLU"]
    assert type(nn.Sequential(*rows)[:1]) is nn.Sequential
    named = nn.ModuleDict({"a": rows[0]})
    named.update({"b": rows[1]})
    assert list(named.keys()) == ["a", "b"]
    assert list(named.values()) == list(rows)
    assert dict(named.items()) == {"a": rows[0], "b": rows[1]}
    assert "a" in named
    assert named.pop("a") is rows[0]
    assert named.get("a") is None
    assert len(named) == 1
    named.clear()
    assert list(named) == []


def test_parameters_in_a_row_and_by_name() -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            self.rows = nn.ParameterList([nn.Parameter((4,), "float32")])
            self.rows.extend([nn.Parameter((4,), "float32")])
            self.named = nn.ParameterDict({"a": nn.Parameter((4,), "float32")})

        def forward(self, x: nn.Tensor) -> nn.Tensor:
            for row in self.rows:
                x = x * row
            return x + self.named["a"]

    module = Scaled()
    assert list(module.state_dict()) == ["rows.0", "rows.1", "named.a"]
    mod, params = module.export_tvm({"forward": {"x": nn.spec.Tensor((2, 4), "float32")}})
    assert [name for name, _ in params] == ["rows.0", "rows.1", "named.a"]
    x, a, b, c = (np.full(s, i + 2, "float32") for i, s in enumerate([(2, 4), 4, 4, 4]))
    np.testing.assert_allclose(evaluate(mod, x, a, b, c, name="forward"), x * a * b + c)
    module.to(dtype="float16")
    assert {p.dtype for p in module.parameters()} == {"float16"}
    with pytest.raises(NotImplementedError):
        module.rows(x)
