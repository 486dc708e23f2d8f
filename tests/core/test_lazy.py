"""Lazy packages: names, and submodules that are called like what they bring."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

import mlcnb

PROGRAM = """
import sys
import mlcnb.relax.analysis.well_formed
from mlcnb.relax import analysis
assert callable(analysis.well_formed), analysis.well_formed
import mlcnb
assert "llvmlite" not in sys.modules and "onnx" not in sys.modules
"""


def test_a_function_is_not_hidden_by_its_module() -> None:
    subprocess.run([sys.executable, "-c", PROGRAM], check=True)


@pytest.mark.parametrize("module", ["transform", "topi", "contrib", "nd", "tirx", "s_tir", "error"])
def test_a_second_name_may_be_the_first_import(module: str) -> None:
    subprocess.run([sys.executable, "-c", f"from mlcnb.{module} import *"], check=True)


def test_unknown_names_are_refused_and_known_ones_listed() -> None:
    assert "IRModule" in dir(mlcnb) and "relax" in mlcnb.__all__
    assert mlcnb.nd.array and "nd" not in dir(mlcnb)
    with pytest.raises(AttributeError, match="module 'mlcnb' has no attribute 'nope'"):
        mlcnb.nope
    with pytest.raises(
        AttributeError, match="'mlcnb' has no attribute 'explor': did you mean 'explore'"
    ):
        mlcnb.explor


SECOND = """
import importlib, sys
import mlcnb.topi.nn
assert sys.modules["mlcnb.topi.nn"] is sys.modules["mlcnb.compat.topi.nn"]
from mlcnb.tirx.transform import lower
import mlcnb
from mlcnb.tir import transform
assert lower is transform.lower and mlcnb.tirx is mlcnb.tir
from mlcnb.nd import array
from mlcnb.contrib.utils import tempdir
assert mlcnb.nd.__name__ == mlcnb.nd.__spec__.name == "mlcnb.compat.nd"
assert importlib.reload(mlcnb.nd) is mlcnb.nd
import mlcnb.compat.nd
assert mlcnb.compat.nd is mlcnb.nd
try:
    import mlcnb.topi.nope
except ModuleNotFoundError as error:
    print(error)
"""


def test_a_second_name_is_the_module_itself() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SECOND], check=True, capture_output=True, text=True
    )
    assert done.stdout == "No module named 'mlcnb.compat.topi.nope'\n"


@pytest.mark.parametrize(
    "module", ["mlcnb.ir.base", "mlcnb.ir.transform", "mlcnb.compat.transform"]
)
def test_a_file_that_has_no_such_name_says_so(module: str) -> None:
    found = importlib.import_module(module)
    assert not hasattr(found, "no_such_name")
    with pytest.raises(AttributeError, match="has no attribute 'no_such_name'"):
        _ = found.no_such_name
