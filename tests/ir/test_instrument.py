"""Instruments: what they are told, and what they keep."""

from __future__ import annotations

import io

import pytest

from mlcnb.core import options
from mlcnb.core.errors import PassError
from mlcnb.core.node import replace
from mlcnb.ir.instrument import (
    DumpIR,
    PassTimingInstrument,
    PassTrace,
    PrintAfterAll,
    PrintBeforeAll,
    PrintIR,
    WellFormedInstrument,
    pass_instrument,
    trace,
)
from mlcnb.ir.module import IRModule
from mlcnb.ir.transform import ModulePass, PassContext, Sequential, module_pass
from mlcnb.relax.expr import SeqExpr, Var
from mlcnb.script import relax as R


@R.function
def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
    y = R.nn.relu(x)
    return y


MOD = IRModule.make({"main": main})


class Stamp(ModulePass):
    """Write a word."""

    word: str = "a"

    def transform_module(self, mod, ctx):
        ctx.note(f"wrote {self.word}")
        return mod.with_attr("stamp", self.word)


class Idle(ModulePass):
    """Do nothing."""

    def transform_module(self, mod, ctx):
        return mod


def test_a_trace_keeps_every_step() -> None:
    run = trace([Stamp("a"), Idle(), Stamp("b")], MOD)
    assert [s.name for s in run] == ["Stamp", "Idle", "Stamp"]
    assert [s.changed for s in run] == [True, False, True]
    assert [s.reason for s in run] == ["wrote a", "nothing to do", "wrote b"]
    assert run[0].before is MOD and run[1].after is run[0].after and run.result is run[-1].after
    assert run["Idle"] is run.steps[1] and len(run) == 3
    assert run[0].summary == "Write a word." and run[0].functions_changed == ()
    assert 0 <= run[0].seconds <= run.seconds < 1
    assert "3 passes" in repr(run) and "wrote b" in repr(run)
    with pytest.raises(PassError, match="no step 'Nope'"):
        run["Nope"]
    with pytest.raises(PassError, match="no pass ran"):
        PassTrace().result


def test_a_trace_names_what_was_left_out_and_who_called_whom() -> None:
    class Outer(ModulePass):
        """Calls another pass."""

        def transform_module(self, mod, ctx):
            return Stamp("inner")(mod)

    run = trace(Sequential([Outer(), Idle()]), MOD, disabled_pass=["Idle"])
    assert [(s.name, s.depth, s.skipped) for s in run] == [
        ("Stamp", 1, False),
        ("Outer", 0, False),
        ("Idle", 0, True),
    ]
    assert run["Idle"].reason == "left out" and run["Outer"].reason == "changed"


def test_an_error_in_a_pass_leaves_the_trace_usable() -> None:
    @module_pass
    def fails(mod, ctx):
        raise ZeroDivisionError

    kept = PassTrace()
    context = PassContext(instruments=[kept])
    with pytest.raises(ZeroDivisionError), context:
        Sequential([Stamp(), fails])(MOD)
    with context:
        Stamp()(MOD)
    assert [s.name for s in kept] == ["Stamp", "Stamp"]


def test_timing_renders_a_tree() -> None:
    timing = PassTimingInstrument()
    assert timing.render() == "no pass ran"
    with PassContext(instruments=[timing]):
        Sequential([Stamp(), Idle()])(MOD)
    lines = timing.render().splitlines()
    assert [line.split()[0] for line in lines] == ["sequential", "Stamp", "Idle"]
    assert lines[0].endswith("100.0%") and lines[1].startswith("  Stamp") and timing.total > 0


def test_printing_before_and_after() -> None:
    before, after = io.StringIO(), io.StringIO()
    with PassContext(instruments=[PrintBeforeAll(file=before), PrintAfterAll(file=after)]):
        Sequential([Stamp()])(MOD)
    assert before.getvalue().startswith("# before Stamp\n") and "stamp" not in before.getvalue()
    assert after.getvalue().startswith("# after Stamp\n") and "stamp" in after.getvalue()


def test_print_ir_is_a_pass(capsys: pytest.CaptureFixture[str]) -> None:
    assert PrintIR("here")(MOD) is MOD
    assert capsys.readouterr().out.startswith("# here\n")


def test_dump_writes_a_numbered_file_for_each_pass(tmp_path) -> None:
    with PassContext(instruments=[DumpIR(tmp_path)]):
        Stamp()(MOD)
        Idle()(MOD)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["000_Stamp.py", "001_Idle.py"]
    assert 'I.module_attrs({"stamp": "a"})' in (tmp_path / "000_Stamp.py").read_text()
    DumpIR(tmp_path, refresh=True)
    assert list(tmp_path.iterdir()) == []


def test_an_instrument_can_forbid_passes() -> None:
    @pass_instrument
    class NoIdle:
        """Leaves Idle out."""

        def __init__(self) -> None:
            self.seen: list[str] = []

        def should_run(self, mod, info) -> bool:
            return info.name != "Idle"

        def run_before_pass(self, mod, info) -> None:
            self.seen.append(info.name)

    watch = NoIdle()
    with PassContext(instruments=[watch]):
        Sequential([Stamp(), Idle()])(MOD)
    assert watch.seen == ["sequential", "Stamp"]
    with pytest.raises(PassError, match="Useless is no instrument"):

        @pass_instrument
        class Useless:
            pass


def _break(mod: IRModule) -> IRModule:
    func = mod["main"]
    ghost = Var("ghost", func.params[0].struct_info)
    body = SeqExpr(func.body.blocks, ghost)
    return mod.with_function("main", replace(func, body=body))


@module_pass
def breaks(mod, ctx):
    """Returns a variable that nobody binds."""
    return _break(mod)


def test_well_formedness_is_checked_after_every_pass_on_request() -> None:
    message = "after breaks: main: ghost is used but not bound before"
    with pytest.raises(PassError) as caught, PassContext(instruments=[WellFormedInstrument()]):
        Sequential([Stamp(), breaks])(MOD)
    assert caught.value.message == message
    with pytest.raises(PassError) as caught, PassContext(instruments=[WellFormedInstrument()]):
        Stamp()(_break(MOD))
    assert caught.value.message == "before Stamp: main: ghost is used but not bound before"
    with options.scoped(well_formed=True), pytest.raises(PassError) as caught:
        breaks(MOD)
    assert caught.value.message == message


def test_a_step_names_the_functions_that_changed() -> None:
    @module_pass
    def rename(mod, ctx):
        return mod.with_function("main", mod["main"].with_attr("seen", 1))

    assert trace(rename, MOD)[0].functions_changed == ("main",)
