"""nn.op: the operators, on Tensors; each appends to the function that is being exported.

    op.relu(x)    op.add(x, 1.0)    op.conv2d(x, w, b, stride=2)    op.split(x, 2, axis=1)

Names, arguments and results are those of TVM's `nn.op`; a number beside a Tensor takes its dtype.
"""

from mlcnb.relax.frontend.nn.op.calls import (
    debug_func,
    extern,
    print_,
    tensor_expr_op,
    tensor_ir_inplace_op,
    tensor_ir_op,
)
from mlcnb.relax.frontend.nn.op.convolution import (
    conv1d,
    conv1d_transpose,
    conv2d,
    conv2d_transpose,
    conv3d,
    interpolate,
    pad,
)
from mlcnb.relax.frontend.nn.op.creation import (
    arange,
    empty,
    full,
    get_timestep_embedding,
    ones,
    tril,
    triu,
    zeros,
)
from mlcnb.relax.frontend.nn.op.elementwise import (
    abs,
    add,
    astype,
    clip,
    cos,
    divide,
    equal,
    erf,
    exp,
    floor,
    gelu,
    greater,
    greater_equal,
    less,
    less_equal,
    log,
    maximum,
    minimum,
    multiply,
    negative,
    not_equal,
    power,
    prelu,
    relu,
    relu6,
    rsqrt,
    sigmoid,
    silu,
    sin,
    softplus,
    sqrt,
    square,
    subtract,
    tanh,
    where,
)
from mlcnb.relax.frontend.nn.op.normal import (
    batch_norm,
    dropout,
    group_norm,
    layer_norm,
    log_softmax,
    rms_norm,
    scaled_dot_product_attention,
    softmax,
)
from mlcnb.relax.frontend.nn.op.parallel import (
    ccl_allgather,
    ccl_allreduce,
    ccl_broadcast_from_worker0,
)
from mlcnb.relax.frontend.nn.op.reduction import (
    argsort,
    cumsum,
    max,
    mean,
    min,
    sort,
    sum,
    topk,
)
from mlcnb.relax.frontend.nn.op.sampling import (
    multinomial_from_uniform,
    renormalize_top_p_top_k_prob,
    sample_top_p_top_k_from_sorted_prob,
)
from mlcnb.relax.frontend.nn.op.shape import (
    broadcast_to,
    chunk,
    concat,
    flatten,
    matmul,
    permute,
    permute_dims,
    repeat,
    split,
    squeeze,
    take,
    unsqueeze,
)
from mlcnb.relax.frontend.nn.tensor import reshape, wrap_nested

__all__ = [name for name, value in list(globals().items()) if callable(value) and name[0] != "_"]
