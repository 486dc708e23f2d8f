"""Print a model at one stage of its way to machine code.

summary: what is in it; relax: as imported; passes: what each graph pass did; optimized: after the
graph passes; tir: the loops of each kernel; scheduled: the loops as the CPU runs them; kernels: the
compiled model; llvm, llvm-opt: the LLVM IR of each kernel before and after LLVM's passes; asm: its
assembly.

--json prints the same as JSON: of summary, relax and optimized the functions and the graph's nodes
and edges, of passes the steps, of tir and scheduled the loop trees, of the others the kernels and
their code's figures. Its fields are described in mlcnb/view/data.py; "schema" is mlcnb.show/1.

--export FILE writes a page instead: page.html (which steps and hovers where the stage has such a
page, and needs no network) or page.md (for GitHub).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import mlcnb
from mlcnb.cli import _model
from mlcnb.core.errors import MLCError

Text = Callable[[Any, argparse.Namespace], str]


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    _model.add_model(parser)
    parser.add_argument("--stage", choices=STAGES, default="relax")
    parser.add_argument("--dialect", choices=("0.21", "0.27"), default="0.21", help="of TVMScript")
    parser.add_argument("--kernel", metavar="NAME", help=f"only this one ({_ONE_BY_ONE})")
    _model.add_form(parser)


def run(args: argparse.Namespace) -> int:
    """Print the text of the stage, or its JSON, or write its page."""
    if args.kernel is not None and args.stage not in _ONE_BY_ONE.split(", "):
        raise MLCError(f"--stage {args.stage} is of the whole model", hint=f"one of {_ONE_BY_ONE}")
    made, words = STAGES[args.stage]
    shown = made(_model.load(args), args)
    if args.export is None and not args.json:
        print(words(shown, args))
        return 0
    from mlcnb.view.data import to_data

    _model.give(shown, args, lambda: to_data(shown))
    return 0


# -- what a stage is -------------------------------------------------------------------------------


def imported(mod: Any, args: argparse.Namespace) -> Any:
    """The model as imported."""
    return mod


def traced(mod: Any, args: argparse.Namespace) -> Any:
    """A run of the default pipeline, every step kept."""
    return mlcnb.transform.trace(mlcnb.get_pipeline("default"), mod)


def optimized(mod: Any, args: argparse.Namespace) -> Any:
    """The graph and its loops after the default pipeline."""
    return mlcnb.get_pipeline("default")(mod)


def lowered(mod: Any, args: argparse.Namespace) -> Any:
    """The loop functions after the default pipeline, as a module."""
    return loop_functions(optimized(mod, args), args)


def fast(mod: Any, args: argparse.Namespace) -> Any:
    """The loop functions after scheduling, as a module."""
    return loop_functions(mlcnb.dlight.ApplyDefaultSchedule()(optimized(mod, args)), args)


def loop_functions(mod: Any, args: argparse.Namespace) -> Any:
    """The loop functions of a module, or one of them, as a module with their names."""
    return mlcnb.IRModule.make(_model.chosen(_model.loop_functions(mod), args.kernel))


def compiled(mod: Any, args: argparse.Namespace) -> Any:
    """The compiled model, or one kernel of it."""
    ex = mlcnb.compile(mod, target="llvm")
    return ex if args.kernel is None else _model.chosen(dict(ex.kernels), args.kernel)[args.kernel]


# -- text of a stage -------------------------------------------------------------------------------


def view(shown: Any, args: argparse.Namespace) -> str:
    """What a cell shows of it, as text."""
    return _model.text_of(shown)


def script(shown: Any, args: argparse.Namespace) -> str:
    """Its TVMScript."""
    return str(shown.script(dialect=args.dialect))


def code(comment: str, form: str) -> Text:
    """The text of each kernel, or of one of them, in a form of it, under its name."""

    def text(shown: Any, args: argparse.Namespace) -> str:
        kernels = dict(shown.kernels) if args.kernel is None else {args.kernel: shown}
        return "\n\n".join(f"{comment} {name}\n{getattr(k, form)}" for name, k in kernels.items())

    return text


#: stage -> what it is, and its text
STAGES: dict[str, tuple[Callable[[Any, argparse.Namespace], Any], Text]] = {
    "summary": (imported, view),
    "relax": (imported, script),
    "passes": (traced, view),
    "optimized": (optimized, script),
    "tir": (lowered, script),
    "scheduled": (fast, script),
    "kernels": (compiled, view),
    "llvm": (compiled, code(";", "llvm_ir")),
    "llvm-opt": (compiled, code(";", "llvm_ir_optimized")),
    "asm": (compiled, code("#", "asm")),
}
_ONE_BY_ONE = "tir, scheduled, llvm, llvm-opt, asm"
