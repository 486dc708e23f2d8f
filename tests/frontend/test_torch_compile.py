"""torch.compile(model, backend="mlcnb"): the numbers are PyTorch's, the memory too."""

from __future__ import annotations

import importlib.metadata
import tomllib
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra torch is not installed")

from torch import nn  # noqa: E402

import mlcnb.relax.frontend.torch  # noqa: E402 (registers the backend)
from mlcnb.relax.frontend.torch import dynamo_capture_subgraphs, relax_dynamo  # noqa: E402

pytestmark = pytest.mark.filterwarnings(
    "ignore::UserWarning", "ignore::FutureWarning", "ignore::DeprecationWarning"
)


@pytest.fixture(autouse=True)
def anew():
    torch.manual_seed(0)
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def small():
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))


def test_the_name_is_known():
    assert "mlcnb" in torch._dynamo.list_backends()
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    found = project["entry-points"]["torch_dynamo_backends"]
    entry = importlib.metadata.EntryPoint("mlcnb", found["mlcnb"], "torch_dynamo_backends")
    assert entry.load() is mlcnb.relax.frontend.torch.dynamo.backend


def test_inference():
    model, x = small().eval(), torch.randn(3, 4)
    run = torch.compile(model, backend="mlcnb")
    with torch.no_grad():
        got = run(x)
        torch.testing.assert_close(got, model(x))
        assert got.data_ptr() != run(x).data_ptr()
        model[0].weight.mul_(2)  # weights are constants until they change
        torch.testing.assert_close(run(x), model(x))


def test_training():
    model, x = small(), torch.randn(5, 4)
    twin = small()
    twin.load_state_dict(model.state_dict())
    run = torch.compile(model, backend="mlcnb")
    for net, f in ((model, run), (twin, twin)):
        optimizer = torch.optim.SGD(net.parameters(), 0.1)
        for _ in range(2):
            optimizer.zero_grad()
            f(x).pow(2).mean().backward()
            optimizer.step()
    for a, b in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(a, b)


class Attention(nn.Module):
    """Four heads of queries, `heads` of keys and values."""

    def __init__(self, causal, heads):
        super().__init__()
        self.causal, self.shared = causal, heads != 4
        self.query, self.key, self.value = (nn.Linear(32, 8 * h) for h in (4, heads, heads))
        self.out = nn.Linear(32, 5)

    def forward(self, x, mask=None):
        q, k, v = (
            layer(x).unflatten(-1, (-1, 8)).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        found = nn.functional.scaled_dot_product_attention(
            q, k, v, attn_mask=mask, is_causal=self.causal, enable_gqa=self.shared
        )
        return self.out(found.transpose(1, 2).flatten(2))


@pytest.mark.parametrize(
    ("causal", "heads", "mask"),
    [(False, 4, None), (True, 4, None), (True, 2, None), (False, 4, "float"), (False, 4, "bool")],
)
def test_training_through_attention(causal, heads, mask):
    """PyTorch's backward graph reads the logarithms of the sums that ours gives."""
    model, x = Attention(causal, heads), torch.randn(2, 6, 32)
    seen = {"float": torch.randn(2, 1, 6, 6), "bool": torch.rand(2, 1, 6, 6) > 0.4, None: None}
    run = torch.compile(model, backend="mlcnb")
    found = []
    for f in (run, model):
        model.zero_grad()
        y = f(x, seen[mask])
        y.square().sum().backward()
        found.append([y.detach(), *(p.grad.clone() for p in model.parameters())])
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


def test_open_sizes_and_strides():
    model = small().eval()
    run = torch.compile(model, backend="mlcnb", dynamic=True)
    with torch.no_grad():
        for n in (3, 6):
            x = torch.randn(4, n).t()
            torch.testing.assert_close(run(x), model(x))


def test_inputs_that_are_written():
    def step(x, y):
        x.add_(1)
        return x * y, x.shape[0]

    x = torch.zeros(3)
    product, count = torch.compile(step, backend="mlcnb")(x, torch.full((3,), 2.0))
    assert (product.tolist(), x.tolist(), count) == ([2.0] * 3, [1.0] * 3, 3)


def test_graph_breaks_cut_into_functions():
    def model(x):
        y = torch.relu(x)
        if y.sum() > 0:
            return y * 2
        return y - 1

    mod = dynamo_capture_subgraphs(model, torch.ones(3))
    assert sorted(k.name_hint for k in mod.functions) == ["subgraph_0", "subgraph_1"]


def test_a_pipeline_of_ones_own():
    x = torch.randn(2, 4)
    model = small().eval()
    run = torch.compile(model, backend=relax_dynamo("zero"))
    with torch.no_grad():
        np.testing.assert_allclose(run(x), model(x), atol=1e-6)


def test_what_is_missing_is_named():
    run = torch.compile(lambda x: torch.linalg.qr(x)[0], backend="mlcnb")
    with pytest.raises(Exception, match="this operator is not imported: aten.linalg_qr.default"):
        run(torch.randn(3, 3))
