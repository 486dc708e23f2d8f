"""from_exported_program, from_torch, from_fx: what main looks like, what is refused, and how."""

from __future__ import annotations

import inspect
import sys

import numpy as np
import pytest

import mlcnb as mlc
from mlcnb.core.errors import (
    ArgumentError,
    ExecutionError,
    MissingDependencyError,
    ModelError,
    UnsupportedDtypeError,
    UnsupportedError,
    UnsupportedOpError,
)
from mlcnb.relax.frontend import detach_params
from mlcnb.testing.evaluate import evaluate

torch = pytest.importorskip("torch", reason="the extra torch is not installed")

from torch import nn  # noqa: E402

from mlcnb.relax.frontend.torch import coverage, from_exported_program, from_fx  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")


class Counter(nn.Module):
    """A buffer that counts calls."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 2, bias=False)
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x):
        self.calls.add_(1)
        return self.fc(x) + self.calls


def text(mod):
    return (
        mod.script().partition("\n\n# Metadata")[0].partition("import relax as R\n\n")[2].rstrip()
    )


def test_main_as_tvm_makes_it():
    ep = torch.export.export(nn.Linear(3, 2), (torch.zeros(4, 3),))
    tensor = 'R.Tensor((4, 2), dtype="float32")'
    assert text(from_exported_program(ep)).splitlines() == [
        "@I.ir_module",
        "class Module:",
        "    @R.function",
        f'    def main(input: R.Tensor((4, 3), dtype="float32")) -> R.Tuple({tensor}):',
        "        with R.dataflow():",
        f"            lv: {tensor} = R.matmul("
        'input, metadata["relax.expr.Constant"][0], out_dtype="float32")',
        f'            lv1: {tensor} = R.add(lv, metadata["relax.expr.Constant"][1])',
        f"            gv: R.Tuple({tensor}) = (lv1,)",
        "            R.output(gv)",
        "        return gv",
    ]


def test_products_and_parts_as_tvm_makes_them():
    class Parts(nn.Module):
        def forward(self, x, a, b):
            y = torch.addmm(x, a, b)
            return *y.chunk(3, 1), *y.split(4, 1), *y.split([1, 5], 1), *y.split(5, 1)

    args = (torch.zeros(4, 6), torch.zeros(4, 2), torch.zeros(2, 6))
    lines = text(from_exported_program(torch.export.export(Parts(), args))).splitlines()
    calls = [line.partition(" = ")[2] for line in lines if " = R." in line]
    assert calls == [
        'R.matmul(a, b, out_dtype="float32")',
        "R.add(x, lv)",
        "R.split(lv1, indices_or_sections=3, axis=1)",
        "R.split(lv1, indices_or_sections=[4], axis=1)",
        "R.split(lv1, indices_or_sections=[1], axis=1)",
        "R.split(lv1, indices_or_sections=[5], axis=1)",
    ]


def test_a_batch_norm_keeps_its_momentum():
    model = nn.BatchNorm2d(3, eps=0.001, momentum=0.01).eval()
    mod = from_exported_program(torch.export.export(model, (torch.zeros(1, 3, 4, 4),)))
    assert "epsilon=0.001, momentum=0.01, training=False" in text(mod)


def test_options_of_the_returned_tuple():
    ep = torch.export.export(nn.ReLU(), (torch.zeros(2),))
    tail = [
        text(from_exported_program(ep, **{option: True})).splitlines()[-4:]
        for option in ("unwrap_unit_return_tuple", "no_bind_return_tuple")
    ]
    assert [[line.strip() for line in lines] for lines in tail] == [
        [
            'lv: R.Tensor((2,), dtype="float32") = R.nn.relu(input)',
            'gv: R.Tensor((2,), dtype="float32") = lv',
            "R.output(gv)",
            "return gv",
        ],
        [
            "with R.dataflow():",
            'lv: R.Tensor((2,), dtype="float32") = R.nn.relu(input)',
            "R.output(lv)",
            "return (lv,)",
        ],
    ]


def test_weights_detached_and_buffers_that_change():
    model = Counter()
    x = torch.randn(4, 3)
    want = model(x).detach().numpy() - 1
    model.calls.zero_()
    ep = torch.export.export(model, (x,))
    mod, params = detach_params(from_exported_program(ep, keep_params_as_input=True))
    main = mod["main"]
    assert [p.name_hint for p in main.params] == ["x", "fc_weight", "calls"]
    assert [main.attrs["num_input"], list(main.attrs["mutated"])] == [1, ["calls"]]
    arrays = [p.numpy() for p in params["main"]]
    made, calls = evaluate(mod, x.numpy(), *arrays)
    np.testing.assert_allclose(made, want + 1, atol=1e-6)
    again = evaluate(mod, x.numpy(), arrays[0], calls)
    np.testing.assert_allclose(again[0], want + 2, atol=1e-6)
    np.testing.assert_array_equal(again[1], [2.0])


def test_statistics_of_training_move():
    model = nn.BatchNorm2d(3)
    x = torch.randn(4, 3, 2, 2)
    ep = torch.export.export(model, (x,))
    mod = from_exported_program(ep)
    assert list(mod["main"].attrs["mutated"]) == [
        "running_mean",
        "running_var",
        "num_batches_tracked",
    ]
    got = evaluate(mod, x.numpy())
    want = [model(x), model.running_mean, model.running_var, model.num_batches_tracked]
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b.detach().numpy(), rtol=1e-5, atol=1e-5)


def test_a_module_keeps_its_weights():
    model, x = nn.Linear(3, 2), torch.randn(1, 3)
    want = model(x).detach().numpy()
    mod = mlc.from_torch(model, x)
    with torch.no_grad():
        model.weight.fill_(9.0)
    np.testing.assert_allclose(evaluate(mod, x.numpy()), want, atol=1e-6)


def test_sizes_stay_open_within_their_ranges():
    def model(x, y):
        z = torch.cat([x, y], 1)
        return z.reshape(x.shape[0] * 2, -1), x.shape[0] + 1

    batch = torch.export.Dim("batch", min=3, max=9)
    given = (torch.randn(4, 5), torch.randn(4, 3))
    mod = mlc.from_torch(model, given, dynamic_shapes=(({0: batch}, {0: batch}),))
    (name,) = mod["main"].attrs["tir_var_upper_bound"]
    assert dict(mod["main"].attrs["tir_var_lower_bound"]) == {name: 3}
    assert dict(mod["main"].attrs["tir_var_upper_bound"]) == {name: 9}
    first, second = (p.name_hint for p in mod["main"].params)
    ex = mlc.compile(mod)
    for n in (3, 9):
        x, y = torch.randn(n, 5), torch.randn(n, 3)
        made, count = ex(x, y)
        np.testing.assert_array_equal(made, model(x, y)[0])
        assert count == n + 1
    with pytest.raises(ExecutionError) as error:
        ex(torch.randn(10, 5), torch.randn(10, 3))
    assert str(error.value) == (
        f"node 'dimension 0 of {first}: 3 to 9' (range): {first}_dim0 is {name} = 10, but has to "
        f"be T.max(T.min({name}, T.int64(9)), T.int64(3)) = 9\n"
        "hint: these dimensions are open in the program: call it with sizes that agree"
    )
    with pytest.raises(mlc.MLCError, match=f"input '{second}': dimension 0 is 4, expected 5"):
        ex(torch.randn(5, 5), torch.randn(4, 3))


def test_a_size_that_is_computed_from_a_symbol():
    def halves(x):
        middle = x.shape[0] // 2
        return x[:middle] * x[middle:], x.reshape(middle, 2, -1).sum(1)

    half = torch.export.Dim("half", min=1, max=20)
    mod = mlc.from_torch(halves, torch.randn(6, 4), dynamic_shapes=(({0: 2 * half},),))
    (name,) = mod["main"].attrs["tir_var_upper_bound"]
    assert dict(mod["main"].attrs["tir_var_upper_bound"]) == {name: 40}
    (param,) = mod["main"].params
    assert param.struct_info.dims[0].name == name
    ex = mlc.compile(mod)
    for n in (6, 4, 40):
        x = torch.randn(n, 4)
        for a, b in zip(ex(x), halves(x), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    for n, told in ((7, "2 * n, n 2 to 20"), (42, "2 * n, n 2 to 20")):
        with pytest.raises(ExecutionError) as error:
            ex(torch.randn(n, 4))
        where = f"node 'dimension 0 of {param.name_hint}: {told}' (range): "
        assert str(error.value).startswith(f"{where}{param.name_hint}_dim0 is {name} = {n}, but")


def test_a_size_that_is_one_more_than_another():
    rows = torch.export.Dim("rows", min=1, max=9)
    given = torch.randn(6, 4), torch.randn(5, 4)
    ex = mlc.compile(
        mlc.from_torch(lambda x, y: x[1:] * y, given, dynamic_shapes=(({0: rows + 1}, {0: rows}),))
    )
    x, y = torch.randn(10, 4), torch.randn(9, 4)
    np.testing.assert_allclose(ex(x, y), x[1:] * y, rtol=1e-6)
    with pytest.raises(ExecutionError, match=r"n \+ 1, n 1 to 9"):
        ex(torch.randn(11, 4), torch.randn(10, 4))
    with pytest.raises(mlc.MLCError):
        ex(x, x)


def test_windows_along_an_open_dimension():
    ex = mlc.compile(
        mlc.from_torch(
            lambda x: x.unfold(1, 4, 2).mean(-1), torch.randn(2, 12),
            dynamic_shapes=(({1: torch.export.Dim.DYNAMIC},),),
        )
    )  # fmt: skip
    for n in (12, 17, 8):
        x = torch.randn(2, n)
        np.testing.assert_allclose(ex(x), x.unfold(1, 4, 2).mean(-1), rtol=1e-5, atol=1e-6)


def test_all_that_is_missing_is_named_at_once():
    class Odd(nn.Module):
        def forward(self, x):
            q, r = torch.linalg.qr(x)
            return torch.linalg.qr(q + r), torch.geqrf(x), torch.relu(x)

    with pytest.raises(UnsupportedOpError) as error:
        mlc.from_torch(Odd(), torch.randn(3, 3))
    line = Odd.forward.__code__.co_firstlineno
    here = f"test_torch_import.py:{line}"
    assert str(error.value) == (
        "Odd: 2 operators are not imported: "
        f"aten.geqrf.default (geqrf at test_torch_import.py:{line + 2}); "
        f"aten.linalg_qr.default (2 times: linalg_qr at test_torch_import.py:{line + 1}, "
        f"linalg_qr_1 at test_torch_import.py:{line + 2})\n"
        "hint: mlcnb.relax.frontend.torch.coverage() lists what is imported"
    ), here


def test_what_is_random_is_refused():
    class Noisy(nn.Module):
        def forward(self, x):
            return torch.dropout(x, 0.5, True)

    with pytest.raises(UnsupportedOpError) as error:
        mlc.from_torch(Noisy(), torch.randn(3))
    line = Noisy.forward.__code__.co_firstlineno + 1
    assert str(error.value) == (
        f"Noisy: node 'dropout' (aten.dropout.default) at test_torch_import.py:{line}: it drops "
        "elements at random (p = 0.5)\nhint: call model.eval() before the export"
    )


def test_other_refusals():
    x = torch.randn(3)
    with pytest.raises(UnsupportedDtypeError, match="input 'args_0' holds complex64"):
        mlc.from_torch(lambda x: x.real, x.to(torch.complex64))
    with pytest.raises(UnsupportedOpError, match=r"nearest places by 1.2345, no quotient"):
        mlc.from_torch(lambda x: nn.functional.interpolate(x[None, None], scale_factor=1.2345), x)
    with pytest.raises(ArgumentError, match="no example inputs"):
        mlc.from_torch(nn.ReLU())
    with pytest.raises(ModelError, match="from_exported_program: got a ReLU"):
        from_exported_program(nn.ReLU())


class Positive(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            return x + 1
        return x * 2


class Twelve(nn.Module):
    def forward(self, x):
        return x.view(3, 4)


class Numbers(nn.Module):
    def forward(self, x):
        return torch.from_numpy(x.numpy() * 2)


class Rows:
    """What a model keeps, in a class that PyTorch does not know."""

    def __init__(self, *tensors):
        self.tensors = tensors


class Cached(nn.Module):
    """Rows that are kept: they are buffers, and written to by other names."""

    def __init__(self):
        super().__init__()
        self.rows = Rows(torch.zeros(3, 2), torch.ones(3, 2))
        self.register_buffer("first", self.rows.tensors[0], persistent=False)
        self.register_buffer("second", self.rows.tensors[1])
        self.register_buffer("again", self.second)

    def forward(self, x, i):
        one, two = self.rows.tensors
        one.index_copy_(0, i, x)
        two.mul_(2)
        return one.sum(0) + self.first[0], self.again + two


def test_a_tensor_of_several_names_is_one():
    """Static caches of the package transformers are buffers that are written to in a list."""
    model = Cached()
    x, i = torch.randn(1, 2), torch.tensor([1])
    mod, params = detach_params(mlc.from_torch(model, (x, i), keep_params_as_input=True))
    assert [p.name_hint for p in mod["main"].params] == ["x", "i", "first", "second"]
    assert list(mod["main"].attrs["mutated"]) == ["first", "second"]
    kept = [p.numpy() for p in params["main"]]
    for step in range(3):
        x, i = torch.randn(1, 2), torch.tensor([step])
        want = [v.numpy() for v in (*model(x, i), *model.buffers())][:4]
        made = evaluate(mod, x.numpy(), i.numpy(), *kept)
        for a, b in zip(made, want, strict=True):
            np.testing.assert_allclose(a, b, atol=1e-6)
        kept = made[2:]


class Grows:
    """Rows that grow from none, as a DynamicCache of the package transformers does."""

    def __init__(self):
        self.rows = torch.tensor([])

    def grow(self, rows):
        self.rows = torch.cat([self.rows, rows])
        return self


def test_a_class_that_makes_tensors_as_it_is_put_together():
    class Model(nn.Module):
        def forward(self, x, grows):
            y = grows.rows.sum(0) + x
            return y.mul_(2), grows.grow(x)

    tree = torch.utils._pytree
    tree.register_pytree_node(
        Grows,
        lambda g: ([g.rows], None),
        lambda rows, _: Grows().grow(*rows),
        flatten_with_keys_fn=lambda g: ([(tree.GetAttrKey("rows"), g.rows)], None),
    )
    x, rows = torch.randn(1, 2), torch.randn(3, 2)
    dynamic = {"x": None, "grows": [{0: torch.export.Dim.DYNAMIC}]}
    mod = mlc.from_torch(Model(), (x, Grows().grow(rows)), dynamic_shapes=dynamic)
    assert [p.name_hint for p in mod["main"].params] == ["x", "grows_rows"]
    for given in (rows, torch.randn(5, 2)):
        y, grown = Model()(x, Grows().grow(given))
        made = evaluate(mod, x.numpy(), given.numpy())
        for a, b in zip(made, (y, grown.rows), strict=True):
            np.testing.assert_allclose(a, b.numpy(), atol=1e-6)


def test_a_result_of_a_foreign_class_is_refused():
    class Grown(nn.Module):
        def forward(self, x):
            return x, Rows(x)

    with pytest.raises(UnsupportedError) as error:
        mlc.from_torch(Grown(), (torch.ones(2),))
    assert str(error.value) == (
        f"Grown: PyTorch does not export it: it returns a {Rows.__module__}.Rows, of which PyTorch "
        "does not know the tensors\n"
        "hint: return the tensors (models of transformers keep no such cache with "
        "use_cache=False), or register the class: torch.utils._pytree.register_pytree_node"
    )


class Masked(nn.Module):
    """A mask is made here only where nobody traces, as in the package transformers."""

    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x, mask=None):
        self.calls.add_(1)
        x.mul_(2)
        if mask is None and not torch.compiler.is_compiling():
            mask = torch.ones(x.shape[0], 1)
        return x * mask[:, None]


def test_what_runs_and_is_not_exported_is_refused_with_its_line():
    model, x = Masked(), torch.ones(4)
    with pytest.raises(UnsupportedError) as error:
        mlc.from_torch(model, (x,))
    line = inspect.getsourcelines(Masked)[1] + 12
    assert str(error.value) == (
        "Masked: PyTorch does not export it, though it runs: TypeError at "
        f"test_torch_import.py:{line}: 'NoneType' object is not subscriptable\n"
        "hint: give the model what it makes for itself where nobody exports it (such as a mask), "
        "or change that line; torch.compile(model, backend='mlcnb') leaves such places to Python"
    )
    assert isinstance(error.value.__cause__, TypeError)
    assert (model.calls.item(), x.tolist()) == (0, [1, 1, 1, 1])  # asked of copies
    with pytest.raises(TypeError, match="missing a required argument"):
        mlc.from_torch(model, ())  # eager PyTorch does not take it either


def test_numpy_in_a_model_is_refused_with_its_line():
    with pytest.raises(UnsupportedError) as error:
        mlc.from_torch(Numbers(), (torch.ones(4),))
    line = inspect.getsourcelines(Numbers)[1] + 2
    assert str(error.value) == (
        "Numbers: PyTorch does not export it: it asks for the elements of a tensor at "
        f"test_torch_import.py:{line}, which a model has only while it runs\n"
        "hint: write what NumPy does there with operators of torch, or do it before the model "
        "or after it"
    )


def test_what_pytorch_does_not_export_is_refused():
    with pytest.raises(UnsupportedError) as error:
        mlc.from_torch(Positive(), (torch.ones(4),))
    line = inspect.getsourcelines(Positive)[1] + 2
    assert str(error.value) == (
        "Positive: PyTorch does not export it: what it does at "
        f"test_torch_import.py:{line} depends on elements of a tensor: "
        "Could not guard on data-dependent expression Eq(u0, 1) "
        "(unhinted: Eq(u0, 1)).  (Size-like symbols: none)\n"
        "hint: torch.where or torch.cond for an if, or torch.compile(model, backend='mlcnb'), "
        "which leaves such places to Python"
    )
    with pytest.raises(UnsupportedError) as error:
        mlc.from_torch(Twelve(), (torch.ones(12),), dynamic_shapes=({0: torch.export.Dim("n")},))
    told = str(error.value)
    assert told.startswith("Twelve: PyTorch does not export it: Constraints violated (n)!")
    assert "your code specialized it to be a constant (12)" in told
    assert told.endswith("n = 12\nhint: change the model, or the dynamic_shapes that were given")
    with pytest.raises(RuntimeError, match="is invalid for input of size 11") as error:
        mlc.from_torch(Twelve(), (torch.ones(11),))
    assert not isinstance(error.value, UnsupportedError)  # the model's own, as in eager PyTorch


def test_without_torch(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingDependencyError) as error:
        from_exported_program(None)
    assert str(error.value) == "PyTorch is not installed\nhint: pip install 'mlcnb[torch]'"


def test_what_has_no_spelling_is_decomposed():
    def model(x):
        return torch.special.entr(x).sum() + torch.nn.functional.huber_loss(x, x * 0.3)

    x = torch.rand(4)
    assert not [n for n in coverage() if "huber" in n]
    np.testing.assert_allclose(evaluate(mlc.from_torch(model, x), x.numpy()), model(x), rtol=1e-5)


def test_graph_of_symbolic_trace():
    traced = torch.fx.symbolic_trace(nn.Sequential(nn.Linear(4, 3), nn.ReLU()))
    x = np.ones((2, 4), np.float32)
    want = traced(torch.from_numpy(x)).detach().numpy()
    fixed = from_fx(traced, [((2, 4), "float32")])
    np.testing.assert_allclose(evaluate(fixed, x), want, atol=1e-6)
    opened = from_fx(traced, [(("n", 4), "float32")])
    assert opened["main"].params[0].struct_info.dims[0].name in opened.script()
    np.testing.assert_allclose(evaluate(opened, x), want, atol=1e-6)


def test_the_users_line_goes_down_to_the_kernel():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 3)

        def forward(self, x):
            y = self.fc(x)
            return torch.relu(y)

    mod = mlc.from_torch(Net(), torch.randn(2, 4))
    line = Net.forward.__code__.co_firstlineno
    linear, relu = (
        f"linear at test_torch_import.py:{line + 1}",
        f"relu at test_torch_import.py:{line + 2}",
    )
    spans = [b.value.span for b in mod["main"].body.bindings if b.value.span is not None]
    assert [(s.source, s.name, s.line, s.kind) for s in spans[:3]] == [
        ("torch", linear, line + 1, "linear"),
        ("torch", linear, line + 1, "linear"),
        ("torch", relu, line + 2, "relu"),
    ]
    kernels = mlc.compile(mod).kernels.values()
    made_from = [
        {p.name for p in (k.func.span.parts or (k.func.span,))} for k in kernels if k.func.span
    ]
    assert {linear, relu} in made_from


def test_coverage_counts():
    names = {name.split(".")[1] for name in coverage()}
    assert len(names) >= 300
