"""Models whose dimensions are open: the numbers of onnxruntime for many sizes, errors for the rest.

A case is a model, the sizes that it runs with, and sizes that do not fit together.
"""

from __future__ import annotations

import numpy as np
import pytest

import mlcnb as mlc
from mlcnb.core.errors import ExecutionError, UnsupportedOpError
from mlcnb.ir.structural import assert_structural_equal
from mlcnb.relax.expr import Constant
from mlcnb.script import parse, script_with_constants
from tests.frontend.build import ints, model, node

FLOAT, INT64 = 1, 7
OR_1 = ", or one of the two 1"
HINT = "hint: these dimensions are open in the program: call it with sizes that agree"


def check(proto, sizes, refused=()):
    """Compare with onnxruntime: each of `sizes` has a shape for each input."""
    runtime = pytest.importorskip("onnxruntime")
    runtime.set_default_logger_severity(4)
    session = runtime.InferenceSession(proto.SerializeToString())
    names = [i.name for i in session.get_inputs()]
    ex = mlc.compile(mlc.from_onnx(proto))
    rng = np.random.default_rng(0)
    for shapes in sizes:
        inputs = [rng.standard_normal(s).astype(np.float32) for s in shapes]
        wanted = session.run(None, dict(zip(names, inputs, strict=True)))[0]
        found = np.asarray(ex(*inputs))
        assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
    for shapes, text in refused:
        inputs = [np.ones(s, np.float32) for s in shapes]
        with pytest.raises(Exception):  # noqa: B017 (onnxruntime's own)
            session.run(None, dict(zip(names, inputs, strict=True)))
        with pytest.raises(ExecutionError) as caught:
            ex(*inputs)
        assert str(caught.value) == f"{text}\n{HINT}"


TWO = "x: float[a, b]; z: float[c, d]"


def test_dimensions_that_may_be_one_or_none():
    add = node("Add", "x z", "y", name="sum")
    check(
        model(TWO, [add], "y: float[e, f]"),
        [((2, 3), (2, 3)), ((1, 3), (2, 3)), ((2, 1), (1, 3)), ((0, 3), (1, 3)), ((1, 0), (2, 1)),
         ((0, 3), (0, 1)), ((1, 1), (0, 0))],
        [(((2, 3), (3, 3)), "node 'sum' (Add): z_dim0 is c = 3, but has to be a = 2" + OR_1),
         (((0, 3), (2, 3)), "node 'sum' (Add): z_dim0 is c = 2, but has to be a = 0" + OR_1),
         (((2, 0), (2, 3)), "node 'sum' (Add): z_dim1 is d = 3, but has to be b = 0" + OR_1)],
    )  # fmt: skip


def test_three_that_broadcast():
    nodes = [node("Greater", "x zero", "k"), node("Where", "k z w", "y", name="pick")]
    proto = model(f"{TWO}; w: float[q, r]", nodes, "y: float[e, f]", zero=np.float32(0))
    check(
        proto,
        [((2, 3), (2, 3), (1, 1)), ((1, 3), (1, 3), (0, 1)), ((0, 1), (1, 3), (1, 1)),
         ((2, 1), (1, 3), (2, 3))],
    )  # fmt: skip
    with pytest.raises(ExecutionError, match=r"node 'pick' \(Where\): z_dim0 is c = 0, but has to"):
        ones = [np.ones(s, np.float32) for s in ((2, 1), (0, 3), (1, 3))]
        mlc.compile(mlc.from_onnx(proto))(*ones)


def test_dimensions_that_differ_but_where_one_is_one():
    nodes = [node("Pad", "x p", "wide"), node("Add", "x wide", "y", name="sum")]
    check(
        model("x: float[m, n]", nodes, "y: float[e, f]", p=ints(0, 0, 0, 2)),
        [((2, 1),), ((3, 1),)],
        [(((2, 2),), "node 'sum' (Add): lv_dim1 is n + T.int64(2) = 4, but has to be n = 2"
          + OR_1)],
    )  # fmt: skip


def test_expand_to_the_shape_of_another():
    nodes = [node("Shape", "z", "s"), node("Expand", "x s", "y", name="grow")]
    check(
        model(TWO, nodes, "y: float[e, f]"),
        [((2, 3), (2, 3)), ((1, 3), (4, 1)), ((1, 3), (0, 1)), ((0, 3), (1, 1))],
    )


def test_products_of_open_batches():
    multiply = node("MatMul", "x z", "y", name="mul")
    check(
        model("x: float[a, b, c]; z: float[d, e, f]", [multiply], "y: float[g, h, i]"),
        [((1, 2, 3), (5, 3, 4)), ((5, 2, 3), (1, 3, 4)), ((0, 2, 3), (1, 3, 4)),
         ((2, 2, 0), (2, 0, 4)), ((2, 2, 3), (2, 3, 4))],
        [(((2, 2, 3), (2, 4, 4)), "node 'mul' (MatMul): z_dim1 is e = 4, but has to be c = 3"),
         (((2, 2, 4), (2, 3, 4)), "node 'mul' (MatMul): z_dim1 is e = 3, but has to be c = 4"),
         (((2, 2, 3), (3, 3, 4)), "node 'mul' (MatMul): z_dim0 is d = 3, but has to be a = 2"
          + OR_1)],
    )  # fmt: skip


def test_rows_that_stand_beside_each_other():
    join = node("Concat", "x z", "y", name="join", axis=1)
    check(
        model(TWO, [join], "y: float[e, f]"),
        [((2, 3), (2, 4)), ((2, 0), (2, 3)), ((0, 3), (0, 2))],
        [(((2, 3), (3, 3)), "node 'join' (Concat): z_dim0 is c = 3, but has to be a = 2"),
         (((3, 3), (2, 3)), "node 'join' (Concat): z_dim0 is c = 2, but has to be a = 3")],
    )  # fmt: skip


def test_a_shape_of_another_number_of_elements():
    nodes = [node("Shape", "z", "s"), node("Reshape", "x s", "y", name="form", allowzero=1)]
    check(
        model(TWO, nodes, "y: float[e, f]"),
        [((2, 3), (3, 2)), ((4, 3), (1, 12))],
        [(((2, 3), (2, 2)), "node 'form' (Reshape): size is c * d = 4, but has to be a * b = 6")],
    )


def test_what_was_compared_once_is_not_compared_again():
    nodes = [node("Add", "x z", "s"), node("Mul", "x z", "t"), node("Sub", "s t", "y")]
    mod = mlc.relax.transform.CheckSizes()(mlc.from_onnx(model(TWO, nodes, "y: float[e, f]")))
    casts = [b for b in mod["main"].body.bindings if type(b).__name__ == "MatchCast"]
    assert [b.var.name_hint for b in casts] == ["z_dim1", "z_dim0"]
    text = mod.script()
    assert mlc.ir.structural_equal(mlc.script.from_source(text), mod), text
    again = mlc.relax.transform.DeadCodeElimination()(mod)
    assert again.script() == text


def test_a_program_without_open_dimensions_stays():
    mod = mlc.from_onnx(model("x: float[2, 3]", [node("Add", "x x", "y")], "y: float[2, 3]"))
    assert mlc.relax.transform.CheckSizes()(mod) is mod


@pytest.mark.parametrize("name", ["?", "", "None", "-1", "N+1", "batch size", "class", "1"])
def test_names_that_are_no_identifiers_are_unknown(name):
    proto = model(
        "x: float[1, 2]; z: float[1, 2]", [node("Concat", "x z", "y", axis=1)], "y: float"
    )
    for value in proto.graph.input:
        for dim in value.type.tensor_type.shape.dim:
            dim.dim_param = name
    mod = mlc.from_onnx(proto)
    dims = [[d.name for d in p.struct_info.dims] for p in mod["main"].params]
    assert dims == [["x_dim0", "x_dim1"], ["z_dim0", "z_dim1"]]
    ex = mlc.compile(mod)
    assert np.asarray(ex(np.ones((2, 3), "float32"), np.ones((2, 5), "float32"))).shape == (2, 8)


def test_names_that_are_identifiers_are_one_size():
    proto = model("x: float[n, k]; z: float[n, k]", [node("Add", "x z", "y")], "y: float[n, k]")
    x, z = (p.struct_info.dims for p in mlc.from_onnx(proto)["main"].params)
    assert all(a is b for a, b in zip(x, z, strict=True))


@pytest.mark.parametrize("mode", ["edge", "reflect", "wrap", "constant"])
@pytest.mark.parametrize(
    ("dims", "pads"),
    [
        ("n, 3, 8, 8", (0, 0, 1, 1, 0, 0, 1, 1)),
        ("1, 3, h, w", (0, 0, 1, 2, 0, 0, 2, 1)),
        ("n, 3, h, 8", (0, 0, 0, 1, 0, 0, 1, 1)),
        ("n, 3, 8, w", (0, 1, 0, -1, 0, 1, 0, -1)),
        ("1, 3, h, w", (0, 2, -1, 0, 0, 1, 0, -2)),
    ],
)
def test_pads_of_open_dimensions(mode, dims, pads):
    nodes = [node("Relu", "x", "r"), node("Pad", "r p", "y", mode=mode)]
    proto = model(f"x: float[{dims}]", nodes, "y: float[a, b, c, d]", opset=19, p=ints(*pads))
    sizes = [{"n": 1, "h": 8, "w": 8}, {"n": 2, "h": 5, "w": 7}, {"n": 3, "h": 4, "w": 4}]
    names = [d.strip() for d in dims.split(",")]
    check(proto, [(tuple(s[d] if d in s else int(d) for d in names),) for s in sizes])


RANGES = {
    "whole": ([node("Identity", "g", "lim")], 0, 1),
    "whole, from 1 by 2": ([node("Identity", "g", "lim")], 1, 2),
    "float": ([node("Cast", "g", "lim", to=FLOAT)], np.float32(0), np.float32(1)),
    "float, from a half": ([node("Cast", "g", "lim", to=FLOAT)], np.float32(0.5), np.float32(1)),
    "float, backwards": ([node("Cast", "g", "lim", to=FLOAT)], np.float32(9), np.float32(-1)),
    "float, by a half": ([node("Cast", "g", "lim", to=FLOAT)], np.float32(0), np.float32(0.5)),
    "eighth": (
        [node("Cast", "g", "c", to=FLOAT), node("Div", "c eight", "lim")],
        np.float32(0),
        np.float32(1),
    ),
    "eighth, floor": (
        [node("Cast", "g", "c", to=FLOAT), node("Div", "c eight", "d"), node("Floor", "d", "lim")],
        np.float32(0),
        np.float32(1),
    ),
    "third, ceil": (
        [node("Cast", "g", "c", to=FLOAT), node("Div", "c three", "d"), node("Ceil", "d", "lim")],
        np.float32(0),
        np.float32(1),
    ),
    "third, cast": (
        [node("Cast", "g", "c", to=FLOAT), node("Div", "c three", "d"),
         node("Cast", "d", "lim", to=INT64)],
        0,
        1,
    ),
    "half and one, cast": (
        [node("Cast", "g", "c", to=FLOAT), node("Mul", "c half", "d"), node("Add", "d one", "e"),
         node("Cast", "e", "lim", to=INT64)],
        0,
        1,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", RANGES)
def test_ranges_up_to_a_size(name):
    nodes, start, delta = RANGES[name]
    before = [node("Shape", "x", "s"), node("Gather", "s i", "g")]
    numbers = {"eight": 8.0, "three": 3.0, "half": 0.5, "one": 1.0}
    stored = {n: np.float32(v) for n, v in numbers.items()}
    kind = "int64" if isinstance(start, int) else "float"
    proto = model(
        "x: float[h, w]",
        [*before, *nodes, node("Range", "st lim de", "y")],
        f"y: {kind}[k]",
        i=np.array(0),
        st=np.array(start),
        de=np.array(delta),
        **stored,
    )
    check(proto, [((h, 2),) for h in (0, 1, 3, 8, 16, 17, 100)])


def test_a_float_that_is_rounded_is_read_by_the_run():
    nodes = [node("Shape", "x", "s"), node("Gather", "s i", "g"),
             node("Cast", "g", "c", to=FLOAT), node("Mul", "c tenth", "d"),
             node("Floor", "d", "lim"), node("Range", "z lim o", "y")]  # fmt: skip
    proto = model("x: float[h]", nodes, "y: float[k]", i=np.array(0), tenth=np.float32(0.1),
                  z=np.float32(0), o=np.float32(1))  # fmt: skip
    check(proto, [((h,),) for h in (0, 9, 10, 11, 30, 99, 100)])


def test_a_maximum_that_is_simplified_is_no_list_of_dimensions():
    """max(min(n, m) + max(-n, 0), n) is written in other ways; broadcast again it is the same."""
    nodes = [
        node("Shape", "x", "shape"), node("Cast", "shape", "short", to=6),
        node("Cast", "short", "long", to=7), node("Reshape", "x long", "z"),
        node("Slice", "z first last", "some"), node("Add", "some z", "one"),
        node("Add", "one some", "two"), node("Mul", "two x", "three"),
        node("Reshape", "three long", "y"),
    ]  # fmt: skip
    ends = {"first": ints(0), "last": ints(10**9)}
    check(model("x: float[n]", nodes, "y: float[e]", **ends), [((1,),), ((2,),), ((7,),)])


def test_numbers_that_sizes_are_compared_with_are_of_int64():
    """Else the text of the check reads back as another program."""
    nodes = [node("Add", "x four", "y")]
    mod = mlc.from_onnx(model("x: float[n]", nodes, "y: float[e]", four=np.ones(4, np.float32)))
    made = mlc.relax.transform.CheckSizes()(mod)
    assert made is not mod
    text, arrays = script_with_constants(made)
    table = {"relax.expr.Constant": [Constant(a) for a in arrays]}
    assert_structural_equal(parse(text, metadata=table), made)


def test_a_squeeze_without_axes_drops_what_is_surely_one():
    proto = model("x: float[n, 1, 4]", [node("Squeeze", "x", "y", name="drop")], "y: float[m, 4]")
    check(proto, [[(3, 1, 4)], [(2, 1, 4)]])
    with pytest.raises(ExecutionError) as caught:  # onnxruntime gives (4,)
        mlc.compile(mlc.from_onnx(proto))(np.ones((1, 1, 4), np.float32))
    assert str(caught.value) == (
        "node 'drop' (Squeeze): condition is T.Select(n == T.int64(1), T.int64(1), T.int64(0)) "
        f"= 1, but has to be 0\n{HINT}"
    )
    fixed = mlc.from_onnx(proto, shape_dict={"x": (1, 1, 4)})
    assert mlc.compile(fixed)(np.ones((1, 1, 4), np.float32)).shape == (4,)


@pytest.mark.parametrize(
    ("channels", "groups", "outputs"),
    [(4, 4, 4), (4, 4, 8), (16, 16, 16), (20, 20, 20), (8, 2, 8), (32, 4, 64), (48, 3, 48)],
)
def test_groups_of_an_open_number_of_channels(channels, groups, outputs):
    """What fills up blocks of channels belongs to no group."""
    rng = np.random.default_rng(0)
    weights = rng.standard_normal((outputs, channels // groups, 3, 3)).astype(np.float32)
    conv = node("Conv", "x w", "y", name="conv", group=groups)
    proto = model("x: float[n, c, h, w0]", [conv], "y: float[n, o, p, q]", w=weights)
    text = f"node 'conv' (Conv): x_dim1 is c = {channels + 1}, but has to be {channels}"
    check(
        proto,
        [((2, channels, 9, 11),), ((1, channels, 20, 40),)],
        [(((2, channels + 1, 9, 11),), text)],
    )


def test_a_kernel_of_open_size():
    conv = node("Conv", "x z", "y", name="conv", group=4)
    check(
        model("x: float[n, 4, h]; z: float[4, 1, k]", [conv], "y: float[n, 4, p]"),
        [((2, 4, 9), (4, 1, 3)), ((1, 4, 30), (4, 1, 5))],
    )
    same = node("Conv", "x z", "y", name="conv", auto_pad="SAME_UPPER")
    proto = model("x: float[n, 4, h]; z: float[4, 4, k]", [same], "y: float[n, 4, p]")
    with pytest.raises(UnsupportedOpError, match="auto_pad needs a known kernel_shape"):
        mlc.from_onnx(proto)


@pytest.mark.parametrize("axis", [1, 2])
def test_halves_of_an_open_row(axis):
    """A result lies in no operand's place where the last tile of a row computes anew what the one
    before it has computed: here a sigmoid would be taken twice.
    """
    nodes = [
        node("Split", "x", "a b", axis=axis),
        node("Sigmoid", "b", "s"),
        node("Mul", "a s", "y"),
    ]
    check(
        model("x: float[k, m, n]", nodes, "y: float[k, p, q]"),
        [((5, 6, 7),) if axis == 1 else ((5, 7, 6),), ((3, 4, 40),), ((1, 2, 2),)],
    )


@pytest.mark.parametrize("most", [2**31 - 1, 2**62, 2**63 - 1])
def test_a_slice_to_the_end_in_parts(most):
    """A size that holds `INT_MIN`, multiplied and divided as it is reshaped, left 64 bits: the
    kernel read elsewhere.
    """
    for start, end, step in [(9, -most, -2), (most, -most, -1), (-most, most, 2)]:
        nodes = [node("Slice", "x s e a t", "v"), node("Reshape", "v to", "y")]
        bounds = {"s": start, "e": end, "a": 2, "t": step}
        stored = {name: ints(value) for name, value in bounds.items()}
        check(
            model("x: float[m, m, n]", nodes, "y: float", to=ints(0, 5, 1, -1), **stored),
            [((5, 5, 9),), ((5, 5, 11),), ((5, 5, 4),)],
        )


@pytest.mark.parametrize("kind", ["scatter", "gather"])
def test_indices_wider_than_what_they_are_of(kind):
    """They read, or wrote, what lies behind a row, and behind the last one other memory."""
    if kind == "scatter":
        move = node("ScatterElements", "x i u", "y", name="move", axis=0, reduction="add")
    else:
        move = node("GatherElements", "x i", "y", name="move", axis=0)
    stored = {"i": np.array([[0, 1, 0, 1, -1, 0]] * 2), "u": np.ones((2, 6), np.float32)}
    proto = model("x: float[n, m]", [move], "y: float", **stored)
    says = f"node 'move' ({move.op_type}): x_dim1 is m = 4, but has to be T.max(m, T.int64(6)) = 6"
    check(proto, [((3, 6),), ((2, 9),)], [(((3, 4),), says)])


def test_more_elements_in_order_than_there_are():
    """What was not found was left as the memory was."""
    top = node("TopK", "x k", "y at", name="top", axis=1)
    says = "node 'top' (TopK): x_dim1 is m = 4, but has to be T.max(m, T.int64(6)) = 6"
    proto = model("x: float[n, m]", [top], "y: float", k=ints(6))
    check(proto, [((3, 6),), ((2, 9),)], [(((3, 4),), says)])


@pytest.mark.parametrize("reduction", ["none", "add"])
def test_a_box_of_six_and_of_at_most_six_is_one_of_no_number(reduction):
    """What a loop function writes was said to be six columns, of a number of columns."""
    nodes = [
        node("Slice", "x s e a", "v"),
        node("ScatterElements", "v i u", "y", axis=0, reduction=reduction),
    ]
    stored = {"i": np.array([[0, 1, 0, 1, 1, 0]]), "u": np.ones((1, 6), np.float32)}
    bounds = {"s": ints(-6), "e": ints(2**31 - 1), "a": ints(1)}
    check(model("x: float[n, m]", nodes, "y: float", **stored, **bounds), [((3, 6),), ((2, 9),)])
