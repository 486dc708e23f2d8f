"""What a printer knows while it prints: options, names in scope, constants met; and the rule table.

    @prints(For, While)
    def _loop(p: Printer, n: For) -> Doc: ...

A rule turns a node of its class into a doc. `p.doc(n)` finds the rule and marks the result as `n`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from mlcnb.core import options
from mlcnb.core.display import plain
from mlcnb.core.doc import Doc, Mark, Text
from mlcnb.script.dialect import Dialect, dialect
from mlcnb.script.names import Names

Rule = Callable[["Printer", Any], Doc]
_rules: dict[type, Rule] = {}


def prints(*kinds: type) -> Callable[[Rule], Rule]:
    """Decorator: this function prints nodes of these classes (and of classes below them)."""

    def keep(rule: Rule) -> Rule:
        for kind in kinds:
            _rules[kind] = rule
        return rule

    return keep


def rule_for(kind: type) -> Rule | None:
    """The rule of a class: its own, else that of the nearest class above it."""
    for above in kind.__mro__:
        if above in _rules:
            if above is not kind:
                _rules[kind] = _rules[above]
            return _rules[above]
    return None


@dataclass
class Options:
    """How to print.

    dialect: "0.21" or "0.27" (default: the option "dialect"); name: of a function or module printed
    alone; show_meta: print constants, so that the text parses back; syntax_sugar: T.grid,
    T.axis.remap and the root block as a comment; show_all_struct_info: annotate every binding;
    module_alias: what a module calls itself inside ("" for its own name); indent_spaces: of one
    level; header: the `# from tvm.script import …` lines; verbose_expr: of a part of a program, say
    first what the variables and buffers are that it uses; num_context_lines: show so many lines
    around what is underlined and leave out the others (-1: none is left out).
    """

    dialect: str | None = None
    name: str | None = None
    show_meta: bool = False
    syntax_sugar: bool = True
    show_all_struct_info: bool = True
    module_alias: str = "cls"
    indent_spaces: int = 4
    header: bool = True
    verbose_expr: bool = False
    num_context_lines: int = -1


class Printer:
    """One printing of one object."""

    def __init__(self, opts: Options) -> None:
        self.options = opts
        self.words: Dialect = dialect(opts.dialect or options.get("dialect"))
        self.names = Names()
        #: dtype of integers that are printed bare; in graph functions it is int64
        self.int_dtype = "int32"
        #: arrays printed as metadata[...][i], by identity
        self.constants: dict[int, tuple[int, Any]] = {}
        self.prefixes: set[str] = set()
        self.module_name: str | None = None
        #: whether the loop function around says the dtype of its result, which `return` tells too
        self.returns = True
        self.uses_module = False
        #: the virtual devices of the module, which the text calls by their places
        self.vdevices: tuple[Any, ...] = ()
        #: in a signature dimensions are strings, except those of the functions around it
        self.quoted_dims = False
        self.signature_vars: list[Any] = []
        self.outer_vars: set[int] = set()
        #: pointers that are called `A.data`: id of the pointer -> buffer
        self.pointers: dict[int, Any] = {}
        #: a statement that is printed alone, with `with` where it has a body
        self.scoped: Any = None
        #: loops in scope: id of the variable -> (min, extent), for T.axis.remap
        self.loops: dict[int, tuple[Any, Any]] = {}

    def stored(self, data: Any) -> Doc:
        """An array by its place in the metadata."""
        entry = self.constants.setdefault(id(data), (len(self.constants), data))
        key = Text(repr(self.words.constants).replace("'", '"'), "string")
        return [Text("metadata", "builtin"), "[", key, "][", Text(str(entry[0]), "number"), "]"]

    def doc(self, n: Any) -> Doc:
        """The doc of a node, marked as that node."""
        rule = _rules.get(type(n)) or rule_for(type(n))
        if rule is None:
            return Mark(n, f"<{plain(n)}>")
        return Mark(n, rule(self, n))

    def word(self, prefix: str, name: str) -> Doc:
        """`T.exp`: a name of one of the namespaces."""
        self.prefixes.add(prefix)
        return Text(f"{prefix}.{name}", "builtin")

    def attr_key(self, key: str) -> str:
        """The key of an attribute in this dialect: `tir.noalias` is `tirx.noalias` in 0.27."""
        return key.replace("tir.", self.words.attr_prefix, 1) if key.startswith("tir.") else key

    def name_of(self, obj: Any, hint: str) -> str:
        """The name of a variable; where it is not defined in scope it gets one that stays."""
        return self.names.find(obj) or self.names.define_free(obj, hint)

    @contextmanager
    def integers(self, kind: str) -> Iterator[None]:
        """Integers of dtype `kind` are printed bare inside."""
        before, self.int_dtype = self.int_dtype, kind
        try:
            yield
        finally:
            self.int_dtype = before

    @contextmanager
    def signature(self) -> Iterator[None]:
        """The signature of a graph function (its body is inside, under `body`)."""
        before = self.quoted_dims, self.signature_vars, self.outer_vars
        self.quoted_dims, self.signature_vars = True, []
        self.outer_vars = set(self.names.names)
        try:
            yield
        finally:
            self.quoted_dims, self.signature_vars, self.outer_vars = before

    @contextmanager
    def body(self) -> Iterator[None]:
        """The body below a signature: dimensions are names again."""
        self.quoted_dims = False
        try:
            yield
        finally:
            self.quoted_dims = True

    def with_alias(self, body: Callable[[], list[Doc]]) -> tuple[list[Doc], list[Doc]]:
        """The line `cls = Module` where a body needs it, and the body."""
        before, self.uses_module = self.uses_module, False
        inside = body()
        alias = self.options.module_alias
        needed = self.uses_module and bool(alias) and self.module_name is not None
        self.uses_module = before
        line = [Text(alias, "name"), " = ", Text(self.module_name or "", "name")]
        return ([line] if needed else []), inside
