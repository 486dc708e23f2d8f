"""The modules that there are: layers with parameters, and activations."""

from __future__ import annotations

from mlcnb.core.lazy import attach

__getattr__, __dir__, __all__ = attach(
    __name__,
    {
        "mlcnb.relax.frontend.nn.effects": "IOEffect KVCache",
        "mlcnb.relax.frontend.nn.module": (
            "Module ModuleDict ModuleList Sequential ParameterDict ParameterList"
        ),
        "mlcnb.relax.frontend.nn.modules.attention": (
            "Attention MultiHeadAttention TimestepEmbedding Timesteps"
        ),
        "mlcnb.relax.frontend.nn.modules.convolution": (
            "Conv1D Conv2D Conv3D ConvTranspose1D ConvTranspose2D"
        ),
        "mlcnb.relax.frontend.nn.modules.layers": (
            "BatchNorm BatchNorm1D BatchNorm2D BatchNorm3D Dropout Embedding GELU GroupNorm "
            "Identity LayerNorm Linear RMSNorm ReLU Sigmoid SiLU Softmax Tanh"
        ),
    },
)
