"""The settings of `PassContext(config={...})`: by key, each with its default and a sentence.

    {"tir.disable_vectorize": True}                          a plain setting
    {"tir.UnrollLoop": {"auto_max_step": 16}}                the options of a pass, by name

Keys are TVM's. `list_configs()` shows them all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mlcnb.core.errors import PassError

#: options of a pass -> (default, meaning)
Options = dict[str, tuple[Any, str]]

_SIMPLIFY: Options = {
    "transitively_prove_inequalities": (False, "prove `a < c` from `a < b` and `b < c`"),
    "propagate_knowns_to_prove_conditional": (False, "decide tests by what was stored before"),
    "propagate_knowns_to_simplify_expressions": (False, "put in values that were stored before"),
    "convert_boolean_to_and_of_ors": (False, "write conditions as an `and` of `or`s"),
    "apply_constraints_to_boolean_branches": (False, "take one side of `and`, `or` as known"),
}
_REMOVE_NO_OP: Options = {
    "use_dataflow_analysis": (False, "remove stores that are written over before they are read"),
    "max_simplification_steps": (0, "a limit of work that TVM has; not needed here"),
}
_LOOP_PARTITION: Options = {
    "partition_const_loop": (False, "also split loops whose extent is a number"),
    "no_unroll_loop_with_extent_one": (False, "leave a part of one iteration a loop"),
    "unroll_loop_with_partition_hint_no_interval": (False, "unroll a marked loop that has no cut"),
}
_UNROLL: Options = {
    "auto_max_step": (0, "unroll loops of at most so many steps"),
    "auto_max_depth": (8, "unroll so many nested loops at most"),
    "auto_max_extent": (0, "unroll loops of at most so many iterations"),
    "explicit_unroll": (True, "write the iterations out, rather than mark the loop"),
    "unroll_local_access": (False, "unroll loops that index memory of the thread itself"),
}

#: key -> (default, meaning), or the options of a pass
_configs: dict[str, tuple[Any, str] | Options] = {
    "relax.FuseOps.max_depth": (256, "largest number of operators in one fused kernel"),
    "relax.lift_transform_params.consume_params": (
        False,
        "give each weight up as soon as the lifted function has read it",
    ),
    "relax.backend.use_cuda_graph": (False, "capture CUDA graphs"),
    "relax.fallback_device_type": (1, "device of tensors without one"),
    "tir.Simplify": _SIMPLIFY,
    "tir.RemoveNoOp": _REMOVE_NO_OP,
    "tir.LoopPartition": _LOOP_PARTITION,
    "tir.UnrollLoop": _UNROLL,
    "tir.HoistExpression": {
        "hoisted_conditionals": (15, "which tests to move: a HoistedConditionals, as a number"),
        "hoisted_let_bindings": (7, "which bindings to move: a HoistedLetBindings, as a number"),
    },
    "tir.HoistIfThenElse": {
        "support_block_scope_hosting": (False, "move tests of thread axes out of loops too"),
    },
    "tir.InjectDoubleBuffer": {"split_loop": (0, "unroll the loop by so much, at most")},
    "tir.ReduceBranchingThroughOvercompute": {
        "use_dataflow_analysis": (False, "use what is known of the contents of buffers"),
    },
    "tir.disable_vectorize": (False, "run vectorized loops one element at a time"),
    "tir.disable_assert": (False, "leave out assertions"),
    "tir.disable_cse_tir": (False, "compute common expressions each time"),
    "tir.enable_equiv_terms_in_cse_tir": (False, "find common expressions up to rearrangement"),
    "tir.disable_storage_rewrite": (False, "give every allocation memory of its own"),
    "tir.enable_buffer_level_predication": (False, "mask vector loads in place of a test"),
    "tir.enable_debug": (False, "number the statements for a debugger"),
    "tir.debug_keep_trivial_loop": (False, "keep loops of one iteration"),
    "tir.detect_global_barrier": (False, "look for barriers of the whole device"),
    "tir.instrument_bound_checkers": (False, "check every access"),
    "tir.instrument_lwp": (False, "time the loops of a function"),
    "tir.lwp_disable_func_prof": (False, "time the loops, not the function"),
    "tir.lwp_max_depth": (0, "time loops no deeper than this"),
    "tir.lwp_min_height": (1, "time loops of at least this height"),
    "tir.reset_start_id": (False, "begin to count timers at 0"),
    "tir.merge_static_smem": (False, "put all static shared memory into one allocation"),
    "tir.noalias": (True, "parameters do not overlap"),
    "tir.ptx_ldg32": (False, "load through the read-only cache"),
    "tir.use_async_copy": (False, "copy to shared memory asynchronously"),
    "tir.add_lower_pass": ((), "pairs of a phase and a pass to run there"),
    "tir.vtcm_capacity": (0, "bytes of memory of a Hexagon; there is none here"),
}


def register_config(key: str, default: Any, meaning: str) -> None:
    """Declare a key of `PassContext.config`, with its default and a sentence."""
    _configs[key] = (default, meaning)


def list_configs() -> dict[str, Any]:
    """Every key of `PassContext.config`: (default, meaning), or a table of a pass's options."""
    return dict(_configs)


def check_configs(config: Mapping[str, Any]) -> None:
    """Refuse keys and options that nobody knows.

    Raises:
        PassError: says which one, and what there is.
    """
    for key, value in config.items():
        if key not in _configs:
            known = ", ".join(sorted(_configs))
            raise PassError(f"PassContext: no config key {key!r}", hint=f"known: {known}")
        options = _configs[key]
        if not isinstance(options, dict):
            continue
        if not isinstance(value, Mapping):
            raise PassError(
                f"PassContext: {key} is a table of options, not {value!r}",
                hint=f"its options: {', '.join(options)}",
            )
        for name in value:
            if name not in options:
                raise PassError(
                    f"PassContext: {key} has no option {name!r}",
                    hint=f"its options: {', '.join(options)}",
                )


def config_value(config: Mapping[str, Any], key: str) -> Any:
    """A setting as given, else its default; of a pass a table with all its options."""
    known = _configs[key]
    if isinstance(known, dict):
        given = config.get(key, {})
        return {name: given.get(name, default) for name, (default, _) in known.items()}
    return config[key] if key in config else known[0]
