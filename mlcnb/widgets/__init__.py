"""Pages with script: step through a schedule, a pipeline, a kernel, a stream of accesses.

    mlc.explore(sch)                     the page of an object, by its class
    mlc.export(sch, "page.html")         the same in one file, which needs no network and no kernel

One file for each page: a Python class that knows what is shown (`base.Interactive`), and an ES
module of the same name that shows it.
"""

from __future__ import annotations

from mlcnb.widgets.base import Interactive
from mlcnb.widgets.export import export
from mlcnb.widgets.registry import explore, explores

__all__ = ["Interactive", "explore", "explores", "export"]
