"""Networks of torch.nn, imported and compiled: the numbers are PyTorch's."""

from __future__ import annotations

import numpy as np
import pytest

import mlcnb as mlc

torch = pytest.importorskip("torch", reason="the extra torch is not installed")

import mlcnb.relax.frontend.torch  # noqa: E402 (registers the backend)
from tests.frontend.torch_models import MODELS, ResNet  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")


def made(name):
    torch.manual_seed(1)
    build, inputs = MODELS[name]
    return build().eval(), inputs()


def arrays(results):
    listed = results if isinstance(results, tuple | list) else [results]
    return [x.detach().numpy() if isinstance(x, torch.Tensor) else np.asarray(x) for x in listed]


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_model(name):
    model, inputs = made(name)
    mod = mlc.from_torch(model, inputs)
    with torch.no_grad():
        want = arrays(model(*inputs))
    got = arrays(mlc.compile(mod)(*inputs))
    assert len(got) == len(want)
    for a, b in zip(got, want, strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


QUICK = ("mobilenet", "vit", "gpt2")


@pytest.mark.parametrize(
    "name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in MODELS]
)
def test_model_under_torch_compile(name):
    model, inputs = made(name)
    torch._dynamo.reset()
    run = torch.compile(model, backend="mlcnb")
    with torch.no_grad():
        for _ in range(2):
            torch.testing.assert_close(run(*inputs), model(*inputs), rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_resnet18_in_full_imported_and_under_torch_compile():
    torch.manual_seed(1)
    model, x = ResNet((2, 2, 2, 2), 64, 1000).eval(), torch.randn(1, 3, 224, 224)
    imported = mlc.compile(mlc.from_torch(model, x))
    torch._dynamo.reset()
    with torch.no_grad():
        want = model(x).numpy()
        got = [imported(x).numpy(), torch.compile(model, backend="mlcnb")(x).numpy()]
    for y in got:
        assert y.argmax() == want.argmax()
        np.testing.assert_allclose(y, want, rtol=0, atol=1e-4)
