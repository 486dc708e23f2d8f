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
    if args.export is None and not args.json:
        print(STAGES[args.stage](_model.load(args), args))
        return 0
    from mlcnb.view.data import to_data

    obj = _OBJECTS[args.stage](_model.load(args), args)
    _model.give(obj, args, lambda: to_data(obj))
    return 0


# -- text of a stage -------------------------------------------------------------------------------


def summary(mod: Any, args: argparse.Namespace) -> str:
    """What a cell shows of the model, as text."""
    return _model.text_of(mod)


def passes(mod: Any, args: argparse.Namespace) -> str:
    """What each pass of the default pipeline did."""
    return _model.text_of(traced(mod, args))


def kernels(mod: Any, args: argparse.Namespace) -> str:
    """What a cell shows of the compiled model, as text."""
    return _model.text_of(mlcnb.compile(mod, target="llvm"))


def relax(mod: Any, args: argparse.Namespace) -> str:
    """The graph as imported."""
    return mod.script(dialect=args.dialect)


def optimized(mod: Any, args: argparse.Namespace) -> str:
    """The graph and its loops after the default pipeline."""
    return mlcnb.get_pipeline("default")(mod).script(dialect=args.dialect)


def tir(mod: Any, args: argparse.Namespace) -> str:
    """The loop functions after the default pipeline."""
    return lowered(mod, args).script(dialect=args.dialect)


def scheduled(mod: Any, args: argparse.Namespace) -> str:
    """The loop functions after scheduling."""
    return fast(mod, args).script(dialect=args.dialect)


def llvm(mod: Any, args: argparse.Namespace) -> str:
    """The LLVM IR of the kernels, as LLVM is given it."""
    return code(mod, args, ";", lambda kernel: kernel.llvm_ir)


def llvm_optimized(mod: Any, args: argparse.Namespace) -> str:
    """The LLVM IR of the kernels, after LLVM's passes."""
    return code(mod, args, ";", lambda kernel: kernel.llvm_ir_optimized)


def asm(mod: Any, args: argparse.Namespace) -> str:
    """The assembly of the kernels."""
    return code(mod, args, "#", lambda kernel: kernel.asm)


def code(mod: Any, args: argparse.Namespace, comment: str, text: Callable[[Any], str]) -> str:
    """The text of each kernel, or of one of them, under its name."""
    kernels = _model.chosen(dict(mlcnb.compile(mod, target="llvm").kernels), args.kernel)
    return "\n\n".join(f"{comment} {name}\n{text(kernel)}" for name, kernel in kernels.items())


# -- what a stage is -------------------------------------------------------------------------------


def traced(mod: Any, args: argparse.Namespace) -> Any:
    """A run of the default pipeline, every step kept."""
    return mlcnb.transform.trace(mlcnb.get_pipeline("default"), mod)


def lowered(mod: Any, args: argparse.Namespace) -> Any:
    """The loop functions after the default pipeline, as a module."""
    return loop_functions(mlcnb.get_pipeline("default")(mod), args)


def fast(mod: Any, args: argparse.Namespace) -> Any:
    """The loop functions after scheduling, as a module."""
    made = mlcnb.get_pipeline("default")(mod)
    return loop_functions(mlcnb.dlight.ApplyDefaultSchedule()(made), args)


def loop_functions(mod: Any, args: argparse.Namespace) -> Any:
    """The loop functions of a module, or one of them, as a module with their names."""
    return mlcnb.IRModule.make(_model.chosen(_model.loop_functions(mod), args.kernel))


def compiled(mod: Any, args: argparse.Namespace) -> Any:
    """The compiled model, or one kernel of it."""
    ex = mlcnb.compile(mod, target="llvm")
    return ex if args.kernel is None else _model.chosen(dict(ex.kernels), args.kernel)[args.kernel]


STAGES: dict[str, Callable[[Any, argparse.Namespace], str]] = {
    "summary": summary,
    "relax": relax,
    "passes": passes,
    "optimized": optimized,
    "tir": tir,
    "scheduled": scheduled,
    "kernels": kernels,
    "llvm": llvm,
    "llvm-opt": llvm_optimized,
    "asm": asm,
}
_OBJECTS: dict[str, Callable[[Any, argparse.Namespace], Any]] = {
    **dict.fromkeys(("summary", "relax"), lambda mod, args: mod),
    "passes": traced,
    "optimized": lambda mod, args: mlcnb.get_pipeline("default")(mod),
    "tir": lowered,
    "scheduled": fast,
    **dict.fromkeys(("kernels", "llvm", "llvm-opt", "asm"), compiled),
}
_ONE_BY_ONE = "tir, scheduled, llvm, llvm-opt, asm"
