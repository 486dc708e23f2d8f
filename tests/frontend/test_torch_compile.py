"""torch.compile(model, backend="mlcnb"): the numbers are PyTorch's, the memory too."""

from __future__ import annotations

import copy
import importlib.metadata
import tomllib
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra torch is not installed")

from torch import nn  # noqa: E402

import mlcnb.relax.frontend.torch  # noqa: E402 (registers the backend)
from mlcnb.relax.frontend.torch import (  # noqa: E402
    dynamo,
    dynamo_capture_subgraphs,
    relax_dynamo,
)

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


@pytest.mark.slow
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


class Pooled(nn.Module):
    """Convolutions in several forms, a norm, and pools."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(4, 8, 3, stride=2, padding=1, groups=2)
        self.norm = nn.BatchNorm2d(8)
        self.second = nn.Conv2d(8, 6, (3, 1), dilation=(2, 1), bias=False)
        self.line = nn.Conv1d(6, 5, 3, stride=2, padding=2)

    def forward(self, x):
        x = nn.functional.relu(self.norm(self.first(x)))
        x = nn.functional.max_pool2d(x, 3, stride=2, padding=1)
        x = nn.functional.avg_pool2d(
            self.second(x), 2, stride=1, padding=1, count_include_pad=False
        )
        return self.line(x.flatten(2))


class Words(nn.Module):
    """A table of words, a norm over the last axis, an activation, a softmax."""

    def __init__(self):
        super().__init__()
        self.table, self.norm = nn.Embedding(11, 8), nn.LayerNorm(8)
        self.out = nn.Linear(8, 4)

    def forward(self, x):
        y = nn.functional.gelu(self.norm(self.table(x)))
        return self.out(y * y.softmax(-1)).log_softmax(-1)


def transposed():
    """Along rows and columns, then along one dimension."""
    first = nn.ConvTranspose2d(4, 6, (3, 2), stride=2, padding=1, output_padding=1, groups=2)
    return nn.Sequential(first, nn.Flatten(2), nn.ConvTranspose1d(6, 2, 3, stride=3, dilation=2))


def voxels():
    """Over three dimensions."""
    return nn.Sequential(
        nn.Conv3d(2, 4, 3, padding=1),
        nn.MaxPool3d(2, padding=1),
        nn.AvgPool3d(2, 1),
        nn.ConvTranspose3d(4, 2, 2),
    )


def divided():
    """With a pool whose derivatives are left to PyTorch."""
    return nn.Sequential(nn.Conv2d(4, 2, 1), nn.AvgPool2d(2, divisor_override=3))


DERIVED = {
    "pooled": (Pooled, lambda: torch.randn(3, 4, 19, 17)),
    "words": (Words, lambda: torch.randint(0, 11, (5, 7))),
    "attention": (lambda: Attention(True, 4), lambda: torch.randn(2, 6, 32)),
    "masked": (lambda: Attention(False, 4), lambda: torch.randn(2, 6, 32)),
    "transposed": (transposed, lambda: torch.randn(2, 4, 5, 6)),
    "voxels": (voxels, lambda: torch.randn(2, 2, 6, 7, 6)),
    "divided": (divided, lambda: torch.randn(2, 4, 5, 6)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", DERIVED)
@pytest.mark.parametrize("backward", [True, False])
def test_backward_graphs_are_compiled(name, backward, monkeypatch):
    """By us where all operators are imported, else by PyTorch: the numbers are the same."""
    make, drawn = DERIVED[name]
    ours, theirs = [], []
    compiled, eager = dynamo._executed, dynamo._eager
    monkeypatch.setattr(dynamo, "_executed", lambda *a: ours.append(compiled(*a)) or ours[-1])
    monkeypatch.setattr(dynamo, "_eager", lambda *a: theirs.append(eager(*a)) or theirs[-1])
    model, x = make(), drawn()
    mask = (torch.rand(2, 1, 6, 6) > 0.4,) if name == "masked" else ()
    twin = copy.deepcopy(model)
    run = torch.compile(model, backend="mlcnb", options={"backward": backward})
    for f in (run, twin):
        f(x, *mask).square().mean().backward()
    by_us = backward and name != "divided"
    assert (len(ours), len(theirs)) == ((2, 0) if by_us else (1, 1))
    for a, b in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, rtol=2e-4, atol=2e-5)


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
