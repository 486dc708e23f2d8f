"""Passes, Sequential, PassContext and the decorators."""

from __future__ import annotations

import pytest

from mlcnb.core.errors import PassError
from mlcnb.ir.module import IRModule
from mlcnb.ir.transform import (
    ApplyPassToFunction,
    FunctionPass,
    ModulePass,
    Pass,
    PassContext,
    PrimFuncPass,
    Sequential,
    function_pass,
    list_configs,
    module_pass,
    prim_func_pass,
    register_config,
)
from mlcnb.relax.expr import Function
from mlcnb.script import ir as I
from mlcnb.script import relax as R
from mlcnb.script import tir as T
from mlcnb.tir.function import PrimFunc


@I.ir_module
class Mod:
    @T.prim_func
    def copy(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.block("B"):
                vi = T.axis.spatial(4, i)
                B[vi] = A[vi]

    @R.function
    def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        y = R.nn.relu(x)
        return y


class Stamp(ModulePass):
    """Write a word into the module.

    More words about it.
    """

    word: str = "seen"
    times: int = 1

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        old = mod.attrs.get("stamp", "")
        return mod.with_attr("stamp", old + self.word * self.times)


class High(Stamp):
    """Only at level 3."""

    opt_level = 3


def test_options_are_fields_and_repr_is_the_constructor_call() -> None:
    assert repr(Stamp()) == "Stamp()"
    assert repr(Stamp(times=2)) == "Stamp(times=2)"
    assert repr(Stamp("x", 3)) == "Stamp(word='x', times=3)"
    assert Stamp().summary == "Write a word into the module."
    assert (Stamp().name, Stamp().info.name, High().info.opt_level) == ("Stamp", "Stamp", 3)


def test_a_pass_is_called_with_a_module() -> None:
    assert Stamp(times=2)(Mod).attrs["stamp"] == "seenseen"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (3, "Stamp: expected an IRModule, got int\nhint: a pass takes an IRModule"),
        (
            Mod["main"],
            "Stamp: expected an IRModule, got Function\n"
            "hint: wrap the function: Stamp()(IRModule.from_expr(func))",
        ),
    ],
)
def test_anything_else_is_refused(given: object, message: str) -> None:
    with pytest.raises(PassError) as caught:
        Stamp()(given)  # type: ignore[arg-type]
    assert str(caught.value) == message


def test_a_pass_that_returns_no_module_is_named() -> None:
    @module_pass
    def forgets(mod, ctx):
        """Returns nothing."""

    with pytest.raises(PassError) as caught:
        forgets(Mod)
    assert str(caught.value) == (
        "forgets returned NoneType in place of an IRModule\n"
        "hint: transform_module returns the new module"
    )


def test_sequential_runs_in_order_and_is_a_pass() -> None:
    both = Sequential([Stamp("a"), Stamp("b")])
    assert both(Mod).attrs["stamp"] == "ab"
    assert repr(both) == "Sequential([Stamp(word='a'), Stamp(word='b')])"
    named = Sequential([Stamp()], name="mine")
    assert (named.name, len(named), list(named)) == ("mine", 1, [named[0]])
    assert repr(named) == "Sequential([Stamp()], name='mine')"
    with pytest.raises(PassError, match="Sequential: .*Stamp.* is no pass"):
        Sequential([Stamp])  # type: ignore[list-item]


def test_the_context_says_which_passes_of_a_sequential_run() -> None:
    both = Sequential([Stamp("a"), High("b")])
    assert both(Mod).attrs["stamp"] == "a"
    with PassContext(opt_level=3):
        assert both(Mod).attrs["stamp"] == "ab"
    with PassContext(required_pass=["High"], disabled_pass=["Stamp"]):
        assert both(Mod).attrs["stamp"] == "b"
    assert both(Mod).attrs["stamp"] == "a"


def test_contexts_nest_and_end() -> None:
    with PassContext(opt_level=1) as outer:
        assert PassContext.current() is outer
        with PassContext(opt_level=0) as inner:
            assert PassContext.current() is inner
        assert PassContext.current() is outer
    assert PassContext.current().opt_level == 2
    with pytest.raises(ZeroDivisionError), PassContext():
        raise ZeroDivisionError
    assert PassContext.current().opt_level == 2


def test_config_keys_are_known_ones() -> None:
    register_config("test.answer", 42, "what it is")
    assert PassContext().get_config("test.answer") == 42
    assert PassContext(config={"test.answer": 1}).get_config("test.answer") == 1
    assert list_configs()["test.answer"] == (42, "what it is")
    assert PassContext.list_configs() == list_configs()
    with pytest.raises(PassError, match="no config key 'test.anwser'") as caught:
        PassContext(config={"test.anwser": 1})
    assert "test.answer" in caught.value.hint
    assert repr(PassContext(3, config={"test.answer": 1})) == (
        "PassContext(opt_level=3, config={'test.answer': 1})"
    )


class Mark(FunctionPass):
    """Mark graph functions."""

    def transform_function(self, func, mod, ctx):
        return func.with_attr("mark", 1)


class MarkLoops(PrimFuncPass):
    """Mark loop functions."""

    def transform_function(self, func, mod, ctx):
        return func.with_attr("mark", 1)


def test_function_passes_see_functions_of_their_kind() -> None:
    graphs, loops = Mark()(Mod), MarkLoops()(Mod)
    assert "mark" in graphs["main"].attrs and graphs["copy"] is Mod["copy"]
    assert "mark" in loops["copy"].attrs and loops["main"] is Mod["main"]


def test_what_changes_nothing_returns_the_module_itself() -> None:
    class Nothing(FunctionPass):
        """Nothing."""

        def transform_function(self, func, mod, ctx):
            return func

    assert Nothing()(Mod) is Mod


def test_a_function_pass_that_returns_no_function_is_named() -> None:
    @function_pass
    def broken(func, mod, ctx):
        return 3

    with pytest.raises(PassError, match="broken returned int in place of a function"):
        broken(Mod)


def test_decorators_on_functions() -> None:
    @module_pass(opt_level=1, name="Renamed")
    def one(mod, ctx):
        """What it does."""
        return mod.with_attr("one", True)

    @function_pass
    def two(func, mod, ctx):
        assert isinstance(func, Function) and mod is Mod
        return func.with_attr("two", True)

    @prim_func_pass(opt_level=0)
    def three(func, mod, ctx):
        assert isinstance(func, PrimFunc)
        return func.with_attr("three", True)

    assert isinstance(one, Pass) and one.name == "Renamed" and one.info.opt_level == 1
    assert one.summary == "What it does."
    assert one(Mod).attrs["one"] and two(Mod)["main"].attrs["two"]
    assert three(Mod)["copy"].attrs["three"]


def test_decorators_on_classes_keep_their_arguments() -> None:
    @module_pass(opt_level=1)
    class Tag:
        """Tags the module."""

        def __init__(self, key: str, value: int = 1) -> None:
            self.key, self.value = key, value

        def transform_module(self, mod, ctx):
            return mod.with_attr(self.key, self.value)

    tag = Tag("a", value=2)
    assert isinstance(tag, ModulePass) and repr(tag) == "Tag('a', value=2)"
    assert tag(Mod).attrs["a"] == 2
    with pytest.raises(PassError, match="Empty has no method transform_function"):

        @function_pass
        class Empty:
            pass


def test_a_pass_runs_on_the_functions_of_some_names_alone() -> None:
    @function_pass(opt_level=0)
    def mark(func, mod, ctx):
        assert [k.name_hint for k in mod] == ["main"]
        return func.with_attr("marked", True)

    both = Mod.with_function("other", Mod["main"].with_attr("global_symbol", "other"))
    made = ApplyPassToFunction(mark, "ma.*")(both)
    assert "marked" in made["main"].attrs
    assert (made["other"], made["copy"]) == (both["other"], both["copy"])
    assert ApplyPassToFunction(mark, "ma")(both) is both
    with pytest.raises(PassError, match="no function matches 'ma'"):
        ApplyPassToFunction(mark, "ma", error_if_no_function_matches_regex=True)(both)


def test_a_pass_that_is_one_function_names_it():
    def first_alone(func):
        return func.with_attr("seen", 1)

    class Mark(PrimFuncPass):
        """Mark loop functions."""

        work = staticmethod(first_alone)

    class Nothing(PrimFuncPass):
        """Say nothing of the work."""

    made = Mark()(Mod)
    assert made["copy"].attrs["seen"] == 1
    assert made["main"] is Mod["main"]
    with pytest.raises(NotImplementedError, match="Nothing defines no transform_function"):
        Nothing()(Mod)
