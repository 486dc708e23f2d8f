"""Programs as strangers write them: exported and under torch.compile, their results are PyTorch's.

Attention in several forms, indices, writing in place, regions of autocast, graphs that are asked
for with keywords, results in dictionaries, sizes within ranges.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import mlcnb as mlc
from mlcnb.core.errors import UnsupportedOpError

torch = pytest.importorskip("torch", reason="the extra torch is not installed")

from torch import nn  # noqa: E402
from torch._higher_order_ops.associative_scan import associative_scan  # noqa: E402
from torch.utils._pytree import tree_leaves  # noqa: E402

pytestmark = pytest.mark.filterwarnings(
    "ignore::UserWarning", "ignore::FutureWarning", "ignore::DeprecationWarning"
)
F, R = nn.functional, torch.randn


class Rotary(nn.Module):
    """Causal attention of queries and keys that are turned by their places."""

    def __init__(self):
        super().__init__()
        self.qkv, self.last = nn.Linear(32, 96), nn.Linear(32, 32)
        self.register_buffer("speed", 1.0 / (10000 ** (torch.arange(0, 8, 2).float() / 8)))

    def turned(self, x):
        angle = torch.outer(torch.arange(x.shape[2]).float(), self.speed)
        angle = torch.cat((angle, angle), -1)[None, None]
        a, b = x.chunk(2, -1)
        return x * angle.cos() + torch.cat((-b, a), -1) * angle.sin()

    def forward(self, x):
        batch, length, _ = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, 4, 8).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(self.turned(q), self.turned(k), v, is_causal=True)
        return self.last(y.transpose(1, 2).reshape(batch, length, 32))


class SharedKeys(nn.Module):
    """Four heads of queries, two of keys and values."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = nn.Linear(16, 16), nn.Linear(16, 8), nn.Linear(16, 8)

    def forward(self, x, y):
        q = self.q(x).unflatten(-1, (4, 4)).transpose(1, 2)
        k, v = (f(y).unflatten(-1, (2, 4)).transpose(1, 2) for f in (self.k, self.v))
        return F.scaled_dot_product_attention(q, k, v, enable_gqa=True, scale=0.3)


class Padded(nn.Module):
    """Attention with the weights of each head, of sequences of several lengths."""

    def __init__(self):
        super().__init__()
        self.heads = nn.MultiheadAttention(16, 4, batch_first=True)

    def forward(self, x, lengths):
        hidden = torch.arange(x.shape[1])[None] >= lengths[:, None]
        return self.heads(x, x, x, key_padding_mask=hidden, average_attn_weights=False)


class Windows(nn.Module):
    """Attention in windows that are moved, with a table of relative places."""

    def __init__(self):
        super().__init__()
        self.norm, self.qkv = nn.LayerNorm(8), nn.Linear(8, 24)
        self.table = nn.Parameter(R(9, 2))
        at = torch.stack(torch.meshgrid(torch.arange(2), torch.arange(2), indexing="ij")).flatten(1)
        away = (at[:, :, None] - at[:, None]).permute(1, 2, 0) + 1
        self.register_buffer("index", away[..., 0] * 3 + away[..., 1])

    def forward(self, x):
        x = torch.roll(self.norm(x.permute(0, 2, 3, 1)), (-1, -1), (1, 2))
        b, h, w, c = x.shape
        x = x.view(b, h // 2, 2, w // 2, 2, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, 4, c)
        q, k, v = self.qkv(x).reshape(-1, 4, 3, 2, 4).permute(2, 0, 3, 1, 4)
        bias = self.table[self.index.view(-1)].view(4, 4, -1).permute(2, 0, 1)
        y = (((q * 0.5) @ k.transpose(-2, -1) + bias).softmax(-1) @ v).transpose(1, 2)
        y = y.reshape(b, h // 2, w // 2, 2, 2, c).permute(0, 1, 3, 2, 4, 5).reshape(b, h, w, c)
        return torch.roll(y, (1, 1), (1, 2))


class Experts(nn.Module):
    """The two best of four experts for each row."""

    def __init__(self):
        super().__init__()
        self.gate, self.weight = nn.Linear(16, 4), nn.Parameter(R(4, 16, 8))

    def forward(self, x):
        share, chosen = self.gate(x).softmax(-1).topk(2, -1)
        y = torch.einsum("bd,bkdh->bkh", x, self.weight[chosen])
        routed = torch.zeros(3, 4).scatter_(1, chosen, share)
        return (y * share[..., None]).sum(1), routed, F.one_hot(chosen, 4).float().sum((0, 1))


class Sums(nn.Module):
    def forward(self, a, b, c):
        return (
            torch.einsum("bij,bjk->bik", a, b),
            torch.einsum("bij,bjk,k->b", a, b, c),
            torch.einsum("...ij->...ji", a),
            torch.einsum("bii->bi", torch.einsum("bij,bkj->bik", a, a)),
        )


class Places(nn.Module):
    """Reading and writing by indices, masks, slices."""

    def forward(self, x, i, mask):
        g, h, k, w = x.clone(), x.clone(), x.clone(), x.clone()
        g[i] = 0
        h[:, 1:3] += 1
        k[1, ..., 0] = x[0, ..., 1]
        w[:, i] = x[:, :2] * 3
        w[..., i] = torch.tensor([5.0, 7.0])
        picked = x[i], x[:, i], x[..., ::2], x[1:3, None, -1], x[i[:, None], i], x[i, :, i]
        return *picked, g, h, k, w, torch.where(mask[:, None, None], x, -x)


class Written(nn.Module):
    """Views of tensors that are written to, and constants that the program makes."""

    def forward(self, x):
        y = x.clone()
        y.mul_(2).add_(1)
        y[:, 0] = 7
        y.view(-1)[3] = -1
        y.t()[2, 1].fill_(9)
        v = torch.zeros_like(x)
        v.copy_(x[0]).clamp_(-0.5, 0.5).index_add_(0, torch.tensor([0, 0]), x[:2])
        return y, v, x + torch.tensor([1.0, 2.0, 3.0, 4.0])


class Autocast(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(16, 16)

    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = self.fc(x)
        with torch.enable_grad():
            z = y.float() * 2
        return y, z


class Mapped(nn.Module):
    """vmap, and a scan by an associative function."""

    def forward(self, x):
        each = torch.vmap(lambda row: row.softmax(0) * row.sum())(x)
        return each, associative_scan(torch.maximum, x, 0, combine_mode="generic")


class Branches(nn.Module):
    """A branch within a branch."""

    def forward(self, x, p):
        def inner(x):
            return torch.cond(x.sum() > 0, lambda x: x * 2, lambda x: x - 1, (x,))

        return torch.cond(p, inner, torch.sin, (x,))


class Keywords(nn.Module):
    def forward(self, x, *, mask, options):
        first, second = options["more"]
        return {"out": x * mask + options["shift"], "rest": [first * x, (x + second, x.sum())]}


class Tied(nn.Module):
    """The table of words is the last layer's weight."""

    def __init__(self):
        super().__init__()
        self.words, self.last = nn.Embedding(8, 6, padding_idx=0), nn.Linear(6, 8, bias=False)
        self.last.weight = self.words.weight

    def forward(self, tokens):
        return self.last(self.words(tokens)).log_softmax(-1)


class Images(nn.Module):
    """Convolutions and normalisations that are not the usual ones."""

    def __init__(self):
        super().__init__()
        self.a = nn.Conv2d(3, 6, 3, padding="same", padding_mode="reflect", dilation=2)
        self.b = nn.ConvTranspose2d(6, 4, 3, stride=2, output_padding=1, groups=2)
        self.groups, self.each = nn.GroupNorm(2, 4), nn.InstanceNorm2d(4, affine=True)
        self.bent, self.local = nn.PReLU(4), nn.LocalResponseNorm(2)

    def forward(self, x):
        y = self.local(self.bent(self.each(self.groups(self.b(F.mish(self.a(x)))))))
        small = F.avg_pool2d(y, 3, 2, 1, ceil_mode=True, count_include_pad=False)
        columns = F.unfold(y, 3, stride=2)
        back = F.fold(columns, y.shape[-2:], 3, stride=2)
        return F.pixel_shuffle(y, 2), small, columns, back


class Steps(nn.Module):
    """Layers and cells that carry a state."""

    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(8, 6, 2, batch_first=True, bidirectional=True, proj_size=3)
        self.gru, self.cell = nn.GRU(6, 4, batch_first=True), nn.LSTMCell(8, 5)

    def forward(self, x):
        y, (h, c) = self.lstm(x)
        state = torch.zeros(2, 5), torch.zeros(2, 5)
        for t in range(x.shape[1]):
            state = self.cell(x[:, t], state)
        return y, h, c, self.gru(y)[0], state[0]


class Measures(nn.Module):
    """Losses, distances, order."""

    def forward(self, x, labels):
        middle = x.kthvalue(2, dim=1)
        return (
            F.cross_entropy(x, labels, label_smoothing=0.1),
            F.triplet_margin_loss(x, x + 1, x - 1),
            F.cosine_embedding_loss(x, x + 1, torch.tensor([1, -1, 1])),
            F.bilinear(x, x, torch.ones(2, 4, 4)),
            torch.cdist(x, x * 2),
            torch.cdist(x, x * 2, p=1.0),
            torch.searchsorted(torch.tensor([-1.0, 0.0, 1.0]), x, right=True),
            torch.hypot(x, x * 1e30),
            torch.fmax(x, x.log()),
            torch.fmin(x.log(), x),
            torch.ldexp(x, labels[:, None]),
            x.median(),
            *middle,
        )


class Ranges(nn.Module):
    """Sizes within ranges, and results of which they tell the size."""

    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(R(64, 8))

    def forward(self, x):
        x = x + self.table[: x.shape[1]]
        grid = torch.tril(torch.ones(x.shape[1], x.shape[1]))
        return x.mean((1, 2)), x.flatten(1), torch.cat([x, x], 1), F.pad(x, (1, 1, 2, 0)), grid


class Program(NamedTuple):
    """What a model is called with: first as an example, then with other sizes."""

    model: Callable[[], nn.Module]
    inputs: list[Callable[[], tuple[Any, ...]]]
    named: Callable[[], dict[str, Any]] = dict
    open: Any = None
    tol: float = 1e-4


def example(model, *shapes, **more):
    return Program(model, [lambda: tuple(R(*s) if isinstance(s, tuple) else s for s in shapes)],
                   **more)  # fmt: skip


DIMS = ({0: torch.export.Dim("batch", max=16), 1: torch.export.Dim("length", min=2, max=64)},)
PROGRAMS = [
    example(Rotary, (2, 8, 32)),
    example(SharedKeys, (2, 6, 16), (2, 9, 16)),
    example(Padded, (2, 6, 16), torch.tensor([3, 6])),
    example(Windows, (2, 8, 4, 4)),
    example(Experts, (3, 16)),
    example(Sums, (2, 3, 4), (2, 4, 5), (5,)),
    example(Places, (4, 5, 6), torch.tensor([0, 2]), torch.tensor([True, False, True, False])),
    example(Written, (3, 4)),
    example(Autocast, (2, 16), tol=1e-2),  # numbers have 8 bits
    example(Branches, (3, 4), torch.tensor(True)),
    example(
        Keywords,
        (2, 4),
        named=lambda: {"mask": R(2, 4), "options": {"shift": R(4), "more": [R(1), R(2, 1)]}},
    ),
    example(Tied, torch.tensor([[1, 5, 2], [0, 3, 3]])),
    example(Images, (2, 3, 9, 9)),
    example(Steps, (2, 5, 8)),
    example(Measures, (3, 4), torch.tensor([1, 0, 2])),
    Program(Ranges, [lambda s=s: (R(*s, 8),) for s in ((3, 7), (1, 2), (5, 33))], open=DIMS),
]
#: those that take more than five seconds
LONG = (Rotary, Windows, Padded, Places, Measures, Images, Steps)
each_program = pytest.mark.parametrize(
    "program",
    [
        pytest.param(p, id=p.model.__name__, marks=pytest.mark.slow if p.model in LONG else ())
        for p in PROGRAMS
    ],
)


def leaves(found):
    """All values of a result in order, whatever holds them."""
    return [np.asarray(x.detach().float() if x.dtype == torch.bfloat16 else x)
            if isinstance(x, torch.Tensor) else np.asarray(x)
            for x in tree_leaves(found)]  # fmt: skip


def same(found, wanted, tol):
    pairs = list(zip(leaves(found), leaves(wanted), strict=True))
    for a, b in pairs:
        assert a.shape == b.shape and (a.dtype == b.dtype or a.dtype.name == "bfloat16")
        np.testing.assert_allclose(a.astype(b.dtype), b, rtol=tol, atol=tol)


@pytest.mark.slow
@each_program
def test_exported(program):
    torch.manual_seed(0)
    model, first = program.model().eval(), program.inputs[0]()
    ex = mlc.compile(
        mlc.from_torch(model, first, program.named() or None, dynamic_shapes=program.open)
    )
    for inputs in (first, *(make() for make in program.inputs[1:])):
        named = program.named()
        with torch.no_grad():
            wanted = model(*inputs, **named)
        same(ex(*tree_leaves((inputs, named))), wanted, program.tol)


@pytest.mark.slow
@each_program
def test_under_torch_compile(program):
    torch.manual_seed(0)
    torch._dynamo.reset()
    model = program.model().eval()
    run = torch.compile(model, backend="mlcnb")
    for make in program.inputs:
        inputs, named = make(), program.named()
        with torch.no_grad():
            same(run(*inputs, **named), model(*inputs, **named), program.tol)
    torch._dynamo.reset()


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16])
def test_tensors_of_half_precision_go_in_and_come_out(kind):
    torch.manual_seed(0)
    model, x = nn.Linear(4, 3).to(kind), R(2, 4).to(kind)
    with torch.no_grad():
        wanted = model(x)
        torch._dynamo.reset()
        found = (
            mlc.compile(mlc.from_torch(model, (x,)))(x),
            torch.compile(model, backend="mlcnb")(x),
        )
    for each in found:
        torch.testing.assert_close(each, wanted, rtol=1e-2, atol=1e-2)


def test_vmap_and_an_associative_scan():
    x = R(5, 3)
    ex = mlc.compile(mlc.from_torch(Mapped(), (x,)))
    same(ex(x), Mapped()(x), 1e-5)


def test_what_pytorch_cannot_decompose_is_refused_by_its_name():
    with pytest.raises(UnsupportedOpError, match="not imported: aten.geqrf.default"):
        mlc.from_torch(lambda x: torch.geqrf(x)[0], (R(3, 3),))
