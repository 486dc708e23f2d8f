"""A sample of operators of every family in PyTorch's own database (all: tests.frontend.opinfo)."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="the extra torch is not installed")

from tests.frontend import opinfo  # noqa: E402 (it needs torch)

pytestmark = pytest.mark.filterwarnings("ignore")

FAMILIES = {
    "one tensor": "abs atan2 erf expm1 logit nan_to_num round rsqrt sigmoid tanh trunc",
    "two tensors": "add div.floor_rounding fmod hypot lerp maximum pow remainder where",
    "truth": "eq isclose logical_and logical_xor",
    "reductions": "amax argmax cumprod logsumexp mean norm prod std_mean var nansum quantile",
    "order": "kthvalue searchsorted sort topk",
    "shapes": "cat diagonal flip permute_copy repeat roll split tensor_split unfold "
    "nn.functional.pixel_shuffle",
    "indices": "gather index_add index_put index_reduce.mean masked_scatter take_along_dim",
    "writing": "scatter_reduce.amax select_scatter slice_scatter tril",
    "products": "addmm baddbmm cdist einsum linalg.solve matmul nn.functional.linear",
    "layers": "nn.functional.conv2d nn.functional.conv_transpose2d nn.functional.layer_norm "
    "nn.functional.batch_norm nn.functional.group_norm nn.functional.adaptive_avg_pool2d "
    "nn.functional.max_pool2d nn.functional.grid_sample nn.functional.interpolate.bilinear "
    "nn.functional.pad.reflect nn.functional.gelu nn.functional.softplus softmax "
    "nn.functional.scaled_dot_product_attention nn.functional.cosine_similarity",
    "losses": "nn.functional.cross_entropy nn.functional.huber_loss nn.functional.kl_div",
}


@pytest.fixture(scope="module")
def database():
    return {opinfo.name_of(op): op for op in opinfo.operators()}


@pytest.mark.parametrize("family", FAMILIES)
def test_samples(family, database):
    """The sample in the middle of those that there are."""
    found = []
    with torch.no_grad():
        for name in FAMILIES[family].split():
            number, sample = opinfo.samples(database[name], "float32", 2)[-1]
            found.append(opinfo.outcome(database[name], number, sample))
    assert [f for f in found if f.kind != "right"] == []


def test_another_answer_is_seen():
    with pytest.raises(opinfo.WrongError, match=r"answer 0: \[1.,2.\]\(2,\) in place of"):
        opinfo.compare(torch.tensor([1.0, 2.0]).numpy(), [torch.tensor([1.0, 2.1])])
