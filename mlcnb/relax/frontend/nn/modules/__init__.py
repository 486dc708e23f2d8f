"""The modules that there are: layers with parameters, and activations."""

from mlcnb.relax.frontend.nn.effects import IOEffect, KVCache
from mlcnb.relax.frontend.nn.module import Module, ModuleDict, ModuleList, Sequential
from mlcnb.relax.frontend.nn.modules.activation import (
    GELU,
    Dropout,
    Identity,
    ReLU,
    Sigmoid,
    SiLU,
    Softmax,
    Tanh,
)
from mlcnb.relax.frontend.nn.modules.attention import (
    Attention,
    MultiHeadAttention,
    TimestepEmbedding,
    Timesteps,
)
from mlcnb.relax.frontend.nn.modules.convolution import (
    Conv1D,
    Conv2D,
    Conv3D,
    ConvTranspose1D,
    ConvTranspose2D,
)
from mlcnb.relax.frontend.nn.modules.linear import Embedding, Linear
from mlcnb.relax.frontend.nn.modules.norm import BatchNorm2D, GroupNorm, LayerNorm, RMSNorm

__all__ = [name for name, value in list(globals().items()) if isinstance(value, type)]
