"""The numbers of exported modules: against torch with the same weights, and against NumPy."""

import numpy as np
import pytest

import mlcnb
from mlcnb.relax.frontend import nn


def run(module, *arrays, names="x y z"):
    given = dict(zip(names.split(), arrays, strict=False))
    spec = {n: nn.spec.Tensor(a.shape, str(a.dtype)) for n, a in given.items()}
    return module.jit({"forward": spec}, out_format="numpy")["forward"](*arrays)


def random(*shape):
    return np.random.default_rng(len(shape)).standard_normal(shape).astype("float32")


def filled(module, seed=0):
    rng = np.random.default_rng(seed)
    for parameter in module.parameters():
        parameter.data = rng.standard_normal(parameter.shape).astype(parameter.dtype)
    return module


def pairs(torch):
    """Name -> our module, torch's, the shape of an input."""
    tn = torch.nn
    return {
        "linear": (nn.Linear(5, 3), tn.Linear(5, 3), (2, 4, 5)),
        "no bias": (nn.Linear(5, 3, bias=False), tn.Linear(5, 3, bias=False), (4, 5)),
        "conv1d": (nn.Conv1D(4, 6, 3, 2, 1, 1, 2), tn.Conv1d(4, 6, 3, 2, 1, 1, 2), (2, 4, 9)),
        "conv2d": (nn.Conv2D(3, 4, [3, 2], 2, 1), tn.Conv2d(3, 4, (3, 2), 2, 1), (2, 3, 8, 7)),
        "dilated": (
            nn.Conv2D(4, 4, 3, dilation=2, groups=4),
            tn.Conv2d(4, 4, 3, dilation=2, groups=4),
            (1, 4, 8, 8),
        ),
        "conv3d": (nn.Conv3D(2, 3, 2), tn.Conv3d(2, 3, 2), (1, 2, 4, 5, 3)),
        "conv1d transposed": (
            nn.ConvTranspose1D(4, 3, 3, 2, 1, 1),
            tn.ConvTranspose1d(4, 3, 3, 2, 1, 1),
            (1, 4, 5),
        ),
        "conv2d transposed": (
            nn.ConvTranspose2D(4, 6, 3, 2, 1, 1, groups=2),
            tn.ConvTranspose2d(4, 6, 3, 2, 1, 1, groups=2),
            (1, 4, 5, 4),
        ),
        "layer norm": (nn.LayerNorm(8), tn.LayerNorm(8), (2, 3, 8)),
        "two axes": (nn.LayerNorm((3, 8), 1e-3), tn.LayerNorm((3, 8), 1e-3), (2, 3, 8)),
        "rms norm": (nn.RMSNorm(8, bias=False), tn.RMSNorm(8, eps=1e-5), (2, 3, 8)),
        "group norm": (nn.GroupNorm(2, 4), tn.GroupNorm(2, 4), (2, 4, 5, 3)),
        "batch norm": (nn.BatchNorm2D(4), tn.BatchNorm2d(4).eval(), (2, 4, 5, 3)),
        "batch norm of rows": (nn.BatchNorm(4), tn.BatchNorm1d(4).eval(), (2, 4)),
        "batch norm of volumes": (nn.BatchNorm3D(4), tn.BatchNorm3d(4).eval(), (2, 4, 3, 2, 5)),
        "gelu": (nn.GELU(), tn.GELU(), (3, 5)),
        "gelu of tanh": (nn.GELU("tanh"), tn.GELU("tanh"), (3, 5)),
        "silu": (nn.SiLU(), tn.SiLU(), (3, 5)),
        "softmax": (nn.Softmax(0), tn.Softmax(0), (3, 5)),
        "dropout": (nn.Dropout(0.9), tn.Dropout(0.9).eval(), (3, 5)),
        "sequence": (
            nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 2)),
            tn.Sequential(tn.Linear(5, 4), tn.Tanh(), tn.Linear(4, 2)),
            (3, 5),
        ),
    }


class Side(nn.Module):
    """Modules side by side, each with an input of its own."""

    def __init__(self, modules):
        self.modules = nn.ModuleList(modules)

    def forward(self, xs):
        return tuple(module(x) for module, x in zip(self.modules, xs, strict=True))


def test_modules_against_torch():
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    every = pairs(torch)
    xs, wanted = [], []
    for ours, theirs, shape in every.values():
        for tensor in theirs.state_dict().values():
            if tensor.is_floating_point():
                tensor.uniform_(0.5, 1.5)
        state = {k: v for k, v in theirs.state_dict().items() if "tracked" not in k}
        ours.load_state_dict(state)
        xs.append(random(*shape))
        wanted.append(theirs(torch.from_numpy(xs[-1])).detach().numpy())
    side = Side([ours for ours, _, _ in every.values()])
    spec = {"xs": tuple(nn.spec.Tensor(x.shape, "float32") for x in xs)}
    mod, params = side.export_tvm({"forward": spec})
    reference = mlcnb.compile(mod, target="interp", relax_pipeline="zero")
    made = reference["forward"](tuple(xs), *(p.data for _, p in params))
    for name, got, want in zip(every, made, wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("causal", [False, True])
def test_attention_against_torch(causal):
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    theirs = torch.nn.MultiheadAttention(8, 2, batch_first=True)
    torch.nn.init.uniform_(theirs.in_proj_bias)

    class Causal(nn.Module):
        def __init__(self):
            self.own = nn.MultiHeadAttention(8, 2)

        def forward(self, x):
            return self.own(x, is_causal=causal)

    ours = Causal()
    ours.own.load_state_dict(theirs.state_dict())
    x = random(2, 5, 8)
    mask = torch.nn.Transformer.generate_square_subsequent_mask(5) if causal else None
    tensor = torch.from_numpy(x)
    wanted, _ = theirs(tensor, tensor, tensor, attn_mask=mask, need_weights=False)
    np.testing.assert_allclose(run(ours, x), wanted.detach().numpy(), rtol=1e-4, atol=1e-5)


def test_embedding():
    module = filled(nn.Embedding(7, 3))
    tokens = np.array([[1, 6, 0], [2, 2, 5]], "int32")
    np.testing.assert_array_equal(run(module, tokens), module.weight.data.numpy()[tokens])


@pytest.mark.parametrize(("dim", "flip", "shift"), [(10, False, 1), (6, True, 0), (7, False, 1)])
def test_timesteps(dim, flip, shift):
    steps = np.array([0, 3, 500], "float32")
    half = dim // 2
    angles = steps[:, None] * np.exp(-np.log(10000) * np.arange(half) / (half - shift))
    waves = [np.sin(angles), np.cos(angles)]
    wanted = np.concatenate(waves[::-1] if flip else waves, axis=-1)
    wanted = np.pad(wanted, ((0, 0), (0, dim % 2)))
    made = run(nn.Timesteps(dim, flip, shift), steps)
    np.testing.assert_allclose(made, wanted, atol=2e-4)


class Function(nn.Module):
    def __init__(self, function):
        self.function = function

    def forward(self, x, y=None):
        return self.function(x) if y is None else self.function(x, y)


def test_operators_against_numpy():
    x, y = random(4, 3), np.random.default_rng(1).random((4, 3), "float32")

    def several(x, y):
        return (
            nn.where(x > y, x, y * 2),
            nn.cumsum(x, 1),
            nn.concat([x, y], 1),
            nn.triu(x, 1) + nn.tril(y),
            nn.take(x, nn.Tensor.from_const(np.array([2, 0], "int32")), axis=0),
            (1 - x) / (y + 1),
            nn.topk(x, 2, axis=0),
        )

    made = run(Function(several), x, y)
    wanted = (
        np.where(x > y, x, y * 2),
        np.cumsum(x, 1),
        np.concatenate([x, y], 1),
        np.triu(x, 1) + np.tril(y),
        x[[2, 0]],
        (1 - x) / (y + 1),
    )
    for got, want in zip(made[:-1], wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    values, indices = made[-1]
    np.testing.assert_array_equal(values, np.sort(x, axis=0)[::-1][:2])
    np.testing.assert_array_equal(indices, np.argsort(-x, axis=0, kind="stable")[:2])


def test_one_module_serves_every_size():
    module = filled(nn.Linear(3, 2))
    spec = {"forward": {"x": nn.spec.Tensor(["n", 3], "float32")}}
    jitted = module.jit(spec, out_format="numpy")
    weight, bias = module.weight.data.numpy(), module.bias.data.numpy()
    for n in (1, 4, 9):
        x = random(n, 3)
        np.testing.assert_allclose(jitted(x), x @ weight.T + bias, rtol=1e-5, atol=1e-6)


def test_drawing():
    prob = np.array([[0.2, 0.3, 0.5], [0.3, 0.4, 0.3]], "float32")
    uniform = np.array([[0.4], [0.9]], "float32")
    made = run(Function(nn.multinomial_from_uniform), prob, uniform)
    np.testing.assert_array_equal(made, [[1], [2]])


def test_attention_with_a_mask():
    def attended(x, y):
        return nn.scaled_dot_product_attention(x, x, x, attn_mask=y)

    x, mask = random(2, 5, 1, 4), random(2, 1, 5, 5)
    rows = x[:, :, 0]
    scores = rows @ rows.transpose(0, 2, 1) / 2 + mask[:, 0]
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    wanted = weights / weights.sum(-1, keepdims=True) @ rows
    np.testing.assert_allclose(run(Function(attended), x, mask)[:, :, 0], wanted, rtol=1e-4)
