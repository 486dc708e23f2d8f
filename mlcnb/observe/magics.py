"""Magics: `%load_ext mlcnb`, and cells and lines of a notebook speak TVMScript.

%%tvmscript [name]              the cell is a program: it becomes an object under this name
%mlc_bench f(a, b, c) vs g(a, b, c)     calls timed in turns on the same arguments
%mlc_passes mod [pipeline]      a pipeline run with every step kept
"""

from __future__ import annotations

import ast
import re
from typing import Any

from IPython.core.error import UsageError
from IPython.core.magic import Magics, cell_magic, line_magic, magics_class
from IPython.core.magic_arguments import argument, magic_arguments, parse_argstring

from mlcnb.core.errors import MLCError
from mlcnb.core.text import kind_of
from mlcnb.ir.module import IRModule
from mlcnb.ir.pass_trace import PassTrace, trace
from mlcnb.observe.benchmark import Benchmark, benchmark
from mlcnb.relax.transform.pipeline import get_pipeline
from mlcnb.script.parser.entry import parse

#: what the parser gives a program by itself
_GIVEN = frozenset("IRT")
_DEFINED = re.compile(r"^(?:class|def)\s+(\w+)", re.MULTILINE)


def load_ipython_extension(shell: Any) -> None:
    """What `%load_ext mlcnb` calls."""
    shell.register_magics(MlcMagics)


@magics_class
class MlcMagics(Magics):
    """The magics of mlcnb."""

    @magic_arguments()
    @argument("name", nargs="?", help="the variable; by default the name in the program")
    @argument("--dialect", choices=("0.21", "0.27"), help="of TVMScript, where it matters")
    @argument("--check", action="store_true", help="also check that the program is well-formed")
    @cell_magic
    def tvmscript(self, line: str, cell: str) -> Any:
        """A cell of TVMScript: one class under @I.ir_module, or one function.

        Nothing is imported: I, R and T are there, and the notebook's variables by their names. The
        object is kept under `name`, and shown.

            %%tvmscript copy
            @T.prim_func
            def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
                for i in T.serial(8):
                    B[i] = A[i]
        """
        args = parse_argstring(self.tvmscript, line)
        known = self.shell.user_ns
        used = {word for word in re.findall(r"\b[^\W\d]\w*", cell) if word in known} - _GIVEN
        text = f"\n{cell}"  # the line of the magic counts: carets stand at the cell's own lines
        try:
            made = parse(text, args.dialect, args.check, **{word: known[word] for word in used})
        except MLCError as error:
            raise error.with_traceback(None) from None
        found = _DEFINED.search(cell)
        self.shell.user_ns[args.name or (found[1] if found else "program")] = made
        return made

    @magic_arguments()
    @argument("--threads", type=int, help="of mlcnb's loops and NumPy's BLAS; default: as set")
    @argument("--seconds", type=float, default=1.0, help="about how long to measure")
    @argument("calls", nargs="+", help="f(a, b, c), or several with `vs` in between")
    @line_magic
    def mlc_bench(self, line: str) -> Benchmark:
        """Time calls on the same arguments, in turns; the last argument is where they write.

            %mlc_bench mine(a, b, c) vs numpy_matmul(a, b, c)
            %mlc_bench --threads 1 ex(a, b, c)

        What is called may be a schedule, a PrimFunc, a module, an executable or a function. Medians
        count, and the results are compared with those of the first.
        """
        options, calls = _split_options(line)
        args = parse_argstring(self.mlc_bench, f"{options} calls")
        made = [_call(text) for text in re.split(r"\s+vs\s+", calls)]
        first = made[0][1]
        if any(values != first for _, values in made):
            raise UsageError("the calls differ in their arguments: one benchmark has one set")
        contestants = {name: self.shell.ev(name) for name, _ in made}
        values = [self.shell.ev(text) for text in first]
        return benchmark(contestants, *values, threads=args.threads, seconds=args.seconds)

    @magic_arguments()
    @argument("mod", help="a module of the notebook")
    @argument("pipeline", nargs="?", default="default", help="a name, or a pass of the notebook")
    @line_magic
    def mlc_passes(self, line: str) -> PassTrace:
        """Run a pipeline and keep every step, with its time, its diff and its reason.

        %mlc_passes mod                 the default pipeline
        %mlc_passes mod zero            another one by name
        %mlc_passes mod my_passes       a pass, or a list of passes
        """
        args = parse_argstring(self.mlc_passes, line)
        mod = self.shell.ev(args.mod)
        if not isinstance(mod, IRModule):
            raise UsageError(f"{args.mod} is {kind_of(mod)}, not an IRModule")
        mine = self.shell.user_ns.get(args.pipeline)
        return trace(get_pipeline(args.pipeline) if mine is None else mine, mod)


def _split_options(line: str) -> tuple[str, str]:
    """The options before the calls, and the calls."""
    found = re.match(r"((?:\s*--\w+(?:\s+|=)[\d.]+)*)\s*(.*)", line, re.DOTALL)
    assert found is not None
    if not found[2]:
        raise UsageError("give a call: %mlc_bench f(a, b, c)")
    return found[1], found[2]


def _call(text: str) -> tuple[str, list[str]]:
    """What is called, and its arguments, as texts."""
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except SyntaxError as error:
        raise UsageError(f"{text!r} is no Python: {error.msg}") from None
    if not isinstance(tree, ast.Call) or tree.keywords or not tree.args:
        raise UsageError(f"{text!r} is no call with arguments: give f(a, b, c)")
    return ast.unparse(tree.func), [ast.unparse(arg) for arg in tree.args]
