"""The line that says that a cell's earlier steps were replaced, with a button to undo it.

    run again: steps 2 to 4 of this cell replaced  [undo]     sch.restore()

It is ipywidgets' own button; where there are none, the line says what to call.
"""

from __future__ import annotations

from typing import Any

from mlcnb.core import cells, display
from mlcnb.core.errors import MLCError
from mlcnb.view import as_html
from mlcnb.view.parts import Line
from mlcnb.widgets import following
from mlcnb.widgets.base import MIME, wants_widgets

#: what the button says when the steps that were replaced are back, and before
BACK, REPLACED = "replace them", "undo"


def tell(sch: Any, told: str) -> None:
    """Say it below the cell that runs.

    Args:
        sch: the schedule, whose `restore` the button calls.
        told: what happened.
    """
    line = f"{told}; sch.restore() brings back what was"
    if cells.shell() is None or not display.wants_html():
        print(line)
        return
    from IPython.display import display as show

    bundle: dict[str, Any] = {"text/plain": line, "text/html": as_html.to_html([Line(line)])}
    if wants_widgets():
        model = row(sch, told).model_id
        bundle[MIME] = {"version_major": 2, "version_minor": 0, "model_id": model}
    show(bundle, raw=True)


def row(sch: Any, told: str) -> Any:
    """The line and the button, as an ipywidget."""
    from ipywidgets import Button, HBox, Label

    line, button = Label(told), Button(description=REPLACED, tooltip="sch.restore()")
    button.layout.width = "auto"

    def swap(_: Any) -> None:
        try:
            sch.restore()
        except MLCError as error:
            line.value = error.message
            return
        is_back = button.description == REPLACED
        line.value = f"as before this cell was run again: {sch.position} steps" if is_back else told
        button.description = BACK if is_back else REPLACED
        following.after_cell()

    button.on_click(swap)
    return HBox([line, button])
