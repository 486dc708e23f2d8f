"""Pipelines that somebody registered: they stand before mlcnb's own of the same name.

They are known without `pipeline`, which loads every pass: a module whose passes were run before, in
another process, needs none of them.
"""

from __future__ import annotations

from collections.abc import Callable

from mlcnb.ir.transform import Pass

#: from a target (or None) and options to the passes
PipelineFunction = Callable[..., list[Pass]]
#: by name (`register_pipeline`)
GIVEN: dict[str, PipelineFunction] = {}


def is_own(name: str) -> bool:
    """Whether a pipeline of that name, if there is one, is mlcnb's own."""
    return name not in GIVEN
