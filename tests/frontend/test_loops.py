"""Loop and Scan whose turns only a run counts, against ONNX Runtime."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper

import mlcnb as mlc
from mlcnb import relax
from mlcnb.core import registry
from mlcnb.core.errors import ExecutionError, MLCError, UnsupportedOpError
from mlcnb.core.registry import get_global_func
from mlcnb.ir import assert_structural_equal
from mlcnb.relax.analysis import well_formed
from mlcnb.relax.frontend.onnx.importer import Importer
from mlcnb.relax.frontend.shared.errors import UnknownValueError
from mlcnb.runtime import builtin
from mlcnb.runtime.frame import Frame
from mlcnb.script import parse
from mlcnb.testing.evaluate import evaluate
from tests.frontend.build import floats, graph, ints, model, node

TARGETS = ["llvm", "interp"]


def body(inputs: str, nodes: list[Any], outputs: str, **stored: Any) -> Any:
    """A loop's body: turn i and condition c come first."""
    return graph(f"i: int64[]; c: bool[]; {inputs}", nodes, outputs, **stored)


def accumulate() -> Any:
    """y = x added `n` times to itself, with every sum as a row; the turn is used too."""
    turn = body(
        "a: float[k, 3]",
        [
            node("Cast", "i", "t", to=1),
            node("Add", "a x", "s"),
            node("Add", "s t", "b"),
            node("Mul", "b b", "r"),
            node("Identity", "c", "d"),
        ],
        "d: bool[]; b: float[k, 3]; r: float[k, 3]",
    )
    loop = node("Loop", "n - x", "y rows", name="sum", body=turn)
    return model("x: float[k, 3]; n: int64[]", [loop], "y: float[k, 3]; rows: float[turns, k, 3]")


def early(limit: bool) -> Any:
    """Doubles until the sum passes a bound: with a trip count beside it, or without."""
    turn = body(
        "a: float[3]",
        [
            node("Add", "a a", "b"),
            node("ReduceSum", "b", "s", keepdims=0),
            node("Less", "s bound", "d"),
        ],
        "d: bool[]; b: float[3]; s: float[]",
    )
    loop = node("Loop", f"{'n' if limit else '-'} first x", "y rows", body=turn)
    inputs = "x: float[3]; bound: float[]; first: bool[]" + ("; n: int64[]" if limit else "")
    return model(inputs, [loop], "y: float[3]; rows: float[turns]")


def growing() -> Any:
    """What is carried grows by what it was at first, and a second value by one each turn."""
    turn = body(
        "a: float[p]; e: float[q, 2]",
        [
            node("Concat", "a x", "b", axis=0),
            node("Concat", "e one", "f", axis=0),
            node("Identity", "c", "d"),
        ],
        "d: bool[]; b: float[p2]; f: float[q2, 2]",
        one=np.ones((1, 2), np.float32),
    )
    loop = node("Loop", "n t x e0", "y z", body=turn)
    return model(
        "x: float[k]; n: int64[]; t: bool[]; e0: float[1, 2]", [loop], "y: float[p]; z: float[q, 2]"
    )


def rows_behind() -> Any:
    """What only grows, along a first and a last axis, by one piece and by two, beside rows; what is
    read too; what grows in front; and what grows by a piece of another size each turn."""
    turn = body(
        "a: float[p, 2]; b: float[3, q]; s: float[2]; e: float[r, 2]; f: float[2, t]; g: float[u]",
        [
            node("Add", "s s0", "s1"),
            node("Unsqueeze", "s1 zero", "row"),
            node("Concat", "a row", "a1", axis=0),
            node("Concat", "b three x three", "b1", axis=-1),
            node("Concat", "e row", "e1", axis=0),
            node("ReduceSum", "e", "seen", keepdims=0),
            node("Concat", "two f", "f1", axis=1),
            node("Unsqueeze", "seen zero", "seen1"),
            node("Cast", "i", "j", to=7),
            node("Unsqueeze", "j zero", "j1"),
            node("Expand", "one j1", "h"),
            node("Concat", "g seen1 h", "g1", axis=0),
            node("Identity", "c", "d"),
        ],
        "d: bool[]; a1: float[p1, 2]; b1: float[3, q1]; s1: float[2]; e1: float[r1, 2]; "
        "f1: float[2, t1]; g1: float[u1]; seen: float[]",
        zero=np.array([0]),
        three=np.arange(3, dtype=np.float32)[:, None],
        two=np.ones((2, 1), np.float32),
        one=np.ones(1, np.float32),
    )
    loop = node("Loop", "n - a0 b0 s0 a0 f0 g0", "ya yb ys ye yf yg rows", body=turn)
    return model(
        "a0: float[1, 2]; b0: float[3, 2]; s0: float[2]; f0: float[2, 1]; g0: float[1]; "
        "x: float[3, 4]; n: int64[]",
        [loop],
        "ya: float[p, 2]; yb: float[3, q]; ys: float[2]; ye: float[r, 2]; yf: float[2, t]; "
        "yg: float[u]; rows: float[n]",
    )


def only_rows() -> Any:
    """Values that only grow, by pieces of a known size."""
    turn = body(
        "a: float[p, 2]; b: float[3, q]; s: float[2]",
        [
            node("Add", "s s0", "s1"),
            node("Unsqueeze", "s1 zero", "row"),
            node("Concat", "a row", "a1", axis=0),
            node("Concat", "b three x three", "b1", axis=-1),
            node("ReduceSum", "s1", "r", keepdims=0),
            node("Less", "r bound", "d"),
        ],
        "d: bool[]; a1: float[p1, 2]; b1: float[3, q1]; s1: float[2]; r: float[]",
        zero=np.array([0]),
        three=np.arange(3, dtype=np.float32)[:, None],
    )
    loop = node("Loop", "n - a0 b0 s0", "ya yb ys rows", body=turn)
    return model(
        "a0: float[k, 2]; b0: float[3, 2]; s0: float[2]; x: float[3, 4]; bound: float[]; "
        "n: int64[]",
        [loop],
        "ya: float[p, 2]; yb: float[3, q]; ys: float[2]; rows: float[n]",
    )


def nested() -> Any:
    """A loop in a loop: the inner one turns as often as the outer one says, over outer names."""
    inner = graph(
        "j: int64[]; c2: bool[]; u: float[2]",
        [node("Mul", "u w", "m"), node("Add", "m a", "v"), node("Identity", "c2", "d2")],
        "d2: bool[]; v: float[2]; v2: float[2]",
    )
    inner.node.append(node("Neg", "v", "v2"))
    turn = body(
        "a: float[2]",
        [
            node("Loop", "i - a", "b r", body=inner),
            node("Unsqueeze", "a zero", "a1"),
            node("Concat", "r a1", "r1", axis=0),
            node("ReduceSum", "r1 zero", "s", keepdims=0),
            node("Identity", "c", "d"),
        ],
        "d: bool[]; b: float[2]; s: float[2]",
        zero=ints(0),
    )
    loop = node("Loop", "n - x", "y rows", body=turn)
    return model(
        "x: float[2]; w: float[2]; n: int64[]", [loop], "y: float[2]; rows: float[turns, 2]"
    )


def branching() -> Any:
    """An If in a body: every second turn takes the other branch."""
    yes = graph("", [node("Add", "a x", "p")], "p: float[k]")
    no = graph("", [node("Mul", "a x", "q")], "q: float[k]")
    turn = body(
        "a: float[k]",
        [
            node("Mod", "i two", "m"),
            node("Cast", "m", "odd", to=9),
            node("If", "odd", "b", then_branch=yes, else_branch=no),
            node("Identity", "c", "d"),
        ],
        "d: bool[]; b: float[k]",
        two=np.array(2),
    )
    return model("x: float[k]; n: int64[]", [node("Loop", "n - x", "y", body=turn)], "y: float[k]")


def scanning() -> Any:
    """Two states, three scanned inputs, axes and directions of all kinds, three outputs."""
    turn = graph(
        "s: float[2]; t: float[]; p: float[2]; q: float[2, 3]; r: float[]",
        [
            node("Add", "s p", "s1"),
            node("Add", "t r", "t1"),
            node("Mul", "q r", "o1"),
            node("Sub", "p s", "o2"),
            node("Identity", "t1", "o3"),
        ],
        "s1: float[2]; t1: float[]; o1: float[2, 3]; o2: float[2]; o3: float[]",
    )
    made = node(
        "Scan", "s0 t0 P Q R", "s t a b d", body=turn, num_scan_inputs=3,
        scan_input_axes=[0, 1, -1], scan_input_directions=[0, 1, 1],
        scan_output_axes=[1, -1, 0], scan_output_directions=[0, 1, 1],
    )  # fmt: skip
    return model(
        "s0: float[2]; t0: float[]; P: float[n, 2]; Q: float[2, n, 3]; R: float[n]",
        [made],
        "s: float[2]; t: float[]; a: float[2, n, 3]; b: float[2, n]; d: float[n]",
    )


MODELS = {
    "accumulate": accumulate,
    "early": lambda: early(True),
    "endless": lambda: early(False),
    "growing": growing,
    "nested": nested,
    "branching": branching,
    "scanning": scanning,
    "rows_behind": rows_behind,
    "only_rows": only_rows,
}


@cache
def runs(name: str, target: str = "llvm") -> tuple[Any, Any]:
    """A model, compiled by us and by ONNX Runtime."""
    proto = MODELS[name]()
    mod = mlc.from_onnx(proto)
    assert well_formed(mod)
    assert_structural_equal(mod, parse(mod.script(show_meta=True)))
    options = ort.SessionOptions()
    options.log_severity_level = 3
    peer = ort.InferenceSession(proto.SerializeToString(), options, ["CPUExecutionProvider"])
    return mlc.compile(mod, target=target), peer


def check(name: str, target: str = "llvm", atol: float = 1e-6, **inputs: Any) -> list[np.ndarray]:
    """Both give the same; so does a machine that steps.

    Of rows that no turn made ONNX Runtime says that their open sizes are 0; we say what they are.
    """
    ex, peer = runs(name, target)
    wanted = peer.run(None, inputs)
    given = [inputs[i.name] for i in peer.get_inputs()]
    for run in (ex, ex, ex.vm["main"]):
        found = run(*given)
        found = found if isinstance(found, tuple) else (found,)
        for ours, theirs in zip(found, wanted, strict=True):
            assert (ours.dtype, ours.ndim) == (theirs.dtype, theirs.ndim)
            if theirs.size == 0:
                assert all(b in (0, a) for a, b in zip(ours.shape, theirs.shape, strict=True))
                continue
            assert ours.shape == theirs.shape
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=atol)
    return wanted


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("n", [0, 1, 7, -3])
def test_any_number_of_turns(target, n):
    given = floats(2, 3), np.array(n)
    check("accumulate", target, x=given[0], n=given[1])
    assert runs("accumulate", target)[0](*given)[1].shape == (max(n, 0), 2, 3)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(n=st.integers(-2, 40), k=st.integers(1, 9), seed=st.integers(0, 99))
def test_turns_and_sizes(n, k, seed):
    x = np.random.default_rng(seed).standard_normal((k, 3)).astype(np.float32)
    check("accumulate", x=x, n=np.array(n))


def test_ten_thousand_turns():
    check("accumulate", x=floats(1, 3) / 1e6, n=np.array(10_000))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("bound", [0.0, 30.0, 1e6])
@pytest.mark.parametrize("first", [True, False])
def test_a_condition_ends_it(target, bound, first):
    given = {"x": floats(3), "bound": np.array(bound, np.float32), "first": np.array(first)}
    check("endless", target, **given)
    for n in (0, 4, 100):
        check("early", target, **given, n=np.array(n))


@settings(max_examples=20, deadline=None, derandomize=True)
@given(n=st.integers(0, 30), k=st.integers(0, 5), t=st.booleans())
def test_what_is_carried_may_grow(n, k, t):
    y, z = check(
        "growing", x=floats(k), n=np.array(n), t=np.array(t), e0=np.zeros((1, 2), np.float32)
    )
    turns = n if t else 0
    assert (y.shape, z.shape) == ((k * (turns + 1),), (turns + 1, 2))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("n", [0, 1, 2, 6])
def test_a_loop_in_a_loop(target, n):
    check("nested", target, x=floats(2), w=floats(2) / 2, n=np.array(n))


def nest(depth: int) -> Any:
    """Loops in loops, each of which makes what it carries longer."""
    turn = [node("Concat", f"a{depth} x", f"b{depth}", axis=0)]
    for level in range(depth, 0, -1):
        inner = graph(
            f"i{level}: int64[]; c{level}: bool[]; a{level}: float[p{level}]",
            turn,
            f"c{level}: bool[]; b{level}: float[q{level}]",
        )
        start, end = (f"a{level - 1}", f"b{level - 1}") if level > 1 else ("x", "y")
        turn = [node("Loop", f"n - {start}", end, body=inner)]
    return model("x: float[k]; n: int64[]", turn, "y: float[p]")


def test_a_nest_is_not_written_anew_at_each_depth(monkeypatch):
    count = 0
    visit = Importer.node

    def counted(walk, proto, frame):
        nonlocal count
        count += 1
        visit(walk, proto, frame)

    monkeypatch.setattr(Importer, "node", counted)
    mod = mlc.from_onnx(nest(12))
    assert (count, well_formed(mod)) == (13 * 14 // 2, True)


@pytest.mark.parametrize("n", [0, 1, 2])
def test_a_deep_nest_runs(n):
    found = mlc.compile(mlc.from_onnx(nest(3)))(floats(2), np.array(n))
    np.testing.assert_array_equal(found, np.tile(floats(2), 1 + n**3))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "n, bound, k", [(0, 9, 1), (1, 9, 1), (7, 1e9, 0), (40, 1e9, 3), (9, 5, 1)]
)
def test_what_only_grows_is_rows(target, n, bound, k):
    given = {"b0": floats(3, 2), "s0": floats(2) + 1, "x": floats(3, 4), "n": np.array(n)}
    bound = np.array(bound, np.float32)
    check("only_rows", target, a0=floats(k, 2), bound=bound, **given)
    assert "rows_room" in mlc.from_onnx(only_rows()).script()
    concats = mlc.from_onnx(only_rows()).script().count("R.concat")
    assert concats == 3  # the piece of three, and one for each value behind the loop


@pytest.mark.parametrize("n", [0, 1, 4, 9])
def test_what_grows_otherwise_is_carried(n):
    shapes = {"a0": (1, 2), "b0": (3, 2), "s0": (2,), "f0": (2, 1), "g0": (1,), "x": (3, 4)}
    check("rows_behind", n=np.array(n), **{name: floats(*s) for name, s in shapes.items()})


@pytest.mark.parametrize("n", [0, 1, 2, 5])
def test_a_branch_in_a_loop(n):
    check("branching", x=floats(4) / 3, n=np.array(n))


def test_the_text_of_a_loop():
    """A body is written once, in terms of what a turn is given."""
    proto = model(
        "x: float[k]; n: int64[]",
        [
            node(
                "Loop", "n - x", "y rows",
                body=body(
                    "a: float[p]",
                    [node("Concat", "a x", "b", axis=0), node("ReduceSum", "b", "r", keepdims=0)],
                    "c: bool[]; b: float[p2]; r: float[]",
                ),
            )
        ],
        "y: float[p]; rows: float[turns]",
    )  # fmt: skip
    func = mlc.from_onnx(proto)["main"]
    assert func.script() == TEXT


TEXT = """# from tvm.script import tir as T
# from tvm.script import relax as R

@R.function
def main(x: R.Tensor(("k",), dtype="float32"), n: R.Tensor((), dtype="int64")) -> R.Tuple(R.Tensor(dtype="float32", ndim=1), R.Tensor(dtype="float32", ndim=1)):
    k = T.int64(is_size_var=True)
    R.func_attr({"num_input": 2})
    with R.dataflow():
        lv: R.Tensor((), dtype="bool") = R.less(R.const(0, "int64"), n)
        R.output(lv)
    @R.function
    def loop(turn: R.Tensor((), dtype="int64"), more: R.Tensor((), dtype="bool"), carried: R.Tensor(("s",), dtype="float32"), rows: R.Object) -> R.Tuple(R.Tensor(dtype="float32", ndim=1), R.Object):
        s = T.int64(is_size_var=True)
        if more:
            with R.dataflow():
                lv3: R.Tensor((s + k,), dtype="float32") = R.concat((carried, x))
                lv4: R.Tensor((), dtype="float32") = R.sum(lv3)
                lv5: R.Tensor((), dtype="int64") = R.add(turn, R.const(1, "int64"))
                lv6: R.Tensor((), dtype="bool") = R.less(lv5, n)
                lv7: R.Object = R.call_pure_packed("vm.builtin.rows_append", rows, lv4, sinfo_args=(R.Object,))
                lv8: R.Tuple(R.Tensor(dtype="float32", ndim=1), R.Object) = loop(lv5, lv6, lv3, lv7)
                R.output(lv8)
            lv9: R.Tuple(R.Tensor(dtype="float32", ndim=1), R.Object) = lv8
        else:
            lv9: R.Tuple(R.Tensor(dtype="float32", ndim=1), R.Object) = (carried, rows)
        return lv9
    with R.dataflow():
        lv10: R.Object = R.call_pure_packed("vm.builtin.rows", R.shape([]), R.dtype("float32"), sinfo_args=(R.Object,))
        lv11: R.Tuple(R.Tensor(dtype="float32", ndim=1), R.Object) = loop(R.const(0, "int64"), lv, x, lv10)
        lv12: R.Tensor(dtype="float32", ndim=1) = lv11[0]
        lv13: R.Object = lv11[1]
        s1 = T.int64(is_size_var=True)
        lv14: R.Tensor((s1,), dtype="float32") = R.match_cast(lv12, R.Tensor((s1,), dtype="float32"))
        lv15: R.Tensor(dtype="float32", ndim=1) = R.call_pure_packed("vm.builtin.rows_stack", lv13, sinfo_args=(R.Tensor(dtype="float32", ndim=1),))
        s2 = T.int64(is_size_var=True)
        lv16: R.Tensor((s2,), dtype="float32") = R.match_cast(lv15, R.Tensor((s2,), dtype="float32"))
        gv: R.Tuple(R.Tensor((s1,), dtype="float32"), R.Tensor((s2,), dtype="float32")) = (lv14, lv16)
        R.output(gv)
    return gv"""  # noqa: E501


@pytest.mark.parametrize(
    ("carried", "nodes", "why"),
    [
        (
            "a: float[2]",
            [node("Cast", "a", "b", to=11)],
            "carried value 0 is Tensor((2,), float32) before a turn, Tensor((2,), float64) after",
        ),
        (
            "a: float[2]",
            [node("Unsqueeze", "a zero", "b")],
            "carried value 0 is Tensor((2,), float32) before a turn, Tensor((1, 2), float32) after",
        ),
    ],
)
def test_what_is_carried_keeps_its_kind(carried, nodes, why):
    turn = body(carried, nodes, "c: bool[]; b: float", zero=ints(0))
    proto = model("x: float[2]; n: int64[]", [node("Loop", "n - x", "y", body=turn)], "y: float")
    with pytest.raises(UnsupportedOpError) as caught:
        mlc.from_onnx(proto)
    assert str(caught.value).startswith("the model: node 'y' (Loop, opset 17): " + why)


def test_rows_of_different_shapes_stop_the_run():
    turn = body(
        "a: float[p]", [node("Concat", "a x", "b", axis=0)], "c: bool[]; b: float[p2]; b: float[p2]"
    )
    proto = model(
        "x: float[2]; n: int64[]", [node("Loop", "n - x", "y rows", body=turn)],
        "y: float[p]; rows: float[turns, p]",
    )  # fmt: skip
    ex = mlc.compile(mlc.from_onnx(proto))
    np.testing.assert_array_equal(ex(floats(2), np.array(1))[1], [[0, 1, 0, 1]])
    with pytest.raises(ExecutionError) as caught:
        ex(floats(2), np.array(2))
    assert caught.value.message == (
        "turn 1 of a loop adds a row of shape (6,), turns before added (4,)"
    )


def test_scanned_inputs_of_different_lengths_stop_the_run():
    ex, _ = runs("scanning")
    shapes = {"s0": (2,), "t0": (), "P": (4, 2), "Q": (2, 3, 3), "R": (4,)}
    with pytest.raises(MLCError):
        ex(**{k: np.zeros(s, np.float32) for k, s in shapes.items()})


def test_a_trip_count_that_is_known_but_large_is_not_written_out():
    turn = body("a: float[2]", [node("Add", "a x", "b")], "c: bool[]; b: float[2]")
    proto = model(
        "x: float[2]", [node("Loop", "n - x", "y", body=turn)], "y: float[2]", n=np.array(5_000)
    )
    x = np.array([1, -2], np.float32)
    np.testing.assert_array_equal(mlc.compile(mlc.from_onnx(proto))(x), x * 5_001)


def convolving() -> Any:
    """Convolutions around a loop, in it, and in the branches of an If behind it."""
    rng = np.random.default_rng(0)
    yes = graph("", [node("Conv", "z w", "p", pads=[1] * 4)], "p: float[1, 16, 8, 8]")
    no = graph(
        "",
        [node("Conv", "z w", "q0", pads=[1] * 4), node("Softmax", "q0", "q")],
        "q: float[1, 16, 8, 8]",
    )
    turn = body(
        "a: float[1, 16, 8, 8]",
        [
            node("Conv", "a w", "e", pads=[1] * 4),
            node("Relu", "e", "f"),
            node("Add", "f y", "b"),
            node("ReduceMean", "f", "r", keepdims=0, axes=[1, 2, 3]),
        ],
        "c: bool[]; b: float[1, 16, 8, 8]; r: float[1]",
    )
    return model(
        "x: float[1, 16, 8, 8]; n: int64[]; s: bool[]",
        [
            node("Conv", "x w", "y", pads=[1] * 4),
            node("Loop", "n - y", "z rows", body=turn),
            node("If", "s", "o", then_branch=yes, else_branch=no),
        ],
        "o: float[1, 16, 8, 8]; rows: float[turns, 1]; y: float[1, 16, 8, 8]",
        w=(rng.standard_normal((16, 16, 3, 3)) / 12).astype(np.float32),
    )


MODELS["convolving"] = convolving


@pytest.mark.parametrize("n", [0, 1, 4])
@pytest.mark.parametrize("s", [True, False])
def test_convolutions_in_loops_and_branches_are_blocked(n, s):
    x = np.random.default_rng(1).standard_normal((1, 16, 8, 8)).astype(np.float32)
    check("convolving", atol=1e-5, x=x, n=np.array(n), s=np.array(s))
    ex, _ = runs("convolving")
    assert well_formed(ex.mod)
    assert not any(name.startswith(("conv2d", "fused_conv2d")) for name in ex.kernels)


def test_a_profile_has_a_row_for_the_loop():
    ex, _ = runs("accumulate")
    rows = mlc.profile(ex, floats(2, 3), np.array(5), repeat=2).rows
    assert "function: loop" in [row.kernel for row in rows]


def test_a_loop_is_saved_and_loaded(tmp_path):
    ex, _ = runs("accumulate")
    loaded = mlc.load_module(ex.export_library(tmp_path / "loop.tar"))
    for ours, theirs in zip(
        loaded(floats(2, 3), np.array(5)), ex(floats(2, 3), np.array(5)), strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("name", ["accumulate", "growing", "nested", "scanning"])
@pytest.mark.parametrize("pipeline", ["zero", "default", "cpu_generic"])
def test_every_stage_of_a_loop_is_read_back(name, pipeline):
    mod = relax.get_pipeline(pipeline)(mlc.from_onnx(MODELS[name]()))
    assert well_formed(mod)
    assert_structural_equal(mod, parse(mod.script(show_meta=True)))


@pytest.mark.parametrize("n", [0, 1, 5])
def test_a_loop_is_lifted_out(n):
    mod = relax.transform.LambdaLift()(mlc.from_onnx(accumulate()))
    assert well_formed(mod)
    given = floats(2, 3), np.array(n)
    lifted = mlc.compile(mod)(*given)
    for ours, theirs in zip(lifted, runs("accumulate")[0](*given), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_carried_sequence_needs_turns_that_are_known():
    turn = body("s: float[2]", [node("SequenceInsert", "s x", "r")], "c: bool[]; r: float[2]")
    for value in (*turn.input[2:], *turn.output[1:]):
        value.type.CopyFrom(helper.make_sequence_type_proto(value.type))
    proto = model(
        "x: float[2]; n: int64[]",
        [
            node("SequenceConstruct", "x", "s0"),
            node("Loop", "n - s0", "s1", body=turn),
            node("ConcatFromSequence", "s1", "y", axis=0),
        ],
        "y: float[k]",
    )
    with pytest.raises(UnknownValueError) as caught:
        mlc.from_onnx(proto)
    assert caught.value.inputs == ("n",)
    assert caught.value.message == (
        "the model: node 's1' (Loop, opset 17): the number of turns is not known before the model "
        "runs, and its carried value 0 is no tensor of so many dimensions"
    )
    ex = mlc.compile(mlc.from_onnx(proto, freeze={"n": np.array(2)}))
    np.testing.assert_array_equal(ex(floats(2)), [0, 1, 0, 1, 0, 1])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("n", [1, 2, 7])
def test_scan_over_an_open_axis(target, n):
    rng = np.random.default_rng(n)
    shapes = {"s0": (2,), "t0": (), "P": (n, 2), "Q": (2, n, 3), "R": (n,)}
    given = {k: np.asarray(rng.standard_normal(s), np.float32) for k, s in shapes.items()}
    check("scanning", target, **given)


@pytest.fixture
def steps(monkeypatch) -> dict[str, int]:
    """How often a run calls each of the runtime's functions for rows."""
    found: dict[str, int] = {}
    builtin.register()
    for name in ("rows_append", "rows_put", "rows_extend"):
        key = f"vm.builtin.{name}"

        monkeypatch.setitem(registry._functions, key, _counted(found, name, get_global_func(key)))
    return found


def _counted(found: dict[str, int], name: str, run: Any) -> Any:
    def counted(*args: Any) -> Any:
        found[name] = found.get(name, 0) + 1
        return run(*args)

    return counted


def run_and_check(steps: dict[str, int], name: str, **given: Any) -> None:
    """One run, whose calls count, and then the comparison with ONNX Runtime."""
    ex, _ = runs(name)
    steps.clear()
    ex(*given.values())
    found = dict(steps)
    check(name, **given)
    steps.clear()
    steps.update(found)


@pytest.mark.parametrize("n", [1, 100, 256, 257, 1000])
def test_only_a_full_room_is_a_step(steps, n):
    run_and_check(steps, "accumulate", x=floats(2, 3) / 1e3, n=np.array(n))
    assert steps == {"rows_extend": -(-n // 256)}


def test_a_room_for_large_rows_is_small(steps):
    run_and_check(steps, "accumulate", x=np.ones((40_000, 3), np.float32), n=np.array(9))
    assert steps == {"rows_extend": 3}


def test_a_scan_has_one_room(steps):
    shapes = {"s0": (2,), "t0": (), "P": (500, 2), "Q": (2, 500, 3), "R": (500,)}
    rng = np.random.default_rng(0)
    run_and_check(
        steps,
        "scanning",
        **{k: np.asarray(rng.random(s) / 9, np.float32) for k, s in shapes.items()},
    )
    assert steps == {}


def test_rows_in_a_loop_that_is_not_known_whole(steps):
    run_and_check(steps, "nested", x=floats(2), w=floats(2) / 9, n=np.array(5))
    assert steps == {"rows_extend": 1 + 4}  # inner loops of 0, 1, 2, 3, 4 turns


def found_first() -> Any:
    """A loop over what NonZero finds: no part of a function whose sizes are known."""
    turn = body("a: float[k]", [node("Add", "a x", "b")], "c: bool[]; b: float[k]")
    return model(
        "x: float[k]; n: int64[]",
        [node("Loop", "n - x", "z", body=turn), node("NonZero", "z", "i"), node("Neg", "i", "y")],
        "y: int64[1, found]",
    )


MODELS["found_first"] = found_first


def test_a_loop_beside_sizes_from_data_is_one_native_call(monkeypatch):
    frames = 0
    begin = Frame.__init__

    def counted(*args):
        nonlocal frames
        frames += 1
        begin(*args)

    monkeypatch.setattr(Frame, "__init__", counted)
    for n in (0, 3, 500):
        check("found_first", x=floats(5), n=np.array(n))
    ex, _ = runs("found_first")
    frames = 0
    ex(floats(5), np.array(500))
    assert frames == 1


PUT = """
@R.function
def main(x: R.Tensor((3, 2), "float32"), t: R.Tensor((), "int64")) -> R.Tensor((3, 2), "float32"):
    with R.dataflow():
        row: R.Tensor((2,), "float32") = R.sum(x, axis=[0])
        room: R.Tensor((3, 2), "float32") = R.call_inplace_packed(
            "vm.builtin.rows_put", WHERE, row, t, inplace_indices=[0],
            sinfo_args=(R.Tensor((3, 2), "float32"),)
        )
        y: R.Tensor((3, 2), "float32") = R.add(room, x)
        R.output(y)
    return y
"""


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("where", ["x", "R.const([[9, 8], [7, 6], [5, 4]], 'float32')"])
@pytest.mark.parametrize("t", [0, 2, 4])
def test_a_row_is_put_into_a_copy_of_what_others_see(target, where, t):
    x = floats(3, 2)
    given = x if where == "x" else np.array([[9, 8], [7, 6], [5, 4]], np.float32)
    wanted = np.array(given)
    wanted[t % 3] = x.sum(0)
    mod = parse(PUT.replace("WHERE", where))
    ex = mlc.compile(mod, target=target)
    for _ in range(2):
        np.testing.assert_array_equal(ex(x, np.array(t)), wanted + x)
    np.testing.assert_array_equal(evaluate(mod, x, np.array(t)), wanted + x)
    np.testing.assert_array_equal(x, floats(3, 2))
