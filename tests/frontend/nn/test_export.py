"""Specs and what is exported of a module: names, sizes, modes, parameters, refusals."""

import numpy as np
import pytest

import mlcnb
from mlcnb.core.errors import ArgumentError, MLCError, TypeInferError
from mlcnb.ir import assert_structural_equal
from mlcnb.relax.frontend import nn
from mlcnb.script import ir as I
from mlcnb.script import relax as R
from mlcnb.script import tir as T

X = {"forward": {"x": nn.spec.Tensor((1, 4), "float32")}}


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(4, 8)
        self.fc2 = nn.Linear(8, 2, bias=False)

    def forward(self, x):
        return self.fc2(nn.relu(self.fc1(x)))


def test_a_whole_module():
    @I.ir_module
    class Expected:
        @R.function
        def forward(
            x: R.Tensor(("n", 4), "float32"),
            fc1_weight: R.Tensor((8, 4), "float32"),
            fc1_bias: R.Tensor((8,), "float32"),
            fc2_weight: R.Tensor((2, 8), "float32"),
        ) -> R.Tensor(("n", 2), "float32"):
            n = T.int64()
            R.func_attr({"num_input": 1})
            with R.dataflow():
                t = R.permute_dims(fc1_weight)
                m = R.matmul(x, t)
                a = R.add(m, fc1_bias)
                r = R.nn.relu(a)
                t1 = R.permute_dims(fc2_weight)
                m1 = R.matmul(r, t1)
                gv: R.Tensor((n, 2), "float32") = m1
                R.output(gv)
            return gv

    mod, params = MLP().export_tvm({"forward": {"x": nn.spec.Tensor(("n", 4), "float32")}})
    assert_structural_equal(mod, Expected)
    assert [name for name, _ in params] == ["fc1.weight", "fc1.bias", "fc2.weight"]
    assert [p.name_hint for p in mod["forward"].params[1:]] == [name for name, _ in params]
    assert_structural_equal(mlcnb.script.from_source(mod.script()), mod)


def test_several_methods_share_parameters_not_sizes():
    class Model(nn.Module):
        def __init__(self):
            self.embed = nn.Embedding("vocab", 4)
            self.head = nn.Linear(4, "vocab", bias=False)

        def prefill(self, tokens: nn.Tensor, total: int):
            del total
            return self.head(self.embed(tokens))

        def decode(self, tokens: nn.Tensor):
            return self.head(self.embed(tokens))

    mod, _ = Model().export_tvm(
        {
            "prefill": {"tokens": nn.spec.Tensor(["n"], "int32"), "total": int},
            "decode": {"tokens": nn.spec.Tensor([1], "int32")},
        }
    )
    assert mod["prefill"].attrs["num_input"] == 2
    assert mod["decode"].attrs["num_input"] == 1
    embed, head = mod["prefill"].params[2:]
    vocab = embed.struct_info.dims[0]
    assert head.struct_info.dims[0] is vocab
    assert mod["decode"].params[1].struct_info.dims[0] is not vocab


def test_packed_parameters():
    @R.function
    def forward(
        x: R.Tensor((1, 4), "float32"),
        packed_params: R.Tuple(R.Tensor((8, 4), "float32"), R.Tensor((8,), "float32")),
    ) -> R.Tensor((1, 8), "float32"):
        R.func_attr({"num_input": 1})
        with R.dataflow():
            weight: R.Tensor((8, 4), "float32") = packed_params[0]
            bias: R.Tensor((8,), "float32") = packed_params[1]
            t = R.permute_dims(weight)
            m = R.matmul(x, t)
            a = R.add(m, bias)
            gv: R.Tensor((1, 8), "float32") = a
            R.output(gv)
        return gv

    spec = {"forward": {**X["forward"], "$": {"param_mode": "packed", "effect_mode": "none"}}}
    mod, _ = nn.Linear(4, 8).export_tvm(spec)
    assert_structural_equal(mod["forward"], forward)
    assert "$" in spec["forward"]


def test_a_middle_argument_may_be_left_out():
    class Model(nn.Module):
        def forward(self, x, mask=None, y=None):
            assert mask is None
            return x + y

    two = {"y": nn.spec.Tensor((2,), "float32"), "x": nn.spec.Tensor((2,), "float32")}
    mod, _ = Model().export_tvm({"forward": two})
    assert [p.name_hint for p in mod["forward"].params] == ["x", "y"]


def test_exporting_twice_is_the_same_and_leaves_the_module_alone():
    model = MLP()
    before = [p._expr for p in model.parameters()]
    first, _ = model.export_tvm(X)
    second, _ = model.export_tvm(X)
    assert_structural_equal(first, second)
    assert [p._expr for p in model.parameters()] == before


def test_objects():
    class Cache(nn.Object):
        pass

    class Model(nn.Module):
        def forward(self, x, cache):
            assert isinstance(cache, Cache)
            return x, cache

    spec = {"x": nn.spec.Tensor((2,), "float32"), "cache": nn.spec.Object(object_type=Cache)}
    mod, _ = Model().export_tvm({"forward": spec})
    assert mod["forward"].params[1].struct_info.__class__.__name__ == "ObjectStructInfo"


def test_spec_text():
    spec = nn.spec.ModuleSpec.from_raw(
        {"forward": {"x": nn.spec.Tensor([1, "n"], "float32")}}, nn.Linear(4, 8)
    )
    assert repr(spec) == "ModuleSpec:\n  forward(x: Tensor([1, n], 'float32'))"


def test_parameters_bound_at_compile_time_or_given():
    model = MLP()
    mod, params = model.export_tvm(X)
    rng = np.random.default_rng(0)
    values = {name: rng.random(p.shape, "float32") for name, p in params}
    x = rng.random((1, 4), "float32")
    hidden = np.maximum(x @ values["fc1.weight"].T + values["fc1.bias"], 0)
    wanted = hidden @ values["fc2.weight"].T
    bound = mlcnb.compile(mod, params=values)
    np.testing.assert_allclose(bound["forward"](x), wanted, rtol=1e-5)
    vm = mlcnb.relax.VirtualMachine(mlcnb.compile(mod, relax_pipeline="zero"), mlcnb.cpu())
    np.testing.assert_allclose(vm["forward"](x, *values.values()), wanted, rtol=1e-5)


def raises(message, kind=ArgumentError):
    class Check:
        def __enter__(self):
            return self

        def __exit__(self, found, error, _):
            assert found is not None, "nothing was raised"
            if not issubclass(found, kind):
                return False
            assert str(error) == message
            return True

    return Check()


REFUSED = [
    (
        {"forwrd": {}},
        "spec: MLP has no method 'forwrd': did you mean 'forward'?",
    ),
    ({}, 'spec: {} names no method\nhint: {"forward": {"x": nn.spec.Tensor((1, 784), "float32")}}'),
    (
        {"forward": {}},
        "spec: forward needs the argument 'x'\n"
        'hint: {"forward": {"x": nn.spec.Tensor(shape, dtype), …}}',
    ),
    (
        {"forward": {"x": int, "y": int}},
        "spec: forward(x) has no argument 'y'",
    ),
    (
        {"forward": {"x": 3.0}},
        "Invalid spec for argument x: 3.0\n"
        "hint: nn.spec.Tensor(shape, dtype), int, nn.spec.Object(…), or a tuple of them",
    ),
    (
        {"forward": {"x": X["forward"]["x"], "$": {"param_mode": "thin"}}},
        "Invalid param_mode: thin\nhint: one of plain, packed, none",
    ),
]


@pytest.mark.parametrize(("spec", "message"), REFUSED)
def test_refused_specs(spec, message):
    with raises(message):
        MLP().export_tvm(spec)


@pytest.mark.parametrize("dim", [-1, 1.5, "n * 2", True, None])
def test_refused_dimensions(dim):
    message = (
        f"{dim!r} is no dimension\n"
        'hint: an integer from 0, a name as "n", or a symbolic size of dtype int64'
    )
    with raises(message):
        nn.spec.Tensor([dim, 2], "float32")
    with raises(message):
        nn.Parameter([dim, 2])


def test_operators_outside_of_an_export():
    with raises(
        "nn: relu appends to a function, and none is being exported\n"
        "hint: call it in a method of an nn.Module, then module.export_tvm(spec)",
        MLCError,
    ):
        nn.relu(nn.Tensor.placeholder((2,), "float32"))


def test_results_that_are_no_tensors():
    class Model(nn.Module):
        def forward(self, x):
            return {"x": x}

    with raises(
        "Unsupported return type: dict\n"
        "hint: a method returns Tensors, Objects, or tuples and lists of them"
    ):
        Model().export_tvm(X)


def test_a_fraction_beside_integers_is_not_cut():
    class Model(nn.Module):
        def forward(self, x):
            return x * 0.5

    with raises('0.5 is no number of dtype int32\nhint: x.astype("float32") first'):
        Model().export_tvm({"forward": {"x": nn.spec.Tensor((2,), "int32")}})


def test_wrong_shapes_name_the_operator():
    class Model(nn.Module):
        def forward(self, x):
            return nn.matmul(x, x)

    with pytest.raises(TypeInferError, match="matmul"):
        Model().export_tvm(X)


def test_state_dict():
    model, other = MLP(), MLP()
    values = {
        n: np.full(p.shape, i, "float32") for i, (n, p) in enumerate(model.state_dict().items())
    }
    assert model.load_state_dict(values) == ([], [])
    assert other.load_state_dict(model.state_dict()) == ([], [])
    assert other.fc2.weight.data.numpy().max() == 2
    partly = {"fc1.bias": values["fc1.bias"], "more": values["fc1.bias"]}
    missing, unexpected = MLP().load_state_dict(partly, strict=False)
    assert (missing, unexpected) == (["fc1.weight", "fc2.weight"], ["more"])
    with raises(
        "Missing keys: ['fc1.weight', 'fc2.weight'], Unexpected keys: ['more']\n"
        "hint: load_state_dict(state, strict=False) takes what fits and gives back the rest"
    ):
        MLP().load_state_dict(partly)


def test_state_that_does_not_fit_changes_nothing():
    model = MLP()
    good = {n: np.zeros(p.shape, "float32") for n, p in model.named_parameters()}
    with raises("fc2.weight: Shape mismatch: expected (2, 8), got (8, 2)"):
        model.load_state_dict({**good, "fc2.weight": np.zeros((8, 2), "float32")})
    with raises(
        "fc1.bias: Dtype mismatch: expected float32, got float64\n"
        'hint: data.astype("float32"), or module.to("float64") before'
    ):
        model.load_state_dict({**good, "fc1.bias": np.zeros(8)})
    with raises("Parameter fc1.weight is not set to any concrete tensor"):
        model.load_state_dict(MLP().state_dict())
    assert all(p.data is None for p in model.parameters())


def test_to():
    model = MLP()
    model.to("float16")
    assert {p.dtype for p in model.parameters()} == {"float16"}
    model.fc1.bias.data = np.zeros(8, "float16")
    with raises(
        "a Parameter with numbers keeps its dtype: they would lose precision in silence\n"
        "hint: module.to(dtype) first, load the numbers after"
    ):
        model.fc1.to("float32")


def test_default_dtype():
    assert nn.get_default_dtype() == "float32"
    nn.set_default_dtype("float16")
    try:
        assert nn.Linear(2, 2).weight.dtype == "float16"
    finally:
        nn.set_default_dtype("float32")
