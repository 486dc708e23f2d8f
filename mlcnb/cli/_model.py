"""What the commands that take a model share: its arguments, its loading, the forms of an answer."""

from __future__ import annotations

import argparse
import json
import math
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlcnb
from mlcnb.core.errors import MLCError


def add_model(
    parser: argparse.ArgumentParser, name: str = "MODEL", words: str = "a model", **options: Any
) -> None:
    """Declare MODEL, under a name and with words of the command's own, and --shape."""
    parser.add_argument("model", type=Path, metavar=name, help=words, **options)
    parser.add_argument(
        "--shape",
        action="append",
        default=[],
        type=shape,
        metavar="NAME=1,3,224,224",
        help="fix the shape of an input (once for each)",
    )


def add_form(parser: argparse.ArgumentParser) -> None:
    """Declare --json and --export: what `give` prints or writes."""
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print it as JSON")
    form.add_argument("--export", type=Path, metavar="FILE", help="write a page: .html or .md")


def give(shown: Any, args: argparse.Namespace, data: Any) -> None:
    """Print an object as text, or as JSON, or write its page.

    Args:
        shown: an object that has a view.
        args: what `add_form` declares.
        data: gives the JSON values.
    """
    if args.json or args.export is None:
        answer(args, lambda: text_of(shown), data, allow_nan=False)
        return
    from mlcnb.widgets.registry import page_of

    page = page_of(shown) if args.export.suffix != ".md" else None
    print(mlcnb.export(shown if page is None else page, args.export))


def add_json(parser: argparse.ArgumentParser) -> None:
    """Declare --json: what `answer` prints."""
    parser.add_argument("--json", action="store_true", help="print JSON")


def answer(
    args: argparse.Namespace, text: Callable[[], Any], data: Callable[[], Any], **form: Any
) -> int:
    """Print a text, or JSON values where --json asks for them; gives 0.

    form: options of `json.dumps`.
    """
    print(json.dumps(data(), **{"indent": 1, **form}) if args.json else text())
    return 0


def text_of(*shown: Any) -> str:
    """Objects as text, coloured where a person reads it."""
    return "\n\n".join(mlcnb.view.to_text(x, colours=sys.stdout.isatty()) for x in shown)


def shape(text: str) -> tuple[str, tuple[int, ...]]:
    """Read `x=1,3,224,224`."""
    name, _, dims = text.partition("=")
    try:
        return name, tuple(int(dim) for dim in dims.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not like x=1,3,224,224") from None


def threads(text: str) -> int:
    """Read a number of threads."""
    from mlcnb.runtime.native.pool import MAX_THREADS as most

    if not (text.isascii() and text.isdigit()) or not 0 < int(text[:9]) <= most:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a number of threads, 1 to {most}")
    return int(text)


def positive(text: str) -> int:
    """Read a number of one or more."""
    if not (text.isascii() and text.isdigit()) or not 0 < int(text[:19]) < 1 << 31:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a number of 1 or more")
    return int(text)


def finite(text: str) -> float:
    """Read a number."""
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not math.isfinite(found):
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a number")
    return found


def not_zero(text: str) -> float:
    """Read a number to divide by."""
    found = finite(text)
    if found == 0:
        raise argparse.ArgumentTypeError("nothing can be divided by 0")
    return found


def load(args: argparse.Namespace, **fixed: tuple[int, ...]) -> Any:
    """The module of the model that the arguments name, with the shapes that they fix."""
    check_model(args.model)
    shapes = {**fixed, **dict(args.shape)}
    return mlcnb.from_onnx(args.model, shape=shapes or None)


def executable(args: argparse.Namespace, batch: int | None = None) -> Any:
    """The model that the arguments name, compiled: here, or by `mlcnb compile`.

    Args:
        args: what `add_model` declares.
        batch: the size that dimensions get which a model leaves open; None: they stay open.
    """
    if args.model.exists() and args.model.suffix != ".onnx":
        return mlcnb.load_module(args.model)
    mod = load(args)
    open_sizes = mlcnb.relax.analysis.defined_symbolic_vars(mod["main"]) if batch else ()
    if open_sizes:
        sizes = dict.fromkeys(open_sizes, batch)
        mod = mlcnb.relax.transform.BindSymbolicVars(sizes, "main")(mod)
    return mlcnb.compile(mod, target="llvm")


def read_text(path: Path) -> str:
    """What a file of text says."""
    check_file(path)
    try:
        return path.read_text(encoding="utf-8")
    except ValueError as error:
        raise MLCError(f"{path} is no text in UTF-8: {error}", hint="save it as UTF-8") from None


def read_script(path: Path) -> dict[str, Any]:
    """The loop functions of a file of TVMScript, by name; it is read, not run."""
    read = mlcnb.script.parse(read_text(path), check_well_formed=False)
    mod = read if isinstance(read, mlcnb.IRModule) else {read.__name__: read}
    found = loop_functions(mod)
    if not found:
        raise MLCError(f"{path} has no loop function", hint="write one under @T.prim_func")
    return found


def loop_functions(mod: Any) -> dict[str, Any]:
    """The loop functions of a module, by name."""
    named = {getattr(v, "name_hint", v): f for v, f in mod.items()}
    return {name: f for name, f in named.items() if isinstance(f, mlcnb.tir.PrimFunc)}


def check_file(path: Path) -> None:
    """Refuse a path where nothing is."""
    if not path.exists():
        raise MLCError(f"there is no file {path}")


def check_output(path: Path) -> None:
    """Refuse a path that no file can be written to: no folder is made for it."""
    folder = path.absolute().parent
    check_file(folder)
    if not folder.is_dir():
        raise MLCError(f"{folder} is no folder", hint="write elsewhere")
    if path.is_dir():
        raise MLCError(f"{path} is a folder", hint=f"e.g. {path / 'model.tar'}")


def check_model(path: Path) -> None:
    """Refuse a path where nothing is, or what `mlcnb compile` made."""
    check_file(path)
    if path.is_file() and tarfile.is_tarfile(path):
        raise MLCError(f"{path} is a compiled model", hint="mlcnb run takes it")


def chosen(parts: dict[str, Any], only: str | None) -> dict[str, Any]:
    """All parts, or the one that is asked for."""
    if only is None:
        return parts
    if only not in parts:
        raise MLCError(f"no kernel {only!r}", hint=f"one of {', '.join(parts)}")
    return {only: parts[only]}


def strip_data(strip: Any) -> dict[str, Any]:
    """What was counted and measured of a kernel, as JSON values."""
    names = ("kernel", "seconds", "flops", "nbytes", "gflops", "bandwidth")
    counts = ("instructions", "vector", "fma", "loads", "stores")
    return {
        **{name: getattr(strip, name) for name in names},
        "of_roof": strip.share,
        "hot": {name: getattr(strip.hot, name) for name in counts},
        "spills": strip.spills,
    }
