"""What samples of PyTorch's own database of operators found, each with PyTorch's answer."""

from __future__ import annotations

import math

import numpy as np
import pytest

import mlcnb as mlc
from mlcnb.core.errors import UnsupportedOpError
from tests.frontend.test_torch_operators import check, reals, seeded, torch

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")

ONE = torch.tensor(-1.5)
FIRST = torch.tensor([0])


def test_vectors_are_broadcast_before_their_cosine():
    """A dimension of 1 counts as often as it is repeated, in the length of the vector too."""
    seeded()
    cosine = torch.nn.functional.cosine_similarity
    check(
        ("middle", lambda a, b: cosine(a, b, dim=-2), (reals(1, 2, 3), reals(2, 1, 3))),
        ("last", lambda a, b: cosine(a, b, dim=-1), (reals(2, 1), reals(2, 4))),
        ("ranks", lambda a, b: cosine(a, b, dim=0), (reals(3), reals(2, 3))),
        compiled=True,
    )


def test_tensors_without_dimensions_are_lines():
    """Along dimension 0 of a tensor that has none lies its one element."""
    cases = [
        ("gather", lambda x, i: torch.gather(x, 0, i), (ONE, FIRST)),
        ("gather one", lambda x, i: torch.gather(x, 0, i), (reals(5), torch.tensor(3))),
        ("index_select", lambda x, i: torch.index_select(x, 0, i), (ONE, FIRST)),
        ("index_add", lambda x, i, s: x.index_add(0, i, s, alpha=-2), (ONE, FIRST, ONE * 3)),
        ("scatter", lambda x, i, s: x.scatter(0, i, s), (ONE, FIRST[0], ONE * 3)),
        ("scatter_add", lambda x, i, s: x.scatter_add(0, i, s), (ONE, FIRST[0], ONE * 3)),
        ("kthvalue", lambda x: torch.kthvalue(x, 1), (ONE,)),
        ("sort", torch.sort, (ONE,)),
        ("topk", lambda x: torch.topk(x, 1), (ONE,)),
        ("median", lambda x: torch.median(x, 0), (ONE,)),
        ("logsumexp", lambda x: torch.logsumexp(x, 0), (ONE,)),
        ("meshgrid", lambda x, y: torch.meshgrid(x, y, indexing="ij"), (ONE, reals(3))),
    ]
    for way in ("amax", "amin", "mean", "prod"):
        for itself in (True, False):

            def reduced(x, i, s, way=way, itself=itself):
                return x.index_reduce(0, i, s, way, include_self=itself)

            cases.append((f"{way} {itself}", reduced, (ONE, FIRST, ONE * 3)))
    check(*cases)


def test_no_indices_have_any_rank():
    none = torch.zeros(2, 0, dtype=torch.int64)
    check(
        ("gather", lambda x, i: torch.gather(x, 0, i), (reals(5), none)),
        ("scatter", lambda x, i, s: x.scatter(0, i, s), (reals(5), none, reals(5))),
    )


def test_batch_norm_of_nothing():
    norm = torch.nn.functional.batch_norm
    empty = torch.zeros(0)
    check(("batch_norm", lambda x, m, v: norm(x, m, v), (empty, empty, empty)))


def test_copies_of_views():
    """They have the spelling of the view, arguments and all."""
    seeded()
    x = reals(2, 3, 4)
    check(
        ("permute", lambda x: torch.permute_copy(x, (2, 0, 1)), (x,)),
        ("transpose", lambda x: torch.transpose_copy(x, 0, 2), (x,)),
        ("t", torch.t_copy, (reals(2, 3),)),
        ("narrow", lambda x: torch.narrow_copy(x, 1, 1, 2), (x,)),
        ("select", lambda x: torch.select_copy(x, 1, 1), (x,)),
    )


def test_a_mask_larger_than_what_it_chooses_from():
    mask = torch.tensor([[True, False], [False, True], [True, True]])
    check(("larger", torch.masked_scatter, (reals(2), mask, reals(6))), compiled=True)


def test_parts_across_a_dimension():
    seeded()
    x = reals(4, 2, 6)
    check(
        ("hsplit", lambda x: torch.hsplit(x, 2), (x,)),
        ("of a vector", lambda x: torch.hsplit(x, 3), (reals(6),)),
        ("vsplit", lambda x: torch.vsplit(x, [1, 3]), (x,)),
        ("dsplit", lambda x: torch.dsplit(x, [2, 5]), (x,)),
    )


def test_matrices():
    seeded()
    stack, square = reals(3, 2, 4), reals(1, 3, 3)
    check(
        ("mH", lambda x: x.mH, (stack,)),
        ("diagonal", lambda x: torch.linalg.diagonal(x, offset=1), (stack,)),
        ("inv_ex", lambda x: torch.linalg.inv_ex(x)[0], (square,)),
        ("broadcast", torch.linalg.solve, (square, reals(2, 3, 2))),
        ("matrices", torch.linalg.solve, (reals(4, 3, 3), reals(3, 3))),
        tol=1e-4,
    )


def test_the_middle_of_numbers():
    nan = math.nan
    x = torch.tensor([[3.0, nan, 1.0, 2.0], [nan, nan, nan, nan], [4.0, 1.0, nan, nan]])
    check(
        ("rows", lambda x: torch.nanmedian(x, 1), (x[[0, 2]],)),
        ("of NaN alone", lambda x: torch.nanmedian(x, 1, keepdim=True)[0], (x,)),
        ("columns", lambda x: torch.nanmedian(x, 0), (x[:, :3],)),
        ("all", torch.nanmedian, (x,)),
        ("integers", lambda x: torch.nanmedian(x, 1), (torch.tensor([[3, 1, 2]]),)),
        ("one number", lambda x: torch.nanmedian(x, 0), (ONE,)),
        compiled=True,
    )


def test_how_many_differ():
    """Of a distance with p = 0: NaN where one element is, and where infinities meet."""
    x = torch.tensor([[1.0, 2.0], [math.nan, 2.0], [math.inf, 0.0]])
    check(("cdist", lambda x, y: torch.cdist(x, y, p=0.0), (x, x)))


def test_training_in_half_precision():
    """An exported program says half for the mean and deviation beside what is normalised."""
    seeded()

    def normed(x, w, b, mean, var):
        norm = torch.ops.aten._native_batch_norm_legit_functional
        return norm(x, w, b, mean, var, True, 0.1, 1e-5)[0]

    x, *rest = (v.half() for v in (reals(4, 2, 3), *torch.rand(4, 2)))
    check(("batch_norm", normed, (x, *rest)), tol=4e-3)


def test_angle():
    x = torch.tensor([math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, -1.5])
    check(("angle", torch.angle, (x,)), compiled=True)


@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
def test_places_in_a_volume(mode):
    seeded()
    sample = torch.nn.functional.grid_sample

    def sampled(x, grid):
        return sample(x, grid, mode=mode, align_corners=False)

    grid = torch.rand(2, 3, 2, 4, 3) * 2.4 - 1.2
    check(("volume", sampled, (reals(2, 2, 3, 4, 5), grid)), compiled=True)


def test_what_pytorch_cannot_write_out_is_refused():
    """Its own errors, of sizes that only a run knows, are not passed on."""

    def resized(x, like):
        return torch.resize_as_(x.clone(), like)

    given = (reals(4, 3), reals(4, 3))
    auto = ({0: torch.export.Dim.AUTO}, {0: torch.export.Dim.AUTO})
    with pytest.raises(UnsupportedOpError, match="PyTorch cannot write it out without operators"):
        mlc.from_torch(resized, given, dynamic_shapes=(auto,))


@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_logarithms_and_powers_of_whole_numbers_are_whole(kind):
    """floor(log2(8)) is 3: a logarithm divided by another one falls short of some of them."""
    dtype = getattr(torch, kind)
    two = 2.0 ** torch.arange(-40, 41, dtype=torch.float64).to(dtype)
    ten = (10.0 ** torch.arange(-22, 23, dtype=torch.float64)).to(dtype)
    ends = torch.tensor([0.0, math.inf, -math.inf, math.nan, -1.0], dtype=dtype)
    check(
        ("log2", lambda x: torch.floor(torch.log2(x)), (torch.cat([two, ends]),)),
        ("log10", lambda x: torch.floor(torch.log10(x)), (torch.cat([ten, ends]),)),
        ("exp2", torch.exp2, (torch.cat([torch.log2(two), ends]),)),
        compiled=True,
        tol=0.0,
    )
    check(("between", torch.log2, (two * 1.37,)), compiled=True, tol=3e-7)


def test_the_tail_of_the_error_function():
    """1 - erf(x) is 0 from 6 on: relative to what is left, not to 1."""
    x = torch.cat([torch.linspace(-6, 9, 1501), torch.tensor([30.0, math.inf, -math.inf])])
    ex = mlc.compile(mlc.from_torch(Tails(), (x,)))
    got, scaled, logarithm = ex(x.numpy())
    np.testing.assert_allclose(got, [math.erfc(v) for v in x.tolist()], rtol=2e-7, atol=1e-44)
    wide = x.double()
    want = torch.special.erfcx(wide).float().numpy()
    np.testing.assert_allclose(scaled, want, rtol=3e-7, atol=1e-44)
    want = torch.special.log_ndtr(wide).float().numpy()  # PyTorch writes it out in float32
    np.testing.assert_allclose(logarithm, want, rtol=1e-5, atol=1e-44)
    assert all(math.isnan(part[0]) for part in ex(x.numpy() * math.nan))


class Tails(torch.nn.Module):
    """What is left of 1, times exp(x^2), and the logarithm of what is left of a normal one."""

    def forward(self, x):
        return torch.special.erfc(x), torch.special.erfcx(x), torch.special.log_ndtr(x)


@pytest.mark.parametrize("kind", ["uint8", "int32", "int64", "float32"])
def test_whole_numbers_in_a_sum_of_products(kind):
    """Summed over, they are int64, as in `sum`: 100 of 200 do not fit in a byte."""
    x = torch.full((10, 10), 200).to(getattr(torch, kind))
    check(
        ("all", lambda x: torch.einsum("ij->", x), (x,)),
        ("rows", lambda x: torch.einsum("ij->i", x), (x,)),
        ("diagonal", lambda x: torch.einsum("ii->i", x), (x,)),
        ("product", lambda x, y: torch.einsum("ij,jk->ik", x, y), (x, x)),
        compiled=True,
    )


@pytest.mark.parametrize("padding", [-1, 2, -5, None])
def test_bags_without_the_row_that_is_padding(padding):
    """It counts nowhere, not in a mean either; a bag of it alone is empty; -1 is the last row."""
    seeded()
    bag = torch.nn.functional.embedding_bag
    indices, offsets = torch.tensor([4, 1, 2, 0, 4, 4, 2, 2, 3]), torch.tensor([0, 3, 6, 8])
    check(
        *(
            (mode, lambda w, i, o, mode=mode: bag(i, w, o, mode=mode, padding_idx=padding),
             (reals(5, 3), indices, offsets))
            for mode in ("sum", "mean", "max")
        ),
        compiled=True,
    )  # fmt: skip


def test_how_many_of_a_number_are_not_0():
    norm = torch.linalg.vector_norm
    check(
        ("one", lambda x: norm(x, 0), (torch.tensor(-8.5),)),
        ("none", lambda x: norm(x, 0), (torch.tensor(0.0),)),
        ("length", lambda x: norm(x, 3), (torch.tensor(-8.5),)),
        compiled=True,
    )


def test_gamma_just_below_0():
    x = -(10.0 ** torch.arange(-30.0, 0.0))
    want = torch.lgamma(x.double())
    got = mlc.compile(mlc.from_torch(Gamma(), (x,)))(x.numpy())
    np.testing.assert_allclose(got, want.numpy(), rtol=2e-7)


class Gamma(torch.nn.Module):
    """log |gamma(x)|."""

    def forward(self, x):
        return torch.lgamma(x)
