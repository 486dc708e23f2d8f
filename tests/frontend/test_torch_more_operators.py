"""ATen operators that few models have: linear algebra, running maxima, special functions, bags."""

from __future__ import annotations

import math

import numpy as np
import pytest

import mlcnb as mlc
from mlcnb.core.errors import ExecutionError, UnsupportedOpError
from tests.frontend.test_torch_operators import check, seeded

torch = pytest.importorskip("torch", reason="the extra torch is not installed")
F = torch.nn.functional

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")


def matrices(*lead):
    seeded()
    return torch.randn(*lead, 4, 4) + 4 * torch.eye(4)


def positive():
    a = matrices(2)
    return a @ a.mT + torch.eye(4)


def test_equations_of_matrices() -> None:
    a, b, p = matrices(2), torch.randn(2, 4, 3), positive()
    solve, triangular = torch.linalg.solve, torch.linalg.solve_triangular
    low = torch.linalg.cholesky(p)
    cases = [
        ("solve", solve, (a, b)),
        ("a vector", solve, (a[0], b[0, :, 0])),
        ("vectors", solve, (a, b[..., 0])),
        ("from the right", lambda a, b: solve(a, b, left=False), (a, b.mT)),
        ("inv", torch.linalg.inv, (a,)),
        ("inverse", torch.inverse, (a[0],)),
        ("upper", lambda a, b: triangular(a.triu(), b, upper=True), (a, b)),
        ("the other half", lambda a, b: triangular(a, b, upper=False), (a, b)),
        ("unit", lambda a, b: triangular(a, b, upper=True, unitriangular=True), (a, b)),
        ("right", lambda a, b: triangular(a, b, upper=True, left=False), (a, b.mT)),
        ("cholesky", torch.linalg.cholesky, (p,)),
        ("cholesky upper", lambda p: torch.linalg.cholesky(p, upper=True), (p,)),
        ("cholesky_solve", torch.cholesky_solve, (b, low)),
        ("det", torch.linalg.det, (a,)),
        ("slogdet", torch.slogdet, (-a[:, :3, :3],)),
        ("logdet", torch.logdet, (torch.stack([p[0], -torch.eye(4)[[1, 0, 2, 3]]]),)),
    ]
    check(*cases, tol=1e-4)
    check(*cases, compiled=True, tol=1e-4)


def test_a_singular_matrix_ends_the_run() -> None:
    class Solve(torch.nn.Module):
        def forward(self, a):
            return torch.linalg.inv(a)

    ex = mlc.compile(mlc.from_torch(Solve(), (torch.eye(3),)))
    with pytest.raises(ExecutionError, match=r"linalg\.solve: a matrix is singular"):
        ex(np.zeros((3, 3), np.float32))

    class Cholesky(torch.nn.Module):
        def forward(self, a):
            return torch.linalg.cholesky(a)

    ex = mlc.compile(mlc.from_torch(Cholesky(), (torch.eye(3),)))
    with pytest.raises(ExecutionError, match="a matrix is not positive definite"):
        ex(-np.eye(3, dtype=np.float32))


def grouped_rows(x, weight, offs):
    """What the operator of transformers computes, which its mixtures of experts call."""
    found, start = torch.zeros(len(x), weight.shape[2]), 0
    for matrix, end in zip(weight, offs.tolist(), strict=True):
        found[start:end], start = x[start:end] @ matrix, end
    return found


@pytest.fixture
def transformers_operator():
    """A stand-in of the operator that the package transformers defines."""
    with torch.library._scoped_library("transformers", "FRAGMENT") as library:
        library.define("grouped_mm_fallback(Tensor input, Tensor weight, Tensor offs) -> Tensor")
        library.impl("grouped_mm_fallback", grouped_rows, "CPU")
        library.impl("grouped_mm_fallback", lambda x, w, o: x @ w[0], "Meta")
        yield torch.ops.transformers.grouped_mm_fallback


def test_rows_in_groups(transformers_operator) -> None:
    seeded()
    x, w = torch.randn(7, 8), torch.randn(4, 8, 16)
    ends = torch.tensor([2, 2, 5, 6])  # none are of the second group, and the last row is of none
    whole = torch.tensor([0, 3, 3, 7], dtype=torch.int32)

    def halves(x, w, ends):
        return torch._grouped_mm(x.bfloat16(), w.bfloat16(), offs=ends).float()

    def stacks(x, w):
        return torch._grouped_mm(x.bfloat16(), w.bfloat16()).float()

    cases = [
        ("rows", transformers_operator, (x, w, ends)),
        ("weights turned", lambda x, w, o: transformers_operator(x, w.mT, o), (x, w.mT, ends)),
        ("int32", transformers_operator, (x, w, whole)),
    ]
    check(*cases)
    check(*cases, compiled=True)
    for compiled in (False, True):
        check(("bfloat16", halves, (x, w, whole)), compiled=compiled, tol=2e-2)
        check(("stacks", stacks, (x.expand(4, 7, 8), w)), compiled=compiled, tol=2e-2)

    class Grouped(torch.nn.Module):
        def forward(self, x, w, ends):
            return transformers_operator(x, w, ends)

    rows = torch.export.Dim("rows", min=2)
    ex = mlc.compile(mlc.from_torch(Grouped(), (x, w, ends), dynamic_shapes=({0: rows}, {}, {})))
    for count in (7, 3, 40):
        x = torch.randn(count, 8)
        want = grouped_rows(x, w, ends.clamp(max=count))
        np.testing.assert_allclose(ex(x, w, ends), want, rtol=1e-5, atol=1e-5)


def test_columns_in_groups_are_refused() -> None:
    class Columns(torch.nn.Module):
        def forward(self, x, y, ends):
            return torch._grouped_mm(x, y, offs=ends)

    x, y = torch.ones(8, 16).bfloat16(), torch.ones(16, 8).bfloat16()
    with pytest.raises(UnsupportedOpError, match=r"it groups columns \(of tensors of 2 and 2 dim"):
        mlc.from_torch(Columns(), (x, y, torch.tensor([8, 16], dtype=torch.int32)))


def test_distances_and_sums_of_products() -> None:
    seeded()
    x, batch = torch.randn(4, 3), torch.randn(2, 4, 4)
    check(
        ("pdist", F.pdist, (x,)),
        ("pdist 1", lambda x: F.pdist(x, 1.0), (x,)),
        ("pdist inf", lambda x: F.pdist(x, math.inf), (x,)),
        ("addbmm", lambda a: torch.addbmm(a[0], a, a, beta=0.5, alpha=2.0), (batch,)),
        ("cartesian_prod", lambda a, b: torch.cartesian_prod(a, b, a), (x[0], x[1, :2])),
        compiled=True,
    )


def test_running_values() -> None:
    x = torch.tensor([[1.0, 3, 3, -2, math.nan, 7, 7], [-math.inf, -math.inf, 0, 1, 1, 0, 2]])
    whole = torch.tensor([[3, 1, 3], [4, 4, 1]])
    cases = [
        ("cummax", lambda x: torch.cummax(x, 1), (x,)),
        ("cummin", lambda x: torch.cummin(x, -1), (x,)),
        ("along the first", lambda x: torch.cummax(x, 0)[0], (x[:, :4],)),
        ("integers", lambda x: torch.cummax(x, 1), (whole,)),
        ("logcumsumexp", lambda x: torch.logcumsumexp(x, 1), (x,)),
        ("large", lambda x: torch.logcumsumexp(x * 100, 0), (x[:, :4],)),
    ]
    check(*cases)
    check(*cases, compiled=True)


def test_what_is_there_most_often_and_how_often() -> None:
    x = torch.tensor([[2.0, 0, 2, 0, 1], [1, 1, 3, 3, 3], [4, 2, 0, 1, 3]])
    whole = torch.tensor([[[3, 1], [3, 0], [1, 0]]])
    cases = [
        ("mode", lambda x: tuple(torch.mode(x)), (x,)),
        ("of the first axis", lambda x: tuple(torch.mode(x, 0, True)), (x,)),
        ("of integers", lambda x: tuple(torch.mode(x, -2)), (whole,)),
        ("of a number", lambda x: tuple(torch.mode(x)), (x[0, 0],)),
        ("histc", lambda x: torch.histc(x, 3), (x,)),
        ("histc of numbers between", lambda x: torch.histc(x, 7), (x.sin(),)),
        ("histc of one number", lambda x: torch.histc(x, 4), (torch.full((3,), 2.5),)),
        ("histc with limits", lambda x: torch.histc(x, 4, 1, 3), (x,)),
    ]
    check(*cases)
    check(*cases, compiled=True)


def test_special_functions() -> None:
    x = torch.tensor([-2.5, -1.0, -0.3, -0.0, 0.0, 1e-3, 0.5, 1.0, 2.0, 3.7, 30.0, 170.0, math.inf])
    part = torch.tensor([-1.5, -1.0, -0.999, -0.5, 0.0, 1e-6, 0.3, 0.9, 0.9999, 1.0])
    signs = torch.tensor([-0.0, 0.0, 2.0, -3.0])
    cases = [
        ("lgamma", torch.lgamma, (x,)),
        ("digamma", torch.digamma, (x,)),
        ("erfinv", torch.erfinv, (part,)),
        ("ndtri", torch.special.ndtri, (torch.tensor([0.0, 0.01, 0.3, 0.5, 0.97, 1.0]),)),
        ("signbit", torch.signbit, (signs,)),
        ("signbit of integers", torch.signbit, (torch.tensor([-3, 0, 4]),)),
        ("copysign", torch.copysign, (torch.tensor([1.0, -2.0, 3.0, -4.0]), signs)),
    ]
    check(*cases)
    check(*cases, compiled=True)


def test_whole_numbers_to_a_power() -> None:
    x, half = torch.tensor([[0, 1, 2], [3, 5, 7]]), torch.tensor([2, -1, 3], dtype=torch.int32)
    cases = [
        ("a number to", lambda x: 2**x, (x,)),
        ("to a number", lambda x: x**5, (x,)),
        ("one to another", lambda x, y: x ** y.abs(), (x, half)),
    ]
    check(*cases)
    check(*cases, compiled=True)


def test_medians_of_what_has_nan() -> None:
    x = torch.tensor([[3.0, math.nan, 1.0, math.nan], [4.0, 2.0, -math.inf, 9.0]])
    cases = [
        ("all", lambda x: x.median(), (x,)),
        ("all numbers", lambda x: x.median(), (x[1],)),
        ("rows", lambda x: x.median(1), (x,)),
        ("columns", lambda x: x.median(0, keepdim=True), (x,)),
        ("half", lambda x: x.median(1).indices, (x.half(),)),
    ]
    check(*cases)
    check(*cases, compiled=True)


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16])
def test_floor_division_of_half_precision(kind) -> None:
    x, y = torch.tensor([-6.0, -5.02, 2.998, 5.0, 100.1]), torch.tensor([1.19, 1.002, 1.0, -0.3])
    x, y = (a.to(kind).float() for a in torch.meshgrid(x, y, indexing="ij"))
    cases = [
        ("//", lambda x, y: (x.to(kind) // y.to(kind)).float(), (x, y)),
        ("div", lambda x, y: x.to(kind).div(y.to(kind), rounding_mode="floor").float(), (x, y)),
    ]
    check(*cases)
    check(*cases, compiled=True)


def test_windows() -> None:
    x = torch.zeros(7)
    check(
        ("hamming", lambda x: x + torch.hamming_window(7), (x,)),
        ("alpha", lambda x: x + torch.hamming_window(7, False, 0.5, 0.4), (x,)),
        ("blackman", lambda x: x + torch.blackman_window(7), (x,)),
        ("bartlett", lambda x: x + torch.bartlett_window(7, periodic=False), (x,)),
    )


def test_reading_and_writing_by_indices() -> None:
    seeded()
    x, i = torch.randn(3, 5), torch.tensor([0, 2, 0])
    index = torch.randint(0, 3, (3, 5))
    rows = torch.sort(torch.randn(3, 6), 1)[0]
    y = torch.randn(3, 5)

    def reduce(way, itself):
        return lambda x, i, y: x.scatter_reduce(0, i, y, way, include_self=itself)

    ways = ("sum", "prod", "mean", "amax", "amin")
    cases = [(f"{w} {s}", reduce(w, s), (x, index, y)) for w in ways for s in (True, False)]
    cases += [
        ("index_reduce", lambda x, i, y: x.index_reduce(0, i, y, "mean"), (x, i, y)),
        ("index_reduce amax", lambda x, i, y: x.index_reduce(0, i, y, "amax"), (x, i, y)),
        ("masked_scatter", lambda x, y: x.masked_scatter(x > 0, y), (x, y)),
        ("put", lambda x, i: x.put(i, torch.ones(3), accumulate=True), (x, i)),
        ("searchsorted", torch.searchsorted, (rows, y)),
        ("to the right", lambda r, y: torch.searchsorted(r, y, right=True), (rows, rows[:, 1:4])),
        ("histc", lambda x: torch.histc(x, bins=4, min=-1, max=1), (x,)),
        ("diagonal", lambda x, y: x.diagonal_scatter(y, 1), (x, y[0, :3])),
        (
            "below",
            lambda x: x.diagonal_scatter(torch.ones(2, 4), -1, 1, 2),
            (torch.randn(2, 5, 4),),
        ),
    ]
    check(*cases)
    check(*cases, compiled=True)


def test_bags_of_rows() -> None:
    seeded()
    table, flat = torch.randn(6, 3), torch.tensor([1, 2, 4, 5, 4])
    begins, weights = torch.tensor([0, 2, 2]), torch.rand(5)

    def bags(mode, **more):
        return lambda i, t, b, *w: F.embedding_bag(i, t, b, mode=mode, **more)

    def weighed(i, t, b, w):
        return F.embedding_bag(i, t, b, mode="sum", per_sample_weights=w)

    cases = [(mode, bags(mode), (flat, table, begins)) for mode in ("sum", "mean", "max")]
    cases.append(("weights", weighed, (flat, table, begins, weights)))
    check(*cases)
    check(*cases, compiled=True)


def test_parts_that_overlap_and_smooth_resampling() -> None:
    seeded()
    x, line, cube = torch.randn(2, 3, 8, 7), torch.randn(2, 3, 12), torch.randn(1, 2, 5, 6, 7)

    def smooth(size, mode, **more):
        return lambda x: F.interpolate(x, size=size, mode=mode, antialias=True, **more)

    cases = [
        ("1d", lambda x: F.adaptive_max_pool1d(x, 5), (line,)),
        ("2d", lambda x: F.adaptive_max_pool2d(x, (3, 7)), (x,)),
        ("3d", lambda x: F.adaptive_max_pool3d(x, (2, 4, 3)), (cube,)),
        ("smaller", smooth((4, 3), "bilinear"), (x,)),
        ("larger", smooth((11, 3), "bicubic"), (x,)),
        ("corners", smooth((5, 4), "bilinear", align_corners=True), (x,)),
        ("rrelu", lambda x: F.rrelu(x), (x,)),
    ]
    check(*cases)
    check(*cases, compiled=True)


def test_what_is_refused() -> None:
    class Model(torch.nn.Module):
        def __init__(self, fn):
            super().__init__()
            self.fn = fn

        def forward(self, x):
            return self.fn(x)

    refused = {
        "places of maxima": lambda x: F.adaptive_max_pool2d(x, 3, return_indices=True),
    }
    for why, fn in refused.items():
        with pytest.raises(UnsupportedOpError, match=why):
            mlc.from_torch(Model(fn), (torch.randn(1, 2, 8, 8),))
