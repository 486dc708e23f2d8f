"""Schedules that are searched and measured: `tune`, records, databases, their use in `compile`.

db = mlc.meta_schedule.JSONDatabase(work_dir="tuned")     or MemoryDatabase()
db.commit(sch, run_secs=[0.0012])                         what this schedule took
with db:
    ex = mlc.compile(mod)                                 its loops run as the best record says
"""

from __future__ import annotations

from mlcnb.core.lazy import attach

_HERE = "mlcnb.meta_schedule"

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        f"{_HERE}.database.record": "TuningRecord Workload",
        f"{_HERE}.database.database": "Database MemoryDatabase OrderedUnionDatabase",
        f"{_HERE}.database.json_database": "JSONDatabase",
        f"{_HERE}.database.apply": "MetaScheduleApplyDatabase",
        f"{_HERE}.tune": "tune replay_tuning ModelTuning",
        f"{_HERE}.found": "Tuning Trial Round",
        f"{_HERE}.integration": "tune_tir compile_tir ExtractedTask",
        f"{_HERE}.tune_tasks": "tune_tasks",
        f"{_HERE}.space": "DefaultSpace FunctionSpace",
        f"{_HERE}.tune_context": "TuneContext",
        f"{_HERE}.part": "derived_object",
        f"{_HERE}.arg_info": "ArgInfo TensorInfo ScalarInfo",
        f"{_HERE}.profiler": "Profiler",
        f"{_HERE}.builder": "Builder LocalBuilder PyBuilder BuilderInput BuilderResult",
        f"{_HERE}.runner": (
            "Runner LocalRunner PyRunner RunnerInput RunnerResult RunnerFuture PyRunnerFuture "
            "EvaluatorConfig"
        ),
        f"{_HERE}.schedule_rule": "ScheduleRule PyScheduleRule",
        f"{_HERE}.postproc": "Postproc PyPostproc",
        f"{_HERE}.mutator": "Mutator PyMutator",
        f"{_HERE}.space_generator": "SpaceGenerator PySpaceGenerator",
        f"{_HERE}.search_strategy": "SearchStrategy PySearchStrategy MeasureCandidate",
        f"{_HERE}.cost_model": "CostModel PyCostModel",
        f"{_HERE}.task_scheduler": "TaskScheduler PyTaskScheduler TaskRecord",
        f"{_HERE}.measure_callback": "MeasureCallback PyMeasureCallback",
        f"{_HERE}.feature_extractor": "FeatureExtractor PyFeatureExtractor",
    },
    submodules=(
        "arg_info auto_tensorize builder cost_model database defaults feature_extractor "
        "measure_callback mutator postproc profiler runner schedule_rule search_strategy "
        "space_generator task_scheduler testing"
    ).split(),
    elsewhere={_HERE: "relax_integration=integration tir_integration=integration utils=part"},
)
