"""Passes that put something in place of calls of certain operators: each is its rules.

    class FlattenRows(CallPass, says="products of one axis of rows"):
        '''Make one axis of the rows of products.'''

    @FlattenRows.rewrites(Matmul)
    def _rows(r: Reader, call, attrs):
        '''What is new, or None.'''

The `Reader` that a rule is given is a Mutator that sees formulas written out in small operators:

x * 0.5 * (1 + erf(x / 1.414))      reader.factors(…)  ->  (0.5, [x, add(erf(…), 1)])
add(c, mean(…))                     reader.with_scalar(…, Add)  ->  (mean(…), value of c)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from mlcnb.ir.module import IRModule
from mlcnb.ir.prim_ops import as_int
from mlcnb.ir.rules import Rule, declare
from mlcnb.ir.transform import FunctionPass, PassContext
from mlcnb.op.binary import Divide, Multiply, Power
from mlcnb.relax.analysis.compile_time import computable_at_compile_time
from mlcnb.relax.analysis.struct_info import same_dims
from mlcnb.relax.expr import Call, Constant, Function, Var
from mlcnb.relax.function_table import FunctionTable
from mlcnb.relax.mutator import Mutator
from mlcnb.relax.operator import OpDecl, attrs_of, called
from mlcnb.relax.transform.dead_code_elimination import remove_unused_bindings
from mlcnb.target import Target


class CallPass(FunctionPass):
    """Base of passes whose rules rewrite calls, one operator or several by one rule.

    Options are the pass's fields, `reader.options`. A Reader with state or methods of its own says
    whose it is: `class _Reader(Reader, of=FuseGelu)`; rules may be methods of it. Of the functions'
    shapes and dtypes nothing is asked; what no rule takes stays, nothing is refused.
    """

    #: what was done, behind the number: "gelus"; and where it was done once; "": nothing is told
    says: ClassVar[str] = ""
    says_one: ClassVar[str] = ""
    #: nothing is said where nothing was done
    quiet: ClassVar[bool] = False
    #: what nothing uses then goes; else it is left for DeadCodeElimination
    prunes: ClassVar[bool] = False
    reader: ClassVar[type[Reader]]
    #: operator -> the rule for its calls, and the function; and those that were looked for
    _rules: ClassVar[dict[Any, tuple[Rule, Any]]] = {}
    _found: ClassVar[dict[Any, tuple[Rule, Any] | None]]

    def __init_subclass__(
        cls,
        says: str | None = None,
        says_one: str = "",
        quiet: bool | None = None,
        prunes: bool | None = None,
    ) -> None:
        """What is not said is as in the class that it is derived from, whose rules it has."""
        super().__init_subclass__()
        if says is not None or says_one:
            cls.says, cls.says_one = cls.says if says is None else says, says_one
        cls.quiet = cls.quiet if quiet is None else quiet
        cls.prunes = cls.prunes if prunes is None else prunes
        cls._rules, cls._found = dict(cls._rules), {}

    @classmethod
    def rewrites(cls, *operators: type[OpDecl], name: str = "") -> Callable[[Any], Any]:
        """Decorator of a rule for calls of the operators, and of those derived from them.

        name: of the rule; the function's, without `_` in front, if not given.
        """

        def keep(function: Any) -> Any:
            found = declare(f"{cls.__name__}.{name or function.__name__.strip('_')}", function)
            cls._rules.update(dict.fromkeys(operators, (found, function)))
            cls._found.clear()
            return function

        return keep

    @classmethod
    def rule_for(cls, operator: type[OpDecl]) -> tuple[Rule, Any] | None:
        """The rule for calls of an operator, and its function."""
        if operator not in cls._found:
            found = (cls._rules[k] for k in operator.__mro__ if k in cls._rules)
            cls._found[operator] = next(found, None)
        return cls._found[operator]

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """Every call that a rule of the pass takes."""
        return self.rewritten(func, self.reader(mod.functions, self), ctx)

    def rewritten(self, func: Function, reader: Reader, ctx: PassContext) -> Function:
        """`func` as the reader makes it; tells the context what was done."""
        made = reader.rewrite(func)
        self.tell(reader.found, ctx)
        if made is func or not self.prunes:
            return made
        return remove_unused_bindings(made, reader.functions)

    def tell(self, found: int, ctx: PassContext) -> None:
        """Note what was done so often."""
        if self.says and (found or not self.quiet):
            ctx.note(f"{found} {(found == 1 and self.says_one) or self.says}")


class TablePass(CallPass):
    """Base of passes whose new calls are of functions that they make: `reader.table` takes these.

    One reader goes through all graph functions, of any shapes and dtypes; nothing is refused.
    """

    #: attributes of functions that stay as they are
    but: ClassVar[tuple[str, ...]] = ()

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """All graph functions, with one table of loop functions."""
        table = FunctionTable(mod.functions)
        reader = self.reader(table.functions, self)
        reader.table = table
        table.rewrite(reader.rewrite, *self.but)
        self.tell(reader.found, ctx)
        return table.module(mod)


class Reader(Mutator):
    """What a rule sees of a function. found: how often a rule applied; var: what is bound; table:
    of a TablePass.
    """

    found = 0
    var: Var
    table: FunctionTable

    def __init__(self, functions: Any, options: Any = None) -> None:
        super().__init__(functions)
        self.options: Any = options
        self._known: set[Any] | None = None

    def __init_subclass__(cls, of: type[CallPass] | None = None, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if of is not None:
            of.reader = cls

    def visit_call(self, call: Call, var: Var) -> Any:
        """By the rule for its operator."""
        known = self.options.rule_for(called(call))
        if known is None or not known[0].is_on:
            return None
        self.var = var
        made = known[1](self, call, attrs_of(call))
        if made is not None:
            self.found += 1
            known[0].fire(call, var)
        return made

    def call_of(self, x: Any, *operators: type[OpDecl]) -> Any:
        """The call that `x` is bound to, if it is of one of the operators; else None."""
        value = self.value_of(x)
        return value if called(value) in operators else None

    def lanes(self, kind: str) -> int:
        """Elements in a vector: as the pass's option says, or 0 there, as the target's."""
        return int(self.options.lanes or (Target.current() or Target("llvm")).lanes(kind))

    def is_known(self, x: Any) -> bool:
        """Whether `x` (or what it is a permutation of) can be computed before the model runs."""
        if isinstance(x, Call):
            return self.is_known(x.args[0])
        if self._known is None:
            self._known = set(computable_at_compile_time(self.func, self.functions))
        return isinstance(x, Constant) or x in self._known

    def with_scalar(self, x: Any, operator: type[OpDecl]) -> tuple[Any, float] | None:
        """(operand, number) where `x` is the operator on an operand and a constant number."""
        call = self.call_of(x, operator)
        if call is None:
            return None
        a, b = call.args
        if number(b) is not None and same_shape(a, x):
            return a, number(b)  # type: ignore[return-value]
        if operator.commutative and number(a) is not None and same_shape(b, x):
            return b, number(a)  # type: ignore[return-value]
        return None

    def factors(self, x: Any) -> tuple[float, list[Any]]:
        """A product as a number and the operands that are no products themselves."""
        call = self.call_of(x, Multiply, Power, Divide)
        found = (1.0, []) if call is None else self.factors_of(call)
        return found if found[1] else (1.0, [x])

    def factors_of(self, call: Call) -> tuple[float, list[Any]]:
        """The factors of a product, power or quotient; none where it is another one."""
        operator, (a, b) = called(call), call.args
        count = number(b)
        if operator is Power:
            return 1.0, [a] * int(count) if count in (2, 3) else []
        if operator is Divide:
            top, rest = self.factors(a) if count else (1.0, [])
            return (top / count, rest) if count else (1.0, [])
        parts = [(n, []) if (n := number(v)) is not None else self.factors(v) for v in (a, b)]
        return parts[0][0] * parts[1][0], [*parts[0][1], *parts[1][1]]


CallPass.reader = Reader


def number(x: Any) -> float | None:
    """The value of a constant of one element."""
    return float(x.data.item()) if isinstance(x, Constant) and x.data.size == 1 else None


def shape_of(x: Any) -> list[Any] | None:
    """The dimensions of a float32 tensor, numbers or expressions; None where they are not known."""
    info = getattr(x, "struct_info", None)
    dims = getattr(info, "dims", None)
    if dims is None or info.dtype != "float32":  # type: ignore[union-attr]
        return None
    return [d if (n := as_int(d)) is None else n for d in dims]


def dims_of(x: Any) -> list[int] | None:
    """The dimensions of a float32 tensor, all of them numbers; else None."""
    shape = shape_of(x)
    return shape if shape is not None and all(isinstance(d, int) for d in shape) else None


def same_shape(a: Any, b: Any) -> bool:
    """True if both are float32 of the same dimensions, as far as can be proved."""
    if shape_of(a) is None or shape_of(b) is None:
        return False
    return same_dims(a.struct_info.dims, b.struct_info.dims)


def is_plain_float32(conv: Any, x: Any) -> bool:
    """Whether a convolution has plain layouts, and float32 data of known rank and results."""
    same = conv.out_dtype in (None, "float32") and x.struct_info.dtype == "float32"
    return conv.is_plain and same and x.struct_info.dims is not None


def order_of(call: Call) -> tuple[int, ...]:
    """The permutation of a permute_dims."""
    ndim = call.args[0].struct_info.ndim  # type: ignore[union-attr]
    return tuple(attrs_of(call).order(ndim))  # type: ignore[attr-defined]
