"""TVM's names of analyses and of arithmetic are there."""

from __future__ import annotations

import mlcnb as tvm

ARITH = """
Analyzer ConstIntBound ModularSet ProofStrength IntSet IntervalSet estimate_region_lower_bound
estimate_region_strict_bound estimate_region_upper_bound deduce_bound detect_clip_bound
detect_linear_equation detect_iter_map inverse_affine_iter_map iter_map_simplify
normalize_iter_map_to_expr normalize_to_iter_sum subspace_divide IterMapLevel IterMark IterSplitExpr
IterSumExpr solve_linear_equations solve_linear_inequalities IntConstraints IntConstraintsTransform
"""
ANALYZER = """
bind can_prove can_prove_equal can_prove_greater_equal can_prove_less canonical_simplify
const_int_bound const_int_bound_is_bound constraint_scope int_set modular_set rewrite_simplify
simplify update
"""
ANALYSIS = """
OOBChecker assert_pure_function calculate_allocated_bytes detect_buffer_access_lca
estimate_tir_flops expr_deep_equal find_anchor_block get_block_access_region
get_block_read_write_region is_pure_function undefined_vars verify_gpu_code verify_memory verify_ssa
verify_well_formed
"""
SCHEDULE = "get_tensorize_loop_mapping has_block is_output_block suggest_index_map TensorizeInfo"


def test_names():
    places = [
        (tvm.arith, ARITH), (tvm.arith.Analyzer, ANALYZER), (tvm.tir.analysis, ANALYSIS),
        (tvm.tir.schedule.analysis, SCHEDULE),
    ]  # fmt: skip
    for place, names in places:
        missing = [name for name in names.split() if not hasattr(place, name)]
        assert missing == []
