"""Models with weights that were trained, over several sizes: the numbers are PyTorch's."""

from __future__ import annotations

import numpy as np
import pytest

import mlcnb as mlc

torch = pytest.importorskip("torch", reason="the extra torch is not installed")

from mlcnb.observe import image  # noqa: E402
from tests.frontend import torch_pretrained as pretrained  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")

ANY = torch.export.Dim.DYNAMIC


def check(ex, model, *inputs):
    """Outputs within 1e-4 of PyTorch's."""
    with torch.no_grad():
        want = model(*inputs)
    got = ex(*inputs)
    got, want = (v if isinstance(v, tuple) else (v,) for v in (got, want))
    assert len(got) == len(want)
    for a, b in zip(got, want, strict=True):
        assert tuple(a.shape) == tuple(b.shape)
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-4)


def test_efficientnet_lite0_sees_the_tiger_cat():
    model = pretrained.efficientnet_lite0()
    photo = torch.from_numpy(image.load(pretrained.ASSETS / "chelsea.png"))
    ex = mlc.compile(mlc.from_torch(model, photo))
    check(ex, model, photo)
    found = image.top(ex(photo), labels=pretrained.ASSETS / "imagenet_classes.txt")
    assert "tiger cat 0.38" in repr(found)


def test_pnet_of_mtcnn_over_several_sizes():
    model = pretrained.mtcnn(pretrained.PNet)
    example = torch.zeros(1, 3, 25, 31)
    ex = mlc.compile(mlc.from_torch(model, example, dynamic_shapes=({2: ANY, 3: ANY},)))
    for size in ((25, 31), (40, 22), (16, 14)):
        check(ex, model, torch.rand(1, 3, *size) * 2 - 1)


@pytest.mark.parametrize(("network", "size"), [("RNet", 24), ("ONet", 48)])
def test_windows_of_mtcnn_over_several_batches(network, size):
    model = pretrained.mtcnn(getattr(pretrained, network))
    example = torch.zeros(2, 3, size, size)
    ex = mlc.compile(mlc.from_torch(model, example, dynamic_shapes=({0: ANY},)))
    for count in (2, 1, 7):
        check(ex, model, torch.rand(count, 3, size, size) * 2 - 1)


def sentences(batch, tokens):
    """Words, and a mask whose last rows are padding."""
    mask = torch.ones(batch, tokens, dtype=torch.int64)
    mask[-1, tokens - tokens // 3 :] = 0
    return torch.randint(0, 30522, (batch, tokens)), mask


@pytest.mark.slow
def test_minilm_over_several_lengths_and_batches():
    model = pretrained.minilm()
    sizes = {0: ANY, 1: torch.export.Dim("tokens", min=2, max=512)}
    ex = mlc.compile(mlc.from_torch(model, sentences(2, 9), dynamic_shapes=(sizes, sizes)))
    for batch, tokens in ((2, 9), (1, 33), (3, 128)):
        check(ex, model, *sentences(batch, tokens))


def test_minilm_of_a_fixed_length():
    model, given = pretrained.minilm(), sentences(2, 16)
    check(mlc.compile(mlc.from_torch(model, given)), model, *given)
