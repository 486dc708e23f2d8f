"""PyTorch programs as people write them, of open sizes: each beside PyTorch, at several sizes."""

from __future__ import annotations

import math

import numpy as np
import pytest

import mlcnb as mlc

torch = pytest.importorskip("torch", reason="the extra torch is not installed")
F = torch.nn.functional

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")

ANY = torch.export.Dim.DYNAMIC


def check(model, cases, target="llvm", tol=1e-5):
    """Each case gives the shapes of the inputs: exported for the first, run for all."""
    generator = torch.Generator().manual_seed(0)
    drawn = [tuple(torch.randn(s, generator=generator) for s in shapes) for shapes in cases]
    dynamic = tuple(
        {i: ANY for i in range(x.ndim) if len({c[k][i] for c in cases}) > 1}
        for k, x in enumerate(drawn[0])
    )
    dynamic = dynamic if isinstance(model, torch.nn.Module) else (dynamic,)
    ex = mlc.compile(mlc.from_torch(model, drawn[0], dynamic_shapes=dynamic), target)
    for inputs in drawn:
        got, want = ex(*inputs), model(*inputs)
        got, want = (v if isinstance(v, tuple | list) else (v,) for v in (got, want))
        for a, b in zip(got, want, strict=True):
            a, b = np.asarray(a), b.numpy()
            assert (a.shape, a.dtype) == (b.shape, b.dtype)
            np.testing.assert_allclose(a, b, rtol=tol, atol=tol)


def lines(*sizes):
    """Cases of one input of two dimensions."""
    return [((a, b),) for a, b in sizes]


def pictures(*sizes):
    """Cases of one input of batches of images."""
    return [((b, 3, h, w),) for b, h, w in sizes]


LINES = lines((3, 10), (2, 17), (5, 4), (4, 33))
PICTURES = pictures((2, 7, 10), (1, 8, 8), (3, 16, 5), (2, 33, 9))

#: numbers that are computed from sizes
NUMBERS = {
    "root": lambda x: x / x.shape[-1] ** 0.5,
    "one over a root": lambda x: x * x.shape[-1] ** -0.5 + torch.sym_sqrt(x.shape[0]),
    "quotient": lambda x: x * (x.shape[0] / x.shape[1]) + 1 / x.shape[1],
    "power of a quotient": lambda x: x * 2.0 ** (-8 / x.shape[1]),
    "of integers": lambda x: (x * 9).to(torch.int32) * (x.shape[0] / 2),
    "of half precision": lambda x: x.half() / x.shape[1] ** 0.5,
    "full": lambda x: torch.full((x.shape[0],), 1 / x.shape[1]),
    "clamped": lambda x: x.clamp(max=x.shape[0] / 8),
    "numbers from a size down": lambda x: torch.arange(x.shape[1], -x.shape[0], -1.0),
    "a line to a size": lambda x: x.sum() + torch.linspace(0, x.shape[1], 5),
    "a line from a quotient": lambda x: x.sum() + torch.linspace(-x.shape[0] / 2, 1, 7),
    "a line of one": lambda x: x.sum() + torch.linspace(x.shape[0], x.shape[1], 1),
    "rounded to a size": lambda x: x[:, : round(x.shape[1] * 0.75)],
    "up": lambda x: x[:, : math.ceil(x.shape[1] / 3)],
    "down": lambda x: x[:, : math.floor(x.shape[1] * 0.7) + 1] * math.floor(x.shape[1] * 0.7),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_that_are_computed_from_sizes(name):
    check(NUMBERS[name], LINES, tol=2e-3 if "half" in name else 1e-6)


def test_a_size_is_measured_once():
    def model(x):
        end = math.floor(x.shape[1] * 0.7)
        return x[:, :end] + x[:, -end:]

    mod = mlc.from_torch(model, (torch.randn(3, 10),), dynamic_shapes=(({1: ANY},),))
    assert mod.script().count("R.floor(") == 1
    check(model, lines((3, 10), (3, 20), (3, 33)))


def test_halves_and_thirds_are_sizes_and_not_measured():
    def model(x):
        return x[:, : math.floor(x.shape[1] * 0.5)], x[:, : math.ceil(x.shape[1] / 3)]

    mod = mlc.from_torch(model, (torch.randn(3, 10),), dynamic_shapes=(({1: ANY},),))
    assert "R.floor(" not in mod.script() and " // 2)" in mod.script()


def same_padding(x):
    """As TensorFlow pads a window of 3 in steps of 2."""
    sides = [torch.sym_max((-(-d // 2) - 1) * 2 + 3 - d, 0) for d in x.shape[-2:]]
    (top, left), (tall, wide) = (s // 2 for s in sides), sides
    return F.max_pool2d(F.pad(x, (left, wide - left, top, tall - top)), 3, 2)


#: name -> model, cases
MOVED = {
    "padded to eights": (lambda x: F.pad(x, (0, (8 - x.shape[-1] % 8) % 8)), LINES),
    "padded on both sides": (
        lambda x: F.pad(x, (0, -x.shape[3] % 4, -x.shape[2] % 4, 0)),
        PICTURES,
    ),
    "padded or cut": (
        lambda x, y: F.pad(x, (0, y.shape[1] - x.shape[1], x.shape[0] - y.shape[0], 1), value=2.0),
        [((3, 5), (4, 9)), ((7, 9), (2, 4)), ((4, 6), (4, 6))],
    ),
    "reflected": (
        lambda x: F.pad(x, (x.shape[-1] // 2, x.shape[-1] - 1), mode="reflect"),
        [((3, 10, 7),), ((2, 3, 2),), ((1, 4, 17),)],
    ),
    "edges repeated": (
        lambda x: F.pad(x, (x.shape[-1], 1, 0, x.shape[-2] // 2), mode="replicate"),
        PICTURES,
    ),
    "wrapped": (
        lambda x: F.pad(x, (x.shape[-1] // 2, 1), mode="circular"),
        [((3, 10, 7),), ((2, 3, 4),), ((1, 4, 17),)],
    ),
    "a mask padded": (lambda x: F.pad(x > 0, (0, -x.shape[-1] % 4), value=True), LINES),
    "windows as TensorFlow pads": (same_padding, PICTURES),
    "rolled": (lambda x: (x.roll(1, -1), x.roll((-2, 100), (0, 1)), x.roll(3)), LINES),
    "rolled by sizes": (lambda x: (x.roll(x.shape[1] // 2, 1), x.roll(-x.shape[0] - 1, 0)), LINES),
    "spectra centred": (lambda x: torch.fft.fftshift(x, dim=-1), LINES),
    "repeated": (
        lambda x, y: (x[:, None].repeat(1, y.shape[1], 1), torch.tile(x, (y.shape[0], 1, 1))),
        [((3, 8), (3, 5)), ((1, 8), (1, 2)), ((4, 8), (4, 9))],
    ),
    "each repeated": (
        lambda x, y: x.repeat_interleave(y.shape[1], 0),
        [((3, 8), (3, 5)), ((1, 8), (1, 2)), ((4, 8), (4, 9))],
    ),
    "the first by order": (
        lambda x: (*x.topk(torch.sym_min(x.shape[1], 6), 1), *x.topk(x.shape[0], 1, largest=False)),
        lines((3, 10), (2, 17), (5, 5), (4, 33)),
    ),
    "one by order": (lambda x: x.kthvalue((x.shape[1] + 1) // 2, 1), LINES),
    "windows put back": (
        lambda x: F.fold(F.unfold(x, 3, padding=1), x.shape[-2:], 3, padding=1),
        PICTURES,
    ),
    "blocks put back": (
        lambda x: F.fold(F.unfold(x, 2, stride=2), x.shape[-2:], 2, stride=2),
        pictures((2, 6, 10), (1, 8, 8), (3, 16, 4)),
    ),
    "frames added": (
        lambda x: F.fold(x, (1, (x.shape[-1] - 1) * 2 + 4), (1, 4), stride=(1, 2)),
        [((2, 4, 9),), ((3, 4, 2),), ((1, 4, 17),)],
    ),
}


def assigned(cache, x):
    """What is assigned to parts from the end: the last of them, and -7 to where that is."""
    made, other = cache.clone(), cache.clone()
    made[:, -x.shape[1] :] = x
    made[:, -20:3] = 0.5
    other[:, x.shape[1] - 12 :] = 1.5
    return made, other


PARTS = [((2, 9, 3), (2, 5, 3)), ((1, 18, 3), (1, 9, 3)), ((3, 8, 3), (3, 7, 3))]
MOVED["assigned"] = assigned, PARTS


@pytest.mark.parametrize("name", MOVED)
def test_what_is_moved_by_open_sizes(name):
    check(*MOVED[name])


#: name -> model, tolerance
RESIZED = {
    "doubled, cubic": lambda x: F.interpolate(x, scale_factor=2, mode="bicubic"),
    "halved": lambda x: F.interpolate(x, scale_factor=0.5, mode="bilinear"),
    "halved, nearest": lambda x: F.interpolate(x, scale_factor=0.5),
    "by 1.5": lambda x: F.interpolate(x, scale_factor=1.5, mode="bilinear"),
    "by 1.5 of sizes": lambda x: F.interpolate(
        x, scale_factor=1.5, mode="bilinear", recompute_scale_factor=True
    ),
    "by no quotient": lambda x: F.interpolate(x, scale_factor=0.731, mode="bilinear"),
    "lines": lambda x: F.interpolate(x.flatten(1, 2), scale_factor=2.5, mode="linear"),
    "smoothed": lambda x: F.interpolate(x, scale_factor=0.4, mode="bilinear", antialias=True),
    "smoothed to a size": lambda x: F.interpolate(x, (5, 4), mode="bicubic", antialias=True),
    "areas": lambda x: F.interpolate(x, scale_factor=0.5, mode="area"),
    "parts": lambda x: F.adaptive_avg_pool2d(x, (x.shape[2] // 2, x.shape[3] - 1)),
    "largest": lambda x: F.adaptive_max_pool2d(x, 1),
    "largest of parts": lambda x: F.adaptive_max_pool2d(x, (5, 3)),
}


@pytest.mark.parametrize("name", RESIZED)
def test_images_of_open_sizes_are_resized(name):
    check(RESIZED[name], pictures((2, 9, 12), (1, 8, 8), (3, 16, 6), (2, 33, 21)), tol=5e-5)


def test_a_scale_that_is_not_the_quotient_of_fixed_sizes():
    """10 -> floor(7.31) = 7, sampled by 0.731 and not by 0.7."""
    check(RESIZED["by no quotient"], pictures((1, 10, 10)), tol=5e-5)


@pytest.mark.parametrize("name", ["padded or cut", "rolled", "repeated", "frames added"])
def test_on_a_simulated_gpu(name):
    check(*MOVED[name], target="cuda-sim")


def test_the_first_few_of_fewer_with_what_is_no_number():
    """Those that are added to have enough come behind NaN, and behind infinities."""
    nan, inf = math.nan, math.inf
    rows = torch.tensor([[1.0, nan, -inf, inf], [nan, nan, -inf, -inf]])

    def model(x):
        k = torch.sym_min(x.shape[1], 6)
        low, places = (x * 9).nan_to_num(0, 50, -50).int().topk(k, largest=False)
        return *x.topk(k), *x.topk(k, largest=False), low, places

    inputs = rows.repeat(1, 5), rows, rows[:, :3].contiguous()
    mod = mlc.from_torch(model, (inputs[0],), dynamic_shapes=(({1: ANY},),))
    ex = mlc.compile(mod)
    for x in inputs:
        for got, want in zip(ex(x)[::2], model(x)[::2], strict=True):
            np.testing.assert_array_equal(np.asarray(got), want.numpy())
        for values, places in zip(ex(x)[:4:2], ex(x)[1:4:2], strict=True):
            np.testing.assert_array_equal(
                np.take_along_axis(x.numpy(), np.asarray(places), 1), values
            )


def test_a_branch_that_sizes_choose():
    def model(x):
        branches = (lambda x: x.sin() / x.shape[0]), (lambda x: x.cumsum(1) * x.shape[1])
        (first,) = torch.cond(x.shape[1] > 12, *((lambda x, f=f: (f(x),)) for f in branches), (x,))
        holds = torch.sym_not(x.shape[0] * 2 == x.shape[1])
        return torch.cond(holds, *branches, (first,))

    check(model, lines((3, 10), (2, 17), (7, 14), (4, 33), (5, 10)))


class Windows(torch.nn.Module):
    """Attention in shifted windows of 4 by 4, as in a Swin transformer."""

    def __init__(self):
        super().__init__()
        self.qkv = torch.nn.Linear(8, 24)

    def forward(self, x):
        b, h, w, c = x.shape
        x = F.pad(x, (0, 0, 0, (4 - w % 4) % 4, 0, (4 - h % 4) % 4))
        tall, wide = x.shape[1:3]
        x = torch.roll(x, (-2, -2), (1, 2)).view(b, tall // 4, 4, wide // 4, 4, c)
        x = x.permute(0, 1, 3, 2, 4, 5).reshape(-1, 16, c)
        q, k, v = self.qkv(x).chunk(3, -1)
        x = F.scaled_dot_product_attention(q, k, v).view(b, tall // 4, wide // 4, 4, 4, c)
        x = x.permute(0, 1, 3, 2, 4, 5).reshape(b, tall, wide, c)
        return torch.roll(x, (2, 2), (1, 2))[:, :h, :w].contiguous()


def test_attention_in_shifted_windows():
    with torch.no_grad():
        check(Windows().eval(), [((2, 7, 10, 8),), ((2, 9, 13, 8),), ((5, 6, 11, 8),)], tol=1e-4)


class Places(torch.nn.Module):
    """The first places of a buffer, in sums with what is as long: as embeddings are added up."""

    def __init__(self):
        super().__init__()
        self.register_buffer("places", torch.arange(64.0).reshape(1, 64, 1))

    def forward(self, x):
        first = self.places[:, : x.shape[1]]
        made = first * 2
        for _ in range(10):
            made = made + x + first
        return made


def test_the_size_of_many_sums_of_what_is_cut_to_that_size_is_that_size():
    check(Places(), [((2, 12, 3),), ((2, 64, 3),), ((2, 1, 3),)])
    longest = torch.export.Dim("s", max=64)
    given = (torch.randn(2, 12, 3),)
    mod = mlc.from_torch(Places(), given, dynamic_shapes=({1: longest},))
    assert mod["main"].ret_struct_info.dims == mod["main"].params[0].struct_info.dims
