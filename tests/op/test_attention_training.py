"""nn.attention in training: what it is made of gives its results, and PyTorch's derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mlcnb as mlc
from mlcnb.core.errors import UnsupportedOpError
from mlcnb.relax import BlockBuilder, Var, op
from mlcnb.relax.expr import tensor_info
from mlcnb.relax.transform import DecomposeOpsForTraining, Gradient
from mlcnb.testing import assert_same_results, evaluate

RNG = np.random.default_rng(0)
SHAPES = {"q": (2, 5, 3, 4), "k": (2, 7, 3, 4), "v": (2, 7, 3, 6), "bias": (1, 3, 5, 7)}
FORMS = [
    {},
    {"scale": 0.3},
    {"causal_mask": "TopLeft"},
    {"causal_mask": "BottomRight"},
    {"causal_mask": "BottomRight", "window_size": 3},
]


def attends(dtype: str = "float32", of: int | str = 5, **attrs: Any) -> Any:
    """main(q, k, v, bias): the sum of what is found, each weighed by its square."""
    shapes = SHAPES | {"q": (2, of, 3, 4)}
    args = [Var(n, tensor_info(s, dtype)) for n, s in shapes.items() if n != "bias" or of == 5]
    bb = BlockBuilder()
    with bb.function("main", args):
        with bb.dataflow():
            found = bb.emit(op.nn.attention(*args, **attrs))
            total = bb.emit_output(op.sum(op.multiply(found, found)))
        bb.emit_func_output(total)
    return bb.get()


def values(dtype: str = "float32") -> list[np.ndarray]:
    return [RNG.normal(size=s).astype(dtype) for s in SHAPES.values()]


@pytest.mark.parametrize("attrs", FORMS, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_it_means_the_same(attrs: dict[str, Any], dtype: str) -> None:
    mod = attends(dtype, **attrs)
    made = DecomposeOpsForTraining()(mod)
    assert "nn.attention" not in made.script()
    given = values(dtype)
    bound = 3e-2 if dtype == "float16" else 1e-5
    assert_same_results(evaluate(mod, *given), evaluate(made, *given), bound, bound)


@pytest.mark.parametrize("attrs", FORMS[:4], ids=str)
def test_derivatives_are_those_of_pytorch(attrs: dict[str, Any]) -> None:
    torch = pytest.importorskip("torch")
    mod = Gradient("main")(DecomposeOpsForTraining()(attends(**attrs)))
    given = values()
    ex = mlc.compile(mod)
    result, grads = ex["main_adjoint"](*given)
    q, k, v, bias = (torch.from_numpy(x).requires_grad_() for x in given)
    mask = bias
    if "causal_mask" in attrs:
        shift = 2 if attrs["causal_mask"] == "BottomRight" else 0
        seen = torch.ones(5, 7).tril(shift).bool()
        mask = bias.masked_fill(~seen, float("-inf"))
    turned = [x.transpose(1, 2) for x in (q, k, v)]
    attention = torch.nn.functional.scaled_dot_product_attention
    found = attention(*turned, attn_mask=mask, scale=attrs.get("scale"))
    total = (found * found).sum()
    total.backward()
    assert_same_results(total.detach().numpy(), result, 1e-4, 1e-4)
    for x, grad in zip((q, k, v, bias), grads, strict=True):
        assert_same_results(x.grad.numpy(), grad, 1e-4, 1e-4)


@pytest.mark.parametrize("kind", ["float32", "bool"])
def test_nothing_goes_back_from_a_query_that_sees_nothing(kind: str) -> None:
    """Nor to it: PyTorch finds 0 for it, and so do the models that are read from it."""
    torch = pytest.importorskip("torch")

    class Loss(torch.nn.Module):
        def forward(self, q: Any, k: Any, v: Any, mask: Any) -> Any:
            found = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
            return (found * found).sum()

    seen = np.ones((5, 7), bool)
    seen[1], seen[3, 2:] = False, False
    mask = torch.from_numpy(seen)
    if kind != "bool":
        mask = torch.zeros(5, 7).masked_fill(~mask, float("-inf"))
    given = [torch.from_numpy(x.swapaxes(1, 2).copy()).requires_grad_() for x in values()[:3]]
    total = Loss()(*given, mask)
    total.backward()
    mod = mlc.from_torch(torch.export.export(Loss(), (*given, mask)))
    params = mod["main"].params[:3]
    both = Gradient("main", list(params))(DecomposeOpsForTraining()(mod))
    arrays = [x.detach().numpy() for x in (*given, mask)]
    result, grads = mlc.compile(both)["main_adjoint"](*arrays)
    assert_same_results(total.detach().numpy(), result, 1e-4, 1e-4)
    for x, grad in zip(given, grads, strict=True):
        assert_same_results(x.grad.numpy(), grad, 1e-4, 1e-4)
        assert np.isfinite(np.asarray(grad)).all()


def test_a_query_that_sees_nothing_finds_nan_in_training_too() -> None:
    """Of five queries and three keys, both counted from the end, the first two see none."""
    sizes = {"q": 5, "k": 3, "v": 3}
    args = [Var(n, tensor_info((1, d, 1, 2), "float32")) for n, d in sizes.items()]
    bb = BlockBuilder()
    with bb.function("main", args):
        with bb.dataflow():
            found = bb.emit_output(op.nn.attention(*args, causal_mask="BottomRight"))
        bb.emit_func_output(found)
    mod = bb.get()
    given = [RNG.normal(size=(1, d, 1, 2)).astype("float32") for d in sizes.values()]
    expected = evaluate(mod, *given)
    assert np.isnan(expected).any((2, 3)).tolist() == [[True, True, False, False, False]]
    assert_same_results(expected, evaluate(DecomposeOpsForTraining()(mod), *given), 1e-5, 1e-5)


def test_a_mask_over_an_open_length_stays_and_is_refused_by_name() -> None:
    mod = DecomposeOpsForTraining()(attends(of="s", causal_mask="TopLeft"))
    assert "nn.attention" in mod.script()
    with pytest.raises(UnsupportedOpError, match=r"nn\.attention has no gradient"):
        Gradient("main")(mod)
    assert "nn.attention" not in DecomposeOpsForTraining()(attends(of="s")).script()
