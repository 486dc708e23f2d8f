"""A widget with one of everything that `widgets/base.js` has, so that the base is tested alone."""

from __future__ import annotations

from mlcnb.core.errors import MLCError
from mlcnb.view.parts import Line, Title
from mlcnb.widgets.base import Interactive


class Kit(Interactive):
    """Three steps, whose names are given."""

    module = "../../tests/browser/kit"

    def __init__(self, name: str = "split") -> None:
        self.names = [name, "reorder", "vectorize"]

    def snapshot(self):
        line = [["k", "for"], ["", f" {self.names[0]} in range("], ["n", "4"], ["", "):"]]
        marks = ["", "+", "-", "~"]
        steps = [
            {"name": name, "lines": [line] * 4, "marks": marks if at else []}
            for at, name in enumerate(self.names)
        ]
        facts = [[name, at] for at, name in enumerate(self.names)]
        return {"title": self.names[0], "steps": steps, "facts": facts}

    def parts(self):
        return [Title(f"three steps: {', '.join(self.names)}"), Line("as a static view")]

    def on_double(self, n: int):
        if n == 2:
            raise MLCError("two is enough", hint="go back")
        return {"n": 2 * n}
