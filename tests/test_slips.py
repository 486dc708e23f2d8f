"""What a newcomer writes by mistake, and the answer: what was given, what to write instead."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import mlcnb as mlc
from mlcnb import relax, te


@pytest.fixture(scope="module")
def have():
    """A product of 8 x 8, its schedule and kernel; a model `y = relu(x)`, also compiled."""
    A, B = (te.placeholder((8, 8), name=name) for name in "AB")
    k = te.reduce_axis((0, 8), "k")
    C = te.compute((8, 8), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    func = te.create_prim_func([A, B, C])
    sch = mlc.tir.Schedule(func)
    i, j, _ = sch.get_loops("C")
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4])],
    )
    opsets = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    mod = mlc.from_onnx(model)
    return SimpleNamespace(
        A=A, B=B, C=C, k=k, func=func, sch=sch, i=i, j=j, x=np.ones((8, 8), "float32"),
        other=mlc.tir.Schedule(func), kernel=mlc.compile(func), model=model, mod=mod,
        ex=mlc.compile(mod),
    )  # fmt: skip


def opset(number: int) -> onnx.ModelProto:
    """A model of an opset."""
    graph = helper.make_graph([], "g", [], [])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", number)], ir_version=8)


GET_LOOPS = 'pass a loop that get_loops gives: i, j = sch.get_loops("C")'
SPLIT = "sch.split(loop, factors, preserve_unit_iters=True, disable_predication=False)"
SLIPS = {
    # schedules
    "an int for a list": (
        lambda h: h.sch.split(h.i, 8),
        "split: factors are a list, one for each new loop, not 8",
        "factors=[None, 8]",
    ),
    "TVM's old argument": (
        lambda h: h.sch.split(h.i, factor=8),
        "split: there is no argument 'factor': did you mean 'factors'?",
        SPLIT,
    ),
    "an argument is missing": (
        lambda h: h.sch.split(h.i),
        "split: missing a required argument: 'factors'",
        SPLIT,
    ),
    "a name for a loop": (lambda h: h.sch.parallel("i"), "parallel: 'i' is no loop", GET_LOOPS),
    "a block for a loop": (
        lambda h: h.sch.split(h.sch.get_block("C"), [None, 8]),
        "split: block C is no loop",
        GET_LOOPS,
    ),
    "loops in a list": (
        lambda h: h.sch.reorder([h.j, h.i]),
        "reorder: a list (loop j, loop i) is no loop",
        "give them one by one: sch.reorder(*ordered_loops)",
    ),
    "a loop of another schedule": (
        lambda h: h.sch.parallel(h.other.get_loops("C")[0]),
        "this handle is of another schedule, or was made by a step that was taken back",
        "get it again from this one: sch.get_block, sch.get_loops",
    ),
    "a stage": (
        lambda h: h.sch["C"],
        "Schedule: there are no stages, such as ['C']: there are blocks",
        'C = sch.get_block("C"); i, j = sch.get_loops(C)',
    ),
    "undo at the start": (
        lambda h: h.other.undo(),
        "undo: no step is left: this is the program as it was given",
        None,
    ),
    "a step in British spelling": (
        lambda h: h.sch.vectorise(h.j),
        "Schedule has no attribute 'vectorise': did you mean 'vectorize'?",
    ),
    "a step of TVM's old schedules": (
        lambda h: h.sch.tile(h.i, h.j, 4, 4),
        "Schedule has no attribute 'tile': two splits and a reorder: "
        "sch.split(i, [None, 4]), sch.reorder(…)",
    ),
    # names
    "a name misspelt": (
        lambda h: mlc.explor,
        "module 'mlcnb' has no attribute 'explor': did you mean 'explore'?",
    ),
    "a name one level too high": (
        lambda h: mlc.Schedule,
        "module 'mlcnb' has no attribute 'Schedule': it is mlcnb.tir.Schedule",
    ),
    "a module of old TVM": (
        lambda h: mlc.relay,
        "module 'mlcnb' has no attribute 'relay': graphs are mlcnb.relax here; "
        "mlcnb.from_onnx reads one",
    ),
    "TVM's old te": (
        lambda h: te.create_schedule(h.C),
        "module 'mlcnb.te' has no attribute 'create_schedule': loop programs are scheduled: "
        "mlcnb.tir.Schedule(te.create_prim_func([A, B]))",
    ),
    "an option misspelt": (
        lambda h: mlc.options.set("displai", "text"),
        "options: no option 'displai'",
        "did you mean 'display'?",
    ),
    "a value that an option has not": (
        lambda h: mlc.options.set("dialect", "1.0"),
        "options: no dialect '1.0'",
        "one of 0.21, 0.27",
    ),
    # tensor expressions
    "no list of parameters": (
        lambda h: te.create_prim_func(h.C),
        "create_prim_func: C alone is no list of parameters",
        "name inputs and outputs, in order: te.create_prim_func([A, B, C])",
    ),
    "too few indices": (
        lambda h: te.compute((8,), lambda i: h.A(i)),
        "tensor A has 2 dimensions, and is read with 1 index",
        None,
    ),
    "too few arguments": (
        lambda h: te.compute((8, 8), lambda i: h.A[i, i], name="D"),
        "compute D: the shape has 2 dimensions, the function takes 1 (i)",
        "one argument for each dimension: te.compute((n, m), lambda i, j: A[i, j])",
    ),
    "a function of NumPy": (
        lambda h: te.compute((8,), lambda i: np.exp(h.A[i, 0]), name="D"),
        "compute D: a function of numbers got a symbolic expression: loop of ufunc does not "
        "support argument 0 of type ProducerLoad which has no callable exp method",
        "te has its own of that name: te.exp(x), te.sqrt(x), te.max(a, axis=k)",
    ),
    "a sum along nothing": (
        lambda h: te.sum(h.A[0, h.k]),
        "sum: the axis to reduce over is missing",
        'k = te.reduce_axis((0, n), "k"); te.sum(A[i, k], axis=k)',
    ),
    "a name for a dtype": (
        lambda h: te.placeholder((8,), "A"),
        "no dtype 'A'",
        "te.placeholder(shape, dtype, name): is it a name? name='A'",
    ),
    # graphs and passes
    "shape and dtype swapped": (
        lambda h: relax.TensorStructInfo("float32", (2, 3)),
        "TensorStructInfo: 'float32' is no shape",
        'the shape first, then the dtype: TensorStructInfo((2, 3), "float32")',
    ),
    "a module where options go": (
        lambda h: relax.transform.FuseOps(h.mod),
        "FuseOps: its options go here, not an IRModule",
        "make the pass, then call it: FuseOps()(mod)",
    ),
    "a pipeline misspelt": (
        lambda h: mlc.get_pipeline("defualt"),
        "no pipeline 'defualt'",
        "did you mean 'default'?",
    ),
    "a function misspelt": (
        lambda h: h.mod["mian"],
        "no function 'mian' in the module: it has main",
        "did you mean 'main'?",
    ),
    # compiling and running
    "a path compiled": (
        lambda h: mlc.compile("cat.onnx"),
        "cannot compile a str",
        "read it first: mlc.compile(mlc.from_onnx('cat.onnx'))",
    ),
    "nothing compiled": (
        lambda h: mlc.compile(None),
        "cannot compile None",
        "pass an IRModule, a Function or a PrimFunc",
    ),
    "a target that is none": (
        lambda h: mlc.compile(h.func, target="gpu"),
        "no target kind 'gpu'",
        "there are llvm, cuda, cuda-sim, interp: llvm is this CPU, cuda-sim a GPU simulated on it",
    ),
    "a device for a target": (
        lambda h: mlc.compile(h.func, target=mlc.cpu()),
        "a target is a string or a dict, not a Device",
        'e.g. "llvm" or "cuda"',
    ),
    "outputs left out": (
        lambda h: h.kernel(h.x, h.x),
        "main takes 3 arguments (A, B, C), outputs included, but got 2",
        "make what it writes first: C = np.empty((8, 8), 'float32')",
    ),
    "a dtype of a kernel": (
        lambda h: h.kernel(h.x.astype("float64"), h.x, h.x),
        "main: argument 'A': expected dtype float32, got float64",
        "convert it first: x.astype('float32')",
    ),
    "a dtype of a graph": (
        lambda h: h.ex(np.ones((1, 4))),
        "input 'x': expected dtype float32, got float64",
        "convert it first: x.astype('float32')",
    ),
    "no input": (
        lambda h: h.ex(),
        "main takes 1 input (x), got 0",
        'x: R.Tensor((1, 4), dtype="float32")',
    ),
    "a dict of inputs": (
        lambda h: h.ex({"x": np.ones((1, 4), "float32")}),
        "input 'x' is a dict",
        "inputs by name go in with two stars: ex(**inputs)",
    ),
    "what was not compiled": (
        lambda h: mlc.profile(h.mod, h.x),
        "profile: an IRModule does not run",
        "mlc.profile(mlc.compile(mod), x)",
    ),
    "a text for a number": (
        lambda h: mlc.set_num_threads("4"),
        "a number of threads is an int, not a str",
    ),
    # files
    "an opset that is none": (
        lambda h: mlc.from_onnx(opset(99)),
        "the model: opset 99 is not one of 1 to 28",
        "convert it with onnx.version_converter, or upgrade the package onnx",
    ),
    "a picture for a model": (
        lambda h: mlc.from_onnx(b"\x89PNG\r\n\x1a\n"),
        "the model: no ONNX model: a picture",
        "download or export it again",
    ),
}  # fmt: skip


@pytest.mark.parametrize("slip", SLIPS)
def test_a_slip_is_answered(have, slip):
    write, message, *hint = SLIPS[slip]
    with pytest.raises((mlc.MLCError, AttributeError, TypeError)) as caught:
        write(have)
    if hint:
        assert (caught.value.message, caught.value.hint) == (message, hint[0])
    else:
        assert str(caught.value) == message


def test_a_model_loaded_as_a_compiled_one(have, tmp_path):
    path = tmp_path / "model.onnx"
    onnx.save(have.model, path)
    with pytest.raises(mlc.MLCError) as caught:
        mlc.load_module(path)
    assert caught.value.hint == f"this is a model: mlc.compile(mlc.from_onnx({str(path)!r}))"


LOOPS = """\
@T.prim_func
def f(A: T.Buffer((8, 8), "float32"), b: T.handle):
    {}
"""
GRAPH = """\
@I.ir_module
class M:
    @T.prim_func
    def g(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        for i in range(8):
            B[i] = A[i]
    @R.function
    def main(x: R.Tensor((8,), "float32")):
        {}
"""
PROGRAMS = {
    "a name that is none": (LOOPS, "A[i, 0] = T.float32(0)", "no name 'i' here", "there are A, b"),
    "a handle without a buffer": (
        LOOPS, "B[0] = A[0, 0]", "no name 'B' here", 'B = T.match_buffer(b, (128,), "float32")',
    ),
    "NumPy": (
        LOOPS, "A[0, 0] = np.exp(A[0, 0])", "no name 'np' here",
        "a program is read, not run: T.exp(x), T.sqrt(x), … are its own functions",
    ),
    "a buffer returned": (
        LOOPS, "return A", "a loop function returns no buffer, such as A",
        "leave the line out: the caller gives the arrays that are written",
    ),
    "a running sum": (
        LOOPS, "s = 0.0; s += A[0, 0]", "only an element of a buffer can be changed",
        'keep it in memory: s = T.alloc_buffer((1,), "float32"), s[0] += …',
    ),
    "an axis without its extent": (
        LOOPS, "for i in range(8):\n        with T.block('B'): v = T.axis.spatial(i)",
        "T.axis.spatial takes the extent and the value",
        "v = T.axis.spatial(128, i), where i runs over 128",
    ),
    "too few indices": (LOOPS, "A[0] = T.float32(0)", "A has ndim 2, it gets 1 index", None),
    "no return": (
        GRAPH, "y = R.nn.relu(x)", "a graph function ends with `return`", "return y",
    ),
    "an operator one level too high": (
        GRAPH, "return R.relu(x)", "no R.relu", "it is R.nn.relu",
    ),
    "a kernel without its module": (
        GRAPH, 'return R.call_tir(g, (x,), out_sinfo=R.Tensor((8,), "float32"))',
        "no name 'g' here", "a function of the module is M.g",
    ),
}  # fmt: skip


@pytest.mark.parametrize("slip", PROGRAMS)
def test_a_slip_in_a_program_is_answered(slip):
    program, line, message, hint = PROGRAMS[slip]
    with pytest.raises(mlc.MLCError) as caught:
        mlc.script.from_source(program.format(line))
    assert (caught.value.message.partition("\n")[0], caught.value.hint) == (message, hint)
