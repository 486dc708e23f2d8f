"""Passes that are rules for calls: which calls a rule gets, what is told, what is counted."""

from __future__ import annotations

from typing import Any

import pytest

from mlcnb.ir.module import IRModule
from mlcnb.ir.pass_trace import trace
from mlcnb.ir.structural import assert_structural_equal
from mlcnb.ir.transform import PassContext
from mlcnb.op.nn.conv import Conv
from mlcnb.op.unary import Exp, Sqrt, Tanh
from mlcnb.relax import op
from mlcnb.relax.transform.written_out import CallPass, Reader
from mlcnb.script import from_source


class Flatter(CallPass, says="calls flattened", says_one="call flattened", prunes=True):
    """Put a sigmoid in the place of other curves."""

    twice: bool = False


@Flatter.rewrites(Exp, Tanh)
def _curve(r: Reader, call: Any, attrs: Any) -> Any:
    """A sigmoid, or the sigmoid of one."""
    if r.use_count(r.var) > 1:
        return None
    made = op.sigmoid(call.args[0])
    return op.sigmoid(made) if r.options.twice else made


def of(first: str, last: str) -> IRModule:
    text = f"""
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4,), "float32")):
        with R.dataflow():
            lv = R.{first}(x)
            gv = R.{last}(lv)
            R.output(gv)
        return gv
"""
    return from_source(text)


@pytest.mark.parametrize("first", ["exp", "tanh"])
def test_each_operator_of_a_rule_is_rewritten(first: str) -> None:
    assert_structural_equal(Flatter()(of(first, "sqrt")), of("sigmoid", "sqrt"))


def test_others_stay_and_so_does_the_module() -> None:
    mod = of("sqrt", "sigmoid")
    assert Flatter()(mod) is mod


def test_the_options_are_the_rules() -> None:
    made = str(Flatter(twice=True)(of("exp", "sqrt")))
    assert made.count("R.sigmoid") == 2


@pytest.mark.parametrize(
    ("last", "told"), [("tanh", "2 calls flattened"), ("sqrt", "1 call flattened")]
)
def test_what_was_done_is_told_and_counted(last: str, told: str) -> None:
    (step,) = trace([Flatter()], of("exp", last))
    assert step.notes == (told,)
    assert [str(r.rule.name) for r in step.rules] == ["Flatter.curve"]
    assert step.rules[0].count == int(told[0])


def test_a_rule_can_be_left_out() -> None:
    mod = of("exp", "tanh")
    with PassContext(disabled_rules=["Flatter.curve"]):
        assert Flatter()(mod) is mod


def test_a_rule_for_a_kind_of_operator_takes_all_that_are_derived_from_it() -> None:
    class Any_(CallPass, says=""):
        """Of nothing."""

    @Any_.rewrites(Conv)
    def conv(r: Reader, call: Any, attrs: Any) -> None:
        """Nothing."""

    found = [Any_.rule_for(kind) for kind in (Conv, *Conv.__subclasses__())]
    assert len(found) > 1 and None not in found
    assert Any_.rule_for(Exp) is None


def test_a_pass_that_is_derived_from_another_has_its_rules_and_words() -> None:
    class Derived(Flatter, says_one="curve flattened"):
        """As the other."""

    @Derived.rewrites(Sqrt)
    def root(r: Reader, call: Any, attrs: Any) -> Any:
        """A sigmoid too."""
        return op.sigmoid(call.args[0])

    (step,) = trace([Derived()], of("exp", "sqrt"))
    assert step.notes == ("2 calls flattened",)
    assert_structural_equal(step.after, of("sigmoid", "sigmoid"))
    (step,) = trace([Flatter()], of("exp", "sqrt"))
    assert step.notes == ("1 call flattened",)
    (step,) = trace([Derived()], of("exp", "floor"))
    assert step.notes == ("1 curve flattened",)
