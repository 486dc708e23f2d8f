"""winograd: what it makes, what that computes, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mlcnb as mlc
from mlcnb.script import from_source
from mlcnb.tir.schedule import Schedule
from tests.tir.schedule.programs import refuses

#: axes of a convolution: of the result, and those that are summed up
SPATIAL, SUMMED = "nfyx", "crq"


def convolution(
    batch=1, inner=3, outer=2, size=(4, 5), window=3, *, stride=1, dilation=1, shift=0,
    image="ncyx", kernel="fcrq", result="nfyx", order="nfyxcrq", dtype="float32",
):  # fmt: skip
    """A convolution with dimensions and axes in any order; `shift`: rows of the image left out."""
    ends = {
        "n": batch,
        "f": outer,
        "c": inner,
        "y": size[0],
        "x": size[1],
        "r": window,
        "q": window,
    }
    wide = {
        **ends,
        "y": (size[0] - 1) * stride + (window - 1) * dilation + 1 + shift,
        "x": (size[1] - 1) * stride + (window - 1) * dilation + 1,
    }
    at = {a: f"v{a}" for a in ends}
    at_image = {
        **at,
        "y": f"vy * {stride} + vr * {dilation} + {shift}",
        "x": f"vx * {stride} + vq * {dilation}",
    }
    kinds = "".join("R" if a in SUMMED else "S" for a in order)

    def index(letters, places):
        return ", ".join(places[a] for a in letters)

    def shape(letters, sizes):
        return tuple(sizes[a] for a in letters)

    left, right = f"Y[{index(result, at)}]", f"X[{index(image, at_image)}] * W[{index(kernel, at)}]"
    return from_source(f"""
@T.prim_func
def main(X: T.Buffer({shape(image, wide)}, "{dtype}"),
         W: T.Buffer({shape(kernel, ends)}, "{dtype}"),
         Y: T.Buffer({shape(result, ends)}, "{dtype}")):
    for {", ".join(order)} in T.grid({", ".join(str(ends[a]) for a in order)}):
        with T.block("Y"):
            {index(order, at)} = T.axis.remap("{kinds}", [{", ".join(order)}])
            with T.init():
                {left} = T.{dtype}(0)
            {left} = {left} + {right}
""")


def expected(x, w, image="ncyx", kernel="fcrq", result="nfyx", shift=0):
    """In float64, by NumPy."""
    x = np.einsum(f"{image}->ncyx", x.astype("float64"))[:, :, shift:]
    w = np.einsum(f"{kernel}->fcrq", w.astype("float64"))
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], (2, 3))
    return np.einsum(f"ncyxrq,fcrq->{result}", windows, w)


def ran(func, seed=0):
    """(inputs, result) on random numbers."""
    random = np.random.default_rng(seed)
    args = [
        random.standard_normal([int(n) for n in b.shape]).astype(str(b.dtype)) for b in func.buffers
    ]
    mlc.compile(func)(*args)
    return args


def test_the_whole_program():
    sch = Schedule(convolution(1, 2, 3, (2, 2)))
    names = [sch.get(b).name_hint for b in sch.winograd("Y", 2)]
    assert names == [
        "data_rows", "data_tiles", "weight_rows", "weight_tiles", "products", "result_rows",
    ]  # fmt: skip
    products = sch.get(sch.get_block("products"))
    assert [int(v.dom.extent) for v in products.iter_vars] == [4, 4, 1, 3, 2]
    assert "".join(v.iter_type.value for v in products.iter_vars) == "SSSSR"
    last = sch.get(sch.get_block("Y"))
    assert [v.var.name for v in last.iter_vars] == ["vn", "vf", "vy", "vx"]
    assert last.init is None
    text = sch.mod.script()
    assert from_source(text).script() == text


letters = {name: st.permutations(x).map("".join) for name, x in (
    ("image", "ncyx"), ("kernel", "fcrq"), ("result", "nfyx"), ("order", "nfyxcrq"),
)}  # fmt: skip


@pytest.mark.slow
@given(
    sizes=st.tuples(st.integers(1, 3), st.integers(1, 4), st.integers(1, 4)),
    places=st.tuples(st.integers(1, 9), st.integers(1, 9)),
    tiles=st.sampled_from([(2, 3), (4, 3), (6, 3), (2, 5), (4, 5), (3, 2), (1, 4), (2, 1)]),
    shift=st.integers(0, 2),
    **letters,
)
def test_any_layout_and_size(sizes, places, tiles, shift, image, kernel, result, order):
    m, window = tiles
    func = convolution(
        *sizes, places, window, shift=shift, image=image, kernel=kernel, result=result, order=order
    )
    sch = Schedule(func)
    sch.winograd("Y", m)
    x, w, y = ran(sch.mod["main"])
    wanted = expected(x, w, image, kernel, result, shift)
    np.testing.assert_allclose(y, wanted, rtol=0, atol=1e-4 * max(1, np.abs(wanted).max()))


def test_in_float64_it_is_the_same_to_many_digits():
    sch = Schedule(convolution(2, 5, 4, (7, 6), dtype="float64"))
    sch.winograd("Y", 4)
    x, w, y = ran(sch.mod["main"])
    wanted = expected(x, w)
    assert np.abs(y - wanted).max() < 1e-13 * np.abs(wanted).max()


def test_a_step_like_others():
    sch = Schedule(convolution(1, 4, 4, (8, 8)), check="numeric")
    before = sch.mod.script()
    sch.winograd("Y")
    after = sch.mod.script()
    other = Schedule(convolution(1, 4, 4, (8, 8)))
    sch.trace.apply_to_schedule(other)
    assert other.mod.script() == after
    sch.undo()
    assert sch.mod.script() == before


def test_beyond_the_image_nothing_is_read():
    """The last tiles reach past the result; what they read there could be anything."""
    func = convolution(1, 2, 2, (5, 5))
    sch = Schedule(func)
    sch.winograd("Y", 4)
    x, w, y = ran(sch.mod["main"])
    x[...], w[...] = 1, 1
    room = np.full((x.size + 64,), np.nan, "float32")
    room[: x.size] = x.ravel()
    mlc.compile(sch.mod["main"])(room[: x.size].reshape(x.shape), w, y)
    np.testing.assert_allclose(y, np.full(y.shape, 18.0), rtol=1e-5)


HINT = "a square window of stride 1 over two dimensions; before its loops are changed"


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"stride": 2}, "no operand is read at sums of two axes (y + r, x + q) in two dimensions"),
        (
            {"dilation": 2},
            "no operand is read at sums of two axes (y + r, x + q) in two dimensions",
        ),
        ({"dtype": "int32"}, "it is one of int32, not of float32 or float64 alone"),
        ({"dtype": "float16"}, "it is one of float16, not of float32 or float64 alone"),
    ],
)
def test_another_window_is_refused(given, reason):
    sch = Schedule(convolution(**given))
    words = f"winograd: block Y is no convolution to be computed by tiles: {reason}"
    with refuses(sch, words, HINT):
        sch.winograd("Y")


def test_each_channel_by_itself_is_refused():
    func = from_source("""
@T.prim_func
def main(X: T.Buffer((3, 8, 8), "float32"), W: T.Buffer((3, 3, 3), "float32"),
         Y: T.Buffer((3, 6, 6), "float32")):
    for c, y, x, r, q in T.grid(3, 6, 6, 3, 3):
        with T.block("Y"):
            vc, vy, vx, vr, vq = T.axis.remap("SSSRR", [c, y, x, r, q])
            with T.init():
                Y[vc, vy, vx] = T.float32(0)
            Y[vc, vy, vx] = Y[vc, vy, vx] + X[vc, vy + vr, vx + vq] * W[vc, vr, vq]
""")
    sch = Schedule(func)
    words = (
        "winograd: block Y is no convolution to be computed by tiles: vc is an axis of image and "
        "weights: each group would need its own products"
    )
    with refuses(sch, words, HINT):
        sch.winograd("Y")


def test_tiles_that_have_no_points_are_refused():
    sch = Schedule(convolution())
    with refuses(sch, "winograd: no F(3, 3) here: tile + window - 1 must be one of 2, 4, 6, 8"):
        sch.winograd("Y", 3)


def test_loops_that_were_changed_are_refused():
    sch = Schedule(convolution())
    sch.split(sch.get_loops("Y")[2], [None, 2])
    words = (
        "winograd: block Y is no convolution to be computed by tiles: its loops are not its axes "
        "any more"
    )
    with refuses(sch, words, HINT):
        sch.winograd("Y")


def test_one_that_is_no_sum_of_products_is_refused():
    sch = Schedule(from_source(convolution().script().replace("* W", "+ W")))
    words = "winograd: block Y is no convolution to be computed by tiles: it is no sum of products"
    with refuses(sch, words, HINT):
        sch.winograd("Y")
