"""nn.op: the operators, on Tensors; each appends to the function that is being exported.

    op.relu(x)    op.add(x, 1.0)    op.conv2d(x, w, b, stride=2)    op.split(x, 2, axis=1)

Names, arguments and results are those of TVM's `nn.op`; a number beside a Tensor takes its dtype.
"""

from __future__ import annotations

from mlcnb.core.lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "mlcnb.relax.frontend.nn.op.calls": (
            "debug_func extern print_ tensor_expr_op tensor_ir_inplace_op tensor_ir_op"
        ),
        "mlcnb.relax.frontend.nn.op.convolution": (
            "conv1d conv1d_transpose conv2d conv2d_transpose conv3d interpolate pad"
        ),
        "mlcnb.relax.frontend.nn.op.creation": (
            "arange empty full get_timestep_embedding ones tril triu zeros"
        ),
        "mlcnb.relax.frontend.nn.op.elementwise": (
            "abs add astype clip cos divide equal erf exp floor gelu greater greater_equal "
            "less less_equal log maximum minimum multiply negative not_equal power prelu relu "
            "relu6 rsqrt sigmoid silu sin softplus sqrt square subtract tanh where"
        ),
        "mlcnb.relax.frontend.nn.op.normal": (
            "batch_norm dropout group_norm layer_norm log_softmax rms_norm "
            "scaled_dot_product_attention softmax"
        ),
        "mlcnb.relax.frontend.nn.op.parallel": (
            "ccl_allgather ccl_allreduce ccl_broadcast_from_worker0"
        ),
        "mlcnb.relax.frontend.nn.op.reduction": "argsort cumsum max mean min sort sum topk",
        "mlcnb.relax.frontend.nn.op.sampling": (
            "multinomial_from_uniform renormalize_top_p_top_k_prob "
            "sample_top_p_top_k_from_sorted_prob"
        ),
        "mlcnb.relax.frontend.nn.op.shape": (
            "broadcast_to chunk concat flatten matmul permute permute_dims repeat split "
            "squeeze take unsqueeze"
        ),
        "mlcnb.relax.frontend.nn.tensor": "reshape wrap_nested",
    },
)
