"""Numbers of a model near 2**31, 2**32, 2**40 and 2**63: the answer of ONNX Runtime, or a typed
refusal; never a crash, never another answer.
"""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mlcnb as mlc
from mlcnb.relax import BlockBuilder, Var, op
from mlcnb.relax.expr import const, tensor_info
from tests.frontend import suite
from tests.frontend.large_numbers import IMAGE, KERNEL, Case, answer, limited, told_of

LARGE = st.builds(
    lambda power, by: min(2**power + by, 2**63 - 1),
    st.sampled_from([15, 16, 30, 31, 32, 40, 62, 63]),
    st.integers(-2, 2),
)
SIGNED = LARGE | LARGE.map(lambda n: -n)
SMALL = st.integers(1, 3)


@pytest.fixture(scope="module")
def worker():
    """One process; a crash breaks it, and so fails the test."""
    context = get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context, initializer=limited) as made:
        yield made


@pytest.fixture(scope="module")
def told(worker):
    """Answers of that process."""
    return lambda case: worker.submit(answer, case).result(timeout=120)


def longs(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


@st.composite
def windows(draw) -> Case:
    """Conv and pools: dilation, padding and strides that may cancel out."""
    op = draw(st.sampled_from(["Conv", "Conv", "MaxPool", "AveragePool", "LpPool"]))
    big = draw(LARGE)
    attrs = {"pads": draw(st.sampled_from([[0] * 4, [1] * 4, [big] * 4, [big, 1, big, 1]]))}
    attrs["strides"] = draw(st.sampled_from([[1, 1], [big, 1], [big, big]]))
    if op == "Conv":
        attrs["dilations"] = draw(st.sampled_from([[1, 1], [big, 1], [big, big]]))
        return Case(op, attrs, (KERNEL,))
    # ONNX Runtime's LpPool goes through all of the padding: a minute where a kernel has 2**16 rows.
    kernels = [[3, 3], [1, 2], *([[big, 1]] if op != "LpPool" else [])]
    attrs["kernel_shape"] = draw(st.sampled_from(kernels))
    return Case(op, attrs)


@st.composite
def pieces(draw) -> Case:
    """Slice, Pad, Gather, Tile, Expand, Reshape, Resize and others: bounds, steps, sizes."""
    big, other = draw(SIGNED), draw(SIGNED)
    step = draw(st.sampled_from([1, -1, 2, big, other]))
    cases = [
        Case("Slice", {}, (longs(big), longs(other), longs(0), longs(step)), "ROWS"),
        Case("Slice", {}, (longs(draw(SMALL)), longs(big), longs(draw(SMALL) - 1)), "ROWS"),
        Case("Pad", {}, (longs(0, big, 0, other),), "ROWS"),
        Case("Pad", {"mode": "edge"}, (longs(0, big, 0, -big),), "ROWS"),
        Case("Gather", {"axis": 0}, (longs(big),), "ROWS"),
        Case("Tile", {}, (longs(abs(big), 0),), "ROWS"),
        Case("Expand", {}, (longs(abs(big), 3, 4),), "ROWS"),
        Case("Reshape", {}, (longs(big, -1),), "ROWS"),
        Case("Resize", {"mode": "nearest"}, (None, None, longs(1, 1, abs(big), 1))),
        Case("Trilu", {"upper": draw(SMALL) % 2}, (longs(big)[0],), "ROWS"),
        Case("EyeLike", {"k": big}, (), "ROWS"),
        Case("Flatten", {"axis": big}, (), "ROWS"),
        Case("CumSum", {}, (longs(big)[0],), "ROWS"),
        Case("ReduceSum", {}, (longs(big),), "ROWS"),
        Case("LRN", {"size": abs(big)}),
        Case("Softmax", {"axis": big}, (), "ROWS"),
        *(Case(op, {}, (longs(big),), "LONGS") for op in ("Add", "Mul", "Sub", "Max", "Mod")),
    ]
    return draw(st.sampled_from(cases))


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(windows() | pieces())
def test_the_same_answer_or_a_typed_refusal(told, case):
    said = told(case)
    assert said == "same" or said.startswith(("refused: ", "it alone refuses")), (case, said)


@pytest.mark.parametrize("far", [2**20, 2**29, 2**31 - 1, 2**31, 2**32, 2**40, 2**61])
def test_a_dilation_as_large_as_its_padding_leaves_the_middle(told, far):
    """Every output is the middle tap; the others only see padding."""
    case = Case("Conv", {"dilations": [far, far], "pads": [far] * 4}, (KERNEL,))
    assert told(case) == "same"
    alone = Case("Conv", {"dilations": [far, 1], "pads": [far, 1, far, 1]}, (KERNEL,))
    assert told(alone) == "same"


@pytest.mark.parametrize("op", ["AveragePool", "MaxPool"])
def test_a_kernel_larger_than_the_image_takes_the_steps_of_the_image(told, op):
    """2**17 places of 2**16 rows each, of which six are no padding."""
    rows = 2**16
    case = Case(op, {"kernel_shape": [rows, 1], "pads": [rows - 1, 0, rows - 1, 0]})
    assert told(case) == "same"


def test_a_window_over_more_channels_than_there_are():
    """ONNX Runtime sums over any odd number of channels, up to 2**31."""
    for size in (2**30, 2**62, 2**63 - 1):
        model = Case("LRN", {"size": size, "alpha": float(size)}).model()
        found = mlc.compile(mlc.from_onnx(model), target="llvm")(IMAGE)
        np.testing.assert_allclose(found, IMAGE / (IMAGE**2 + 1) ** 0.75, rtol=1e-5)


@pytest.mark.parametrize("far", [2**20 + 1, 2**30 + 1])
def test_strides_as_large_as_the_padding_do_not_store_it(told, far):
    """Three windows, one of which sees the image: 2**31 padded elements were made for them."""
    attrs = {"pads": [far] * 4, "strides": [far, far], "dilations": [far, 1]}
    case = Case("Conv", attrs, (KERNEL,))
    assert told(case) == "same"
    made = mlc.compile(mlc.from_onnx(case.model()))
    assert all("pad_temp" not in kernel.func.script() for kernel in made.kernels.values())


def test_windows_that_see_nothing_but_padding():
    far = 2**40
    model = Case("Conv", {"dilations": [far, far], "pads": [far + 9, far] * 2}, (KERNEL,)).model()
    found = mlc.compile(mlc.from_onnx(model))(IMAGE)
    assert found.shape == (1, 1, 24, 6)
    assert not np.asarray(found)[0, 0, :9].any()


def test_a_refusal_names_the_node_and_its_attributes(told):
    far = 2**32
    said = told(Case("MaxPool", {"kernel_shape": [3, 3], "strides": [far, far]}))
    assert said == (
        "refused: IntegerRangeError: nn.max_pool2d of node n: its loops cannot count so far: "
        "4294967296 is no int32: these run from -2147483648 to 2147483647; its attributes are "
        "pool_size (3, 3), strides (4294967296, 4294967296), padding (0, 0, 0, 0), dilation "
        "(1, 1), ceil_mode False, count_include_pad False, layout NCHW, out_layout NCHW"
    )


def test_memory_that_a_call_has_not_names_the_node(told):
    """The image of a transposed convolution, as far apart as the kernel is dilated."""
    far = 2**31 - 2
    attrs = {"dilations": [far, 1], "pads": [far, 0, far, 0]}
    said = told(Case("ConvTranspose", attrs, (KERNEL,)))
    assert said.startswith("refused: ExecutionError: 171,798,691,968 bytes (160.0 GiB) are needed")
    assert "(ConvTranspose 'n')" in said


@pytest.mark.parametrize("batch", [-1, 2, 2**31 - 1, -(2**31) - 1])
def test_batch_dimensions_that_are_not_there(told, batch):
    said = told(Case("GatherND", {"batch_dims": batch}, (np.array([[0, 1], [2, 3]]),), "ROWS"))
    assert said.startswith("refused: ModelError: the model: node 'n' (GatherND, opset 18)"), said
    assert "batch_dims" in said


KINDS = (onnx.AttributeProto.INT, onnx.AttributeProto.INTS)
#: attributes that say a dtype, and the one that says how many samples to take, which are taken
OTHERS = frozenset("to dtype stash_type output_dtype saturate sampling_ratio".split())


@cache
def with_integers():
    """ONNX's own cases of one node with integer attributes, by operator: (model, inputs, names)."""
    found: dict[str, list] = {}
    for case in suite.cases():
        if case.record.kind != "node":
            continue
        model, inputs, _ = next(iter(suite.data_sets(case)))
        if len(model.graph.node) != 1 or not all(isinstance(x, np.ndarray) for x in inputs):
            continue
        (node,) = model.graph.node
        names = [a.name for a in node.attribute if a.type in KINDS and a.name not in OTHERS]
        if names and sum(x.size for x in inputs) < 2000:
            found.setdefault(node.op_type, []).append((model, inputs, names))
    return found


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_integer_attributes_of_every_operator(worker, data):
    """One or two of them near 2**31: the model runs, or the refusal says which node it is."""
    known = with_integers()
    assert len(known) > 50
    op = data.draw(st.sampled_from(sorted(known)))
    model, inputs, names = data.draw(st.sampled_from(known[op]))
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    (node,) = changed.graph.node
    node.name = "n"
    for output in changed.graph.output:
        if output.type.HasField("tensor_type"):
            output.type.tensor_type.ClearField("shape")
    for name in data.draw(st.lists(st.sampled_from(names), min_size=1, max_size=2, unique=True)):
        attr = next(a for a in node.attribute if a.name == name)
        if attr.type == onnx.AttributeProto.INT:
            attr.i = data.draw(SIGNED)
        else:
            attr.ints[:] = [data.draw(st.just(x) | SIGNED) for x in attr.ints]
    said = worker.submit(told_of, changed.SerializeToString(), inputs).result(timeout=120)
    assert said == "ran" or said.startswith("named: "), (op, node.attribute, said)


def test_more_skips_than_there_are_tokens():
    """Windows of two tokens, one of which lies behind the end, are none (it went through 2**31)."""
    tokens = np.array([1, 2, 1, 2], np.int64)

    def counts(skips):
        node = onnx.helper.make_node(
            "TfIdfVectorizer", ["x"], ["y"], mode="TF", min_gram_length=2, max_gram_length=2,
            max_skip_count=skips, ngram_counts=[0, 0], ngram_indexes=[0, 1, 2],
            pool_int64s=[1, 2, 2, 1, 1, 1],
        )  # fmt: skip
        x = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.INT64, [4])
        y = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)
        opset = [onnx.helper.make_opsetid("", 18)]
        model = onnx.helper.make_model(
            onnx.helper.make_graph([node], "g", [x], [y]), opset_imports=opset, ir_version=8
        )
        return np.asarray(mlc.compile(mlc.from_onnx(model), target="llvm")(tokens))

    np.testing.assert_array_equal(counts(2**31 - 1), counts(3))


@pytest.mark.parametrize("mode", ["edge", "reflect", "wrap"])
@pytest.mark.parametrize("pads", [(1, 1), (-5, 6), (6, -5), (-2, 2), (-(2**30), 2**30)], ids=str)
def test_a_padding_that_repeats_elements_has_some(mode, pads):
    """With an open size: what is left of each row, or an error; never memory of others."""
    case = Case("Pad", {"mode": mode}, (longs(0, pads[0], 0, pads[1]),), "ROWS")
    model = case.model()
    model.opset_import[0].version = 19
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_param = "n"
    ex = mlc.compile(mlc.from_onnx(model), target="llvm")
    for n in (0, 1, 2, 3, 5, 6, 7):
        rows = np.arange(3 * n, dtype="f").reshape(3, n)
        start, stop = max(-pads[0], 0), n - max(-pads[1], 0)
        if n + sum(pads) > 0 and start >= stop:
            with pytest.raises(mlc.core.errors.ExecutionError, match="first element for mode"):
                ex(rows)
        elif start < stop:
            wanted = np.pad(rows[:, start:stop], [(0, 0), [max(x, 0) for x in pads]], mode=mode)
            np.testing.assert_array_equal(ex(rows), wanted)


@pytest.mark.parametrize("target", ["llvm", "interp"])
def test_one_place_of_what_only_sees_padding_beside_one_with_a_rest(target):
    """A kernel that sees padding alone in its rows, and leaves a column over: still one place."""
    x = Var("x", tensor_info((1, 1, 1, 2), "float32"))
    bb = BlockBuilder()
    with bb.function("main", [x]):
        with bb.dataflow():
            w = const(np.full((1, 1, 1, 1), 3, np.float32))
            out = bb.emit_output(op.nn.conv2d(x, w, strides=(2, 2), padding=(1, 0, 0, 0)))
        bb.emit_func_output(out)
    found = mlc.compile(bb.get(), target=target)(np.ones((1, 1, 1, 2), np.float32))
    np.testing.assert_array_equal(found, np.zeros((1, 1, 1, 1)))
