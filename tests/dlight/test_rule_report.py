"""Which rule took which function, and what those before it said: as text, as data, in a shell."""

from __future__ import annotations

import json

import pytest

import mlcnb as mlc
from mlcnb import cli
from mlcnb import dlight as dl
from mlcnb.core.errors import PassError
from mlcnb.dlight.gpu import RULES
from mlcnb.dlight.report import rules_of
from mlcnb.dlight.rule import choice, no
from mlcnb.ir.module import IRModule
from mlcnb.target import Target
from tests.dlight.test_gpu_rules import attended, halves, product
from tests.tir.schedule.programs import elementwise, row_sum

TEXT = """\
Rules for cuda: 1 function
  function  rule            steps
  main      low_batch_gemv     13
  passed over      why                                                                 functions
  flash_attention  no attention: it takes the blocks of nn.attention, all sizes known  main
  attention        no attention: it takes the blocks of nn.attention, all sizes known  main
  tensor_cores     float32 is rounded to tf32 only by gpu.Matmul(tf32=True)            main
  matmul           8 x 128 by 256: a side under 16 leaves too much of a tile empty     main
  gemv             8 rows: it takes 1                                                  main"""


def test_text():
    """A product whose sides are too short for tiles is a few rows times a matrix."""
    report = dl.rule_report(product(1, 8, 128, 256, False, True)[0], "cuda")
    assert str(report) == TEXT


@pytest.mark.parametrize(
    ("made", "rule", "why"),
    [
        (lambda: halves("float16", 0, 8, 40, 40)[0], "tensor_cores",
         "8 x 40 by 40: a side under 16 leaves too much of a tile empty"),
        (lambda: product(1, 1, 64, 32, True, False)[0], "gemv",
         "sums of 32: under 64 one thread does each"),
        (lambda: elementwise(64), "matmul", "nothing is summed"),
        (lambda: row_sum(3, 8), "rows", "rows of 8: under 32 one thread reduces each"),
        (lambda: row_sum(3, 8), "gemv", "B is no sum of products of two operands"),
        (lambda: attended(1, 1, 20000, 1, 4, False)[0], "attention",
         "what one query keeps takes 160,088 bytes, more shared memory than a block has"),
    ],
)  # fmt: skip
def test_each_rule_says_why(made, rule, why):
    (chosen,) = dl.rule_report(made(), "cuda").choices.values()
    assert {x.rule: x.why for x in chosen.passed}[rule] == why


def test_every_rule_is_accounted_for():
    """Those before the one that took it, in order, and each says something."""
    (chosen,) = dl.rule_report(elementwise(64), "cuda").choices.values()
    names = [rule.__name__ for rule in RULES]
    assert [x.rule for x in chosen.passed] == names[: names.index(chosen.rule)]
    assert all(x.why and "does not fit" not in x.why for x in chosen.passed)


def test_a_refused_step_is_told_and_what_one_rule_says_is_not_said_of_the_next():
    def speaks(sch, survey, target):
        return no("not today")

    def is_silent(sch, survey, target):
        """Apply to nothing. Ever."""
        return False

    def steps(sch, survey, target):
        sch.get_block("nowhere")
        return True

    def takes(sch, survey, target):
        return True

    found = choice((speaks, is_silent, steps, takes), elementwise(8), Target("cuda"))
    assert found.rule == "takes" and found.schedule is not None
    said = {x.rule: x.why for x in found.passed}
    assert said["speaks"] == "not today"
    assert said["is_silent"] == "it does not fit: apply to nothing"
    assert said["steps"].startswith("a step is refused: ") and "nowhere" in said["steps"]


def test_rules_of_cpus_and_what_is_scheduled_already():
    func = row_sum(3, 8).with_attr("global_symbol", "f")
    done = elementwise(8).with_attr("global_symbol", "g").with_attr("tir.is_scheduled", True)
    report = dl.rule_report(IRModule({"f": func, "g": done}))
    assert (report.target.kind, report.scheduled, list(report.choices)) == ("llvm", ("g",), ["f"])
    assert report["f"].rule in [rule.__name__ for rule in rules_of(report.target)]
    assert "scheduled already, so that no rule is asked: g" in str(report)


def test_an_executable_is_asked_by_its_target():
    func = product(1, 1, 64, 128, True, False)[0]
    ex = mlc.compile(func, target="cuda", schedule="default")
    report = dl.rule_report(ex)
    assert (report.target.kind, report["main"].rule) == ("cuda", "gemv")
    assert report.to_data()["functions"]["main"]["passed"][0]["rule"] == "flash_attention"


def test_graphs_are_refused():
    with pytest.raises(PassError) as caught:
        dl.rule_report(IRModule({}))
    assert caught.value.message == "rule_report: a module of graphs has no loop functions"


def test_in_a_shell(tmp_path, capsys):
    path = tmp_path / "loops.py"
    path.write_text(product(1, 1, 64, 128, True, False)[0].script())
    assert cli.main(["rules", str(path), "--target", "cuda"]) == 0
    assert "low_batch" not in (out := capsys.readouterr().out) and "gemv" in out
    assert cli.main(["rules", str(path), "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["target"] == "llvm" and data["functions"]["main"]["rule"] == "gemv"
