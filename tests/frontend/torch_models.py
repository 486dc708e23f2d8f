"""Networks of torch.nn in small, with random weights: the shapes of those that people deploy."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import nn


class ResidualBlock(nn.Module):
    """Two 3x3 convolutions and a way around them, as ResNet-18 has."""

    def __init__(self, c_in, c_out, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(c_in, c_out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(c_out)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(c_out, c_out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(c_out)
        self.downsample = None
        if stride != 1 or c_in != c_out:
            conv = nn.Conv2d(c_in, c_out, 1, stride, bias=False)
            self.downsample = nn.Sequential(conv, nn.BatchNorm2d(c_out))

    def forward(self, x):
        around = x if self.downsample is None else self.downsample(x)
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += around
        return self.relu(out)


class Bottleneck(nn.Module):
    """1x1, 3x3, 1x1 and a way around them, as ResNet-50 has."""

    def __init__(self, c_in, width, stride):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(c_in, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, 4 * width, 1, bias=False), nn.BatchNorm2d(4 * width),
        )  # fmt: skip
        self.around = nn.Sequential(
            nn.Conv2d(c_in, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width)
        )

    def forward(self, x):
        return F.relu(self.body(x) + self.around(x))


class ResNet(nn.Module):
    """ResNet-18's form (blocks (2, 2, 2, 2), width 64, 1000 classes are the real ones)."""

    def __init__(self, blocks=(1, 1), width=8, classes=10):
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        layers, c_in = [], width
        for i, count in enumerate(blocks):
            for j in range(count):
                c_out = width << i
                layers.append(ResidualBlock(c_in, c_out, 2 if i and not j else 1))
                c_in = c_out
        self.layers = nn.Sequential(*layers)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(c_in, classes)

    def forward(self, x):
        x = self.maxpool(F.relu(self.bn1(self.conv1(x))))
        x = self.avgpool(self.layers(x))
        return self.fc(torch.flatten(x, 1))


def resnet50():
    """The form of ResNet-50: two bottlenecks."""
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, 2, 1), Bottleneck(8, 4, 1), Bottleneck(16, 4, 2),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10),
    )  # fmt: skip


class InvertedResidual(nn.Module):
    """Wider, depthwise, narrower, as MobileNetV2 has; with `squeeze` as EfficientNet has."""

    def __init__(self, c_in, c_out, stride, expand, act, squeeze=False):
        super().__init__()
        wide = c_in * expand
        self.around = stride == 1 and c_in == c_out
        self.grow = nn.Sequential(nn.Conv2d(c_in, wide, 1, bias=False), nn.BatchNorm2d(wide), act())
        deep = nn.Conv2d(wide, wide, 3, stride, 1, groups=wide, bias=False)
        self.deep = nn.Sequential(deep, nn.BatchNorm2d(wide), act())
        self.gate = None
        if squeeze:
            self.gate = nn.Sequential(
                nn.AdaptiveAvgPool2d(1), nn.Conv2d(wide, 4, 1), nn.SiLU(), nn.Conv2d(4, wide, 1),
                nn.Sigmoid(),
            )  # fmt: skip
        self.shrink = nn.Sequential(nn.Conv2d(wide, c_out, 1, bias=False), nn.BatchNorm2d(c_out))

    def forward(self, x):
        out = self.deep(self.grow(x))
        if self.gate is not None:
            out = out * self.gate(out)
        out = self.shrink(out)
        return x + out if self.around else out


def mobilenet(act=nn.ReLU6, squeeze=False):
    """The form of MobileNetV2, or with SiLU and gates of EfficientNet."""
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), act(),
        InvertedResidual(8, 8, 1, 2, act, squeeze), InvertedResidual(8, 12, 2, 4, act, squeeze),
        nn.Conv2d(12, 32, 1), act(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2),
        nn.Linear(32, 10),
    )  # fmt: skip


def efficientnet():
    """The form of EfficientNet."""
    return mobilenet(nn.SiLU, squeeze=True)


class ViT(nn.Module):
    """Patches, a class token, encoders with the norm first, a head."""

    def __init__(self, width=16, depth=1):
        super().__init__()
        self.patches = nn.Conv2d(3, width, 4, 4)
        self.token = nn.Parameter(torch.randn(1, 1, width))
        self.place = nn.Parameter(torch.randn(1, 17, width))
        layer = nn.TransformerEncoderLayer(
            width, 2, 32, activation="gelu", batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 10)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], dim=1) + self.place
        return self.head(self.norm(self.encoder(x))[:, 0])


class Bert(nn.Module):
    """Three embeddings, attention with a mask of padding, a pooler."""

    def __init__(self, width=16, words=50):
        super().__init__()
        self.word, self.kind = nn.Embedding(words, width), nn.Embedding(2, width)
        self.place, self.norm = nn.Embedding(16, width), nn.LayerNorm(width)
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))
        self.out, self.norm1 = nn.Linear(width, width), nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 32), nn.Linear(32, width)
        self.norm2, self.pool = nn.LayerNorm(width), nn.Linear(width, width)

    def heads(self, x):
        return x.view(x.shape[0], x.shape[1], 2, -1).permute(0, 2, 1, 3)

    def forward(self, ids, mask):
        place = torch.arange(ids.shape[1], device=ids.device)[None]
        x = self.norm(self.word(ids) + self.place(place) + self.kind(torch.zeros_like(ids)))
        bias = (1.0 - mask[:, None, None, :].to(x.dtype)) * torch.finfo(x.dtype).min
        q, k, v = self.heads(self.q(x)), self.heads(self.k(x)), self.heads(self.v(x))
        scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(q.shape[-1]) + bias
        seen = torch.matmul(F.softmax(scores, dim=-1), v).permute(0, 2, 1, 3).contiguous()
        x = self.norm1(x + self.out(seen.view(x.shape)))
        x = self.norm2(x + self.down(F.gelu(self.up(x))))
        return x, torch.tanh(self.pool(x[:, 0]))


class GPT2(nn.Module):
    """Causal attention of three projections in one, tanh-gelu, words out of the embedding."""

    def __init__(self, width=16, words=40):
        super().__init__()
        self.word, self.place = nn.Embedding(words, width), nn.Embedding(16, width)
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(width) for _ in range(3))
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.head = nn.Linear(width, words, bias=False)
        self.head.weight = self.word.weight

    def forward(self, ids):
        b, t = ids.size()
        x = self.word(ids) + self.place(torch.arange(0, t))
        q, k, v = self.qkv(self.norm1(x)).split(x.shape[-1], dim=2)
        q, k, v = (y.view(b, t, 2, -1).transpose(1, 2) for y in (q, k, v))
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).contiguous().view(b, t, -1))
        x = x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))
        return self.head(self.norm3(x))


class Speech(nn.Module):
    """LSTM both ways in two layers, and a GRU over it."""

    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(6, 5, num_layers=2, bidirectional=True, batch_first=True)
        self.gru, self.head = nn.GRU(10, 4), nn.Linear(4, 3)

    def forward(self, x):
        y, (h, c) = self.lstm(x)
        z, last = self.gru(y.transpose(0, 1))
        return self.head(z).log_softmax(-1), h, c, last


class UNet(nn.Module):
    """Down, up, and what was there before beside it."""

    def __init__(self, c=4):
        super().__init__()
        self.first, self.down = self.pair(3, c), self.pair(c, 2 * c)
        self.bottom = self.pair(2 * c, 4 * c)
        self.up1, self.right1 = nn.ConvTranspose2d(4 * c, 2 * c, 2, 2), self.pair(4 * c, 2 * c)
        self.up2 = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True)
        self.right2, self.last = self.pair(3 * c, c), nn.Conv2d(c, 2, 1)

    @staticmethod
    def pair(c_in, c_out):
        norm = nn.GroupNorm(2, c_out)
        return nn.Sequential(nn.Conv2d(c_in, c_out, 3, padding=1), norm, nn.LeakyReLU(0.1, True))

    def forward(self, x):
        a = self.first(x)
        b = self.down(F.max_pool2d(a, 2))
        c = self.bottom(F.avg_pool2d(b, 2))
        c = self.right1(torch.cat([self.up1(c), b], dim=1))
        c = self.right2(torch.cat([self.up2(c), a], dim=1))
        return torch.sigmoid(self.last(c))


def images(size=16):
    return (torch.randn(2, 3, size, size),)


def words():
    return torch.randint(0, 40, (2, 6))


#: name -> what makes the model, what makes its inputs
MODELS = {
    "resnet18": (ResNet, lambda: images(32)),
    "resnet50": (resnet50, images),
    "mobilenet": (mobilenet, images),
    "efficientnet": (efficientnet, images),
    "vit": (ViT, images),
    "bert": (Bert, lambda: (words(), torch.tensor([[1] * 6, [1] * 4 + [0] * 2]))),
    "gpt2": (GPT2, lambda: (words(),)),
    "lstm": (Speech, lambda: (torch.randn(2, 3, 6),)),
    "unet": (UNet, images),
}
