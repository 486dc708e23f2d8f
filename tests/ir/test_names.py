"""Public names of the packages of passes and analyses: each is there, and has a docstring."""

from __future__ import annotations

import inspect

import pytest

import mlcnb


@pytest.mark.parametrize("path", ["ir", "transform", "relax.transform", "relax.analysis"])
def test_every_public_name_is_there(path: str) -> None:
    package = mlcnb
    for part in path.split("."):
        package = getattr(package, part)
    for name in package.__all__:
        found = getattr(package, name)
        if inspect.isclass(found) or inspect.isfunction(found):
            assert inspect.getdoc(found), f"{path}.{name} has no docstring"


def test_passes_say_what_they_do_in_a_sentence() -> None:
    from mlcnb.ir.transform import Pass

    for name in mlcnb.relax.transform.__all__:
        found = getattr(mlcnb.relax.transform, name)
        if inspect.isclass(found) and issubclass(found, Pass):
            summary = (inspect.getdoc(found) or "").split("\n\n")[0]
            assert summary.endswith(".") and not summary.startswith(name), name
