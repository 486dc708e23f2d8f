"""Linked source of a kernel for a GPU: Python, schedule, TensorIR, CUDA C++ and PTX, line by line.

    mlc.explore(ex.kernels[0])                     a kernel that was compiled with target="cuda"
    mlc.explore(kernel, schedule=sch)              with the steps that made its program

A line chosen in one pane lights the lines of the others that belong to it. No GPU is needed; the
PTX needs NVRTC.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlcnb.codegen.cuda.linked import CudaLinked
from mlcnb.view import cuda as static
from mlcnb.view.parts import Part
from mlcnb.widgets.base import Interactive, Lines
from mlcnb.widgets.registry import explores

#: lines of one listing that travel with the page
MOST = 700


@explores("mlcnb.codegen.cuda.backend:CudaKernel", "mlcnb.codegen.cuda.linked:CudaLinked")
class CudaSourcePage(Interactive):
    """The page of one kernel for a GPU."""

    module = "sources"

    def __init__(self, kernel: Any, schedule: Any = None) -> None:
        self.linked = kernel if isinstance(kernel, CudaLinked) else CudaLinked(kernel, schedule)

    def snapshot(self) -> dict[str, Any]:
        """All forms."""
        lines = Lines()
        panes = []
        for name, told, language in static.FORMS:
            form = getattr(self.linked, name)
            if form is not None:
                shown = static.tokens(form, language)[:MOST]
                panes.append(
                    {
                        "name": told,
                        "lines": lines.add(shown),
                        "links": [sorted(of) for of in form.links[:MOST]],
                        "first": form.first,
                        "left": len(form.lines) - len(shown),
                    }
                )
        return {
            "title": static.title(self.linked),
            "notes": static.notes(self.linked),
            "table": lines.table,
            "panes": panes,
        }

    def parts(self) -> Sequence[Part]:
        """A row for each line of the lowered program, and the listings."""
        return static.linked(self.linked)
