"""Complex tensors inside of a PyTorch program: two real ones, beside eager PyTorch."""

from __future__ import annotations

import numpy as np
import pytest

import mlcnb as mlc
from mlcnb.core.errors import UnsupportedDtypeError, UnsupportedOpError

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")


def beside_eager(fn, *given, rtol=2e-6, **options):
    """The imported function's result is PyTorch's."""
    want = fn(*given)
    got = mlc.compile(mlc.from_torch(fn, given, **options), target="llvm")(*given)
    listed = [want] if isinstance(want, torch.Tensor) else list(want)
    found = [got] if isinstance(want, torch.Tensor) else list(got)
    for mine, theirs in zip(found, listed, strict=True):
        mine, theirs = mine.numpy(), theirs.numpy()
        assert (mine.dtype, mine.shape) == (theirs.dtype, theirs.shape)
        np.testing.assert_allclose(mine, theirs, rtol=rtol, atol=rtol * np.abs(theirs).max())


def random(*shape, dtype=torch.float32):
    made = torch.randn(shape, generator=torch.Generator().manual_seed(7), dtype=torch.float64)
    return made.to(dtype)


pairs = torch.view_as_real
FORMULAS = {
    "rotary": lambda x, y: pairs(
        torch.view_as_complex(x.reshape(3, 4, 2)) * torch.polar(torch.ones(4), torch.arange(4.0))
    ),
    "products": lambda x, y: pairs(torch.complex(x, y) * torch.complex(y, x) * 1.5 * (2 - 3j)),
    "sums": lambda x, y: pairs((torch.complex(x, y) + x - 2j) - torch.complex(y[:1], x[:1]) + 3),
    "broadcast sum": lambda x, y: pairs(torch.complex(x[:1], y[:1]) + y),
    "scaled sum": lambda x, y: pairs(torch.add(torch.complex(x, y), torch.complex(y, y), alpha=3)),
    "quotients": lambda x, y: pairs(torch.complex(x, y) / torch.complex(y, x) + 1 / (x + 1j)),
    "large quotients": lambda x, y: pairs(torch.complex(x, y) / (torch.complex(y, x) * 1e30)),
    "by real": lambda x, y: pairs(torch.complex(x, y) / (y.abs() + 1)),
    "size, angle": lambda x, y: (torch.complex(x, y).abs(), torch.complex(x, y).angle()),
    "large size": lambda x, y: torch.complex(x * 1e30, y * 1e30).abs(),
    "conjugate": lambda x, y: pairs((torch.complex(x, y).conj().mT.contiguous()).exp()),
    "parts": lambda x, y: torch.complex(x, y).real * 2 + torch.complex(x, y).imag,
    "joined": lambda x, y: pairs(torch.cat([torch.complex(x, y), torch.complex(y, x)[:, :2]], 1)),
    "stacked": lambda x, y: pairs(torch.stack([torch.complex(x, y), torch.complex(y, x)], 1)),
    "moved": lambda x, y: pairs(
        torch.complex(x, y).T.reshape(2, 12).flip(0).roll(1, 1)[:, 3:].unsqueeze(1).sum(0)
    ),
    "split": lambda x, y: tuple(pairs(part) for part in torch.complex(x, y).split(3, 1)),
    "chosen": lambda x, y: pairs(torch.where(x > 0, torch.complex(x, y), torch.complex(y, x))),
    "compared": lambda x, y: (
        torch.complex(x, y) == torch.complex(x, y.abs()),
        torch.complex(x, y) != torch.complex(x, y.abs()),
    ),
    "matrices": lambda x, y: pairs(torch.complex(x, y) @ torch.complex(y, x).T),
    "einsum": lambda x, y: pairs(
        torch.einsum("ij,kj->ik", torch.complex(x, y), torch.complex(y, x))
    ),
    "converted": lambda x, y: pairs(
        x.to(torch.complex64) * torch.complex(x, y).to(torch.complex64)
    ),
    "padded": lambda x, y: pairs(torch.nn.functional.pad(torch.complex(x, y), (1, 2), value=3.0)),
}


@pytest.mark.parametrize("name", FORMULAS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_formulas_of_complex_numbers(name, dtype):
    if name in ("rotary", "converted") and dtype == torch.float64:
        dtype = torch.float32
    beside_eager(FORMULAS[name], random(3, 8, dtype=dtype), random(3, 8, dtype=dtype) + 0.3)


TRANSFORMS = {
    "fft": lambda x: pairs(torch.fft.fft(x)),
    "fft of both": lambda x: pairs(torch.fft.fftn(x, dim=(0, 1), norm="ortho")),
    "fft of the first": lambda x: pairs(torch.fft.fft(x, dim=0, norm="forward")),
    "there and back": lambda x: pairs(torch.fft.ifft2(torch.fft.fft2(x).conj())),
    "rfft": lambda x: pairs(torch.fft.rfft(x)),
    "rfft2": lambda x: pairs(torch.fft.rfft2(x, dim=(1, 0))),
    "irfft": lambda x: torch.fft.irfft(torch.fft.rfft(x) * (1 - 0.5j), n=x.shape[-1]),
    "irfft2": lambda x: torch.fft.irfft2(torch.fft.rfft2(x).abs(), s=x.shape),
    "brought to a length": lambda x: pairs(torch.fft.fft(x, n=x.shape[-1] + 3)),
    "shifted": lambda x: pairs(torch.fft.fftshift(torch.fft.fft(x), dim=1)),
    "correlation": lambda x: torch.fft.irfft(torch.fft.rfft(x) * torch.fft.rfft(x.flip(0)).conj()),
}


@pytest.mark.parametrize("name", TRANSFORMS)
@pytest.mark.parametrize("size", [1, 2, 7, 30])
def test_transforms(name, size):
    if size == 1 and name == "correlation":
        size = 4
    beside_eager(TRANSFORMS[name], random(3, size))


@pytest.mark.parametrize("size", [257, 300, 1023, 4096])
@pytest.mark.parametrize("name", ["fft", "rfft", "irfft", "there and back"])
def test_long_transforms_are_those_of_their_factors(name, size):
    beside_eager(TRANSFORMS[name], random(2, size))


def test_short_time_transforms():
    def spectrum(x):
        return torch.stft(x, 16, 4, window=torch.hann_window(16), return_complex=True).abs()

    beside_eager(spectrum, random(2, 64))


def test_complex_constants_of_a_model():
    class Rotary(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("turn", torch.polar(torch.ones(6, 4), random(6, 4)))

        def forward(self, x):
            return pairs(torch.view_as_complex(x.unflatten(-1, (-1, 2))) * self.turn[:3]).flatten(1)

    beside_eager(Rotary(), random(3, 8))


def test_open_lengths_beside_a_transform():
    class Spectra(torch.nn.Module):
        def forward(self, x):
            return pairs(torch.fft.fft2(x)[:, :3] * torch.fft.fft2(x)[:, 1:4])

    spectra, batch = Spectra(), torch.export.Dim("batch", min=2)
    given = random(3, 4, 6)
    run = mlc.compile(mlc.from_torch(spectra, (given,), dynamic_shapes=({0: batch},)))
    for count in (2, 5):
        x = random(count, 4, 6)
        np.testing.assert_allclose(run(x).numpy(), spectra(x).numpy(), rtol=1e-4, atol=1e-4)


def test_what_is_refused():
    with pytest.raises(UnsupportedDtypeError, match="an output is complex"):
        mlc.from_torch(torch.fft.fft, (random(4),))
    with pytest.raises(UnsupportedOpError, match=r"sqrt.default \(sqrt"):
        mlc.from_torch(lambda x: torch.fft.fft(x).sqrt().abs(), (random(4),))
    with pytest.raises(UnsupportedOpError, match="a transform would take constants"):
        mlc.from_torch(lambda x: torch.fft.rfft(x).abs(), (random(10007),))
