"""Hostile and damaged models, made on the spot: a few hundred bytes each.

CASES: name -> (build(folder) -> what from_onnx gets, the error, parts of its message)

Sources of the attacks: CVE-2022-25882, CVE-2024-27318, CVE-2026-27489, CVE-2026-34446 and
GHSA-538c-55jv-c5g9 (external data of onnx), and files that stopped or crashed other runtimes.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

import mlcnb
from mlcnb.core.errors import MLCError, ModelError, UnsupportedError, UnsupportedOpError
from tests.frontend.build import graph, ints, model, node

Case = tuple[Callable[[Path], Any], type[Exception], tuple[str, ...]]
CASES: dict[str, Case] = {}


def case(error: type[Exception], *parts: str) -> Callable[[Callable], Callable]:
    """Decorator: this function makes a model that must raise `error` with `parts` in its text."""

    def keep(build: Callable[[Path], Any]) -> Callable[[Path], Any]:
        CASES[build.__name__] = (build, error, parts)
        return build

    return keep


def loaded() -> None:
    """Load the importer and onnx, seconds without byte code, before a refusal is timed."""
    mlcnb.from_onnx(plain())
    try:
        mlcnb.from_onnx(Path(__file__).parent)
    except MLCError:
        pass


def refusal(name: str, folder: Path) -> tuple[list[str], str, float, int]:
    """What the import of a case raises: its classes' names and text; seconds of a core, bytes."""
    hostile = CASES[name][0](folder)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.process_time()
    kinds, text = ["nothing"], "it was imported"
    try:
        mlcnb.from_onnx(hostile)
    except Exception as error:  # noqa: BLE001
        kinds, text = [kind.__name__ for kind in type(error).__mro__], str(error)
    seconds = time.process_time() - start
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return kinds, text, seconds, size * 1024


def saved(folder: Path, content: Any, name: str = "m.onnx") -> Path:
    """A file of a ModelProto or of bytes."""
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.SerializeToString())
    return path


def plain() -> Any:
    """A sound model."""
    return model("x: float[2]", [node("Relu", "x", "y", name="n")], "y: float[2]")


# files ------------------------------------------------------------------------------------------


@case(ModelError, "m.onnx", "the file is empty", "export it again")
def empty_file(folder: Path) -> Any:
    return saved(folder, b"")


@case(ModelError, "m.onnx", "no ONNX model", "cut off")
def truncated_file(folder: Path) -> Any:
    data = model("x: float[2]", [node("Add", "x w", "y")], "y: float[2]", w=np.ones(2, "f"))
    return saved(folder, data.SerializeToString()[:-20])


@case(ModelError, "m.onnx", "no ONNX model")
def random_bytes(folder: Path) -> Any:
    return saved(folder, np.random.default_rng(0).bytes(400))


@case(ModelError, "m.onnx", "no ONNX model", "git-lfs")
def pointer_of_git_lfs(folder: Path) -> Any:
    return saved(folder, b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")


@case(ModelError, "m.onnx", "no ONNX model", "a web page")
def web_page(folder: Path) -> Any:
    return saved(folder, b"<!DOCTYPE html><html><body>404</body></html>")


@case(ModelError, "m.onnx", "pickle")
def fake_pickle(folder: Path) -> Any:
    return saved(folder, b"\x80\x04\x8c\x05posix\x94\x8c\x06system\x94\x93\x94\x8c\x02id\x94\x85R.")


@case(ModelError, "no.onnx", "cannot be read", "No such file")
def missing_file(folder: Path) -> Any:
    return folder / "no.onnx"


@case(ModelError, "a folder")
def a_folder(folder: Path) -> Any:
    return folder


@case(ModelError, "pipe.onnx", "no regular file")
def a_pipe(folder: Path) -> Any:
    os.mkfifo(folder / "pipe.onnx")
    return folder / "pipe.onnx"


@case(ModelError, "m.onnx", "has no graph")
def no_graph(folder: Path) -> Any:
    made = plain()
    made.ClearField("graph")
    return saved(folder, made)


# versions and operators -------------------------------------------------------------------------


@case(UnsupportedOpError, "the model", "opset 999", "not one of 1 to", "version_converter")
def unknown_opset(folder: Path) -> Any:
    made = plain()
    made.opset_import[0].version = 999
    return made


@case(ModelError, "IR version 999")
def unknown_ir_version(folder: Path) -> Any:
    made = plain()
    made.ir_version = 999
    return made


@case(ModelError, "no opset is given for domain 'evil.corp'", "node 'n' (evil.corp::Run)")
def unknown_domain(folder: Path) -> Any:
    return model(
        "x: float[2]", [node("Run", "x", "y", name="n", domain="evil.corp")], "y: float[2]"
    )


@case(
    UnsupportedOpError,
    "m.onnx: 2 operators are not imported",
    "Explode (opset 17 has no such operator: node 'a' (Explode))",
    "Burn (opset 17 has no such operator, 2 times: node 'b' (Burn))",
    "coverage()",
)
def unknown_operators(folder: Path) -> Any:
    nodes = [node("Explode", "x", "p", name="a"), node("Burn", "p", "q", name="b")]
    return saved(folder, model("x: float[2]", [*nodes, node("Burn", "q", "y")], "y: float[2]"))


@case(UnsupportedOpError, "Nothing (opset 17", "node 'inner' (Nothing)")
def unknown_operator_in_a_branch(folder: Path) -> Any:
    inner = graph("", [node("Nothing", "x", "t", name="inner")], "t: float[2]")
    made = node("If", "c", "y", then_branch=inner, else_branch=inner)
    return model("x: float[2]; c: bool[]", [made], "y: float[2]")


# structure --------------------------------------------------------------------------------------


@case(ModelError, "the graph has no outputs")
def no_outputs(folder: Path) -> Any:
    return model("x: float[2]", [node("Relu", "x", "y")], "")


@case(ModelError, "has a cycle", "node 'a' (Relu)", "node 'b' (Neg)")
def cycle(folder: Path) -> Any:
    nodes = [node("Relu", "q", "p", name="a"), node("Neg", "p", "q", name="b")]
    return model("x: float[2]", nodes, "q: float[2]")


@case(ModelError, "node 'a' (Relu) reads 'p', which node 'b' (Neg) makes only later")
def wrong_order(folder: Path) -> Any:
    nodes = [node("Relu", "p", "y", name="a"), node("Neg", "x", "p", name="b")]
    return model("x: float[2]", nodes, "y: float[2]")


@case(ModelError, "node 'b' (Neg) makes 'y' a second time")
def name_made_twice(folder: Path) -> Any:
    nodes = [node("Relu", "x", "y", name="a"), node("Neg", "x", "y", name="b")]
    return model("x: float[2]", nodes, "y: float[2]")


@case(ModelError, "makes 'x' a second time")
def input_made_again(folder: Path) -> Any:
    return model("x: float[2]", [node("Relu", "x", "x")], "x: float[2]")


@case(ModelError, "'x' is given twice in the graph")
def input_given_twice(folder: Path) -> Any:
    return model("x: float[2]; x: float[2]", [node("Relu", "x", "y")], "y: float[2]")


@case(ModelError, "node 'n' (Add) reads 'ghost', which nothing in the graph makes")
def undefined_input(folder: Path) -> Any:
    return model("x: float[2]", [node("Add", "x ghost", "y", name="n")], "y: float[2]")


@case(ModelError, "output 'z' of the graph is made by no node")
def undefined_output(folder: Path) -> Any:
    return model("x: float[2]", [node("Relu", "x", "y")], "z: float[2]")


@case(ModelError, "node 'n' (Elu) has the attribute 'alpha' twice")
def attribute_twice(folder: Path) -> Any:
    made = node("Elu", "x", "y", name="n", alpha=1.0)
    made.attribute.append(made.attribute[0])
    return model("x: float[2]", [made], "y: float[2]")


@case(ModelError, "onnx.checker refuses it")
def attribute_of_another_type(folder: Path) -> Any:
    made = node("Concat", "x x", "y", axis="zero")
    return model("x: float[2]", [made], "y: float[4]")


@case(ModelError, "onnx.checker refuses it")
def too_many_inputs(folder: Path) -> Any:
    return model("x: float[2]", [node("Relu", "x x x", "y")], "y: float[2]")


@case(ModelError, "graphs are nested deeper than")
def deep_graphs(folder: Path) -> Any:
    leaf = graph("", [node("Identity", "x", "t")], "t: float[2]")
    inner = leaf
    for level in range(30):
        made = node("If", "c", f"t{level}", then_branch=inner, else_branch=leaf)
        inner = graph("", [made], f"t{level}: float[2]")
    made = node("If", "c", "y", then_branch=inner, else_branch=leaf)
    return model("x: float[2]; c: bool[]", [made], "y: float[2]")


def _function(name: str, calls: list[str]) -> Any:
    names = ["x", *(f"t{i}" for i in range(len(calls)))]
    pairs = zip(names, names[1:], strict=False)
    nodes = [
        node(c, a, b, domain="" if c == "Relu" else "f")
        for c, (a, b) in zip(calls, pairs, strict=True)
    ]
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("f", 1)]
    return helper.make_function("f", name, ["x"], [names[-1]], nodes, imports)


def _calling(functions: list[Any]) -> Any:
    made = node("f0", "x", "y", name="start", domain="f")
    return model("x: float[2]", [made], "y: float[2]", functions=functions, domains={"f": 1})


@case(ModelError, "functions call themselves: f0 -> f1 -> f0")
def recursive_functions(folder: Path) -> Any:
    return _calling([_function("f0", ["f1"]), _function("f1", ["f0"])])


@case(ModelError, "functions call each other more than 40 deep", "inline")
def chain_of_functions(folder: Path) -> Any:
    chain = [_function(f"f{i}", [f"f{i + 1}"]) for i in range(3000)]
    return saved(folder, _calling([*chain, _function("f3000", ["Relu"])]))


@case(ModelError, "with all functions written out")
def functions_that_double(folder: Path) -> Any:
    chain = [_function(f"f{i}", [f"f{i + 1}"] * 2) for i in range(30)]
    return _calling([*chain, _function("f30", ["Relu"])])


# sizes ------------------------------------------------------------------------------------------


def _bomb(op: str, inputs: str, *more: Any, **stored: Any) -> Any:
    return model("x: float[1]", [node(op, inputs, "y", name="bomb")], "y: float", **stored)


@case(ModelError, "node 'bomb' (ConstantOfShape, opset 17)", "4.0 TiB", "max_tensor_bytes")
def constant_of_shape_bomb(folder: Path) -> Any:
    return _bomb("ConstantOfShape", "s", s=ints(1 << 40))


@case(ModelError, "node 'bomb' (ConstantOfShape, opset 17)", "overflows")
def product_that_overflows(folder: Path) -> Any:
    return _bomb("ConstantOfShape", "s", s=ints(4194305, 4194305, 211106198978564))


@case(ModelError, "node 'bomb' (Tile, opset 17)", "max_tensor_bytes")
def tile_bomb(folder: Path) -> Any:
    return _bomb("Tile", "x r", r=ints(1 << 60))


@case(ModelError, "node 'bomb' (Expand, opset 17)", "max_tensor_bytes")
def expand_bomb(folder: Path) -> Any:
    return _bomb("Expand", "x s", s=ints(1 << 31, 1 << 31))


@case(ModelError, "node 'bomb' (Range, opset 17)", "max_tensor_bytes")
def range_bomb(folder: Path) -> Any:
    numbers = {n: np.array(v, np.int64) for n, v in (("a", 0), ("b", 1 << 36), ("c", 1))}
    return model("x: float[1]", [node("Range", "a b c", "y", name="bomb")], "y: int64", **numbers)


@case(ModelError, "node 'bomb' (Pad, opset 17)", "max_tensor_bytes")
def pad_bomb(folder: Path) -> Any:
    return _bomb("Pad", "x p", p=ints(0, 1 << 40))


@case(ModelError, "node 'bomb' (Resize, opset 17)", "max_tensor_bytes")
def resize_bomb(folder: Path) -> Any:
    made = node("Resize", "x - - s", "y", name="bomb")
    return model("x: float[1, 1, 2, 2]", [made], "y: float", s=ints(1, 1, 1 << 20, 1 << 20))


@case(ModelError, "node 'bomb' (OneHot, opset 17)", "max_tensor_bytes")
def one_hot_bomb(folder: Path) -> Any:
    stored = {"d": np.array(1 << 50, np.int64), "v": np.array([0, 1], np.float32)}
    return model("i: int64[2]", [node("OneHot", "i d v", "y", name="bomb")], "y: float", **stored)


@case(ModelError, "input 'x' has dimensions that are negative or overflow")
def negative_dimension(folder: Path) -> Any:
    return model("x: float[-4]", [node("Relu", "x", "y")], "y: float[-4]")


@case(ModelError, "input 'x' has dimensions that are negative or overflow")
def input_that_overflows(folder: Path) -> Any:
    big = 1 << 40
    return model(f"x: float[{big}, {big}]", [node("Relu", "x", "y")], f"y: float[{big}, {big}]")


@case(ModelError, "initializer 'w' has dimensions [-4] that are negative or overflow")
def negative_initializer(folder: Path) -> Any:
    stored = TensorProto(data_type=1, dims=[-4], raw_data=b"\0" * 16)
    return model("x: float[4]", [node("Add", "x w", "y")], "y: float[4]", w=stored)


@case(ModelError, "initializer 'w' has 8 bytes of data, but its dimensions need 4000000")
def data_too_short(folder: Path) -> Any:
    stored = TensorProto(data_type=1, dims=[1000, 1000], raw_data=b"\0" * 8)
    return model("x: float[1]", [node("Add", "x w", "y")], "y: float", w=stored)


@case(ModelError, "initializer 'w' has 2 elements of data, but its dimensions need 3")
def fields_too_short(folder: Path) -> Any:
    stored = TensorProto(data_type=1, dims=[3], float_data=[1.0, 2.0])
    return model("x: float[1]", [node("Add", "x w", "y")], "y: float", w=stored)


@case(ModelError, "initializer 'w' has dimensions [1048576, 1048576] of float32: 4.0 TiB")
def initializer_bomb(folder: Path) -> Any:
    stored = TensorProto(data_type=1, dims=[1 << 20, 1 << 20], raw_data=b"")
    return model("x: float[1]", [node("Add", "x w", "y")], "y: float", w=stored)


@case(ModelError, "sparse initializer 'w'", "indices that lie outside")
def sparse_outside(folder: Path) -> Any:
    data = numpy_helper.from_array(np.ones(1, np.float32), "w")
    made = helper.make_sparse_tensor(data, numpy_helper.from_array(ints(10**9), "i"), [4])
    return model("x: float[4]", [node("Add", "x w", "y")], "y: float[4]", sparse=[made])


@case(UnsupportedOpError, "node 'n' (Loop, opset 17)", "more than 1000 turns")
def endless_loop(folder: Path) -> Any:
    body = graph(
        "i: int64[]; c: bool[]; a: float[1]",
        [node("Identity", "c", "d"), node("Identity", "a", "b")],
        "d: bool[]; b: float[1]",
    )
    made = node("Loop", "- t x", "y", name="n", body=body)
    return model("x: float[1]", [made], "y: float[1]", t=np.array(True))


# attributes -------------------------------------------------------------------------------------


def _conv(**attributes: Any) -> Any:
    made = node("Conv", "x w", "y", name="conv", **attributes)
    weight = np.ones((1, 1, 3, 3), np.float32)
    return model("x: float[1, 1, 8, 8]", [made], "y: float", w=weight)


@case(ModelError, "node 'conv' (Conv, opset 17)", "group")
def conv_without_groups(folder: Path) -> Any:
    return _conv(group=0)


@case(ModelError, "node 'conv' (Conv, opset 17)", "strides")
def conv_without_stride(folder: Path) -> Any:
    return _conv(strides=[0, 0])


@case(UnsupportedError, "node 'conv' (Conv, opset 17)", "negative pads")
def conv_cut_to_nothing(folder: Path) -> Any:
    return _conv(pads=[-5, -5, -5, -5])


@case(UnsupportedError, "node 'd' (DepthToSpace, opset 17)")
def block_of_four_billion(folder: Path) -> Any:
    made = node("DepthToSpace", "x", "y", name="d", blocksize=1 << 32)
    return model("x: float[1, 4, 2, 2]", [made], "y: float")


@case(UnsupportedError, "node 'g' (Gather, opset 17)", "1000000000")
def gather_outside(folder: Path) -> Any:
    made = node("Gather", "x i", "y", name="g")
    return model("x: float[4]", [made], "y: float", i=ints(10**9))


@case(ModelError, "node 's' (Transpose, opset 17)")
def axes_outside(folder: Path) -> Any:
    made = node("Transpose", "x", "y", name="s", perm=[5, 5])
    return model("x: float[2, 2]", [made], "y: float[2, 2]")


# external data ----------------------------------------------------------------------------------


def external(location: str = "w.bin", **more: Any) -> Any:
    """A tensor of two floats whose data lie in a file."""
    tensor = TensorProto(data_type=1, dims=[2], data_location=TensorProto.EXTERNAL)
    for key, value in {"location": location, **more}.items():
        entry = tensor.external_data.add()
        entry.key, entry.value = key, str(value)
    return tensor


def with_external(tensor: Any) -> Any:
    """A model with such a tensor."""
    return model("x: float[2]", [node("Add", "x w", "y")], "y: float[2]", w=tensor)


def secret(folder: Path) -> Path:
    """A file outside of the model's folder, and that folder."""
    (folder / "secret.bin").write_bytes(b"secret!!")
    inside = folder / "model"
    inside.mkdir()
    return inside


@case(ModelError, "m.onnx: initializer 'w'", "'../secret.bin', which leaves the model's folder")
def external_parent(folder: Path) -> Any:
    return saved(secret(folder), with_external(external("../secret.bin")))


@case(ModelError, "initializer 'w'", "leaves the model's folder")
def external_parent_hidden(folder: Path) -> Any:
    return saved(secret(folder), with_external(external("junk/../../secret.bin")))


@case(ModelError, "initializer 'w'", "leaves the model's folder")
def external_parent_of_windows(folder: Path) -> Any:
    return saved(secret(folder), with_external(external("..\\secret.bin")))


@case(ModelError, "initializer 'w'", "leaves the model's folder")
def external_absolute(folder: Path) -> Any:
    inside = secret(folder)
    return saved(inside, with_external(external(str(folder / "secret.bin"))))


@case(ModelError, "initializer 'w'", "'w.bin', which is a link")
def external_symlink(folder: Path) -> Any:
    inside = secret(folder)
    (inside / "w.bin").symlink_to(folder / "secret.bin")
    return saved(inside, with_external(external()))


@case(ModelError, "initializer 'w'", "'sub', which is a link")
def external_symlink_of_a_folder(folder: Path) -> Any:
    inside = secret(folder)
    (inside / "sub").symlink_to(folder)
    return saved(inside, with_external(external("sub/secret.bin")))


@case(ModelError, "initializer 'w'", "a hard link")
def external_hardlink(folder: Path) -> Any:
    inside = secret(folder)
    (inside / "w.bin").hardlink_to(folder / "secret.bin")
    return saved(inside, with_external(external()))


@case(ModelError, "initializer 'w'", "no regular file")
def external_pipe(folder: Path) -> Any:
    os.mkfifo(folder / "w.bin")
    return saved(folder, with_external(external()))


@case(ModelError, "initializer 'w'", "cannot be read", "No such file")
def external_missing(folder: Path) -> Any:
    return saved(folder, with_external(external()))


@case(ModelError, "initializer 'w'", "bytes 4 to 12 of 8")
def external_too_short(folder: Path) -> Any:
    (folder / "w.bin").write_bytes(b"12345678")
    return saved(folder, with_external(external(offset=4)))


@case(ModelError, "initializer 'w'", "offset '-8', which is no size")
def external_negative_offset(folder: Path) -> Any:
    (folder / "w.bin").write_bytes(b"12345678")
    return saved(folder, with_external(external(offset=-8)))


@case(ModelError, "initializer 'w'", "which is no size")
def external_petabytes(folder: Path) -> Any:
    return saved(folder, with_external(external(offset=10**30)))


@case(ModelError, "initializer 'w'", "a length of 1125899906842624 bytes")
def external_wrong_length(folder: Path) -> Any:
    return saved(folder, with_external(external(length=1 << 50)))


@case(ModelError, "initializer 'w'", "the key '__class__', which means nothing")
def external_unknown_key(folder: Path) -> Any:
    return saved(folder, with_external(external(__class__="x")))


@case(ModelError, "the model: initializer 'w'", "'w.bin', but bytes have no folder")
def external_of_bytes(folder: Path) -> Any:
    (folder / "w.bin").write_bytes(b"12345678")
    return with_external(external()).SerializeToString()


@case(ModelError, "attribute 'value' of node 'c' (Constant)", "leaves the model's folder")
def external_in_an_attribute(folder: Path) -> Any:
    nodes = [node("Constant", "", "w", name="c", value=external("../secret.bin"))]
    made = model("x: float[2]", [*nodes, node("Add", "x w", "y")], "y: float[2]")
    return saved(secret(folder), made)


@case(ModelError, "sparse initializer 'w' (values)", "leaves the model's folder")
def external_in_a_sparse_one(folder: Path) -> Any:
    data = external("../secret.bin")
    data.name = "w"
    made = helper.make_sparse_tensor(data, numpy_helper.from_array(ints(0, 1), "i"), [2])
    proto = model("x: float[2]", [node("Add", "x w", "y")], "y: float[2]", sparse=[made])
    return saved(secret(folder), proto)


@case(ModelError, "attribute 'sparse_value' of node 'c' (Constant)", "leaves the model's folder")
def external_in_a_sparse_attribute(folder: Path) -> Any:
    indices = numpy_helper.from_array(ints(0, 1), "i")
    made = helper.make_sparse_tensor(external("/etc/passwd"), indices, [2])
    nodes = [node("Constant", "", "w", name="c", sparse_value=made), node("Add", "x w", "y")]
    return saved(folder, model("x: float[2]", nodes, "y: float[2]"))


@case(ModelError, "initializer 'w'", "leaves the model's folder")
def external_in_a_branch(folder: Path) -> Any:
    inner = graph("", [node("Add", "x w", "t")], "t: float[2]", w=external("../secret.bin"))
    made = node("If", "c", "y", then_branch=inner, else_branch=inner)
    return saved(secret(folder), model("x: float[2]; c: bool[]", [made], "y: float[2]"))


@case(ModelError, "attribute 'value' of node 'c' (Constant)", "leaves the model's folder")
def external_in_a_function(folder: Path) -> Any:
    nodes = [node("Constant", "", "w", name="c", value=external("../secret.bin"))]
    nodes.append(node("Add", "x w", "y"))
    made = helper.make_function("f", "f0", ["x"], ["y"], nodes, [helper.make_opsetid("", 17)])
    return saved(secret(folder), _calling([made]))
