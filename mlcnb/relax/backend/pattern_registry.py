"""The patterns that libraries have registered, by name: `"blas.matmul_bias"`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mlcnb.ir.module import IRModule
from mlcnb.relax import backend
from mlcnb.relax.transform.fuse_ops_by_pattern import FuseOpsByPattern, FusionPattern
from mlcnb.relax.transform.merge_composite_functions import MergeCompositeFunctions

_patterns: dict[str, FusionPattern] = {}


def register_patterns(patterns: Iterable[Any]) -> None:
    """Make patterns known: FusionPatterns, or tuples (name, pattern[, names[, check]]).

    Of the patterns of a library the later ones go first. A name that is known already is replaced.

    Raises:
        PassError: something else was given.
    """
    for pattern in map(FusionPattern.of, list(patterns)):
        _patterns.pop(pattern.name, None)
        _patterns[pattern.name] = pattern


def get_pattern(name: str) -> FusionPattern | None:
    """The pattern of that name, or None."""
    backend.load(name.partition(".")[0])
    return _patterns.get(name)


def get_patterns_with_prefix(prefix: str) -> list[FusionPattern]:
    """The patterns whose names begin so, the most important first."""
    backend.load(prefix.partition(".")[0])
    return [p for name, p in reversed(_patterns.items()) if name.startswith(prefix)]


def partition(
    mod: IRModule, library: str, merge: bool = False, bind_constants: bool = True
) -> IRModule:
    """The module with what a library can do in functions of their own, each with its `Codegen`.

    Args:
        mod: a module of operators.
        library: the library's name.
        merge: neighbouring functions become one.
        bind_constants: constants stand inside of the functions; else they are handed over.
    """
    patterns = get_patterns_with_prefix(f"{library}.")
    made = FuseOpsByPattern(patterns, bind_constants, annotate_codegen=not merge)(mod)
    return MergeCompositeFunctions()(made) if merge else made
