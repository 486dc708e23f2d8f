"""What a lower part asks of an upper one, by a word: answered in one place, `mlcnb/__init__.py`.

    above.answer({"compile": "mlcnb.driver:compile"})       the root of the package
    above.ask("compile")(mod)                               whoever needs it, below

Imports go down; where a question goes up (a function of a graph is asked to be compiled, a file of
JSON holds nodes of every level) the one who asks knows the word, and who answers is loaded when it
is first asked.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from functools import cache
from typing import Any

_answers: dict[str, str] = {}


def answer(answers: Mapping[str, str]) -> None:
    """Say who answers: word -> "module:name", or modules separated by spaces."""
    _answers.update(answers)


def modules(word: str) -> tuple[str, ...]:
    """The names of the modules that a word stands for.

    Raises:
        KeyError: nobody answers.
    """
    return tuple(_answers[word].split())


@cache
def ask(word: str) -> Any:
    """The function or class that a word stands for, or the module.

    Raises:
        KeyError: nobody answers.
    """
    module, _, name = _answers[word].partition(":")
    found = importlib.import_module(module)
    return getattr(found, name) if name else found
