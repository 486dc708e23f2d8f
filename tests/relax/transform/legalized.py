"""Calls that LegalizeOps makes loops of, compared with Apache TVM's; see `test_legalize_as_tvm`.

A line is a name, the parameters and the call; a parameter without a dtype is float32.
"""

# ruff: noqa: E501
from __future__ import annotations

import re

_TABLE = """
binary:add | x: (2, 3), y: (2, 1) | R.add(x, y)
binary:subtract | x: (2, 3), y: (2, 1) | R.subtract(x, y)
binary:multiply | x: (2, 3), y: (2, 1) | R.multiply(x, y)
binary:divide | x: (2, 3), y: (2, 1) | R.divide(x, y)
binary:floor_divide | x: (2, 3), y: (2, 1) | R.floor_divide(x, y)
binary:power | x: (2, 3), y: (2, 1) | R.power(x, y)
binary:maximum | x: (2, 3), y: (2, 1) | R.maximum(x, y)
binary:minimum | x: (2, 3), y: (2, 1) | R.minimum(x, y)
binary:equal | x: (2, 3), y: (2, 1) | R.equal(x, y)
binary:not_equal | x: (2, 3), y: (2, 1) | R.not_equal(x, y)
binary:greater | x: (2, 3), y: (2, 1) | R.greater(x, y)
binary:greater_equal | x: (2, 3), y: (2, 1) | R.greater_equal(x, y)
binary:less | x: (2, 3), y: (2, 1) | R.less(x, y)
binary:less_equal | x: (2, 3), y: (2, 1) | R.less_equal(x, y)
binary:add_scalar_rhs | x: (2, 3) | R.add(x, R.const(1, 'float32'))
binary:add_scalar_lhs | x: (2, 3) | R.add(R.const(1, 'float32'), x)
binary:divide_scalar_rhs | x: (2, 3) | R.divide(x, R.const(1, 'float32'))
binary:divide_scalar_lhs | x: (2, 3) | R.divide(R.const(1, 'float32'), x)
binary:floor_divide_scalar_rhs | x: (2, 3) | R.floor_divide(x, R.const(1, 'float32'))
binary:floor_divide_scalar_lhs | x: (2, 3) | R.floor_divide(R.const(1, 'float32'), x)
binary:equal_scalar_rhs | x: (2, 3) | R.equal(x, R.const(1, 'float32'))
binary:equal_scalar_lhs | x: (2, 3) | R.equal(R.const(1, 'float32'), x)
binary:greater_scalar_rhs | x: (2, 3) | R.greater(x, R.const(1, 'float32'))
binary:greater_scalar_lhs | x: (2, 3) | R.greater(R.const(1, 'float32'), x)
binary:maximum_scalar_rhs | x: (2, 3) | R.maximum(x, R.const(1, 'float32'))
binary:maximum_scalar_lhs | x: (2, 3) | R.maximum(R.const(1, 'float32'), x)
binary:minimum_scalar_rhs | x: (2, 3) | R.minimum(x, R.const(1, 'float32'))
binary:minimum_scalar_lhs | x: (2, 3) | R.minimum(R.const(1, 'float32'), x)
binary:add_symbolic | x: (1, 'c', 'd'), y: ('a', 'b', 'c', 1) | R.add(x, y)
binary:divide_symbolic | x: (1, 'c', 'd'), y: ('a', 'b', 'c', 1) | R.divide(x, y)
binary:floor_divide_symbolic | x: (1, 'c', 'd'), y: ('a', 'b', 'c', 1) | R.floor_divide(x, y)
binary:equal_symbolic | x: (1, 'c', 'd'), y: ('a', 'b', 'c', 1) | R.equal(x, y)
binary:greater_symbolic | x: (1, 'c', 'd'), y: ('a', 'b', 'c', 1) | R.greater(x, y)
binary:maximum_symbolic | x: (1, 'c', 'd'), y: ('a', 'b', 'c', 1) | R.maximum(x, y)
binary:bitwise_and | x: (2, 3) int64, y: (2, 3) int64 | R.bitwise_and(x, y)
binary:bitwise_or | x: (2, 3) int64, y: (2, 3) int64 | R.bitwise_or(x, y)
binary:bitwise_xor | x: (2, 3) int64, y: (2, 3) int64 | R.bitwise_xor(x, y)
binary:left_shift | x: (2, 3) int64, y: (2, 3) int64 | R.left_shift(x, y)
binary:right_shift | x: (2, 3) int64, y: (2, 3) int64 | R.right_shift(x, y)
binary:mod | x: (2, 3) int64, y: (2, 3) int64 | R.mod(x, y)
binary:floor_mod | x: (2, 3) int64, y: (2, 3) int64 | R.floor_mod(x, y)
binary:logical_and | x: (2, 3) bool, y: (2, 3) bool | R.logical_and(x, y)
binary:logical_or | x: (2, 3) bool, y: (2, 3) bool | R.logical_or(x, y)
binary:logical_xor | x: (2, 3) bool, y: (2, 3) bool | R.logical_xor(x, y)
unary:abs | x: (2, 3) | R.abs(x)
unary:acos | x: (2, 3) | R.acos(x)
unary:acosh | x: (2, 3) | R.acosh(x)
unary:asin | x: (2, 3) | R.asin(x)
unary:asinh | x: (2, 3) | R.asinh(x)
unary:atan | x: (2, 3) | R.atan(x)
unary:atanh | x: (2, 3) | R.atanh(x)
unary:ceil | x: (2, 3) | R.ceil(x)
unary:cos | x: (2, 3) | R.cos(x)
unary:cosh | x: (2, 3) | R.cosh(x)
unary:exp | x: (2, 3) | R.exp(x)
unary:floor | x: (2, 3) | R.floor(x)
unary:log | x: (2, 3) | R.log(x)
unary:negative | x: (2, 3) | R.negative(x)
unary:nn.relu | x: (2, 3) | R.nn.relu(x)
unary:round | x: (2, 3) | R.round(x)
unary:rsqrt | x: (2, 3) | R.rsqrt(x)
unary:sigmoid | x: (2, 3) | R.sigmoid(x)
unary:sign | x: (2, 3) | R.sign(x)
unary:sin | x: (2, 3) | R.sin(x)
unary:sinh | x: (2, 3) | R.sinh(x)
unary:sqrt | x: (2, 3) | R.sqrt(x)
unary:square | x: (2, 3) | R.square(x)
unary:tan | x: (2, 3) | R.tan(x)
unary:tanh | x: (2, 3) | R.tanh(x)
unary:erf | x: (2, 3) | R.erf(x)
unary:isnan | x: (2, 3) | R.isnan(x)
unary:isinf | x: (2, 3) | R.isinf(x)
unary:isfinite | x: (2, 3) | R.isfinite(x)
unary:exp_symbolic | x: ('m', 'n') | R.exp(x)
unary:sqrt_symbolic | x: ('m', 'n') | R.sqrt(x)
unary:abs_symbolic | x: ('m', 'n') | R.abs(x)
unary:negative_symbolic | x: ('m', 'n') | R.negative(x)
unary:sigmoid_symbolic | x: ('m', 'n') | R.sigmoid(x)
unary:clip | x: (2, 3) | R.clip(x, 5, 8)
unary:clip_symbolic | x: ('m', 'n') | R.clip(x, 5, 8)
unary:bitwise_not | x: (2, 3) int64 | R.bitwise_not(x)
unary:logical_not | x: (2, 3) bool | R.logical_not(x)
create:full | v: () int32 | R.full((2, 3), v, dtype='int32')
create:full_const |  | R.full((2, 3), R.const(3.5, 'float32'), dtype='float32')
create:full_dtype | v: () int32 | R.full((2, 3), v, dtype='float32')
create:full_like | x: (2, 3) int32, v: () | R.full_like(x, v)
create:full_like_const | x: (2, 3) int32 | R.full_like(x, R.const(-5, 'float32'))
create:full_like_dtype | x: (2, 3) int32, v: () | R.full_like(x, v, dtype='float64')
create:ones |  | R.ones((2, 3), 'float32')
create:ones_like | x: (2, 3) int32 | R.ones_like(x)
create:ones_like_symbolic | x: ('m', 'n') | R.ones_like(x)
create:zeros |  | R.zeros((2, 3), 'float32')
create:zeros_like | x: (2, 3) int32 | R.zeros_like(x)
create:zeros_like_symbolic | x: ('m', 'n') | R.zeros_like(x)
create:arange |  | R.arange(1, 10, 2, dtype='int64')
create:arange_symbolic | x: ('n',) int64 | R.arange(1, n, 2, dtype='int64')
create:tril | x: (2, 3, 4) | R.tril(x, k=1)
create:tril_symbolic | x: ('m', 'n', 'k') int8 | R.tril(x, k=-2)
create:triu | x: (2, 3, 4) | R.triu(x, k=1)
create:eye |  | R.eye(3, 4, 1, dtype='float32')
create:astype | x: (2, 3) | R.astype(x, 'int32')
create:astype_symbolic | x: ('m', 'n') | R.astype(x, 'int32')
create:astype_const |  | R.astype(R.const(1.5, 'float32'), 'int32')
index:take | x: (2, 3, 4), i: (4,) int64 | R.take(x, i, axis=1)
index:take_const_prim | x: (2, 3, 4) | R.take(x, R.prim_value(0), axis=1)
index:strided_slice | x: (8, 9, 10, 10) | R.strided_slice(x, axes=[0, 1, 3], begin=[1, 0, 8], end=[8, 9, 0], strides=[2, 1, -3])
index:strided_slice_no_strides | x: (8, 9, 10, 10) | R.strided_slice(x, axes=[0, 1, 3], begin=[1, 0, 2], end=[8, 9, 4])
index:strided_slice_symbolic | x: (10, 'n') | R.strided_slice(x, axes=[0], begin=[1], end=[8], strides=[3])
index:dynamic_strided_slice | x: (8, 9, 10, 10), b: (4,) int64, e: (4,) int64, s: (4,) int64 | R.dynamic_strided_slice(x, b, e, s)
index:matmul_1_4 | x: (4,), y: (2, 3, 4, 5) | R.matmul(x, y)
index:matmul_4_1 | x: (2, 3, 4, 5), y: (5,) | R.matmul(x, y)
index:matmul_1_1 | x: (4,), y: (4,) | R.matmul(x, y)
index:matmul_4_5 | x: (2, 3, 4, 5), y: (6, 2, 3, 5, 7) | R.matmul(x, y)
index:matmul_2d | x: (4, 8), y: (8, 16) | R.matmul(x, y)
index:matmul_sym | x: ('b', 1, 'm', 'k'), y: ('a', 1, 'c', 'k', 'n') | R.matmul(x, y)
index:matmul_out | x: (3, 4) float16, y: (4, 5) float16 | R.matmul(x, y, out_dtype='float32')
index:einsum | x: (2, 3), y: (3, 4) | R.einsum((x, y), 'ij,jk->ik')
index:einsum_sym | x: ('a', 'b'), y: ('b', 'c') | R.einsum((x, y), 'ij,jk->ik')
manip:broadcast_to | x: (2, 1, 3) | R.broadcast_to(x, (4, 2, 5, 3))
manip:broadcast_to_sym | x: ('a', 1, 'c') | R.broadcast_to(x, (4, a, 5, c))
manip:concat | x: (1, 2, 3), y: (1, 3, 3), z: (1, 4, 3) | R.concat((x, y, z), axis=1)
manip:concat_sym | x: ('a', 'b0'), y: ('a', 'b1') | R.concat((x, y), axis=1)
manip:expand_dims | x: (2, 3, 4) | R.expand_dims(x, axis=[-1, 1, -6, 3, 5])
manip:expand_dims_sym | x: ('a', 'b') | R.expand_dims(x, axis=[-1, 1])
manip:flatten | x: (2, 3, 4) | R.flatten(x)
manip:flatten_0 | x: () | R.flatten(x)
manip:flatten_sym | x: ('a', 'b', 'c') | R.flatten(x)
manip:permute_dims | x: (1, 2, 3, 4) | R.permute_dims(x, axes=[1, 3, 2, 0])
manip:permute_dims_sym | x: ('a', 'b', 'c', 'd') | R.permute_dims(x, axes=[1, 3, 2, 0])
manip:reshape | x: (1, 2, 3, 4) | R.reshape(x, (8, 3))
manip:reshape_sym | x: ('a', 'b') | R.reshape(x, (a // 2, b * 2))
manip:split_indices | x: (2, 10, 4) | R.split(x, [3, 7], axis=1)
manip:split_n | x: (2, 10, 4) | R.split(x, 5, axis=1)
manip:split_n_indiv | x: ('m', 'n') | R.split(x, 3, axis=1)
manip:squeeze | x: (2, 1, 3, 1, 1, 4) | R.squeeze(x, [1, 4])
manip:squeeze_all | x: (2, 1, 3, 1, 1, 4) | R.squeeze(x)
manip:squeeze_sym | x: ('a', 1, 'b', 1) | R.squeeze(x, [1])
manip:collapse_sum_like | x: (2, 3), y: (1, 3) | R.collapse_sum_like(x, y)
manip:collapse_sum_to | x: (3, 2, 3) | R.collapse_sum_to(x, (2, 1))
manip:repeat | x: (3, 2, 3) | R.repeat(x, 2, 0)
manip:repeat_flat | x: (2, 3) | R.repeat(x, 2)
manip:repeat_sym | x: ('a', 'b', 'c') | R.repeat(x, 2, 0)
manip:tile | x: (3, 2, 3) | R.tile(x, (2, 1, 2, 3))
manip:tile_sym | x: ('a', 'b') | R.tile(x, (2, 3))
manip:flip | x: (2, 3) | R.flip(x, axis=0)
manip:flip_sym | x: ('a', 'b') | R.flip(x, axis=1)
manip:gather_elements | x: (4, 4), i: (2, 2) int64 | R.gather_elements(x, i, axis=1)
manip:gather_nd | x: (2, 3, 4), i: (4, 2) int64 | R.gather_nd(x, i)
manip:index_tensor | x: (3, 4), i: (2,) int64, j: (2,) int64 | R.index_tensor(x, (i, j))
manip:scatter_elements | x: (4, 4), i: (2, 2) int64, u: (2, 2) | R.scatter_elements(x, i, u, axis=1)
manip:scatter_elements_sym | x: ('a', 'b'), i: ('m', 'n') int64, u: ('m', 'n') | R.scatter_elements(x, i, u, axis=1)
manip:scatter_nd | x: (8,), i: (4, 1) int64, u: (4,) | R.scatter_nd(x, i, u, reduction='update')
manip:slice_scatter | x: (8, 8, 10), s: (8, 3, 10) | R.slice_scatter(x, s, R.prim_value(0), R.prim_value(6), R.prim_value(2), axis=1)
manip:stack | x: (2, 3), y: (2, 3) | R.stack((x, y), axis=1)
manip:meshgrid | x: (2,), y: (3,) | R.meshgrid((x, y), indexing='ij')
nn:conv1d | x: (2, 128, 28), w: (64, 16, 3) | R.nn.conv1d(x, w, strides=(2,), padding=(1,), dilation=(2,), groups=8)
nn:conv1d_nwc | x: (2, 28, 128), w: (64, 128, 3) | R.nn.conv1d(x, w, data_layout='NWC', kernel_layout='OIW')
nn:conv2d | x: (2, 128, 28, 28), w: (64, 16, 3, 3) | R.nn.conv2d(x, w, strides=(2, 2), padding=(1, 1), dilation=(2, 2), groups=8)
nn:conv2d_1 | x: (2, 16, 28, 28), w: (64, 16, 3, 3) | R.nn.conv2d(x, w, padding=(1, 1))
nn:conv2d_out_dtype | x: (2, 3, 28, 28), w: (4, 3, 3, 3) | R.nn.conv2d(x, w, out_dtype='float16')
nn:conv2d_nhwc | x: (2, 28, 28, 128), w: (64, 128, 3, 3) | R.nn.conv2d(x, w, data_layout='NHWC', kernel_layout='OIHW')
nn:conv2d_nhwc_ohwi | x: (2, 28, 28, 128), w: (64, 3, 3, 128) | R.nn.conv2d(x, w, data_layout='NHWC', kernel_layout='OHWI')
nn:conv3d | x: (1, 2, 8, 8, 8), w: (4, 2, 3, 3, 3) | R.nn.conv3d(x, w, padding=(1, 1, 1))
nn:conv1d_transpose | x: (2, 128, 28), w: (128, 16, 3) | R.nn.conv1d_transpose(x, w, strides=2, padding=1, dilation=1, output_padding=1, groups=8)
nn:conv2d_transpose | x: (2, 128, 28, 28), w: (128, 16, 3, 3) | R.nn.conv2d_transpose(x, w, strides=(2, 3), padding=(1, 1), dilation=(1, 1), output_padding=(1, 2), groups=8)
nn:max_pool2d | x: (4, 6, 112, 112) | R.nn.max_pool2d(x, pool_size=[3, 3], strides=[2, 2], dilation=[1, 1], padding=[1, 1, 1, 1])
nn:max_pool2d_nhwc | x: (4, 112, 112, 6) | R.nn.max_pool2d(x, pool_size=[3, 3], strides=[2, 2], dilation=[1, 1], padding=[1, 1, 1, 1], layout='NHWC')
nn:max_pool2d_ceil | x: (4, 6, 112, 112) | R.nn.max_pool2d(x, pool_size=[3, 3], strides=[3, 3], ceil_mode=True)
nn:avg_pool2d | x: (4, 6, 112, 112) | R.nn.avg_pool2d(x, pool_size=[3, 3], strides=[2, 2], dilation=[1, 1], padding=[1, 1, 1, 1])
nn:avg_pool2d_include | x: (4, 6, 112, 112) | R.nn.avg_pool2d(x, pool_size=[3, 3], strides=[3, 3], ceil_mode=True, count_include_pad=True)
nn:max_pool1d | x: (4, 6, 112) | R.nn.max_pool1d(x, pool_size=[3], strides=[2], padding=[1, 1])
nn:adaptive_avg_pool2d | x: (2, 4, 7, 7) | R.nn.adaptive_avg_pool2d(x, [1, 1])
nn:adaptive_avg_pool2d_none | x: (2, 4, 7, 7) | R.nn.adaptive_avg_pool2d(x)
nn:relu | x: (2, 3) | R.nn.relu(x)
nn:leakyrelu | x: (2, 3) | R.nn.leakyrelu(x)
nn:gelu | x: (2, 3) | R.nn.gelu(x)
nn:silu | x: (2, 3) | R.nn.silu(x)
nn:selu | x: (2, 3) | R.nn.selu(x)
nn:gelu_tanh | x: (2, 3) | R.nn.gelu_tanh(x)
nn:softplus | x: (2, 3) | R.nn.softplus(x)
nn:prelu | x: (2, 3), alpha: (1,) | R.nn.prelu(x, alpha)
nn:gelu_sym | x: ('m', 'n') | R.nn.gelu(x)
nn:silu_sym | x: ('m', 'n') | R.nn.silu(x)
nn:relu_sym | x: ('m', 'n') | R.nn.relu(x)
nn:softmax_sym | x: ('m', 'n') | R.nn.softmax(x)
nn:softmax | x: (2, 3, 16, 32) | R.nn.softmax(x, axis=-2)
nn:log_softmax | x: (2, 3, 16, 32) | R.nn.log_softmax(x)
nn:batch_norm | x: (2, 3, 28, 28), gamma: (3,), beta: (3,), mean: (3,), var: (3,) | R.nn.batch_norm(x, gamma, beta, mean, var, axis=1)
nn:layer_norm | x: (2, 3, 4, 5), gamma: (4, 5), beta: (4, 5) | R.nn.layer_norm(x, gamma, beta, axes=[-2, -1])
nn:layer_norm_1d | x: (3,), gamma: (3,), beta: (3,) | R.nn.layer_norm(x, gamma, beta, axes=[-1])
nn:layer_norm_fp16 | x: (2, 3, 4, 5) float16, gamma: (4, 5) float16, beta: (4, 5) float16 | R.nn.layer_norm(x, gamma, beta, axes=[-2, -1])
nn:group_norm | x: (2, 4, 4, 5), gamma: (4,), beta: (4,) | R.nn.group_norm(x, gamma, beta, num_groups=2, channel_axis=1, axes=[2, 3])
nn:rms_norm | x: (2, 3, 4, 5), w: (4, 5) | R.nn.rms_norm(x, w, axes=[-2, -1])
nn:instance_norm | x: (2, 3, 4, 5), gamma: (3,), beta: (3,) | R.nn.instance_norm(x, gamma, beta, channel_axis=1, axes=[2, 3])
nn:cross_entropy_with_logits | x: (2, 3), y: (2, 3) | R.nn.cross_entropy_with_logits(x, y)
nn:attention | q: (4, 16, 32, 8), k: (4, 8, 32, 8), v: (4, 8, 32, 16) | R.nn.attention(q, k, v)
nn:nll_loss | p: (2, 3, 4, 5), y: (2, 4, 5) int64, w: (3,) | R.nn.nll_loss(p, y, w, reduction='mean', ignore_index=-1)
nn:pad | x: (2, 128, 28) | R.nn.pad(x, (0, 0, 1, 1, 2, 2))
nn:dropout | x: (2, 3) | R.nn.dropout(x, rate=0.5)
image:resize2d | x: (2, 8, 8, 3) | R.image.resize2d(x, (16, 16), layout='NHWC', method='nearest_neighbor', coordinate_transformation_mode='asymmetric')
image:resize2d_linear | x: (2, 3, 8, 8) | R.image.resize2d(x, (16, 16), layout='NCHW', method='linear', coordinate_transformation_mode='half_pixel')
stat:where | c: (3, 2, 1) bool, x: (2, 3), y: (2, 1) | R.where(c, x, y)
stat:argmax | x: (2, 3, 4, 5) | R.argmax(x, axis=1)
stat:argmin_keep | x: (2, 3, 4, 5) | R.argmin(x, keepdims=True)
stat:argmax_sym | x: ('a', 'b', 'c') | R.argmax(x, axis=1)
stat:max | x: (2, 3, 4, 5) | R.max(x, axis=[1, 2])
stat:max_sym | x: ('a', 'b', 'c', 'd') | R.max(x, axis=[1, 2], keepdims=True)
stat:min | x: (2, 3, 4, 5) | R.min(x, axis=[1, 2])
stat:sum | x: (2, 3, 4, 5) | R.sum(x, axis=[1, 2])
stat:sum_sym | x: ('a', 'b', 'c', 'd') | R.sum(x, axis=[1, 2], keepdims=True)
stat:prod | x: (2, 3, 4, 5) | R.prod(x, axis=[1, 2])
stat:mean | x: (2, 3, 4, 5) | R.mean(x, axis=[1, 2])
stat:mean_sym | x: ('a', 'b', 'c', 'd') | R.mean(x, axis=[1, 2], keepdims=True)
stat:std | x: (2, 3, 4, 5) | R.std(x, axis=[1, 2])
stat:variance | x: (2, 3, 4, 5) | R.variance(x, axis=[1, 2])
stat:variance_sym | x: ('a', 'b', 'c', 'd') | R.variance(x, axis=[1, 2], keepdims=True)
stat:variance_none | x: (2, 3, 4, 5) | R.variance(x)
stat:cumsum | x: (3, 2, 3) | R.cumsum(x, axis=1)
stat:bucketize | x: (4, 10), b: (10,) | R.bucketize(x, b, out_int32=False, right=False)
stat:multinomial | x: (3, 5), u: (6, 1), i: (6, 1) int64 | R.multinomial_from_uniform(x, u, i, dtype='int64')
stat:sort | x: (2, 3) | R.sort(x, axis=1, descending=False)
stat:topk | x: (2, 3) | R.topk(x, k=2, axis=1, ret_type='both', largest=True, dtype='int64')
grad:nll_loss_backward | g: (), p: (2, 3, 4, 5), y: (2, 4, 5) int64, w: (3,) | R.grad.nll_loss_backward(g, p, y, w, reduction='mean', ignore_index=-1)
grad:take_backward | g: (3, 2, 5), x: (3, 4, 5), i: (2,) int32 | R.grad.take_backward(g, x, i, axis=1)
grad:max_pool2d_backward | g: (3, 2, 6, 5), x: (3, 2, 10, 10) | R.grad.max_pool2d_backward(g, x, (5, 5), (2, 2), (2, 1, 2, 1), (1, 1), True)
grad:avg_pool2d_backward | g: (3, 2, 6, 5), x: (3, 2, 10, 10) | R.grad.avg_pool2d_backward(g, x, (5, 5), (2, 2), (2, 1, 2, 1), (1, 1), True)
qdq:quantize | x: (2, 4), s: (2,), z: (2,) int8 | R.quantize(x, s, z, axis=0, out_dtype='int8')
qdq:quantize_scalar | x: (2, 4) | R.quantize(x, R.const(2.0, 'float32'), R.const(1, 'int8'), out_dtype='int8')
qdq:dequantize | x: (2, 4) int8, s: (2,), z: (2,) int8 | R.dequantize(x, s, z, axis=0, out_dtype='float32')
qdq:dequantize_sym | x: ('n', 4) int8, s: (4,), z: (4,) int8 | R.dequantize(x, s, z, axis=-1, out_dtype='float32')
vision:roi_align | x: (1, 2, 8, 8), r: (2, 5) | R.vision.roi_align(x, r, pooled_size=(2, 2), spatial_scale=1.0, sample_ratio=2)
"""


def _typed(param: str) -> str:
    """`x: (2, 'n') int8` as a parameter of a graph function."""
    name, shape, kind = re.fullmatch(r"(\w+): (\([^()]*\)) ?(\w*)", param).groups()
    return f"{name}: R.Tensor({shape}, '{kind or 'float32'}')"


def typed(params: str) -> str:
    """`x: (2, 3), y: (2,) int8` as parameters of a graph function."""
    return ", ".join(map(_typed, re.findall(r"\w+: \([^()]*\)(?: \w+)?", params)))


def _case(line: str) -> tuple[str, tuple[str, str]]:
    name, params, call = line.split(" | ")
    return name, (typed(params), call)


#: group:name -> (parameters, call)
CASES = dict(map(_case, _TABLE.strip().splitlines()))

#: why loops differ from TVM's -> the calls whose loops do
OTHERWISE = {
    "exact where TVM is not: NaN, infinities, shifts beyond the width, -inf where a maximum starts": set(
        """
        binary:left_shift binary:right_shift nn:max_pool1d stat:max stat:max_sym stat:min
        unary:round unary:sign
        """.split()
    ),
    "the same in another form": set(
        """
        create:arange_symbolic create:astype_const create:eye manip:concat_sym
        manip:gather_nd manip:index_tensor manip:repeat_sym manip:slice_scatter
        manip:split_n_indiv qdq:dequantize qdq:dequantize_sym qdq:quantize_scalar
        stat:argmax stat:argmax_sym stat:argmin_keep stat:where unary:isfinite
        """.split()
    ),
    "TVM's text of the call, or an attribute of 0.27, is not read": set(
        """
        create:arange grad:take_backward index:take_const_prim vision:roi_align
        """.split()
    ),
    "an index out of data is checked where it is read": set(
        """
        index:take manip:gather_elements
        """.split()
    ),
    "a statement of its own (sorts, scans, scatters), or no loops at all": set(
        """
        index:dynamic_strided_slice manip:scatter_elements manip:scatter_elements_sym
        manip:scatter_nd stat:bucketize stat:cumsum stat:multinomial stat:sort stat:topk
        """.split()
    ),
    "indices without a remainder that changes nothing": set(
        """
        manip:flatten manip:flatten_sym manip:repeat_flat manip:reshape manip:reshape_sym
        manip:tile
        """.split()
    ),
    "nothing is padded by nothing": set(
        """
        nn:conv1d_nwc nn:conv2d_nhwc nn:conv2d_nhwc_ohwi nn:conv2d_out_dtype
        """.split()
    ),
    "fewer or other steps: separable pools, one loop for an activation, a reciprocal": set(
        """
        grad:avg_pool2d_backward grad:max_pool2d_backward grad:nll_loss_backward
        image:resize2d image:resize2d_linear nn:adaptive_avg_pool2d
        nn:adaptive_avg_pool2d_none nn:attention nn:avg_pool2d nn:avg_pool2d_include
        nn:conv1d_transpose nn:conv2d_transpose nn:cross_entropy_with_logits nn:gelu
        nn:gelu_sym nn:gelu_tanh nn:log_softmax nn:max_pool2d nn:max_pool2d_ceil
        nn:max_pool2d_nhwc nn:nll_loss nn:prelu nn:selu nn:silu nn:silu_sym nn:softmax
        nn:softmax_sym nn:softplus
        """.split()
    ),
    "sums in two steps, which lose less": set(
        """
        nn:batch_norm nn:group_norm nn:instance_norm nn:layer_norm nn:layer_norm_1d
        nn:layer_norm_fp16 nn:rms_norm stat:std stat:variance stat:variance_none
        stat:variance_sym
        """.split()
    ),
}
