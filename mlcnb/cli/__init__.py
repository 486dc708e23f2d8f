"""The `mlcnb` command: the same things as in a notebook, from a shell.

    mlcnb COMMAND …  ->  mlcnb/cli/COMMAND.py:  configure(parser) declares its arguments,
                                                run(args) does the work and returns the exit code

A command is a file in this folder: its name is the file's name, its help the file's docstring.
Exit codes: 0 done, 1 a check said no, 2 wrong arguments or input, 130 stopped by Ctrl-C.
"""

from __future__ import annotations

import argparse
import importlib
import os
import pkgutil
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version

from mlcnb.core.errors import MLCError


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command in `argv` (or the process's own arguments); returns the exit code."""
    args = make_parser().parse_args(argv)
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


def make_parser() -> argparse.ArgumentParser:
    """The parser with every command of this folder."""
    parser = argparse.ArgumentParser(
        prog="mlcnb", description="A deep-learning compiler with its lid off."
    )
    parser.add_argument("--version", action="version", version=f"mlcnb {project_version()}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name in command_names():
        module = importlib.import_module(f"{__name__}.{name}")
        summary, _, details = (module.__doc__ or "").partition("\n")
        child = commands.add_parser(
            name,
            help=summary.rstrip("."),
            description=f"{summary}\n{details}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.configure(child)
        child.set_defaults(run=module.run)
    return parser


def command_names() -> list[str]:
    """The commands: the files of this folder that do not start with an underscore."""
    return sorted(m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_"))


def project_version() -> str:
    """The version that is installed, or a word that says it is not."""
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
