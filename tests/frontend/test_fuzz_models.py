"""Hostile models, saved programs and arguments, made at random: our own error or none.

A seed makes one case. Children with a limit on their memory run a range of seeds each, so that
what would fill the machine fills them.

    python -m tests.frontend.test_fuzz_models models 0 500        the same by hand
"""

from __future__ import annotations

import contextlib
import io
import os
import random
import resource
import subprocess
import sys
import tarfile
import tempfile
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from google.protobuf.message import DecodeError
from onnx import TensorProto

import mlcnb as mlc
from tests.frontend.build import graph, ints, model, node

#: bytes of addresses that a child may have
SPACE = 6 << 30
#: numbers that break sums, products and loops
NUMBERS = [
    -(1 << 63),
    -(1 << 31),
    -5,
    -1,
    0,
    1,
    2,
    7,
    255,
    1 << 16,
    1 << 31,
    1 << 40,
    (1 << 63) - 1,
]


# models ------------------------------------------------------------------------------------------


def seeds() -> list[Any]:
    """Sound models, from which hostile ones are made."""
    kernel = np.ones((4, 2, 3, 3), "float32")
    branch = graph("", [node("Neg", "x", "t")], "t: float[a, 4]")
    large = np.arange(1 << 15, dtype="float32").reshape(4, 1 << 13)
    return [
        model("x: float[a, 4]", [node("Relu", "x", "r"), node("Add", "r w", "y")],
              "y: float[a, 4]", w=np.ones(4, "float32")),
        model("x: float[1, 2, 8, 8]", [node("Conv", "x w", "c", pads=[1, 1, 1, 1], strides=[2, 2]),
              node("MaxPool", "c", "y", kernel_shape=[2, 2])], "y: float", w=kernel),
        model("x: float[a, 4]", [node("Shape", "x", "s"), node("Gather", "s i", "g"),
              node("Range", "i g one", "y")], "y: int64[k]", i=np.array(0), one=np.array(1)),
        model("x: float[a, 4]; c: bool[]",
              [node("If", "c", "y", then_branch=branch, else_branch=branch)], "y: float[a, 4]"),
        model("x: float[a, 4]", [node("Constant", "", "w", value=tensor(large)),
              node("MatMul", "x w", "y")], "y: float[a, b]"),
        model("x: float[a, 4]", [node("Reshape", "x s", "r"), node("Concat", "r r", "c", axis=1),
              node("Slice", "c b e", "y")], "y: float", s=ints(-1, 2), b=ints(0, 1), e=ints(9, 3)),
        model("x: float[2, 4]", [node("Pad", "x p", "q", mode="reflect"), node("Tile", "q t", "y")],
              "y: float", p=ints(1, 0, 1, 0), t=ints(2, 3)),
    ]  # fmt: skip


def tensor(data: np.ndarray) -> TensorProto:
    """An array as a message."""
    return TensorProto(data_type=1, dims=data.shape, raw_data=data.tobytes())


def hostile_model(rng: random.Random) -> bytes | Any:
    """A model with some bytes, numbers, names or messages changed."""
    proto = rng.choice(seeds())
    for _ in range(rng.randint(1, 3)):
        with contextlib.suppress(DecodeError):  # protobuf's own limit of nesting
            rng.choice((change_field, change_field, change_field, nest))(rng, proto)
    data = proto.SerializeToString()
    if rng.random() < 0.5:
        return change_bytes(rng, data)
    return data


def change_bytes(rng: random.Random, data: bytes) -> bytes:
    """Bytes flipped, cut out or said twice."""
    changed = bytearray(data)
    for _ in range(rng.randint(1, 6)):
        at = rng.randrange(len(changed))
        match rng.randrange(4):
            case 0 | 1:
                changed[at] = rng.choice((0, 1, 127, 128, 255, rng.randrange(256)))
            case 2:
                del changed[at : at + rng.randint(1, 8)]
            case _:
                changed[at:at] = changed[at : at + rng.randint(1, 16)]
    return bytes(changed) or b"\0"


def change_field(rng: random.Random, proto: Any) -> None:
    """One field somewhere in a message gets another value, or goes."""
    message = rng.choice(messages(proto, []))
    fields = [f for f, _ in message.ListFields()]
    if not fields:
        return
    field = rng.choice(fields)
    value = getattr(message, field.name)
    with contextlib.suppress(ValueError, TypeError):
        if rng.random() < 0.2:
            message.ClearField(field.name)
        elif hasattr(value, "append"):
            change_list(rng, value)
        elif isinstance(value, bytes):
            setattr(message, field.name, value[: rng.randint(0, len(value))])
        elif isinstance(value, str):
            setattr(message, field.name, rng.choice(["", "x", "y", "?", "a" * 300, "é\n<b>"]))
        elif isinstance(value, float):
            setattr(message, field.name, rng.choice([0.0, -1.0, 1e38, float("nan"), float("inf")]))
        elif isinstance(value, int):
            setattr(message, field.name, rng.choice(NUMBERS))


def change_list(rng: random.Random, values: Any) -> None:
    """A list gets longer, shorter, or another number."""
    at = rng.randrange(len(values))
    if rng.random() < 0.3:
        del values[at]
    elif isinstance(values[at], int | float):
        values[at] = rng.choice(NUMBERS)
    elif isinstance(values[at], str):
        values[at] = rng.choice(["", "x", "y", "ghost"])
    else:
        values.add().CopyFrom(values[at])


def messages(proto: Any, found: list[Any]) -> list[Any]:
    """A message and all in it."""
    found.append(proto)
    for field, value in proto.ListFields():
        if field.type == field.TYPE_MESSAGE:
            for one in value if hasattr(value, "append") else [value]:
                messages(one, found)
    return found


def nest(rng: random.Random, proto: Any) -> None:
    """The first node stands inside of branches."""
    first = proto.graph.node[0]
    inner = graph("", [first], "")
    inner.output.add().name = first.output[0] if first.output else "t"
    for level in range(rng.choice((1, 5, 23, 27))):
        outer = node("If", "x", f"n{level}", then_branch=inner, else_branch=inner if level < 3 else
                     graph("", [node("Neg", "x", "e")], "e: float"))  # fmt: skip
        inner = graph("", [outer], f"n{level}: float")
    made = node("If", "x", first.output[0] if first.output else "t", then_branch=inner,
                else_branch=inner)  # fmt: skip
    proto.graph.node[0].CopyFrom(made)


def run_model(rng: random.Random) -> None:
    """Imported; sometimes printed, compiled and run."""
    mod = mlc.from_onnx(hostile_model(rng))
    if rng.random() < 0.3:
        mod.script()
        ex = mlc.compile(mod, target=rng.choice(("llvm", "interp")))
        ex(*(value_of(rng, p.struct_info) for p in mod["main"].params))


def value_of(rng: random.Random, info: Any) -> np.ndarray:
    """An array for a parameter."""
    dims = [getattr(d, "value", None) for d in info.dims or ()]
    shape = [rng.choice((0, 1, 2, 5)) if d is None else min(d, 64) for d in dims]
    return np.ones(shape, info.dtype.numpy if info.dtype else "float32")


# saved programs ----------------------------------------------------------------------------------


def run_saved(rng: random.Random) -> None:
    """A saved program with damage is loaded, and run if that works."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.tar"
        path.write_bytes(change_saved(rng, saved()))
        mlc.load_module(path)


_saved: list[bytes] = []


def saved() -> bytes:
    """A saved program."""
    if not _saved:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "m.tar"
            mlc.compile(mlc.from_onnx(seeds()[0])).export_library(path)
            _saved.append(path.read_bytes())
    return _saved[0]


def change_saved(rng: random.Random, data: bytes) -> bytes:
    """Bytes of the archive, or of one file in it."""
    if rng.random() < 0.3:
        return change_bytes(rng, data)
    made = io.BytesIO()
    with tarfile.open(fileobj=io.BytesIO(data)) as old, tarfile.open(fileobj=made, mode="w") as new:
        victim = rng.choice(["manifest.json", *old.getnames()])
        for info in old:
            content = old.extractfile(info).read()  # type: ignore[union-attr]
            if info.name == victim:
                content = change_content(rng, content)
            entry = tarfile.TarInfo(info.name)
            entry.size = len(content)
            new.addfile(entry, io.BytesIO(content))
    return made.getvalue()


def change_content(rng: random.Random, content: bytes) -> bytes:
    """Bytes of a file, or numbers and brackets in its text."""
    match rng.randrange(4):
        case 0:
            return content.replace(b"[", b"[" * rng.choice((2, 5000)))
        case 1:
            return content.replace(b"2", str(rng.choice(NUMBERS)).encode())
        case 2:
            return content.replace(b'"', b"", 1)
        case _:
            return change_bytes(rng, content)


# arguments ---------------------------------------------------------------------------------------


def run_command(rng: random.Random) -> None:
    """A command with strange arguments; what argparse refuses is refused."""
    words = ["show", "run", "compile", "bench", "--shape", "--threads", "--input", "-o", "--top",
             "--target", "--json", "x=1,2", "x=-1", "=", "x=", "x=a", "0", "-1", "9" * 30,
             "nan", "²", "llvm", "llvm -mcpu=none", "cuda", "\n", "no/file", ".", "é"]  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.onnx"
        path.write_bytes(seeds()[0].SerializeToString())
        words += [str(path)] * 8
        here = os.getcwd()
        os.chdir(folder)
        try:
            given = [rng.choice(words[:3]), *(rng.choice(words) for _ in range(rng.randint(1, 5)))]
            with (
                contextlib.redirect_stdout(io.StringIO()),
                contextlib.redirect_stderr(io.StringIO()),
            ):
                assert mlc.cli.main(given) in (0, 1, 2)
        except SystemExit as error:
            assert error.code in (0, 2)
        finally:
            os.chdir(here)


# children ----------------------------------------------------------------------------------------

KINDS: dict[str, Callable[[random.Random], None]] = {
    "models": run_model, "saved": run_saved, "commands": run_command,
}  # fmt: skip


def strangers(kind: str, first: int, last: int) -> Iterator[str]:
    """The seeds whose case ended in an error of another type, with what it was."""
    for seed in range(first, last):
        try:
            KINDS[kind](random.Random(f"{kind} {seed}"))
        except mlc.MLCError:
            pass
        except BaseException as error:  # noqa: BLE001 (that is what is looked for)
            where = traceback.format_exception(error, limit=-3)
            yield f"{kind} {seed}: {''.join(where)}"


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "count"), [("models", 120), ("saved", 25), ("commands", 25)])
def test_an_error_of_ours_or_none(kind, count):
    done = subprocess.run(
        [sys.executable, "-m", __name__, kind, "0", str(count)],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stdout[-3000:] + done.stderr[-2000:]


if __name__ == "__main__":
    import mlcnb.cli

    resource.setrlimit(resource.RLIMIT_AS, (SPACE, SPACE))
    for text in strangers(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])):
        print(text, flush=True)
