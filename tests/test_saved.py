"""Notebooks as files have them and as JupyterLab has them: one is made of the other, and back."""

from __future__ import annotations

from copy import deepcopy

import pytest
from nbformat import v4, validate

from mlcnb.cli._saved import OWN, STATE, VIEW, put_away, take_back


def shown(name, **data):
    view = {"model_id": name, "version_major": 2, "version_minor": 0}
    data = {"text/plain": name, VIEW: view, **{f"text/{kind}": x for kind, x in data.items()}}
    return v4.new_code_cell("x", outputs=[v4.new_output("display_data", data)])


def notebook_of(*cells, **states):
    widgets = {STATE: {"version_major": 2, "version_minor": 0, "state": states}}
    return v4.new_notebook(cells=list(cells), metadata={"widgets": widgets})


PAGE = {"model_name": "AnyModel", "state": {"layout": "IPY_MODEL_room"}}
BOXES = {"page": PAGE, "room": {"state": {}}, "slider": {"state": {}}}


def test_what_has_a_static_form_is_static_in_the_file_and_live_again():
    before = notebook_of(shown("page", html="<b>page</b>"), shown("slider"), **BOXES)
    file = put_away(deepcopy(before))
    validate(file)
    assert [sorted(c.outputs[0].data) for c in file.cells] == [
        ["text/html", "text/plain"],
        [VIEW, "text/plain"],
    ]
    assert file.metadata.widgets[STATE].state == {"slider": BOXES["slider"]}
    assert sorted(file.metadata[OWN].widgets) == ["page", "room"]
    assert put_away(deepcopy(file)) == file
    assert take_back(file) == before


def test_where_all_is_static_no_state_is_left_for_others():
    before = notebook_of(shown("page", html="<b>page</b>"), page=PAGE, room={"state": {}})
    file = put_away(deepcopy(before))
    assert list(file.metadata) == [OWN]
    assert take_back(file) == before


def test_a_page_whose_state_was_not_saved_stays_static():
    """JupyterLab would say that its model is not found."""
    bare = v4.new_notebook(cells=[shown("page", html="<b>page</b>")])
    again = take_back(put_away(bare))
    assert set(again.cells[0].outputs[0].data) == {"text/plain", "text/html"}
    assert OWN not in again.cells[0].outputs[0].metadata


@pytest.mark.parametrize("odd", [None, "x", [], {"widgets": 3}])
def test_odd_metadata_is_no_obstacle(odd):
    notebook = notebook_of(shown("page", html="<b>page</b>"))
    notebook.metadata[OWN] = odd
    notebook.cells[0].outputs[0].metadata[OWN] = odd
    take_back(notebook)
    assert OWN not in notebook.metadata
