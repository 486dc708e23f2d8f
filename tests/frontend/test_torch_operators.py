"""ATen operators, family by family: what is imported means what PyTorch means.

A family is exported as one program of many results, and run in NumPy and compiled.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import mlcnb as mlc
from mlcnb.testing.evaluate import evaluate

torch = pytest.importorskip("torch", reason="the extra torch is not installed")
F = torch.nn.functional

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")


class Family(torch.nn.Module):
    """Every function applied to its own inputs."""

    def __init__(self, cases):
        super().__init__()
        self.cases = cases

    def forward(self, *inputs):
        found, rest = [], list(inputs)
        for _, fn, args in self.cases:
            given, rest = rest[: len(args)], rest[len(args) :]
            found += flat(fn(*given))
        return tuple(found)


def flat(value):
    if isinstance(value, torch.Tensor):
        return [value]
    return [x for v in value for x in flat(v)]


def check(*cases, compiled=False, tol=1e-5):
    """Each case: a name, a function, its inputs."""
    cases = [c if isinstance(c, tuple) else (f"case {i}", *c) for i, c in enumerate(cases)]
    inputs = [x for _, _, args in cases for x in args]
    names = [n for n, fn, args in cases for _ in flat(fn(*(a.clone() for a in args)))]
    want = [y for _, fn, args in cases for y in flat(fn(*(a.clone() for a in args)))]
    mod = mlc.from_torch(Family(cases).eval(), tuple(inputs))
    arrays = [x.detach().numpy() for x in inputs]
    got = mlc.compile(mod)(*arrays) if compiled else evaluate(mod, *arrays)
    got = got if isinstance(got, tuple) else (got,)
    assert len(got) == len(want)
    for name, a, b in zip(names, got, want, strict=True):
        a, b = np.asarray(a), b.detach().numpy()
        assert (a.shape, a.dtype) == (b.shape, b.dtype), name
        np.testing.assert_allclose(a, b, rtol=tol, atol=tol, err_msg=name)


def seeded():
    return torch.manual_seed(0)


def reals(*shape, kind=torch.float32):
    return (torch.randn(*shape) * 2).to(kind)


EDGES = torch.tensor([math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, -1.5, 2.5, 30.0, 1e-8])


def test_unary():
    seeded()
    names = "exp expm1 sin cos tan asinh sinh cosh tanh atan abs neg sign floor ceil trunc round "
    names += "erf erfc sigmoid isnan isinf isfinite frac reciprocal square exp2 relu logical_not"
    cases = [(n, getattr(torch, n), (reals(2, 3),)) for n in names.split()]
    inside = torch.rand(5) * 0.9
    for n in "log log2 log10 log1p sqrt rsqrt asin acos atanh".split():
        cases.append((n, getattr(torch, n), (inside,)))
    cases.append(("acosh", torch.acosh, (inside + 1.5,)))
    check(*cases)


def test_unary_at_the_edges():
    names = "exp expm1 log1p abs sign floor round sigmoid tanh isnan isinf relu logical_not frac "
    names += "neg trunc square reciprocal nan_to_num"
    names = names.replace("frac ", "")
    check(*((n, getattr(torch, n), (EDGES,)) for n in names.split()))


def test_unary_of_integers_and_bool():
    whole = torch.tensor([[-3, 0, 2]])
    names = "exp sin sqrt sigmoid reciprocal abs neg sign square bitwise_not logical_not log1p"
    cases = [
        (n, getattr(torch, n), (whole.abs() if n in ("sqrt", "log1p") else whole,))
        for n in names.split()
        if n != "reciprocal"
    ]
    truth = torch.tensor([True, False])
    cases += [(n, getattr(torch, n), (truth,)) for n in ("exp", "bitwise_not", "logical_not")]
    check(*cases)


def test_binary_promotes_as_torch_does():
    seeded()
    kinds = [torch.float32, torch.int64, torch.int32, torch.uint8, torch.float64, torch.bool]
    cases = []
    for i, a in enumerate(kinds):
        for b in kinds[i:]:
            x, y = (torch.randint(0, 5, (2, 3)).to(k) for k in (a, b))
            cases += [(f"add {a} {b}", torch.add, (x, y)), (f"mul {a} {b}", torch.mul, (x, y))]
            cases += [(f"less {a} {b}", torch.eq, (x, y))]
            cases += [(f"div {a} {b}", torch.div, (x, y + (0 if b == torch.bool else 1)))]
    whole, real = torch.randint(0, 5, (3,)), reals(3)
    cases += [
        ("int and float", lambda x: x + 1.5, (whole,)),
        ("float and int", lambda x: x * 2, (real,)),
        ("bool and int", lambda x: x + 3, (torch.tensor([True, False]),)),
        ("no dimensions", lambda x, y: x + y, (real, torch.tensor(2.0, dtype=torch.float64))),
        ("half", lambda x: (x.half() + 1).float(), (real,)),
    ]
    check(*(c for c in cases))


def test_binary():
    seeded()
    a, b = reals(4, 1, 3), reals(2, 3)
    whole, other = torch.randint(-9, 9, (3, 4)), torch.randint(1, 4, (3, 4))
    check(
        ("sub", lambda x, y: torch.sub(x, y, alpha=2), (a, b)),
        ("add", lambda x, y: torch.add(x, y, alpha=0.5), (a, b)),
        ("rsub", lambda x: 1 - x, (a,)),
        ("true", lambda x, y: x / y, (whole, other)),
        ("floor", lambda x, y: torch.div(x, y, rounding_mode="floor"), (whole, other)),
        ("trunc", lambda x, y: torch.div(x, y, rounding_mode="trunc"), (whole, other)),
        ("floats trunc", lambda x, y: torch.div(x, y, rounding_mode="trunc"), (a, b)),
        ("floor_divide", lambda x, y: x // y, (whole, other)),
        ("remainder", torch.remainder, (whole, other)),
        ("remainder floats", torch.remainder, (a, b)),
        ("fmod", torch.fmod, (a, b)),
        ("pow", torch.pow, (a.abs() + 0.1, b)),
        ("pow 2", lambda x: x**2, (a,)),
        ("pow 3", lambda x: x**3, (whole,)),
        ("pow -1", lambda x: x**-1.0, (a,)),
        ("2 pow", lambda x: 2**x, (a,)),
        ("pow .5", lambda x: x.abs() ** 0.5, (a,)),
        ("maximum", torch.maximum, (a, b)),
        ("minimum", torch.minimum, (a, b)),
        ("atan2", torch.atan2, (a, b)),
        ("hypot", torch.hypot, (a, torch.tensor([3e38, math.inf, 0.0]))),
        ("fmax", torch.fmax, (a, a.log())),
        ("fmin of integers", torch.fmin, (whole, other)),
        ("ldexp", torch.ldexp, (whole, other)),
        ("logaddexp", torch.logaddexp, (a, b)),
        ("addcmul", lambda x, y: torch.addcmul(x, y, y, value=0.5), (b, b)),
        ("addcdiv", lambda x, y: torch.addcdiv(x, y, y, value=2.0), (b, b)),
        ("lerp", lambda x, y: torch.lerp(x, y, 0.3), (b, b + 1)),
        ("and", lambda x, y: x & y, (whole, other)),
        ("or", lambda x, y: x | y, (whole, other)),
        ("xor", lambda x, y: x ^ y, (whole, other)),
        ("shift", lambda x, y: (x << y, x >> y), (whole, other)),
        ("logic", lambda x, y: (torch.logical_and(x, y), torch.logical_xor(x, y)), (whole, other)),
    )


def test_comparisons_and_choices():
    seeded()
    a, b = reals(3, 4), reals(4)
    check(
        ("ne", torch.ne, (a, b)),
        ("lt", torch.lt, (a, b)),
        ("le", lambda x: x <= 0, (a,)),
        ("gt", torch.gt, (a, b)),
        ("ge", lambda x: x >= 0.5, (a,)),
        ("where", lambda x, y: torch.where(x > 0, x, y), (a, b)),
        ("where number", lambda x: torch.where(x > 0, x, 0.0), (a,)),
        ("where both", lambda x: torch.where(x > 0, 1, 0), (a,)),
        ("masked_fill", lambda x: x.masked_fill(x > 0, -math.inf), (a,)),
        ("clamp", lambda x: x.clamp(-1, 1), (a,)),
        ("clamp min", lambda x: x.clamp(min=0), (a,)),
        ("clamp max", lambda x: x.clamp_max(0.5), (a,)),
        ("clamp tensors", lambda x, y: torch.clamp(x, y, y + 1), (a, b)),
        ("clamp integers", lambda x: x.clamp(0, 2), (torch.arange(-3, 5),)),
        ("clamp NaN", lambda x: x.clamp(-1, 1), (EDGES,)),
    )


def test_activations():
    seeded()
    x = torch.cat([reals(9), EDGES])
    names = "relu relu6 silu selu hardswish hardsigmoid mish softplus logsigmoid tanhshrink "
    names += "softshrink hardshrink hardtanh gelu elu celu leaky_relu softsign"
    edgy = x[torch.isfinite(x)]
    cases = [(n, getattr(F, n), (edgy,)) for n in names.split()]
    check(
        *cases,
        ("gelu tanh", lambda x: F.gelu(x, approximate="tanh"), (edgy,)),
        ("elu", lambda x: F.elu(x, alpha=0.5), (edgy,)),
        ("softplus", lambda x: F.softplus(x, beta=2.0, threshold=5.0), (edgy,)),
        ("threshold", lambda x: F.threshold(x, 0.1, 7.0), (edgy,)),
        ("hardtanh", lambda x: F.hardtanh(x, -2, 0.5), (edgy,)),
        ("prelu", F.prelu, (reals(2, 3, 4), reals(3))),
        ("prelu 1", F.prelu, (reals(2, 3, 4), reals(1))),
        ("glu", lambda x: F.glu(x, 1), (reals(2, 6),)),
        ("softmax", lambda x: F.softmax(x, 1), (reals(2, 3, 4),)),
        ("log_softmax", lambda x: F.log_softmax(x, -1), (reals(2, 3),)),
        ("softmin", lambda x: F.softmin(x, 0), (reals(2, 3),)),
        ("softmax of half", lambda x: F.softmax(x, 0, dtype=torch.float64), (reals(3),)),
        ("dropout", lambda x: F.dropout(x, 0.5, training=False), (edgy,)),
    )


def test_convolutions():
    seeded()
    x, w = reals(2, 4, 7, 6), reals(6, 4, 3, 3)
    check(
        ("2d", lambda x, w: F.conv2d(x, w, stride=2, padding=(1, 0)), (x, w)),
        ("bias", lambda x, w, b: F.conv2d(x, w, b, dilation=2), (x, w, reals(6))),
        ("groups", lambda x, w: F.conv2d(x, w, groups=2), (x, reals(6, 2, 2, 2))),
        ("same", lambda x, w: F.conv2d(x, w, padding="same"), (x, reals(6, 4, 2, 3))),
        ("valid", lambda x, w: F.conv2d(x, w, padding="valid"), (x, w)),
        ("no samples", F.conv2d, (reals(4, 5, 5), w)),
        ("1d", lambda x, w: F.conv1d(x, w, padding=2), (reals(2, 3, 8), reals(4, 3, 3))),
        ("3d", F.conv3d, (reals(1, 2, 4, 4, 4), reals(3, 2, 2, 2, 2))),
        (
            "transposed",
            lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1, output_padding=1),
            (x, reals(4, 3, 3, 3)),
        ),
        (
            "transposed 1d",
            lambda x, w: F.conv_transpose1d(x, w, stride=2, groups=2),
            (reals(1, 4, 5), reals(4, 3, 2)),
        ),
        tol=1e-4,
    )


def test_pooling():
    seeded()
    x = reals(2, 3, 7, 8)
    check(
        ("max", lambda x: F.max_pool2d(x, 3, 2, 1), (x,)),
        ("max ceil", lambda x: F.max_pool2d(x, (2, 3), 2, ceil_mode=True), (x,)),
        ("max dilated", lambda x: F.max_pool2d(x, 2, 1, dilation=2), (x,)),
        ("indices", lambda x: F.max_pool2d(x, 2, return_indices=True), (x,)),
        ("1d", lambda x: F.max_pool1d(x, 2), (reals(2, 3, 6),)),
        ("3d", lambda x: F.max_pool3d(x, 2), (reals(1, 2, 4, 4, 4),)),
        ("avg", lambda x: F.avg_pool2d(x, 3, 2, 1), (x,)),
        ("avg inner", lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), (x,)),
        ("avg ceil", lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True), (x,)),
        ("avg divisor", lambda x: F.avg_pool2d(x, 2, divisor_override=3), (x,)),
        ("avg 1d", lambda x: F.avg_pool1d(x, 3, 1), (reals(2, 3, 6),)),
        ("adaptive", lambda x: F.adaptive_avg_pool2d(x, (3, 5)), (x,)),
        ("adaptive 1", lambda x: F.adaptive_avg_pool2d(x, 1), (x,)),
        ("adaptive 1d", lambda x: F.adaptive_avg_pool1d(x, 4), (reals(2, 3, 6),)),
        ("adaptive max", lambda x: F.adaptive_max_pool2d(x, (7, 4)), (x,)),
        ("no samples", lambda x: F.max_pool2d(x, 2), (reals(3, 4, 4),)),
    )


def test_normalisations():
    seeded()
    x, c = reals(2, 4, 3, 3), reals(4)
    check(
        ("batch", lambda x, m, v, w, b: F.batch_norm(x, m, v, w, b), (x, c, c.abs() + 1, c, c)),
        ("batch bare", lambda x, m, v: F.batch_norm(x, m, v, eps=1e-3), (x, c, c.abs() + 1)),
        ("layer", lambda x, w, b: F.layer_norm(x, (3, 3), w, b), (x, reals(3, 3), reals(3, 3))),
        ("layer bare", lambda x: F.layer_norm(x, (3,)), (x,)),
        ("group", lambda x, w, b: F.group_norm(x, 2, w, b), (x, c, c)),
        ("group bare", lambda x: F.group_norm(x, 4), (x,)),
        ("instance", lambda x, w, b: F.instance_norm(x, weight=w, bias=b), (x, c, c)),
        ("rms", lambda x, w: F.rms_norm(x, (3,), w), (x, reals(3))),
        ("normalize", lambda x: F.normalize(x, dim=1), (x,)),
        ("norm 1", lambda x: torch.linalg.vector_norm(x, 1, dim=1), (x,)),
        ("norm inf", lambda x: torch.linalg.vector_norm(x, math.inf), (x,)),
        ("norm 3", lambda x: x.norm(p=3, dim=(0, 2), keepdim=True), (x,)),
        ("norm 0", lambda x: torch.linalg.vector_norm(x, 0, dim=0), (x,)),
        ("cosine", lambda x, y: F.cosine_similarity(x, y), (x, x.flip(0))),
        tol=1e-4,
    )


def test_products():
    seeded()
    m = reals(3, 4)
    check(
        ("linear", F.linear, (reals(2, 5, 4), m)),
        ("linear bias", F.linear, (reals(4), m, reals(3))),
        ("matmul", torch.matmul, (reals(2, 1, 3, 4), reals(5, 4, 2))),
        ("mv", torch.mv, (m, reals(4))),
        ("dot", torch.dot, (reals(4), reals(4))),
        ("bmm", torch.bmm, (reals(2, 3, 4), reals(2, 4, 5))),
        (
            "addmm",
            lambda x, a, b: torch.addmm(x, a, b, beta=0.5, alpha=2),
            (reals(2), m, reals(4, 2)),
        ),
        ("baddbmm", torch.baddbmm, (reals(2, 3, 5), reals(2, 3, 4), reals(2, 4, 5))),
        ("outer", torch.outer, (reals(3), reals(2))),
        (
            "einsum",
            lambda a, b: torch.einsum("bij, bkj -> bik", a, b),
            (reals(2, 3, 4), reals(2, 5, 4)),
        ),
        ("bilinear", F.bilinear, (m, reals(3, 2), reals(5, 4, 2), reals(5))),
        (
            "distances",
            lambda x, y: [torch.cdist(x, y, p) for p in (0.0, 1.0, 2.0, 3.0, math.inf)],
            (reals(2, 3, 4), reals(2, 5, 4)),
        ),
        ("trace", torch.trace, (m,)),
        ("tril", lambda x: x.tril(1), (m,)),
        ("triu", lambda x: x.triu(-1), (m,)),
        ("triu bool", lambda x: (x > 0).triu(), (m,)),
        ("cumsum", lambda x: x.cumsum(1), (m,)),
        ("cumsum int", lambda x: x.cumsum(0), (torch.arange(4, dtype=torch.int32),)),
        ("cumprod", lambda x: x.cumprod(0), (m,)),
        tol=1e-4,
    )


def test_attention():
    seeded()
    q, k, v = reals(2, 2, 3, 4), reals(2, 2, 5, 4), reals(2, 2, 5, 6)
    mask = torch.rand(2, 1, 3, 5) > 0.4
    mask[0, 0, 0] = False
    sdpa = F.scaled_dot_product_attention
    check(
        ("plain", sdpa, (q, k, v)),
        ("causal", lambda q, k, v: sdpa(q, k, v, is_causal=True), (q, k, v)),
        ("scale", lambda q, k, v: sdpa(q, k, v, scale=0.3), (q, k, v)),
        ("bias", sdpa, (q, k, v, reals(3, 5))),
        ("mask", sdpa, (q, k, v, mask)),
        ("blind rows", sdpa, (q, k, v, torch.where(mask, reals(3, 5), -math.inf))),
        ("three dimensions", sdpa, (q[0], k[0], v[0])),
        (
            "groups",
            lambda q, k, v: sdpa(q, k, v, enable_gqa=True),
            (reals(1, 4, 3, 4), k[:1], v[:1]),
        ),
        tol=1e-4,
    )


def test_shapes():
    seeded()
    x = reals(2, 3, 4)
    check(
        ("view", lambda x: x.view(6, -1), (x,)),
        ("reshape", lambda x: x.permute(2, 0, 1).reshape(-1), (x,)),
        ("flatten", lambda x: x.flatten(1), (x,)),
        ("unflatten", lambda x: x.unflatten(2, (2, 2)), (x,)),
        ("transpose", lambda x: x.transpose(0, -1), (x,)),
        ("t", lambda x: x[0].t(), (x,)),
        ("mT", lambda x: x.mT, (x,)),
        ("movedim", lambda x: x.movedim(0, 2), (x,)),
        ("movedims", lambda x: x.movedim((0, 1), (2, 0)), (x,)),
        ("squeeze", lambda x: x[:1].squeeze(), (x,)),
        ("squeeze dim", lambda x: x[:1].squeeze(0), (x,)),
        ("unsqueeze", lambda x: x.unsqueeze(-1), (x,)),
        ("expand", lambda x: x[:1].expand(5, -1, 4), (x,)),
        ("repeat", lambda x: x.repeat(2, 1, 1, 2), (x,)),
        ("tile", lambda x: x.tile((2,)), (x,)),
        ("repeat_interleave", lambda x: x.repeat_interleave(2, 1), (x,)),
        ("cat", lambda x: torch.cat([x, x + 1], -1), (x,)),
        ("cat mixed", lambda x: torch.cat([x, x.long()]), (x,)),
        ("stack", lambda x: torch.stack([x, x], 1), (x,)),
        ("split", lambda x: x.split(3, 2), (x,)),
        ("split sizes", lambda x: x.split([1, 2], 1), (x,)),
        ("chunk", lambda x: x.chunk(3, 2), (x,)),
        ("unbind", lambda x: x.unbind(1), (x,)),
        ("select", lambda x: x.select(1, -1), (x,)),
        ("slice", lambda x: x[:, 1:, ::2], (x,)),
        ("slice back", lambda x: x[..., -3:-1], (x,)),
        ("narrow", lambda x: x.narrow(2, 1, 2), (x,)),
        ("flip", lambda x: x.flip(0, -1), (x,)),
        ("roll", lambda x: x.roll((1, -1), (0, 2)), (x,)),
        ("roll all", lambda x: x.roll(5), (x,)),
        ("pad", lambda x: F.pad(x, (1, 2, 0, 1), value=3.0), (x,)),
        ("cut", lambda x: F.pad(x, (-1, 1)), (x,)),
        ("reflect", lambda x: F.pad(x, (1, 2), mode="reflect"), (x,)),
        ("replicate", lambda x: F.pad(x, (2, 1), mode="replicate"), (x,)),
        ("circular", lambda x: F.pad(x, (2, 1), mode="circular"), (x,)),
        ("pixels", lambda x: F.pixel_shuffle(x, 2), (reals(1, 8, 2, 3),)),
        ("unpixels", lambda x: F.pixel_unshuffle(x, 2), (reals(1, 2, 4, 6),)),
        ("channels", lambda x: F.channel_shuffle(x, 2), (reals(1, 4, 2, 2),)),
        ("unfold", lambda x: x.unfold(2, 3, 1), (x,)),
        ("diagonal", lambda x: x.diagonal(1, 1, 2), (x,)),
        ("meshgrid", lambda x: torch.meshgrid(x[0, 0], x[0, :, 0], indexing="ij"), (x,)),
        ("broadcast", lambda x: torch.broadcast_tensors(x, x[0, :1]), (x,)),
        ("dtype", lambda x: (x.to(torch.int32), x.double(), x.bool(), x.type_as(x.long())), (x,)),
        ("contiguous", lambda x: x.permute(1, 0, 2).contiguous().view(3, 8), (x,)),
    )


def test_creation():
    x = reals(2, 3)
    check(
        ("like", lambda x: (torch.zeros_like(x), torch.ones_like(x, dtype=torch.int64)), (x,)),
        (
            "full",
            lambda x: (torch.full((2,), 3), torch.full_like(x, 0.5), x.new_full((1,), 2.0)),
            (x,),
        ),
        ("new", lambda x: (x.new_zeros(3), x.new_ones((2, 2)), torch.eye(3) + x[0, 0]), (x,)),
        (
            "arange",
            lambda x: (torch.arange(5), torch.arange(1, 9, 3), torch.arange(0, 1, 0.25)),
            (x,),
        ),
        ("linspace", lambda x: torch.linspace(0, 1, 5) + x[0, 0], (x,)),
        ("eye", lambda x: torch.eye(2, 3) * x, (x,)),
        ("one_hot", lambda x: F.one_hot(x, 4), (torch.tensor([[0, 3], [1, 2]]),)),
        ("tensor", lambda x: x + torch.tensor([1.0, 2.0, 3.0]), (x,)),
    )


def test_reductions():
    seeded()
    x, whole = reals(2, 3, 4), torch.randint(0, 3, (2, 3))
    check(
        ("sum", lambda x: (x.sum(), x.sum(1), x.sum((0, -1), keepdim=True)), (x,)),
        ("sum of integers", lambda x: (x.int().sum(), (x > 0).sum(0), x.float().mean(1)), (whole,)),
        ("mean", lambda x: (x.mean(), x.mean(-1, keepdim=True)), (x,)),
        ("prod", lambda x: (x.prod(), x.prod(1)), (x,)),
        ("max", lambda x: (x.max(), x.min(), x.amax((0, 1)), x.amin(2, keepdim=True)), (x,)),
        ("max dim", lambda x: (*x.max(1), *x.min(-1, keepdim=True)), (x,)),
        ("argmax", lambda x: (x.argmax(), x.argmax(1), x.argmin(0, keepdim=True)), (x,)),
        ("any", lambda x: (x.any(), x.all(), x.any(0), x.all(1, keepdim=True)), (whole,)),
        (
            "var",
            lambda x: (x.var(), x.var(1, unbiased=False), x.std(2), x.std((0, 1), keepdim=True)),
            (x,),
        ),
        ("var_mean", lambda x: torch.var_mean(x, 1), (x,)),
        ("count", lambda x: x.count_nonzero(1), (whole,)),
        ("logsumexp", lambda x: torch.logsumexp(x, (1, 2)), (x,)),
        ("topk", lambda x: x.topk(2, 1), (x,)),
        ("least", lambda x: x.topk(2, -1, largest=False), (x,)),
        ("sort", lambda x: x.sort(1, descending=True), (x,)),
        ("argsort", lambda x: x.argsort(-1), (x,)),
        ("stable", lambda x: torch.sort(x, stable=True, dim=0, descending=True), (whole,)),
        ("median", lambda x: x.median(1), (x,)),
        (
            "losses",
            lambda x: (
                F.mse_loss(x, x * 2),
                F.l1_loss(x, x + 1, reduction="sum"),
                F.mse_loss(x, x, reduction="none"),
            ),
            (x,),
        ),
        tol=1e-4,
    )


def test_indices():
    seeded()
    x = reals(4, 5, 3)
    i, j = torch.tensor([[0, 3], [2, 2]]), torch.tensor([1, -1])
    g = torch.randint(0, 4, (2, 5, 3))
    check(
        ("embedding", lambda i, w: F.embedding(i, w), (i, reals(5, 3))),
        ("index_select", lambda x, i: x.index_select(1, i), (x, j.abs())),
        ("gather", lambda x, g: x.gather(0, g), (x, g)),
        ("scatter", lambda x, g: x.scatter(0, g, 7.0), (x, g)),
        ("scatter_add", lambda x, g, s: x.scatter_add(0, g, s), (x, g, reals(2, 5, 3))),
        ("index", lambda x, i: (x[i], x[:, i], x[i, :, i % 3]), (x, i)),
        ("index two", lambda x, i, j: x[i, j], (x, i, j)),
        ("index beside", lambda x, j: x[:, j, j], (x, j)),
        ("index_put", lambda x, j: torch.index_put(x, (j,), torch.tensor(1.0)), (x, j)),
        ("masked", lambda x: torch.index_put(x, (x > 0,), torch.tensor(0.0)), (x,)),
        (
            "put last",
            lambda x, j: torch.ops.aten.index_put(x, (None, None, j), x[..., :2] * 3),
            (x, j),
        ),
        (
            "put one",
            lambda x, i, v: torch.ops.aten.index_put(x, (None, i), v),
            (x, i, torch.tensor(2.0)),
        ),
        (
            "put apart",
            lambda x, j, v: torch.ops.aten.index_put(x, (j, None, j), v),
            (x, j, reals(2, 5)),
        ),
        (
            "put added",
            lambda x, j, v: torch.ops.aten.index_put(x, (None, j), v, True),
            (x, j, reals(3)),
        ),
        ("index_fill", lambda x, j: x.index_fill(1, j.abs(), 3.0), (x, j)),
        ("searched", lambda x, e: torch.searchsorted(e, x, side="right"), (x, reals(3).sort()[0])),
        ("triangle", lambda x: x[torch.tril_indices(4, 5, -1).unbind()], (x,)),
        ("index_add", lambda x, j, s: x.index_add(1, j.abs(), s), (x, j, reals(4, 2, 3))),
        ("bucketize", lambda x: torch.bucketize(x, torch.tensor([-1.0, 0.0, 1.0])), (x,)),
        ("take", lambda x, i: torch.take(x, i), (x, i)),
        ("take_along", lambda x, g: torch.take_along_dim(x, g, 0), (x, g)),
    )


def test_writing_in_place():
    seeded()

    def slices(x):
        y = x.clone()
        y[:, 0] = 0
        y[1:, 1:] += 2
        y[0, -1] *= 3
        return y

    def views(x):
        y = x.clone()
        y.view(-1)[2:4].fill_(9.0)
        y.add_(1).mul_(2).clamp_(max=15)
        return y, y.relu_()

    check(("slices", slices, (reals(3, 4),)), ("views", views, (reals(3, 4),)))


def test_resampling():
    seeded()
    x = reals(1, 2, 4, 5)
    up, deep = F.interpolate, reals(1, 2, 3, 4, 5)
    grid = torch.rand(1, 3, 3, 2) * 2 - 1
    check(
        ("nearest", lambda x: up(x, scale_factor=2), (x,)),
        ("to a size", lambda x: up(x, size=(3, 7)), (x,)),
        ("exact", lambda x: up(x, size=(6, 3), mode="nearest-exact"), (x,)),
        ("bilinear", lambda x: up(x, scale_factor=2, mode="bilinear"), (x,)),
        ("corners", lambda x: up(x, size=(7, 9), mode="bilinear", align_corners=True), (x,)),
        ("bicubic", lambda x: up(x, size=(8, 10), mode="bicubic"), (x,)),
        ("one dimension", lambda x: up(x[0], scale_factor=2, mode="linear"), (x,)),
        ("three", lambda d: up(d, size=(3, 7, 2), mode="nearest"), (deep,)),
        ("three exact", lambda d: up(d, size=(3, 7, 2), mode="nearest-exact"), (deep,)),
        ("trilinear", lambda d: up(d, size=(5, 3, 8), mode="trilinear"), (deep,)),
        ("tri corners", lambda d: up(d, (5, 3, 8), None, "trilinear", True), (deep,)),
        ("grid", lambda x, g: F.grid_sample(x, g, align_corners=False), (x, grid)),
        ("grid nearest", lambda x, g: F.grid_sample(x, g, "nearest", "border", True), (x, grid)),
        ("grid cubic", lambda x, g: F.grid_sample(x, g, "bicubic", "border", False), (x, 2 * grid)),
        tol=1e-4,
    )
