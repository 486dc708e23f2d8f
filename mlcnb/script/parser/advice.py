"""How errors of the parser call things, and what they advise."""

from __future__ import annotations

import ast
from typing import Any

from mlcnb.core.text import kind_of, suggestion
from mlcnb.ir.expr import Var
from mlcnb.script import words
from mlcnb.script.parser.scope import Scope
from mlcnb.tir.buffer import Buffer


class ModuleRef:
    """`cls` or `Module` inside a module: `cls.f` is the GlobalVar of f.

    `names` are the functions there are; None: unknown, any name will do.
    """

    def __init__(self, name: str, names: set[str] | None = None) -> None:
        self.name = name
        self.names = names


def plain_message(error: Exception) -> str:
    """What an error of Python says, in words of a program."""
    text = str(error) or type(error).__name__
    return text.replace("_word_", "")


def title(value: Any) -> str:
    """A thing of the program in words."""
    if words.is_namespace(value):
        return f"the namespace {words.letter(value)}"
    if isinstance(value, Buffer):
        return f"the buffer {value.name}"
    if isinstance(value, ModuleRef):
        return "the module"
    return kind_of(value)


def culprit(call: ast.Call, message: str) -> ast.expr | ast.keyword | None:
    """The one argument of a call that a message speaks of: `'flaot32'`, or the keyword 'axi'."""
    unexpected = [k for k in call.keywords if k.arg and f"argument '{k.arg}'" in message]
    if unexpected:
        return unexpected[0]
    given = [*call.args, *(k.value for k in call.keywords)]
    named = [x for x in given if isinstance(x, ast.Constant) and repr(x.value) in message.split()]
    return named[0] if len(named) == 1 else None


def no_return(last: ast.AST) -> tuple[ast.AST, str, str]:
    """The last line of a graph function, what is missing after it, and what to write."""
    name = last.targets[0] if isinstance(last, ast.Assign) else None
    hint = f"return {name.id}" if isinstance(name, ast.Name) else "return x"
    return last, "a graph function ends with `return`", hint


def buffer_hint(scope: Scope) -> str | None:
    """The buffers that there are, where something else is written to."""
    own = [n for frame in scope.frames for n in frame if isinstance(scope.find(n), Buffer)]
    return f"there are {', '.join(own[:12])}" if own else None


def name_hint(name: str, scope: Scope) -> str | None:
    """What to write in place of a name that means nothing."""
    if name in ("np", "numpy", "math", "torch"):
        return "a program is read, not run: T.exp(x), T.sqrt(x), … are its own functions"
    own = [n for frame in scope.frames for n in frame]
    for module in own:
        found = scope.find(module)
        if isinstance(found, ModuleRef) and name in (found.names or ()):
            return f"a function of the module is {module}.{name}"
    handles = [n for n in own if isinstance(scope.find(n), Var) and scope.find(n).dtype.is_handle]
    for handle in handles:
        if handle.lower() in (name.lower(), f"{name}_handle".lower()):
            return f'{name} = T.match_buffer({handle}, (128,), "float32")'
    similar = scope.similar(name)
    if similar is not None:
        return f"did you mean {similar!r}?"
    if near := suggestion(name, ("range",)):
        return near
    return f"there are {', '.join(own[:12])}" if own else None


#: functions of Python that people write in programs -> what to write
OF_PYTHON = {
    "print": "print outside of the program; to see what it does, run it with record=…",
    "abs": "T.abs(x)",
    "pow": "T.pow(x, y)",
    "round": "T.round(x)",
    "any": "T.any(a, b)",
    "all": "T.all(a, b)",
    "reversed": "for i in range(8): A[7 - i]",
}
#: expressions of Python that no program has -> what to write
NOT_SCRIPT = {
    "ListComp": "write the items out",
    "SetComp": "write the items out",
    "DictComp": "write the items out",
    "GeneratorExp": "write the items out",
    "Await": "write plain statements",
    "NamedExpr": "write an assignment",
}
