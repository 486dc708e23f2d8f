"""Encoder layers and attention as PyTorch fuses them in inference, which torch.compile hands on."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="the extra torch is not installed")

from torch import nn  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")

CAUSAL = torch.triu(torch.ones(5, 5, dtype=torch.bool), 1)
#: the second sequence ends early; the third has nothing at all
PADDING = torch.tensor([[0] * 5, [0, 0, 0, 1, 1], [1] * 5], dtype=torch.bool)


def check(model, *args, **options):
    """Compiled against PyTorch's own fast path, NaN where it has NaN."""
    torch._dynamo.reset()
    model = model.eval()
    with torch.no_grad():
        want = model(*args, **options)
        got = torch.compile(model, backend="mlcnb")(*args, **options)
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5, equal_nan=True)


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_an_encoder_layer(norm_first, activation):
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(
        16, 2, 32, activation=activation, batch_first=True, norm_first=norm_first
    )
    check(layer, torch.randn(3, 5, 16))


MASKS = {
    "of queries": {"src_mask": CAUSAL},
    "of padding": {"src_key_padding_mask": PADDING},
    "of both": {"src_mask": CAUSAL, "src_key_padding_mask": PADDING},
}


@pytest.mark.parametrize("name", MASKS)
def test_masks(name):
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    check(layer, torch.randn(3, 5, 16), **MASKS[name])


@pytest.mark.parametrize(
    "options", [{}, {"need_weights": False}, {"average_attn_weights": False}], ids=str
)
def test_attention_and_its_weights(options):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = nn.MultiheadAttention(16, 2, batch_first=True)

        def forward(self, x):
            return self.attention(x, x, x, **options)

    torch.manual_seed(0)
    check(Net(), torch.randn(3, 5, 16))
