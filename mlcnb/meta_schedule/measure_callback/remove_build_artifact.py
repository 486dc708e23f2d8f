"""RemoveBuildArtifact: files of candidates go when they have run."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mlcnb.meta_schedule.measure_callback.callback import MeasureCallback


class RemoveBuildArtifact(MeasureCallback):
    """Those that `LocalBuilder` made, with their folders; others' files stay."""

    kind = "remove-build-artifact"

    def apply(
        self,
        task_scheduler: Any,
        task_id: int,
        measure_candidates: Sequence[Any],
        builder_results: Sequence[Any],
        runner_results: Sequence[Any],
    ) -> None:
        """Remove them."""
        for one in builder_results:
            folder = Path(one.artifact_path).parent if one.artifact_path else None
            if folder is not None and folder.name.startswith("mlcnb-candidate-"):
                shutil.rmtree(folder, ignore_errors=True)
