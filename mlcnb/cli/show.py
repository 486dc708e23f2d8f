"""Print a model at one stage of its way to machine code.

summary: what is in it; relax: as imported; passes: what each graph pass did; optimized: after the
graph passes; tir: the loops of each kernel; kernels: the compiled model; llvm: the LLVM IR of each
kernel; asm: its assembly.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any

import mlcnb
from mlcnb.cli import _model
from mlcnb.core.errors import MLCError
from mlcnb.ir.instrument import trace
from mlcnb.view import to_text


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    _model.add_model(parser)
    parser.add_argument("--stage", choices=STAGES, default="relax")
    parser.add_argument("--dialect", choices=("0.21", "0.27"), default="0.21", help="of TVMScript")
    parser.add_argument("--kernel", metavar="NAME", help="only this one (tir, llvm and asm)")


def run(args: argparse.Namespace) -> int:
    """Print the text of the stage."""
    print(STAGES[args.stage](_model.load(args), args))
    return 0


def summary(mod: Any, args: argparse.Namespace) -> str:
    """What a cell shows of the model, as text."""
    return to_text(mod, colours=sys.stdout.isatty())


def passes(mod: Any, args: argparse.Namespace) -> str:
    """What each pass of the default pipeline did."""
    return to_text(trace(mlcnb.get_pipeline("default"), mod), colours=sys.stdout.isatty())


def kernels(mod: Any, args: argparse.Namespace) -> str:
    """What a cell shows of the compiled model, as text."""
    return to_text(mlcnb.compile(mod, target="llvm"), colours=sys.stdout.isatty())


def relax(mod: Any, args: argparse.Namespace) -> str:
    """The graph as imported."""
    return mod.script(dialect=args.dialect)


def optimized(mod: Any, args: argparse.Namespace) -> str:
    """The graph and its loops after the default pipeline."""
    return mlcnb.get_pipeline("default")(mod).script(dialect=args.dialect)


def tir(mod: Any, args: argparse.Namespace) -> str:
    """The loop functions after the default pipeline."""
    lowered = mlcnb.get_pipeline("default")(mod)
    functions = {v.name_hint: f for v, f in lowered.items() if isinstance(f, mlcnb.tir.PrimFunc)}
    return join(functions, args.kernel, lambda function: function.script(dialect=args.dialect))


def llvm(mod: Any, args: argparse.Namespace) -> str:
    """The LLVM IR of the kernels, after optimisation."""
    kernels = dict(mlcnb.compile(mod, target="llvm").kernels)
    return join(kernels, args.kernel, lambda kernel: kernel.llvm_ir)


def asm(mod: Any, args: argparse.Namespace) -> str:
    """The assembly of the kernels."""
    kernels = dict(mlcnb.compile(mod, target="llvm").kernels)
    return join(kernels, args.kernel, lambda kernel: kernel.asm)


def join(parts: dict[str, Any], only: str | None, text: Callable[[Any], str]) -> str:
    """The texts of all parts, or of the one that is asked for."""
    if only is not None:
        if only not in parts:
            raise MLCError(f"no kernel {only!r}", hint=f"one of {', '.join(parts)}")
        parts = {only: parts[only]}
    return "\n\n".join(text(part) for part in parts.values())


STAGES: dict[str, Callable[[Any, argparse.Namespace], str]] = {
    "summary": summary,
    "relax": relax,
    "passes": passes,
    "optimized": optimized,
    "tir": tir,
    "kernels": kernels,
    "llvm": llvm,
    "asm": asm,
}
