"""get_tir_pipeline: the standard lowering as a pass on modules."""

from __future__ import annotations

import pytest

from mlcnb import tir
from mlcnb.core.errors import PassError
from mlcnb.ir.module import IRModule
from mlcnb.ir.structural import assert_structural_equal
from tests.tir.schedule.programs import copy_2d


@pytest.mark.parametrize(
    "made", [tir.get_tir_pipeline, lambda: tir.get_default_tir_pipeline("llvm")]
)
def test_a_module_is_lowered_as_compilers_do(made):
    mod = IRModule({"main": copy_2d()})
    pipeline = made()
    assert pipeline.name == "default"
    found = pipeline(mod)["main"]
    assert_structural_equal(found, tir.transform.lower(mod["main"]))
    assert "T.block" not in str(found)


def test_other_names_and_options_are_refused():
    with pytest.raises(PassError, match="no pipeline 'adreno' for loop functions"):
        tir.get_tir_pipeline("adreno")
    with pytest.raises(PassError, match="the pipeline 'default' has no option level"):
        tir.get_tir_pipeline(level=3)
