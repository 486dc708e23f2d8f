"""A model with weights that were trained: MTCNN's first network, of the package facenet-pytorch."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

import mlcnb as mlc

torch = pytest.importorskip("torch", reason="the extra torch is not installed")

from torch import nn  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")


class PNet(nn.Module):
    """Says for each place of an image how likely a face is, and where its corners are.

    Source: Zhang et al. 2016, arXiv 1604.02878.
    """

    def __init__(self):
        super().__init__()
        self.conv1, self.prelu1 = nn.Conv2d(3, 10, 3), nn.PReLU(10)
        self.pool1 = nn.MaxPool2d(2, 2, ceil_mode=True)
        self.conv2, self.prelu2 = nn.Conv2d(10, 16, 3), nn.PReLU(16)
        self.conv3, self.prelu3 = nn.Conv2d(16, 32, 3), nn.PReLU(32)
        self.conv4_1, self.softmax4_1 = nn.Conv2d(32, 2, 1), nn.Softmax(dim=1)
        self.conv4_2 = nn.Conv2d(32, 4, 1)

    def forward(self, x):
        x = self.pool1(self.prelu1(self.conv1(x)))
        x = self.prelu3(self.conv3(self.prelu2(self.conv2(x))))
        return self.conv4_2(x), self.softmax4_1(self.conv4_1(x))


def test_pnet_of_mtcnn_over_several_sizes():
    found = importlib.util.find_spec("facenet_pytorch")
    if found is None or not found.submodule_search_locations:
        pytest.skip("facenet-pytorch, which has the weights, is not installed")
    weights = Path(found.submodule_search_locations[0]) / "data" / "pnet.pt"
    model = PNet().eval()
    model.load_state_dict(torch.load(weights, weights_only=True))
    example, any_size = torch.zeros(1, 3, 25, 31), torch.export.Dim.DYNAMIC
    mod = mlc.from_torch(model, example, dynamic_shapes=({2: any_size, 3: any_size},))
    ex = mlc.compile(mod)
    for size in ((25, 31), (40, 22)):
        x = torch.rand(1, 3, *size) * 2 - 1
        with torch.no_grad():
            want = model(x)
        for a, b in zip(ex(x), want, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)
