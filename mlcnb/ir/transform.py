"""Passes: a module in, a module out; the fields of a pass are its options.

    class FuseOps(ModulePass):                       FuseOps(max_depth=8)(mod) -> mod
        '''Group operators into kernels.'''          Sequential([Normalize(), FuseOps()])(mod)
        max_depth: int = 256
        def transform_module(self, mod, ctx): ...    with PassContext(opt_level=3): ...

A pass that changes nothing returns the very module it was given. What it did it tells the context:
`ctx.note("fused 52 operators into 20 kernels")`; instruments (`mlcnb.ir.instrument`) keep it.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar, dataclass_transform

from mlcnb.core import above, display, options
from mlcnb.core.errors import MLCError, PassError
from mlcnb.core.lazy import attach
from mlcnb.core.progress import progress_bar
from mlcnb.core.recursion import roomy
from mlcnb.core.text import kind_of
from mlcnb.ir.function import BaseFunc
from mlcnb.ir.module import IRModule
from mlcnb.ir.pass_config import list_configs, register_config
from mlcnb.ir.pass_context import PassContext, PassInfo
from mlcnb.ir.rules import Rule, rules_of

__all__ = [
    "FunctionPass",
    "ModulePass",
    "Pass",
    "PassContext",
    "PassInfo",
    "PrimFuncPass",
    "Sequential",
    "function_pass",
    "list_configs",
    "module_pass",
    "prim_func_pass",
    "register_config",
]

__getattr__, *_ = attach(__name__, {"mlcnb.ir.apply_pass": "ApplyPassToFunction"})


@dataclass_transform(eq_default=False)
class Pass(display.Shown):
    """Base of all passes. Fields of a subclass are its options; the repr is how it was made."""

    #: a Sequential runs the pass where PassContext.opt_level is at least this
    opt_level: ClassVar[int] = 0
    #: names of passes that have to run before
    required: ClassVar[tuple[str, ...]] = ()
    #: its options may be functions, as those of a rule made of two are
    of_functions: ClassVar[bool] = False
    #: as TVM's flag of that name; kept, and told to instruments
    traceable: ClassVar[bool] = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        dataclasses.dataclass(eq=False, repr=False)(cls)

    def __new__(cls, *args: Any, **options: Any) -> Any:
        """Refuse the module where options go: a pass is made first, and called then."""
        if args and isinstance(args[0], IRModule | BaseFunc) and not cls.of_functions:
            raise PassError(
                f"{cls.__name__}: its options go here, not {kind_of(args[0])}",
                hint=f"make the pass, then call it: {cls.__name__}()(mod)",
            )
        return super().__new__(cls)

    @property
    def name(self) -> str:
        """The name that instruments and `disabled_pass` use: the class's."""
        return type(self).__name__

    @property
    def info(self) -> PassInfo:
        """Name, level and requirements."""
        return PassInfo(self.name, self.opt_level, self.required, self.traceable, self)

    @property
    def summary(self) -> str:
        """The first sentence of the docstring."""
        text = inspect.getdoc(type(self)) or ""
        return text.split("\n\n")[0].replace("\n", " ")

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rewrite rules that it has, where it names them."""
        return rules_of(self.name)

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The work: what a subclass defines. Returns `mod` itself where there is nothing to do."""
        raise NotImplementedError(f"{self.name} defines no transform_module")

    def __call__(self, mod: IRModule) -> IRModule:
        """Run the pass under the current PassContext.

        Raises:
            PassError: `mod` is no IRModule, or the pass returned something else.
        """
        _check_argument(self, mod)
        ctx = PassContext.current()
        if not ctx.before(self.info, mod):
            return mod
        with ctx.notes_of(self):
            result = roomy(self.transform_module)(mod, ctx)
        _check_result(self, result)
        if result is not mod and options.get("well_formed") and not isinstance(self, Sequential):
            _check_well_formed(self, result)
        ctx.after(self.info, result)
        return result

    def __repr__(self) -> str:
        return f"{self.name}({', '.join(_given_options(self))})"


def _given_options(pass_: Pass) -> Iterator[str]:
    """`name=value` of every option that is not at its default."""
    for field in dataclasses.fields(pass_):  # type: ignore[arg-type]
        value = getattr(pass_, field.name)
        if field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        else:
            default = field.default
        if field.init and (default is dataclasses.MISSING or not _same(value, default)):
            yield f"{field.name}={_short(value)}"


def _same(value: Any, default: Any) -> bool:
    return value is default or (type(value) is type(default) and bool(value == default))


def _short(value: Any) -> str:
    if isinstance(value, Mapping):
        inside = ", ".join(f"{k!r}: …" for k in value)
        return f"{{{inside}}}"
    text = repr(value)
    return text if len(text) <= 60 else f"<{type(value).__name__}>"


def _check_argument(pass_: Pass, mod: Any) -> None:
    if isinstance(mod, IRModule):
        return
    hint = "a pass takes an IRModule"
    if isinstance(mod, BaseFunc):
        hint = f"wrap the function: {pass_.name}()(IRModule.from_expr(func))"
    raise PassError(f"{pass_.name}: expected an IRModule, got {type(mod).__name__}", hint=hint)


def _check_result(pass_: Pass, result: Any) -> None:
    if not isinstance(result, IRModule):
        raise PassError(
            f"{pass_.name} returned {type(result).__name__} in place of an IRModule",
            hint="transform_module returns the new module",
        )


def _check_well_formed(pass_: Pass, mod: IRModule) -> None:
    try:
        above.ask("assert_well_formed")(mod)
    except MLCError as error:
        raise PassError(
            f"after {pass_.name}: {error.message}", where=error.where, root=error.root
        ) from error


class ModulePass(Pass):
    """A pass that sees the whole module: defines `transform_module(mod, ctx)`."""


class FunctionPass(Pass):
    """A pass on each graph function by itself: defines `transform_function(func, mod, ctx)`.

    Calling it on anything but an IRModule raises PassError, and so does a `transform_function` that
    gives no function. Functions of other kinds stay as they are.
    """

    #: the class of functions that it works on
    over: ClassVar[str] = "relax.Function"
    #: the work on one function, where nothing else is asked: `work = staticmethod(to_non_dataflow)`
    work: ClassVar[Any] = None

    def transform_function(self, func: Any, mod: IRModule, ctx: PassContext) -> Any:
        """The work on one function; returns `func` itself where there is nothing to do."""
        if self.work is None:
            raise NotImplementedError(f"{self.name} defines no transform_function")
        return self.work(func)

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Every function of the kind that the pass works on, transformed."""
        kind = above.ask(self.over)
        changed = {}
        for key, func in mod.items():
            new = self.transform_function(func, mod, ctx) if isinstance(func, kind) else func
            if not isinstance(new, BaseFunc):
                raise PassError(
                    f"{self.name} returned {type(new).__name__} in place of a function",
                    where=func,
                    root=mod,
                    hint="transform_function returns the new function",
                )
            changed[key] = new
        return mod.with_functions(changed)


class PrimFuncPass(FunctionPass):
    """A pass on each loop function by itself: defines `transform_function(func, mod, ctx)`."""

    over: ClassVar[str] = "tir.PrimFunc"


class Sequential(Pass):
    """Passes one after the other, as one pass.

    A pass is left out where its name is in `PassContext.disabled_pass` or its `opt_level` is above
    the context's (unless `required_pass` names it).
    """

    def __init__(
        self, passes: Iterable[Pass] = (), opt_level: int = 0, name: str = "sequential"
    ) -> None:
        self.passes = tuple(passes)
        self._name = name
        self._info = PassInfo(name, opt_level, (), False, self)
        for each in self.passes:
            if not isinstance(each, Pass):
                raise PassError(
                    f"Sequential: {each!r} is no pass",
                    hint="pass objects, such as FuseOps(), not FuseOps; or use @module_pass",
                )

    @property
    def name(self) -> str:
        """As given."""
        return self._name

    @property
    def info(self) -> PassInfo:
        """Name and level, as given."""
        return self._info

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """All enabled passes, in order."""
        with progress_bar("passes", len(self.passes)) as bar:
            for each in self.passes:
                if ctx.pass_enabled(each.info):
                    mod = each(mod)
                else:
                    ctx.skipped(each.info, mod)
                bar.update(1)
        return mod

    def __iter__(self) -> Iterator[Pass]:
        return iter(self.passes)

    def __len__(self) -> int:
        return len(self.passes)

    def __getitem__(self, index: int) -> Pass:
        return self.passes[index]

    def __repr__(self) -> str:
        inside = ", ".join(map(repr, self.passes))
        named = "" if self._name == "sequential" else f", name={self._name!r}"
        return f"Sequential([{inside}]{named})"


def decorator_of(base: type[Pass], method: str, title: str, meaning: str) -> Callable[..., Any]:
    """A decorator that makes a `base` pass of a function, or of a class with `method`."""
    apart = base is ModulePass

    def decorator(
        pass_func: Any = None,
        opt_level: int = 0,
        name: str | None = None,
        required: Iterable[str] | None = None,
        traceable: bool = False,
    ) -> Any:
        def make(target: Any) -> Any:
            if not callable(target):
                raise PassError(
                    f"a pass is made of a function or a class, not of {target!r}",
                    hint="@module_pass(opt_level=0) above `def f(mod, ctx)`",
                )
            made: dict[str, Any] = {
                "__doc__": target.__doc__,
                "__module__": target.__module__,
                "opt_level": opt_level,
                "required": tuple(required or ()),
                "traceable": bool(traceable),
            }
            if inspect.isclass(target):
                return _class_of_class(target, base, method, name, made, apart)
            made[method] = _calls(_on_a_copy(target) if apart else target)
            return type(name or target.__name__, (base,), made)()

        return make if pass_func is None else make(pass_func)

    decorator.__name__ = decorator.__qualname__ = title
    decorator.__doc__ = f"""Decorator: {meaning}

    Raises:
        PassError: what is decorated is no function and no class; or, in the run, gives something of
            another kind.
    """
    return decorator


def _calls(function: Callable) -> Callable:
    def transform(self: Pass, *args: Any) -> Any:
        return function(*args)

    return transform


def _on_a_copy(work: Callable[..., Any]) -> Callable[..., Any]:
    """A person's work on a module, which may edit what it is given: the caller's stays."""

    def transform(mod: IRModule, ctx: PassContext) -> Any:
        given = mod.clone()
        result = work(given, ctx)
        is_same = result is given and all(
            getattr(given, f) is getattr(mod, f) for f in IRModule.node_fields
        )
        return mod if is_same else result

    return transform


def _class_of_class(
    cls: type,
    base: type[Pass],
    method: str,
    name: str | None,
    made: dict[str, Any],
    apart: bool = False,
) -> type[Pass]:
    """A pass class that keeps an object of the user's class and lets it do the work."""
    if not hasattr(cls, method):
        raise PassError(f"{cls.__name__} has no method {method}", hint=f"define {method}")

    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        self.inner = cls(*args, **kwargs)
        self.given = [*map(_short, args), *(f"{k}={_short(v)}" for k, v in kwargs.items())]

    def transform(self: Any, *args: Any) -> Any:
        work = getattr(self.inner, method)
        return (_on_a_copy(work) if apart else work)(*args)

    def show(self: Any) -> str:
        return f"{self.name}({', '.join(self.given)})"

    made.update({"__init__": init, method: transform, "__repr__": show})
    return type(name or cls.__name__, (base,), made)


module_pass = decorator_of(
    ModulePass,
    "transform_module",
    "module_pass",
    "`f(mod, ctx) -> mod`, or a class with `transform_module`, becomes a pass.",
)
function_pass = decorator_of(
    FunctionPass,
    "transform_function",
    "function_pass",
    "`f(func, mod, ctx) -> func` on graph functions, or a class, becomes a pass.",
)
prim_func_pass = decorator_of(
    PrimFuncPass,
    "transform_function",
    "prim_func_pass",
    "`f(func, mod, ctx) -> func` on loop functions, or a class, becomes a pass.",
)
