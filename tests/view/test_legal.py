"""What is legal at a place, as a table."""

from __future__ import annotations

from mlcnb.view import legal
from tests.view.samples import everything


def test_a_primitive_is_named_once_before_its_calls():
    found = everything("x")["legal steps"]
    table = legal.legal(found)[1]
    assert len(table.rows) == len(found)
    named = [name for name, _, _ in table.rows if name]
    assert named == list(dict.fromkeys(step.primitive for step in found))
    assert len(named) < len(found) and all(
        call.startswith(f"sch.{name}(") for name, call, _ in table.rows if name
    )
