"""Sizes, branches and places that follow from data: masks, nonzero, torch.cond, as_strided."""

from __future__ import annotations

import numpy as np
import pytest

import mlcnb as mlc
from mlcnb.core.errors import ExecutionError, UnsupportedOpError

torch = pytest.importorskip("torch", reason="the extra torch is not installed")

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")

ANY = torch.export.Dim.DYNAMIC


def check(model, *cases, dynamic_shapes=None):
    """Imported with the first inputs, run with all of them, against PyTorch."""
    ex = mlc.compile(mlc.from_torch(model, cases[0], dynamic_shapes=dynamic_shapes))
    for inputs in cases:
        got, want = ex(*inputs), model(*inputs)
        got, want = (v if isinstance(v, tuple | list) else (v,) for v in (got, want))
        assert len(got) == len(want)
        for a, b in zip(got, want, strict=True):
            a, b = np.asarray(a), b.numpy()
            assert (a.shape, a.dtype) == (b.shape, b.dtype)
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def grid(*rows):
    return (torch.tensor(rows),)


#: some of the elements hold, none, all
GRIDS = (
    grid([1.0, -2, 3], [0, 0, -1]),
    grid([-1.0, -1, -1], [-1, -1, -1]),
    grid([1.0, 2, 3], [4, 5, 6]),
)


def test_masks():
    def model(x):
        positive = x > 0
        rows = x[x.sum(1) > 1]
        return x[positive], x[positive] * x[positive], rows, x[:, x[0] > 0].sum(), rows.sum(0)

    check(model, *GRIDS)


def test_masks_of_one_selection_and_of_broadcasting():
    def model(x):
        return torch.masked_select(x, x[0] > 0), torch.masked_select(x, x > 1).sum() * 2

    check(model, *GRIDS)


def test_a_mask_that_is_known():
    def model(x):
        return x[torch.tensor([False, True])], x[:, torch.tensor([True, False, True])] + 1

    check(model, *GRIDS)


def test_values_at_a_mask():
    def model(x, y):
        whole, many = x.clone(), x.clone()
        whole[x > 0] = -5
        many[x[:, 0] > 0] = y
        return whole, many

    check(model, *((*g, torch.tensor([7.0, 8, 9])) for g in GRIDS))


def test_nonzero():
    def model(x):
        places = torch.nonzero(x > 0)
        rows, columns = torch.where(x > 0)
        return places, rows + columns, x[rows, columns] - 1, torch.argwhere(x), places.shape[0] + 1

    ex = mlc.compile(mlc.from_torch(model, GRIDS[0]))
    for (x,) in GRIDS:
        *got, count = ex(x)
        *want, many = model(x)
        for a, b in zip(got, want, strict=True):
            np.testing.assert_array_equal(a, b)
        assert count == many


def test_nonzero_of_an_open_size():
    check(
        lambda x: x[torch.nonzero(x[:, 0])[:, 0]].sum(1),
        *GRIDS, grid([1.0, 2], [0, 1], [5, 5], [1, 0]), dynamic_shapes=(({0: ANY, 1: ANY},),),
    )  # fmt: skip


def test_unique():
    def model(x):
        return *torch.unique(x, return_inverse=True, return_counts=True), torch.unique(x[0]) * 2

    check(model, *GRIDS)


def test_a_number_that_is_a_size():
    def model(x, n):
        return x[:, : n.item()] * 2

    check(model, *((*GRIDS[0], torch.tensor(n)) for n in (2, 1, 3)))


def test_repeats_that_are_known():
    def model(x):
        return torch.repeat_interleave(x, torch.tensor([2, 0]), dim=0), x.repeat_interleave(2, 1)

    check(model, *GRIDS)


def test_branches():
    def model(x):
        def yes(x, y):
            return x + y, x.sum()

        def no(x, y):
            inner = torch.cond(y.sum() > 10, lambda v: v * 3, lambda v: v - 3, (y,))
            return x * inner, x.mean()

        return torch.cond(x.sum() > 0, yes, no, (x, x * x))

    mod = mlc.from_torch(model, GRIDS[0])
    assert mod.script().count("if lv") == 2
    check(model, *GRIDS, grid([-9.0, -2, -3], [0, 0, -1]))


def test_branches_of_sizes_that_are_open():
    def model(x):
        return torch.cond(x.sum() > 0, lambda x: x.relu() + 1, lambda x: x * 2, (x,)) + 1

    check(model, *GRIDS, (torch.full((5, 3), -1.0),), dynamic_shapes=(({0: ANY},),))


def test_as_strided():
    def model(x):
        y = (x + 0).t()
        return (
            torch.as_strided(x, (2, 2), (1, 3), 1),
            torch.as_strided(x, (2, 2, 2), (3, 1, 1)),
            torch.as_strided(y, (3,), (2,), 1),
        )

    check(model, *GRIDS)


def test_as_strided_of_a_part_is_refused():
    with pytest.raises(UnsupportedOpError, match="x lies in a part of another tensor's memory"):
        mlc.from_torch(lambda x: torch.as_strided(x[1], (2,), (1,), 3), GRIDS[0])


def test_what_is_random_is_named_at_once():
    def noisy(x):
        return x + torch.randn_like(x) + torch.rand(3), torch.bernoulli(x)

    with pytest.raises(UnsupportedOpError) as error:
        mlc.from_torch(noisy, GRIDS[2])
    assert str(error.value) == (
        "noisy: 3 operators are not imported: aten.bernoulli.default (bernoulli), which is random; "
        "aten.rand.default (rand), which is random; aten.randn_like.default (randn_like), which is "
        "random\nhint: mlcnb.relax.frontend.torch.coverage() lists what is imported; let random "
        "numbers be inputs of the model"
    )


COUNTS = [(torch.tensor(c),) for c in ([1, 0, 2], [0, 0, 0], [3, 3, 3])]


def test_slices_repeated_as_often_as_data_say():
    x = torch.rand(3, 4)

    def model(counts):
        rows = torch.repeat_interleave(x, counts, dim=0)
        return rows, rows.sum(0), torch.repeat_interleave(counts * 2)

    check(model, *COUNTS[:1], *COUNTS[1:])
    ex = mlc.compile(mlc.from_torch(model, COUNTS[0]))
    with pytest.raises(ExecutionError, match="dimension 0 of a shape would be -1"):
        ex(torch.tensor([1, -1, 3]))


def test_slices_of_open_sizes_repeated_as_often_as_data_say():
    def model(x, counts):
        return torch.repeat_interleave(x, counts, dim=1)

    sizes = (({1: ANY}, {0: ANY}),)
    cases = [(torch.rand(2, k), torch.randint(0, 4, (k,))) for k in (3, 5, 2)]
    check(model, *cases, dynamic_shapes=sizes)


@pytest.mark.parametrize("kind", [torch.float32, torch.float64, torch.int32, None])
def test_numbers_are_counted(kind):
    weights = None if kind is None else torch.arange(4).to(kind)

    def model(x):
        return torch.bincount(x, weights), torch.bincount(x, minlength=6)

    check(model, *[(torch.tensor(c),) for c in ([1, 0, 2, 1], [7, 7, 7, 7], [0, 0, 0, 0])])
    with pytest.raises(ExecutionError, match="dimension 0 of a shape would be -1"):
        mlc.compile(mlc.from_torch(model, (torch.tensor([1, 0, 2, 1]),)))(
            torch.tensor([1, -1, 0, 2])
        )


def test_any_number_of_numbers_is_counted():
    cases = [(torch.randint(0, 9, (k,)),) for k in (3, 8, 0)]
    check(lambda x: torch.bincount(x), *cases, dynamic_shapes=(({0: ANY},),))


def test_nodes_that_are_refused_are_named_at_once():
    def model(x, n):
        y = torch.dropout(x, 0.5, True)
        z = torch.cond(x.sum() > 0, lambda x: torch.dropout(x, 0.2, True), lambda x: x, (x,))
        return y + n.sum(), z, torch.as_strided(x[:, 1:], (1,), (1,))

    with pytest.raises(UnsupportedOpError) as error:
        mlc.from_torch(model, (*GRIDS[0], torch.tensor([1, 2])))
    assert str(error.value) == (
        "model: 3 nodes are not imported: node 'dropout' (aten.dropout.default): it drops elements "
        "at random (p = 0.5); node 'dropout' (aten.dropout.default): it drops elements at random "
        "(p = 0.2); node 'as_strided' (aten.as_strided.default): x lies in a part of another "
        "tensor's memory\nhint: call model.eval() before the export; take it of x.contiguous()"
    )
