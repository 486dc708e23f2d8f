"""nn: models written as classes, as in PyTorch, that become graph functions.

    from mlcnb.relax.frontend import nn

    class MLP(nn.Module):
        def __init__(self):
            self.fc1 = nn.Linear(784, 256)
            self.fc2 = nn.Linear(256, 10)

        def forward(self, x):
            return self.fc2(nn.relu(self.fc1(x)))

    mod, params = MLP().export_tvm({"forward": {"x": nn.spec.Tensor(("n", 784), "float32")}})

Names and forms are those of TVM's `relax.frontend.nn`; the operators are here and in `nn.op`.
"""

from __future__ import annotations

from mlcnb.core.lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "mlcnb.relax.frontend.nn.exporter": "Exporter add_extern",
        "mlcnb.relax.frontend.nn.extern": "ExternModule ObjectModule SourceModule",
        "mlcnb.relax.frontend.nn.subroutine": "SubroutineMixin",
        "mlcnb.relax.frontend.nn.tensor": (
            "Effect Object Parameter Tensor get_default_dtype set_default_dtype reshape wrap_nested"
        ),
        "mlcnb.relax.frontend.nn.visitor": "Mutator",
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
        "mlcnb.relax.frontend.nn.effects": "IOEffect KVCache",
        "mlcnb.relax.frontend.nn.module": (
            "Module ModuleDict ModuleList Sequential ParameterDict ParameterList"
        ),
        "mlcnb.relax.frontend.nn.modules.activation": (
            "GELU Dropout Identity ReLU Sigmoid SiLU Softmax Tanh"
        ),
        "mlcnb.relax.frontend.nn.modules.attention": (
            "Attention MultiHeadAttention TimestepEmbedding Timesteps"
        ),
        "mlcnb.relax.frontend.nn.modules.convolution": (
            "Conv1D Conv2D Conv3D ConvTranspose1D ConvTranspose2D"
        ),
        "mlcnb.relax.frontend.nn.modules.linear": "Embedding Linear",
        "mlcnb.relax.frontend.nn.modules.norm": "BatchNorm2D GroupNorm LayerNorm RMSNorm",
    },
    submodules=("core", "modules", "op", "spec"),
)
