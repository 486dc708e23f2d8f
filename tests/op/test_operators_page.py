"""The page of all operators is what the declarations say."""

from __future__ import annotations

from pathlib import Path

from mlcnb.op import names
from mlcnb.relax.operator import declaration
from mlcnb.testing.operators_page import dtypes, page

PAGE = Path(__file__).parents[2] / "docs" / "operators.md"


def test_the_page_is_as_new_as_the_declarations():
    hint = "run: python -m mlcnb.testing.operators_page docs/operators.md"
    assert PAGE.read_text() == page(), hint


def test_every_operator_stands_there_once():
    rows = [line for line in PAGE.read_text().split("\n") if line.startswith("| `")]
    assert len(rows) == len(names()) == len(set(rows))
    assert "## nn.activation" in PAGE.read_text() and "Relu (1-)" in PAGE.read_text()


def test_dtypes():
    assert dtypes(declaration("relax.add")) == ["int", "uint", "float"]
    assert dtypes(declaration("relax.exp")) == ["float"]
    assert dtypes(declaration("relax.logical_not")) == ["bool"]
    assert dtypes(declaration("relax.reshape")) == []
