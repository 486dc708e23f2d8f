"""What is beyond this machine's means, or no text, is a typed error that says what to do.

Memory is tried in children with a limit on their addresses: this process needs its own.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
import textwrap

import numpy as np
import pytest

import mlcnb as mlc
from mlcnb.cli import main
from mlcnb.core.errors import MLCError, ModelError, ScheduleError
from mlcnb.core.files import replacing
from mlcnb.ir.memory import aligned_empty, mapped_empty
from mlcnb.meta_schedule.cost_model import RidgeModel
from mlcnb.meta_schedule.tape import read_tape
from mlcnb.testing.gallery.programs import matmul
from mlcnb.tir.schedule import Schedule
from mlcnb.tir.schedule.record.trace import Trace
from tests.frontend.build import model, node

DAMAGED = "hint: the file is damaged: download or export it again"


# names ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("xname", "an input or output"),
        ("yname", "an input or output"),
        ("dname", "an input or output"),
        ("nname", "node number 0"),
        ("alpha", "an attribute"),
        ("wname", "an initializer or constant"),
        ("gname", "a graph"),
    ],
)
def test_names_that_are_no_utf_8(text, place):
    nodes = [node("Elu", "xname", "t", name="nname", alpha=1.0), node("Add", "t wname", "yname")]
    made = model("xname: float[dname]", nodes, "yname: float[dname]", name="gname",
                 wname=np.ones(1, "float32"))  # fmt: skip
    data = made.SerializeToString().replace(text.encode(), b"\xff" + text[1:].encode())
    with pytest.raises(ModelError) as caught:
        mlc.from_onnx(data)
    said = str(caught.value)
    assert said in (
        f"the model: a name of {place} is not UTF-8\n{DAMAGED}",
        f"the model: no ONNX model: damaged or cut off\nhint: {DAMAGED.partition(': ')[2]}",
        "the model: no ONNX model: damaged or cut off\nhint: download or export it again",
    ), said


# memory -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [aligned_empty, mapped_empty])
@pytest.mark.parametrize("size", [1 << 50, 1 << 62, 1 << 70])
def test_memory_that_is_not_there(make, size):
    with pytest.raises(mlc.core.errors.ExecutionError) as caught:
        make((size,), np.dtype("uint8"))
    assert str(caught.value) == (
        f"{size:,} bytes ({size / 2**30:,.1f} GiB) are needed at once: more memory than there is\n"
        "hint: call it with smaller inputs: a result may be much larger than what it is made of"
    )


BROADCAST = """
    m = model("x: float[a, 1]; z: float[1, b]", [node("Add", "x z", "y")], "y: float[c, d]")
    ex = mlc.compile(mlc.from_onnx(m), target=TARGET)
    ex(np.zeros((1 << 19, 1), "float32"), np.zeros((1, 1 << 19), "float32"))
"""


@pytest.mark.parametrize("target", ["llvm", "interp"])
def test_a_broadcast_of_a_tebibyte(target):
    said = in_a_child(BROADCAST.replace("TARGET", repr(target)))
    assert said.startswith("ExecutionError: 1,099,511,627,776 bytes (1,024.0 GiB) are needed"), said


def test_a_saved_program_with_eight_gibibytes_of_workspace(tmp_path):
    path = mlc.compile(mlc.from_onnx(small())).export_library(tmp_path / "m.tar")
    with tarfile.open(path) as tar:
        members = {m.name: tar.extractfile(m).read() for m in tar}
    manifest = json.loads(members["manifest.json"])
    for kernel in manifest["kernels"].values():
        kernel["workspace"] = 1 << 33
    members["manifest.json"] = json.dumps(manifest).encode()
    with tarfile.open(path, "w") as tar:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    said = in_a_child(f"mlc.load_module({str(path)!r})(np.zeros(2, 'float32'))")
    assert said.startswith("ExecutionError: 8,589,934,"), said
    assert "more memory than there is" in said


def small():
    return model("x: float[2]", [node("Relu", "x", "y")], "y: float[2]")


def in_a_child(program: str, address_space: int = 4 << 30) -> str:
    """The first line of what a program raises with so much memory, or prints."""
    code = "\n".join(
        [
            "import resource",
            f"resource.setrlimit(resource.RLIMIT_AS, ({address_space}, {address_space}))",
            "import numpy as np, mlcnb as mlc",
            "from tests.frontend.build import graph, ints, model, node",
            "try:",
            textwrap.indent(textwrap.dedent(program).strip(), "    "),
            "    print('done')",
            "except BaseException as error:",
            "    print(f'{type(error).__name__}: {error}')",
        ]
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.strip()


# nesting ----------------------------------------------------------------------------------------


def test_a_deep_manifest(tmp_path):
    path = tmp_path / "deep.tar"
    with tarfile.open(path, "w") as tar:
        info = tarfile.TarInfo("manifest.json")
        info.size = 100_000
        tar.addfile(info, io.BytesIO(b"[" * 100_000))
    with pytest.raises(ModelError) as caught:
        mlc.load_module(path)
    assert str(caught.value) == (
        f"{path} is no saved executable, or is damaged: its content: it is nested too deep"
    )


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000])
def test_a_deep_text_of_json(text):
    with pytest.raises(ModelError) as caught:
        mlc.ir.load_json(text)
    assert str(caught.value) == (
        "load_json: it is nested too deep\n"
        "hint: split it: bind parts of deep expressions to variables, or export it in parts"
    )


@pytest.mark.slow
@pytest.mark.parametrize(("op", "result"), [("Concat", "y: float[2400]"), ("Sum", "y: float[2]")])
def test_many_inputs_of_one_node(op, result):
    more = {"axis": 0} if op == "Concat" else {}
    made = model("x: float[2]", [node(op, " ".join(["x"] * 1200), "y", **more)], result)
    x = np.array([1, 2], "float32")
    found = np.asarray(mlc.compile(mlc.from_onnx(made))(x))
    wanted = np.concatenate([x] * 1200) if more else x * 1200
    np.testing.assert_allclose(found, wanted)


# pictures ---------------------------------------------------------------------------------------


def test_a_picture_that_would_fill_the_memory(tmp_path):
    path = tmp_path / "bomb.png"
    path.write_bytes(png(60_000, 60_000))
    with pytest.raises(MLCError, match=r"bomb.png: Image size \(3600000000 pixels\) exceeds"):
        mlc.image.load(path)
    path.write_bytes(png(11_000, 11_000))
    with pytest.raises(MLCError, match="bomb.png cannot be read as a picture: image file is trunc"):
        mlc.image.load(path)


def test_a_picture_of_no_size(tmp_path):
    with pytest.raises(MLCError) as caught:
        mlc.image.load(tmp_path / "x.png", -5, 10)
    assert str(caught.value) == "a picture of -5 x 10 pixels cannot be made\nhint: e.g. 224"


def test_class_names_that_are_no_text(tmp_path):
    path = tmp_path / "names"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(MLCError, match="names cannot be read as class names, one a line: 'utf-8'"):
        mlc.image.top([1.0, 2.0], labels=path)


def png(width: int, height: int) -> bytes:
    """The beginning of a picture."""
    import struct
    import zlib

    def chunk(kind: bytes, data: bytes) -> bytes:
        size, check = struct.pack(">I", len(data)), struct.pack(">I", zlib.crc32(kind + data))
        return size + kind + data + check

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + parts


# files and commands -----------------------------------------------------------------------------


def test_a_file_is_there_whole_or_not_at_all(tmp_path):
    target = tmp_path / "a"
    target.write_text("before")
    with pytest.raises(KeyError), replacing(target) as part:
        part.write_text("half")
        raise KeyError
    assert target.read_text() == "before"
    with replacing(target) as part:
        part.write_text("after")
    assert [p.name for p in tmp_path.iterdir()] == ["a"]
    assert target.read_text() == "after"


def test_what_is_no_file_stays_what_it_is(tmp_path):
    (tmp_path / "real").write_text("before")
    (tmp_path / "link").symlink_to("real")
    with replacing(tmp_path / "link") as part:
        part.write_text("after")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "after"
    os.mkfifo(tmp_path / "pipe")
    with replacing(tmp_path / "pipe") as part:
        assert part == tmp_path / "pipe"
    assert (tmp_path / "pipe").is_fifo()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["link", "pipe", "real"]


DEEP = "[" * 100_000


def test_deep_json_is_an_error_wherever_it_is_read(tmp_path):
    (tmp_path / "deep.json").write_text(DEEP)
    path = str(tmp_path / "deep.json")
    for read in (read_tape, RidgeModel().load):
        with pytest.raises(ModelError, match="it is nested too deep"):
            read(path)
    steps: list = []
    for _ in range(5000):
        steps = [steps]
    with pytest.raises(ScheduleError, match="the trace"):
        Trace.apply_json_to_schedule([[["GetBlock", [], [steps], ["b"]]], []], Schedule(matmul()))


def test_a_library_that_cannot_be_written_leaves_nothing(tmp_path, monkeypatch):
    ex = mlc.compile(mlc.from_onnx(small()))
    with pytest.raises(MLCError) as caught:
        ex.export_library(tmp_path / "no" / "m.tar")
    assert str(caught.value) == (
        f"{tmp_path / 'no' / 'm.tar'} cannot be written: No such file or directory\n"
        "hint: is its folder there, with room in it?"
    )
    monkeypatch.setattr(tarfile.TarFile, "addfile", full)
    with pytest.raises(MLCError, match="cannot be written: No space left on device"):
        ex.export_library(tmp_path / "m.tar")
    assert list(tmp_path.iterdir()) == []


def full(*_args):
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("number", ["100000", "0", "-1", "9" * 5000, "²", "1.5", ""])
def test_threads_that_no_machine_has(number, capsys):
    with pytest.raises(SystemExit) as caught:
        main(["run", "m.onnx", "--threads", number])
    assert caught.value.code == 2
    assert "is not a number of threads, 1 to 256" in capsys.readouterr().err or number == "-1"


def test_an_output_that_is_a_folder(tmp_path, capsys):
    path = tmp_path / "m.onnx"
    path.write_bytes(small().SerializeToString())
    assert main(["compile", str(path), "-o", str(tmp_path)]) == 2
    assert capsys.readouterr().err == (
        f"mlcnb compile: {tmp_path} is a folder\nhint: e.g. {tmp_path / 'model.tar'}\n"
    )
    assert main(["compile", str(path), "-o", str(path / "x.tar")]) == 2
    assert capsys.readouterr().err == (
        f"mlcnb compile: {path} is no folder\nhint: write elsewhere\n"
    )
    assert [p.name for p in tmp_path.iterdir()] == ["m.onnx"]
