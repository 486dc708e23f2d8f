"""Recurrent layers of PyTorch: one operator for a layer and a direction, of any length."""

from __future__ import annotations

import numpy as np
import pytest

import mlcnb as mlc
from mlcnb.testing.evaluate import evaluate

torch = pytest.importorskip("torch", reason="the extra torch is not installed")

from torch import nn  # noqa: E402

from mlcnb.relax.frontend.torch.prepare import open_lengths  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")

ANY = torch.export.Dim.DYNAMIC


def compare(model, given, got, tol=1e-5):
    """Outputs against PyTorch's, states among them."""
    with torch.no_grad():
        y, states = model(*given)
    want = [y, *(states if isinstance(states, tuple) else (states,))]
    assert len(got) == len(want)
    for a, b in zip(got, want, strict=True):
        assert a.shape == tuple(b.shape) and str(a.dtype) in str(b.dtype)
        np.testing.assert_allclose(a, b, rtol=tol, atol=tol)


FORMS = {
    "lstm": lambda: nn.LSTM(3, 4),
    "lstm without biases": lambda: nn.LSTM(3, 4, bias=False),
    "lstm both ways, layers, batch first": lambda: nn.LSTM(
        3, 4, num_layers=2, bidirectional=True, batch_first=True
    ),
    "lstm projected": lambda: nn.LSTM(3, 5, proj_size=2, num_layers=2),
    "lstm projected both ways": lambda: nn.LSTM(3, 5, proj_size=2, bidirectional=True, bias=False),
    "gru": lambda: nn.GRU(3, 4, num_layers=2, bidirectional=True),
    "gru without biases": lambda: nn.GRU(3, 4, bias=False, batch_first=True),
    "rnn": lambda: nn.RNN(3, 4, bidirectional=True),
    "rnn relu": lambda: nn.RNN(3, 4, nonlinearity="relu"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("states", [False, True])
def test_any_length_and_batch(name, states):
    torch.manual_seed(0)
    model = FORMS[name]().eval()

    def given(steps, batch):
        x = torch.randn(batch, steps, 3) if model.batch_first else torch.randn(steps, batch, 3)
        rows = model.num_layers * (2 if model.bidirectional else 1)
        sizes = [model.proj_size or 4, 5 if model.proj_size else 4]
        made = [torch.randn(rows, batch, s) for s in sizes[: 1 + isinstance(model, nn.LSTM)]]
        return (x, tuple(made) if len(made) > 1 else made[0]) if states else (x,)

    open_state = ({1: ANY}, {1: ANY}) if isinstance(model, nn.LSTM) else {1: ANY}
    dynamic = ({0: ANY, 1: ANY}, open_state) if states else ({0: ANY, 1: ANY},)
    mod = mlc.from_torch(model, given(6, 2), dynamic_shapes=dynamic)
    text = mod.script()
    layers = model.num_layers * (2 if model.bidirectional else 1)
    kind = model.mode.lower().partition("_")[0]
    assert text.count(f"R.nn.{kind}(") == layers
    ex = mlc.compile(mod)
    for steps, batch in ((6, 2), (3, 5)):
        inputs = given(steps, batch)
        flat = [inputs[0], *(y for x in inputs[1:] for y in (x if isinstance(x, tuple) else (x,)))]
        compare(model, inputs, ex(*flat))


@pytest.mark.parametrize("name", FORMS)
def test_the_meaning_in_numpy_of_one_sample(name):
    torch.manual_seed(1)
    model, x = FORMS[name]().eval(), torch.randn(5, 3)
    mod = mlc.from_torch(model, x)
    compare(model, (x,), evaluate(mod, x.numpy()))


def test_an_operator_in_place_beside_it_leaves_it_whole():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm = nn.LSTM(3, 4)

        def forward(self, x):
            y, (h, _) = self.lstm(x * 2)
            y += 1
            return y, h

    torch.manual_seed(2)
    model, x = Net().eval(), torch.randn(5, 2, 3)
    mod = mlc.from_torch(model, x)
    assert mod.script().count("R.nn.lstm(") == 1
    compare(model, (x,), mlc.compile(mod)(x))


def test_many_steps_are_no_more_operators():
    torch.manual_seed(3)
    model = nn.GRU(2, 3).eval()
    few, many = (mlc.from_torch(model, torch.randn(n, 1, 2))["main"] for n in (2, 9000))
    assert len(few.body.blocks[0].bindings) == len(many.body.blocks[0].bindings)


def test_dropout_while_training_is_refused():
    with pytest.raises(mlc.MLCError, match=r"it drops elements at random \(p = 0.5\)"):
        mlc.from_torch(nn.LSTM(2, 3, num_layers=2, dropout=0.5).train(), torch.randn(4, 1, 2))


def test_the_table_of_pytorch_is_as_it_was():
    layer = torch.ops.aten.lstm.input
    before = dict(layer.py_kernels)
    with pytest.raises(ValueError, match="stop"), open_lengths():
        assert layer.py_kernels != before
        raise ValueError("stop")
    assert layer.py_kernels == before
