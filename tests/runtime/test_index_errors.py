"""An index that is read from data and lies outside is an error that names operator, node, tensor,
element and range: compiled, step by step, in the interpreter, in the meaning, when folded and when
imported.
"""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper, numpy_helper

import mlcnb as mlc
from mlcnb.core.errors import ExecutionError, ModelError, UnsupportedError
from mlcnb.relax import BlockBuilder, TensorStructInfo, Var, VirtualMachine, op
from mlcnb.relax.analysis.variables import bindings_of
from mlcnb.relax.expr import Call
from mlcnb.relax.transform import FoldConstant, LegalizeOps

X = np.arange(24, dtype=np.float32).reshape(4, 6)


def model(op_type, x, indices, updates=None, known=False, **attrs):
    """One ONNX operator named `picked`; indices are an input, or with `known` an initializer."""
    given = {"x": x, "indices": indices} | ({} if updates is None else {"updates": updates})
    infos = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for n, a in given.items()
        if not (known and n == "indices")
    ]
    node = helper.make_node(op_type, list(given), ["y"], name="picked", **attrs)
    out = helper.make_tensor_value_info("y", 1, None)
    weights = [numpy_helper.from_array(indices, "indices")] if known else []
    graph = helper.make_graph([node], "g", infos, [out], weights)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    return onnx.shape_inference.infer_shapes(made)


#: name: (operator, attributes, x, good indices, updates, where a bad one is put, extent)
CASES = {
    "take": ("Gather", {"axis": 1}, X, np.zeros((2, 3), np.int64), None, (1, 2), 6),
    "take rows": ("Gather", {"axis": 0}, X, np.zeros((40,), np.int32), None, (33,), 4),
    "gather_elements": (
        "GatherElements", {"axis": 1}, X, np.zeros((4, 20), np.int64), None, (2, 17), 6,
    ),
    "gather_nd": ("GatherND", {}, X, np.zeros((5, 2), np.int64), None, (3, 1), 6),
    "scatter_elements": (
        "ScatterElements", {"axis": 0}, X, np.zeros((3, 6), np.int64),
        np.ones((3, 6), np.float32), (1, 4), 4,
    ),
    "scatter_nd": (
        "ScatterND", {}, X, np.zeros((5, 1), np.int64), np.ones((5, 6), np.float32), (4, 0), 4,
    ),
}  # fmt: skip
BAD = [1, -1, 1000, -(2**31), 2**31 - 1]


def case(name, bad):
    """The module, its arguments with one bad index, and the message."""
    op_type, attrs, x, indices, updates, where, extent = CASES[name]
    indices = indices.copy()
    value = extent - 1 + bad if bad > 0 else -extent + bad
    value = int(np.clip(value, -(2**31), 2**31 - 1))
    indices[where] = value
    args = [x, indices] + ([] if updates is None else [updates])
    said = name.split()[0]
    message = f"{said}: indices{list(where)} is {value}, outside of {-extent} to {extent - 1}"
    return mlc.from_onnx(model(op_type, x, indices, updates, **attrs)), args, message


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("name", CASES)
def test_compiled(name, bad):
    mod, args, message = case(name, bad)
    op_type = CASES[name][0]
    executable = mlc.compile(mod)
    for _ in range(3):  # the long way, that of known arguments, the native one
        with pytest.raises(ExecutionError) as error:
            executable(*args)
        (kernel,) = executable.kernels
        (binding,) = (b.var.name_hint for b in bindings_of(executable.mod["main"])
                      if isinstance(b.value, Call))  # fmt: skip
        assert str(error.value) == f"at {binding} ({op_type} 'picked'): {kernel}: {message}"
    args[1] = np.zeros_like(args[1])
    assert np.isfinite(executable(*args)).all()


@pytest.mark.parametrize("name", CASES)
def test_step_by_step(name):
    mod, args, message = case(name, 7)
    vm = VirtualMachine(mlc.compile(mod), mlc.cpu())
    with pytest.raises(ExecutionError) as error:
        vm["main"](*args)
    assert str(error.value).endswith(message)
    assert f"{CASES[name][0]} 'picked'" in str(error.value)


@pytest.mark.parametrize("name", CASES)
def test_interpreted(name):
    mod, args, message = case(name, 7)
    with pytest.raises(ExecutionError) as error:
        mlc.compile(mod, "interp")(*args)
    assert message in str(error.value)
    assert f"{CASES[name][0]} 'picked'" in str(error.value)


@pytest.mark.parametrize("name", CASES)
def test_meaning(name):
    mod, args, message = case(name, -3)
    with pytest.raises(ExecutionError, match="outside of") as error:
        mlc.testing.evaluate(mod, *args)
    assert message in str(error.value)


@pytest.mark.parametrize("lowered", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_a_wrong_pick_is_not_folded(name, lowered):
    mod, args, message = case(name, 7)
    names = ("x", "indices", "updates")
    mod = mlc.relax.transform.BindParams("main", dict(zip(names, args, strict=False)))(mod)
    mod = LegalizeOps()(mod) if lowered else mod
    folded = FoldConstant()(mod)
    assert [b for b in bindings_of(folded["main"]) if isinstance(b.value, Call)]
    with pytest.raises(ExecutionError) as error:
        mlc.compile(mod)()
    assert message in str(error.value)


@pytest.mark.parametrize("name", CASES)
def test_known_indices_are_refused_when_imported(name):
    op_type, attrs, x, indices, updates, where, extent = CASES[name]
    indices = indices.copy()
    indices[where] = extent
    with pytest.raises((ModelError, UnsupportedError)) as error:
        mlc.from_onnx(model(op_type, x, indices, updates, known=True, **attrs))
    assert "picked" in str(error.value)
    assert f"{extent}, outside of {-extent} to {extent - 1}" in str(error.value)


@pytest.mark.parametrize("mode", ["clip", "wrap", "nan"])
def test_modes_that_say_what_outside_means(mode):
    x, i = Var("x", TensorStructInfo((5,), "float32")), Var("i", TensorStructInfo((3,), "int64"))
    bb = BlockBuilder()
    with bb.function("main", [x, i]):
        with bb.dataflow():
            out = bb.emit_output(bb.emit(op.take(x, i, axis=0, mode=mode)))
        bb.emit_func_output(out)
    values = np.float32([1, 2, 3, 4, 5])
    found = mlc.compile(bb.get())(values, np.int64([-1, 7, 2]))
    want = {"clip": [1, 5, 3], "wrap": [5, 3, 3], "nan": [np.nan, np.nan, 3]}[mode]
    np.testing.assert_array_equal(found, np.float32(want))


def test_fast_counts_from_the_front_only():
    x, i = Var("x", TensorStructInfo((5,), "float32")), Var("i", TensorStructInfo((3,), "int64"))
    bb = BlockBuilder()
    with bb.function("main", [x, i]):
        with bb.dataflow():
            out = bb.emit_output(bb.emit(op.take(x, i, axis=0)))
        bb.emit_func_output(out)
    with pytest.raises(ExecutionError, match=r"take: indices\[2\] is -1, outside of 0 to 4"):
        mlc.compile(bb.get())(np.zeros(5, np.float32), np.int64([0, 4, -1]))


def test_an_empty_dimension():
    mod = mlc.from_onnx(model("Gather", np.zeros((0, 2), np.float32), np.int64([0])))
    with pytest.raises(ExecutionError, match="is 0, of a dimension that is empty"):
        mlc.compile(mod)(np.zeros((0, 2), np.float32), np.int64([0]))


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_any_pick_is_numpys_or_an_error(data):
    """The same arrays by NumPy, which raises IndexError for what is outside."""
    rows, columns, count = (data.draw(st.integers(1, n)) for n in (9, 70, 90))
    axis = data.draw(st.integers(0, 1))
    extent = (rows, columns)[axis]
    near = st.integers(-extent - 1, extent)
    values = data.draw(st.lists(near, min_size=count, max_size=count))
    x = np.arange(rows * columns, dtype=np.float32).reshape(rows, columns)
    indices = np.array(values, data.draw(st.sampled_from(["int32", "int64"])))
    executable = mlc.compile(mlc.from_onnx(model("Gather", x, indices, axis=axis)))
    outside = np.flatnonzero((indices < -extent) | (indices >= extent))
    if not outside.size:
        np.testing.assert_array_equal(executable(x, indices), np.take(x, indices, axis))
        return
    first = outside[0]
    with pytest.raises(ExecutionError, match=rf"indices\[{first}\] is {indices[first]}, "):
        executable(x, indices)


def test_a_pick_of_a_shape_is_known_when_imported():
    """What exporters write for x.reshape(x.shape[0], -1): the first dimension is open."""
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "at"], ["n"]),
        helper.make_node("Unsqueeze", ["n", "axes"], ["row"]),
        helper.make_node("Concat", ["row", "rest"], ["shape"], axis=0),
        helper.make_node("Reshape", ["x", "shape"], ["y"]),
    ]
    known = {"at": np.int64(0), "axes": np.int64([0]), "rest": np.int64([-1])}
    weights = [numpy_helper.from_array(np.asarray(v), n) for n, v in known.items()]
    x = helper.make_tensor_value_info("x", 1, ["n", 3, 4])
    y = helper.make_tensor_value_info("y", 1, None)
    graph = helper.make_graph(nodes, "g", [x], [y], weights)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    mod = mlc.from_onnx(made)
    info = mod["main"].ret_struct_info
    assert [str(d) for d in info.dims] == ["n", "T.int64(12)"]
