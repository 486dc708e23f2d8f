"""topi: each name computes what NumPy computes."""

from __future__ import annotations

from importlib import import_module

import numpy as np
import pytest

import mlcnb as mlc
from mlcnb import te, topi
from mlcnb.codegen.interp import run_prim_func
from mlcnb.core.errors import MLCError
from mlcnb.ir import prim_ops as p


def results(fn, *arrays):
    """What a function of tensors computes of these arrays."""
    tensors = [te.placeholder(a.shape, str(a.dtype), name=f"x{i}") for i, a in enumerate(arrays)]
    made = fn(*tensors)
    outs = list(made) if isinstance(made, tuple | list) else [made]
    func = te.create_prim_func([*tensors, *outs])
    found = [np.zeros([int(d) for d in t.shape], str(t.dtype)) for t in outs]
    run_prim_func(func, [*arrays, *found])
    return found if isinstance(made, tuple | list) else found[0]


def close(fn, expected, *arrays):
    np.testing.assert_allclose(results(fn, *arrays), expected, rtol=1e-5, atol=1e-6)


X = np.linspace(-2, 2, 12, dtype="float32").reshape(3, 4)
Y = np.arange(1, 5, dtype="float32")
W = np.random.default_rng(0).standard_normal((2, 3, 3, 3)).astype("float32")
IMAGE = np.random.default_rng(1).standard_normal((1, 3, 6, 6)).astype("float32")


@pytest.mark.parametrize("name", "exp tanh sin cos abs floor ceil negative sign trunc".split())
def test_elementwise(name):
    close(getattr(topi, name), getattr(np, name)(X), X)


@pytest.mark.parametrize(
    "name", "add subtract multiply divide maximum minimum less greater_equal".split()
)
def test_with_broadcasting(name):
    close(getattr(topi, name), getattr(np, name)(X, Y), X, Y)
    close(lambda x: getattr(topi, name)(x, 2), getattr(np, name)(X, np.float32(2)), X)


@pytest.mark.parametrize("kind", ["int32", "float32"])
def test_mod_has_the_sign_of_what_is_divided(kind):
    """It was floor_mod, whose sign is that of the divisor."""
    a, b = np.array([-7, 7, -7, 7], kind), np.array([3, 3, -3, -3], kind)
    np.testing.assert_array_equal(results(topi.mod, a, b), [-1, 1, -1, 1])
    np.testing.assert_array_equal(results(topi.floor_mod, a, b), [2, 1, -1, -2])
    assert topi.mod(te.var("n"), 3).script() == "T.truncmod(n, 3)"


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", [0, 1, -1, None])
def test_the_last_of_equal_elements(axis, keepdims):
    x = np.array([[3, 1, 3, 3], [0, 3, 3, 0], [3, 0, 0, 0]], "int32")
    for place, numpy in ((topi.argmax, np.argmax), (topi.argmin, np.argmin)):
        found = results(lambda t, f=place: f(t, axis, keepdims, select_last_index=True), x)
        turned = np.flip(x.reshape(-1) if axis is None else x, 0 if axis is None else axis)
        last = turned.shape[0 if axis is None else axis] - 1
        first = numpy(turned, axis=0 if axis is None else axis, keepdims=keepdims)
        expected = last - first
        np.testing.assert_array_equal(found.reshape(np.shape(expected)), expected)


def test_shapes_and_fast_names():
    np.testing.assert_array_equal(results(lambda t: topi.shape(t, "int64"), X), [3, 4])
    for name in ("exp", "tanh"):
        close(getattr(topi, f"fast_{name}"), getattr(np, name)(X), X)


def test_two_scalars_are_an_expression():
    n = te.var("n")
    assert repr(topi.add(n, 1)) == "n + 1"
    with pytest.raises(MLCError) as error:
        topi.power(n, 2)
    assert str(error.value) == "topi.power takes a tensor at least"


def test_reductions():
    close(lambda x: topi.sum(x, axis=1), X.sum(1), X)
    close(topi.max, X.max(), X)
    close(lambda x: topi.min(x, axis=-1, keepdims=True), X.min(1, keepdims=True), X)
    close(lambda x: topi.argmax(x, axis=0), X.argmax(0), X)


MOVES = [
    (lambda x: topi.transpose(x), X.T),
    (lambda x: topi.reshape(x, (2, 6)), X.reshape(2, 6)),
    (lambda x: topi.expand_dims(x, 1, 2), X[:, None, None]),
    (lambda x: topi.squeeze(topi.expand_dims(x, 0)), X),
    (lambda x: topi.concatenate([x, x], 1), np.concatenate([X, X], 1)),
    (lambda x: topi.stack((x, x), 1), np.stack([X, X], 1)),
    (lambda x: topi.split(x, 2, 1)[1], X[:, 2:]),
    (lambda x: topi.strided_slice(x, [1, 0], [3, 4], [1, 2]), X[1:3, 0:4:2]),
    (lambda x: topi.flip(x, 1), X[:, ::-1]),
    (lambda x: topi.tile(x, (2, 1)), np.tile(X, (2, 1))),
    (lambda x: topi.repeat(x, 2, 0), np.repeat(X, 2, 0)),
    (lambda x: topi.broadcast_to(x, (2, 3, 4)), np.broadcast_to(X, (2, 3, 4))),
    (lambda x: topi.full_like(x, 7), np.full_like(X, 7)),
    (lambda x: topi.matmul(x, x, transp_b=True), X @ X.T),
    (lambda x: topi.einsum("ij->j", x), X.sum(0)),
    (lambda x: topi.cumsum(x, 1), X.cumsum(1)),
    (lambda x: topi.clip(x, -1, 1), X.clip(-1, 1)),
    (lambda x: topi.cast(x, "int32"), X.astype("int32")),
    (lambda x: topi.nn.relu(x), X.clip(0)),
    (lambda x: topi.nn.leaky_relu(x, 0.5), np.where(X > 0, X, X * 0.5)),
    (lambda x: topi.nn.softmax(x), topi.testing.softmax_python(X)),
    (lambda x: topi.nn.dense(x, x), topi.testing.dense(X, X)),
    (lambda x: topi.nn.flatten(topi.expand_dims(x, 2)), X),
    (lambda x: topi.nn.pad(x, (1, 0), (0, 2), 3), np.pad(X, ((1, 0), (0, 2)), constant_values=3)),
]


@pytest.mark.parametrize("fn, expected", MOVES)
def test_moves_and_layers(fn, expected):
    close(fn, expected, X)


def test_windows():
    expected = topi.testing.conv2d_nchw_python(IMAGE, W, 2, 1)
    close(lambda x, w: topi.nn.conv2d_nchw(x, w, 2, 1), expected, IMAGE, W)
    windows = np.lib.stride_tricks.sliding_window_view(IMAGE, (2, 2), (2, 3))[:, :, ::2, ::2]
    close(lambda x: topi.nn.pool2d(x, 2, 2, 1, 0, "max"), windows.max((4, 5)), IMAGE)
    mean = IMAGE.mean((2, 3), keepdims=True)
    close(lambda x: topi.nn.adaptive_pool(x, 1, "avg"), mean, IMAGE)
    doubled = IMAGE.repeat(2, 2).repeat(2, 3)
    sizes = tuple(2 * n for n in IMAGE.shape[2:])
    nearest = {"method": "nearest_neighbor", "coordinate_transformation_mode": "asymmetric"}
    close(
        lambda x: topi.image.resize2d(x, None, sizes, **nearest, rounding_method="floor"),
        doubled,
        IMAGE,
    )
    close(lambda x: topi.nn.global_pool(x, "max"), IMAGE.max((2, 3), keepdims=True), IMAGE)
    with pytest.raises(MLCError) as error:
        topi.nn.global_pool(te.placeholder((1, 3, 4, 4)), "sum")
    assert str(error.value) == 'topi.nn: no pool_type \'sum\'\nhint: "max" or "avg"'


def test_taking_places():
    places = np.array([2, 0], "int32")
    close(lambda x, i: topi.take(x, i, 0), X[places], X, places)
    pairs = np.array([[0, 2], [1, 3]], "int32")
    close(lambda x, i: topi.gather_nd(x, i), X[tuple(pairs)], X, pairs)


def test_numbers_out_of_expressions():
    n = te.var("n")
    assert topi.utils.get_const_tuple((p.const(3), n)) == (3, n)
    assert topi.utils.get_const_int(p.const(2) + 3) == 5
    with pytest.raises(MLCError) as error:
        topi.utils.get_const_int(n)
    assert str(error.value) == "n is no constant integer"
    assert topi.tag.is_injective(topi.tag.ELEMWISE)


@pytest.mark.parametrize("module", ["mlcnb.topi", "mlcnb.te", "mlcnb.tir.transform"])
def test_every_public_name_is_there(module):
    package = import_module(module)
    assert all(hasattr(package, name) for name in package.__all__)


@pytest.mark.parametrize("is_ascend", [False, True])
def test_topk_gives_values_and_places(is_ascend: bool) -> None:
    x = np.random.default_rng(0).normal(size=(3, 7)).astype("float32")
    A = te.placeholder((3, 7), name="A")
    values, places = topi.topk(A, k=2, is_ascend=is_ascend, dtype="int32")
    made = np.zeros((3, 2), "float32"), np.zeros((3, 2), "int32")
    mlc.compile(te.create_prim_func([A, values, places]), "llvm")(x, *made)
    order = np.argsort(x if is_ascend else -x, axis=-1)[:, :2]
    np.testing.assert_array_equal(made[1], order)
    np.testing.assert_array_equal(made[0], np.take_along_axis(x, order, -1))


def statistics(channels=3):
    rng = np.random.default_rng(2)
    gamma, beta, mean = (rng.standard_normal(channels).astype("float32") for _ in range(3))
    return gamma, beta, mean, rng.uniform(0.5, 2, channels).astype("float32")


@pytest.mark.parametrize("training", [None, True])
def test_batch_norm(training):
    gamma, beta, mean, var = statistics()
    out, new_mean, new_var = results(
        lambda *given: topi.nn.batch_norm(*given, training=training, momentum=0.25),
        IMAGE, gamma, beta, mean, var,
    )  # fmt: skip
    batch = IMAGE.mean((0, 2, 3)), IMAGE.var((0, 2, 3))
    used = batch if training else (mean, var)
    wide = [x[:, None, None] for x in (gamma, beta, *used)]
    expected = (IMAGE - wide[2]) / np.sqrt(wide[3] + 1e-5) * wide[0] + wide[1]
    np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-5)
    for found, old, new in zip((new_mean, new_var), (mean, var), batch, strict=True):
        moved = old * 0.75 + new * 0.25 if training else old
        np.testing.assert_allclose(found, moved, rtol=1e-5, atol=1e-6)


def test_batch_norm_of_the_last_axis():
    x = IMAGE.transpose(0, 2, 3, 1).copy()
    gamma, beta, mean, var = statistics()
    norm = lambda *given: topi.nn.batch_norm(*given, axis=3, epsilon=0.5, center=False)[0]
    expected = (x - mean) / np.sqrt(var + 0.5) * gamma
    tensors = [te.placeholder(a.shape, "float32") for a in (x, gamma, beta, mean, var)]
    func = te.create_prim_func([*tensors, norm(*tensors)])
    out = np.zeros_like(x)
    run_prim_func(func, [x, gamma, beta, mean, var, out])
    np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-5)


DEEP = np.arange(1 * 12 * 4 * 6, dtype="float32").reshape(1, 12, 4, 6)


def test_space_to_depth_and_back():
    n, c, h, w = DEEP.shape
    cut = DEEP.reshape(n, c, h // 2, 2, w // 2, 2)
    expected = cut.transpose(0, 3, 5, 1, 2, 4).reshape(n, c * 4, h // 2, w // 2)
    close(lambda x: topi.nn.space_to_depth(x, 2), expected, DEEP)
    close(lambda x: topi.nn.depth_to_space(x, 2), DEEP, expected)
    last = lambda x: np.ascontiguousarray(x.transpose(0, 2, 3, 1))
    close(lambda x: topi.nn.space_to_depth(x, 2, "NHWC"), last(expected), last(DEEP))
    close(lambda x: topi.nn.depth_to_space(x, 2, "NHWC"), last(DEEP), last(expected))
    inner = DEEP.reshape(n, 3, 2, 2, h, w).transpose(0, 1, 4, 2, 5, 3).reshape(n, 3, h * 2, w * 2)
    close(lambda x: topi.nn.depth_to_space(x, 2, mode="CRD"), inner, DEEP)


def test_images_in_other_layouts_are_refused():
    x = te.placeholder((1, 4, 4, 4))
    with pytest.raises(MLCError, match="topi.nn.space_to_depth: 4 dimensions in layout 'CHWN'"):
        topi.nn.space_to_depth(x, 2, "CHWN")
    with pytest.raises(MLCError, match="topi.nn.depth_to_space: no mode 'RDC'"):
        topi.nn.depth_to_space(x, 2, mode="RDC")
