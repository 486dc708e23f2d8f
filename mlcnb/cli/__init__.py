"""The `mlcnb` command: the same things as in a notebook, from a shell.

    mlcnb COMMAND …  ->  mlcnb/cli/COMMAND.py:  configure(parser) declares its arguments,
                                                run(args) does the work and returns the exit code

A command is a file in this folder: its name is the file's name, its help the file's docstring. Only
the file of the command that is asked for is imported: `mlcnb --help` reads the others as text.
Exit codes: 0 done, 1 a check said no, 2 wrong arguments or input, 130 stopped by Ctrl-C.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import os
import pkgutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mlcnb.core.errors import MLCError


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command in `argv` (or the process's own arguments); returns the exit code."""
    argv = sys.argv[1:] if argv is None else argv
    args = make_parser(argv).parse_args(argv)
    try:
        return args.run(args)
    except MLCError as error:
        print(f"mlcnb {args.command}: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        return _os_error(args.command, error)
    except KeyboardInterrupt:
        print(f"mlcnb {args.command}: stopped", file=sys.stderr)
        return 130


def make_parser(argv: Sequence[str]) -> argparse.ArgumentParser:
    """The parser of these arguments: it knows every command, and what the one in `argv` takes."""
    parser = argparse.ArgumentParser(
        prog="mlcnb", description="A deep-learning compiler with its lid off."
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version and exit")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    asked = next((word for word in argv if not word.startswith("-")), "")
    for name in command_names():
        summary, _, details = _docstring(name).partition("\n")
        child = commands.add_parser(
            name,
            help=summary.rstrip("."),
            description=f"{summary}\n{details}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        if name == asked:
            module = importlib.import_module(f"{__name__}.{name}")
            module.configure(child)
            child.set_defaults(run=module.run)
    return parser


def _docstring(name: str) -> str:
    """What a command's file says of itself, without running it."""
    text = (Path(__file__).parent / f"{name}.py").read_text("utf-8")
    return ast.get_docstring(ast.parse(text)) or ""


class _Version(argparse.Action):
    """Prints the version and ends: it is looked up only then."""

    def __call__(self, parser: argparse.ArgumentParser, *args: Any, **options: Any) -> None:
        print(f"mlcnb {project_version()}")
        parser.exit()


def command_names() -> list[str]:
    """The commands: the files of this folder that do not start with an underscore."""
    return sorted(m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_"))


def project_version() -> str:
    """The version that is installed, or a word that says it is not."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("mlcnb")
    except PackageNotFoundError:
        return "(not installed)"


def _os_error(command: str, error: OSError) -> int:
    if isinstance(error, BrokenPipeError):  # the reader of a pipe has gone, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    name = f": {error.filename}" if error.filename else ""
    print(f"mlcnb {command}: {error.strerror or error}{name}", file=sys.stderr)
    return 2
