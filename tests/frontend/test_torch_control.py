"""Loops of PyTorch that take graphs: while_loop, scan and map, compiled once for any count."""

from __future__ import annotations

import numpy as np
import pytest

import mlcnb as mlc
from mlcnb.core.errors import UnsupportedOpError

torch = pytest.importorskip("torch", reason="the extra torch is not installed")

from torch._higher_order_ops.map import map as torch_map  # noqa: E402
from torch._higher_order_ops.scan import scan as torch_scan  # noqa: E402
from torch._higher_order_ops.while_loop import while_loop  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")


class Powers(torch.nn.Module):
    """Doubles until there were n turns, or the sum is large."""

    def forward(self, n, x):
        def holds(i, y):
            return (i < n) & (y.sum() < 100)

        def turn(i, y):
            return i + 1, y * 2 + x

        return while_loop(holds, turn, (torch.zeros((), dtype=torch.int64), x))


class Fixed(torch.nn.Module):
    """Three turns, whatever is given."""

    def forward(self, x):
        first = torch.zeros((), dtype=torch.int64)
        return while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y + i), (first, x))[1]


class Cell(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(4, 4)

    def forward(self, first, xs):
        def turn(state, x):
            new = torch.tanh(self.inner(state) + x)
            return new, new * 2

        return torch_scan(turn, first, xs)


class Backwards(torch.nn.Module):
    def forward(self, first, xs):
        return torch_scan(lambda s, x: (s + x, s * x), first, xs, dim=1, reverse=True)


class Each(torch.nn.Module):
    def forward(self, xs, y):
        return torch_map(lambda x, z: torch.relu(x) + z, xs, y)


def check(ex, model, *inputs):
    """The numbers are PyTorch's, and so are the sizes."""
    with torch.no_grad():
        wanted = model(*inputs)
    found = ex(*inputs)
    pairs = zip(found, wanted, strict=True) if isinstance(wanted, tuple) else [(found, wanted)]
    for a, b in pairs:
        got = np.asarray(a)
        assert got.shape == tuple(b.shape) and got.dtype == b.numpy().dtype
        np.testing.assert_allclose(got, b.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("target", ["llvm", "interp"])
def test_a_loop_runs_until_its_condition_says_no(target):
    model, x = Powers(), torch.rand(3)
    ex = mlc.compile(mlc.from_torch(model, (torch.tensor(5), x)), target=target)
    for n in (0, 1, 4, 50):
        check(ex, model, torch.tensor(n), x)


def test_turns_that_are_known_are_written_out():
    mod = mlc.from_torch(Fixed(), (torch.rand(3),))
    assert "def loop" not in mod.script()
    check(mlc.compile(mod), Fixed(), torch.rand(3))


def test_a_scan_of_a_known_length():
    torch.manual_seed(0)
    model, inputs = Cell().eval(), (torch.rand(4), torch.rand(6, 4))
    check(mlc.compile(mlc.from_torch(model, inputs)), model, *inputs)
    inputs = torch.rand(2, 3), torch.rand(2, 5, 3)
    check(mlc.compile(mlc.from_torch(Backwards(), inputs)), Backwards(), *inputs)


def test_a_scan_of_any_length():
    torch.manual_seed(0)
    model, length = Cell().eval(), torch.export.Dim("length", min=2, max=64)
    given = (torch.rand(4), torch.rand(6, 4))
    mod = mlc.from_torch(model, given, dynamic_shapes=({}, {0: length}))
    ex = mlc.compile(mod)
    for count in (2, 6, 31):
        check(ex, model, torch.rand(4), torch.rand(count, 4))


def test_a_function_of_each_slice():
    given = (torch.rand(6, 4), torch.rand(4))
    check(mlc.compile(mlc.from_torch(Each(), given)), Each(), *given)


def test_text_reads_back():
    from mlcnb.ir import assert_structural_equal
    from mlcnb.script import from_source

    mod = mlc.from_torch(Powers(), (torch.tensor(5), torch.rand(3)))
    assert_structural_equal(from_source(mod.script(show_meta=True)), mod)


def test_what_a_body_cannot_do_is_told():
    class Drawn(torch.nn.Module):
        def forward(self, n, x):
            first = torch.zeros((), dtype=torch.int64)
            body = lambda i, y: (i + 1, y + torch.randn(3))
            return while_loop(lambda i, y: i < n, body, (first, x))

    with pytest.raises(UnsupportedOpError) as caught:
        mlc.from_torch(Drawn(), (torch.tensor(2), torch.rand(3)))
    assert caught.value.message.startswith(
        "Drawn: this operator is not imported: aten.randn.default"
    )
    assert caught.value.message.endswith(", which is random")
    assert caught.value.hint.endswith("let random numbers be inputs of the model")
