"""What each module is exported as, whole."""

import numpy as np
import pytest

from mlcnb import relax
from mlcnb.ir import assert_structural_equal
from mlcnb.relax.frontend import nn
from mlcnb.relax.frontend.nn import modules, spec
from mlcnb.script import ir as I
from mlcnb.script import relax as R
from mlcnb.script import tir as T
from mlcnb.tir import Var


def exported(module, shape=(3, 3), dtype="float32", debug=True):
    spec_of = {"forward": {"x": spec.Tensor(shape, dtype)}}
    return module.export_tvm(spec=spec_of, debug=debug)[0]["forward"]


@pytest.mark.parametrize(
    ("module", "operator"),
    [
        (nn.ReLU(), R.nn.relu),
        (nn.SiLU(), R.nn.silu),
        (nn.GELU(), R.nn.gelu),
        (nn.GELU("tanh"), R.nn.gelu_tanh),
        (nn.Tanh(), R.tanh),
        (nn.Sigmoid(), R.sigmoid),
        (nn.Softmax(axis=0), lambda x: R.nn.softmax(x, axis=0)),
    ],
)
def test_activations(module, operator):
    @R.function
    def forward(x: R.Tensor((3, 3), "float32"), _io: R.Object) -> R.Tuple(
        R.Tensor((3, 3), "float32"), R.Tuple(R.Object)
    ):
        R.func_attr({"num_input": 2})
        with R.dataflow():
            made = operator(x)
            gv = (made, (_io,))
            R.output(gv)
        return gv

    assert_structural_equal(exported(module), forward, True)


@pytest.mark.parametrize("module", [nn.Identity(), nn.Dropout(0.2), nn.Sequential()])
def test_nothing(module):
    @R.function
    def forward(x: R.Tensor((3, 3), "float32")) -> R.Tensor((3, 3), "float32"):
        R.func_attr({"num_input": 1})
        with R.dataflow():
            gv: R.Tensor((3, 3), "float32") = x
            R.output(gv)
        return gv

    assert_structural_equal(exported(module, debug=False), forward, True)


def test_linear():
    @R.function
    def forward(
        x: R.Tensor((1, 4), dtype="float32"),
        _io: R.Object,
        weight: R.Tensor((8, 4), dtype="float32"),
        bias: R.Tensor((8,), dtype="float32"),
    ) -> R.Tuple(R.Tensor((1, 8), dtype="float32"), R.Tuple(R.Object)):
        R.func_attr({"num_input": 2})
        with R.dataflow():
            permute_dims: R.Tensor((4, 8), dtype="float32") = R.permute_dims(weight, axes=None)
            matmul: R.Tensor((1, 8), dtype="float32") = R.matmul(x, permute_dims)
            add: R.Tensor((1, 8), dtype="float32") = R.add(matmul, bias)
            gv1: R.Tuple(R.Tensor((1, 8), dtype="float32"), R.Tuple(R.Object)) = add, (_io,)
            R.output(gv1)
        return gv1

    assert_structural_equal(exported(modules.Linear(4, 8), (1, 4)), forward, True)


def test_linear_that_sums_in_another_dtype():
    @R.function
    def forward(
        x: R.Tensor((1, 4), "float16"),
        weight: R.Tensor((8, 4), "float16"),
        bias: R.Tensor((8,), "float32"),
    ) -> R.Tensor((1, 8), "float32"):
        R.func_attr({"num_input": 1})
        with R.dataflow():
            t = R.permute_dims(weight)
            m = R.matmul(x, t, out_dtype="float32")
            gv = R.add(m, bias)
            out: R.Tensor((1, 8), "float32") = gv
            R.output(out)
        return out

    module = nn.Linear(4, 8, out_dtype="float32")
    module.to("float16")
    assert_structural_equal(exported(module, (1, 4), "float16", debug=False), forward, True)


def test_conv1d():
    @R.function
    def forward(
        x: R.Tensor((1, 3, 32), "float32"),
        _io: R.Object,
        weight: R.Tensor((32, 3, 3), "float32"),
        bias: R.Tensor((32,), "float32"),
    ) -> R.Tuple(R.Tensor((1, 32, 30), "float32"), R.Tuple(R.Object)):
        R.func_attr({"num_input": 2})
        with R.dataflow():
            lv1: R.Tensor((1, 32, 30), "float32") = R.nn.conv1d(x, weight)
            lv2: R.Tensor((1, 32, 1), "float32") = R.reshape(bias, R.shape([1, 32, 1]))
            conv1d: R.Tensor((1, 32, 30), "float32") = R.add(lv1, lv2)
            gv1 = conv1d, (_io,)
            R.output(gv1)
        return gv1

    assert_structural_equal(exported(modules.Conv1D(3, 32, 3), (1, 3, 32)), forward, True)


def test_conv1d_transpose():
    @R.function
    def forward(
        x: R.Tensor((1, 3, 30), "float32"),
        _io: R.Object,
        weight: R.Tensor((3, 32, 3), "float32"),
        bias: R.Tensor((32,), "float32"),
    ) -> R.Tuple(R.Tensor((1, 32, 32), "float32"), R.Tuple(R.Object)):
        R.func_attr({"num_input": 2})
        with R.dataflow():
            lv1: R.Tensor((1, 32, 32), "float32") = R.nn.conv1d_transpose(
                x, weight, strides=[1], padding=[0, 0], output_padding=[0], dilation=[1], groups=1
            )
            lv2: R.Tensor((1, 32, 1), "float32") = R.reshape(bias, R.shape([1, 32, 1]))
            made: R.Tensor((1, 32, 32), "float32") = R.add(lv1, lv2)
            gv1 = made, (_io,)
            R.output(gv1)
        return gv1

    assert_structural_equal(exported(modules.ConvTranspose1D(3, 32, 3), (1, 3, 30)), forward, True)


def test_conv2d_of_open_sizes():
    @R.function
    def forward(
        x: R.Tensor(("n", "c", "h", "w"), dtype="float32"),
        _io: R.Object,
        weight: R.Tensor((32, "in_channels", 3, 3), dtype="float32"),
        bias: R.Tensor((32,), dtype="float32"),
    ) -> R.Tuple(R.Tensor(("n", 32, "h - 2", "w - 2"), dtype="float32"), R.Tuple(R.Object)):
        n = T.int64()
        h = T.int64()
        w = T.int64()
        R.func_attr({"num_input": 2})
        with R.dataflow():
            lv1: R.Tensor((n, 32, h - 2, w - 2), dtype="float32") = R.nn.conv2d(x, weight)
            lv2: R.Tensor((1, 32, 1, 1), dtype="float32") = R.reshape(bias, R.shape([1, 32, 1, 1]))
            conv2d: R.Tensor((n, 32, h - 2, w - 2), dtype="float32") = R.add(lv1, lv2)
            gv1 = conv2d, (_io,)
            R.output(gv1)
        return gv1

    module = modules.Conv2D(Var("in_channels", "int64"), 32, 3, bias=True)
    assert_structural_equal(exported(module, ["n", "c", "h", "w"]), forward, True)


def test_conv2d_channels_last():
    made = exported(nn.Conv2D(3, 4, [1, 3], data_layout="NHWC"), (1, 8, 8, 3), debug=False)
    assert [v.value for v in made.ret_struct_info.dims] == [1, 8, 6, 4]


def test_conv3d():
    @R.function
    def forward(
        x: R.Tensor((1, 3, 8, 8, 8), "float32"),
        weight: R.Tensor((4, 3, 3, 3, 3), "float32"),
    ) -> R.Tensor((1, 4, 6, 6, 6), "float32"):
        R.func_attr({"num_input": 1})
        with R.dataflow():
            lv = R.nn.conv3d(x, weight)
            gv: R.Tensor((1, 4, 6, 6, 6), "float32") = lv
            R.output(gv)
        return gv

    module = nn.Conv3D(3, 4, 3, bias=False)
    assert_structural_equal(exported(module, (1, 3, 8, 8, 8), debug=False), forward, True)


def test_norms():
    class Norms(nn.Module):
        def __init__(self):
            self.layer = nn.LayerNorm(8)
            self.rms = nn.RMSNorm(8, [2], bias=False)
            self.group = nn.GroupNorm(num_groups=2, num_channels=4)
            self.plain = nn.LayerNorm((4, 8), elementwise_affine=False)

        def forward(self, x):
            return self.plain(self.group(self.rms(self.layer(x))))

    ones, zeros = relax.const(np.ones((4, 8), "f4")), relax.const(np.zeros((4, 8), "f4"))

    @R.function
    def forward(
        x: R.Tensor((2, 4, 8), "float32"),
        layer_weight: R.Tensor((8,), "float32"),
        layer_bias: R.Tensor((8,), "float32"),
        rms_weight: R.Tensor((8,), "float32"),
        group_weight: R.Tensor((4,), "float32"),
        group_bias: R.Tensor((4,), "float32"),
    ) -> R.Tensor((2, 4, 8), "float32"):
        R.func_attr({"num_input": 1})
        with R.dataflow():
            a = R.nn.layer_norm(x, layer_weight, layer_bias, axes=[-1], epsilon=1e-05)
            b = R.nn.rms_norm(a, rms_weight, axes=[2], epsilon=1e-05)
            c = R.nn.group_norm(b, group_weight, group_bias, num_groups=2, channel_axis=1, axes=[2])
            d = R.nn.layer_norm(c, ones, zeros, axes=[-2, -1], epsilon=1e-05)
            gv: R.Tensor((2, 4, 8), "float32") = d
            R.output(gv)
        return gv

    assert_structural_equal(exported(Norms(), (2, 4, 8), debug=False), forward, True)


def test_embedding():
    @R.function
    def forward(x: R.Tensor((1, 4), "int32"), weight: R.Tensor((4, 8), "float32")) -> R.Tensor(
        (1, 4, 8), "float32"
    ):
        R.func_attr({"num_input": 1})
        with R.dataflow():
            reshape: R.Tensor((4,), "int32") = R.reshape(x, R.shape([4]))
            take: R.Tensor((4, 8), "float32") = R.take(weight, reshape, axis=0)
            reshape1: R.Tensor((1, 4, 8), "float32") = R.reshape(take, R.shape([1, 4, 8]))
            gv: R.Tensor((1, 4, 8), "float32") = reshape1
            R.output(gv)
        return gv

    module = modules.Embedding(4, 8, "float32")
    assert_structural_equal(exported(module, (1, 4), "int32", debug=False), forward, True)


def test_timesteps():
    @R.function
    def forward(x: R.Tensor((3,), dtype="float32"), _io: R.Object) -> R.Tuple(
        R.Tensor((3, 10), dtype="float32"), R.Tuple(R.Object)
    ):
        R.func_attr({"num_input": 2})
        with R.dataflow():
            lv1: R.Tensor((3,), dtype="float32") = R.astype(x, dtype="float32")
            lv2: R.Tensor((3, 1), dtype="float32") = R.expand_dims(lv1, axis=[1])
            lv3: R.Tensor((5,), dtype="float32") = R.arange(
                R.prim_value(0), R.prim_value(5), R.prim_value(1), dtype="float32"
            )
            lv4: R.Tensor((5,), dtype="float32") = R.multiply(
                R.const(-9.2103404998779297, "float32"), lv3
            )
            lv5: R.Tensor((5,), dtype="float32") = R.divide(lv4, R.const(4, "float32"))
            lv6: R.Tensor((5,), dtype="float32") = R.exp(lv5)
            lv7: R.Tensor((1, 5), dtype="float32") = R.expand_dims(lv6, axis=[0])
            lv8: R.Tensor((3, 5), dtype="float32") = R.multiply(lv2, lv7)
            lv9: R.Tensor((3, 5), dtype="float32") = R.sin(lv8)
            lv10: R.Tensor((3, 5), dtype="float32") = R.cos(lv8)
            lv11: R.Tensor((3, 10), dtype="float32") = R.concat((lv9, lv10), axis=-1)
            made: R.Tensor((3, 10), dtype="float32") = R.astype(lv11, dtype="float32")
            gv1 = made, (_io,)
            R.output(gv1)
        return gv1

    assert_structural_equal(exported(modules.Timesteps(10), (3,)), forward, True)


def test_timestep_embedding():
    module = modules.TimestepEmbedding(32, 32, cond_proj_dim=16)
    mod, params = module.export_tvm(
        {
            "forward": {
                "sample": spec.Tensor((32, 32), "float32"),
                "condition": spec.Tensor((32, 16), "float32"),
            }
        }
    )
    names = "linear_1.weight linear_1.bias cond_proj.weight linear_2.weight linear_2.bias"
    assert [name for name, _ in params] == names.split()
    made = mod["forward"]
    called = [b.value.op.name.removeprefix("relax.") for b in made.body.bindings[:-1]]
    wanted = "permute_dims matmul add permute_dims matmul add nn.silu permute_dims matmul add"
    assert called == wanted.split()


def test_attention():
    @R.function
    def forward(
        hidden_states: R.Tensor((2, 16, 40), "float32"),
        encoder_hidden_states: R.Tensor((2, 7, 12), "float32"),
        q: R.Tensor((40, 40), "float32"),
        k: R.Tensor((40, 12), "float32"),
        v: R.Tensor((40, 12), "float32"),
        group_norm_weight: R.Tensor((40,), "float32"),
        group_norm_bias: R.Tensor((40,), "float32"),
        out: R.Tensor((40, 40), "float32"),
        out_bias: R.Tensor((40,), "float32"),
    ) -> R.Tensor((2, 16, 40), "float32"):
        R.func_attr({"num_input": 2})
        with R.dataflow():
            norm = R.nn.group_norm(
                hidden_states, group_norm_weight, group_norm_bias, 8, channel_axis=2, axes=[1]
            )
            q1 = R.permute_dims(q)
            q2 = R.matmul(norm, q1)
            k1 = R.permute_dims(k)
            k2 = R.matmul(encoder_hidden_states, k1)
            v1 = R.permute_dims(v)
            v2 = R.matmul(encoder_hidden_states, v1)
            q3 = R.reshape(q2, R.shape([2, 16, 10, 4]))
            k3 = R.reshape(k2, R.shape([2, 7, 10, 4]))
            v3 = R.reshape(v2, R.shape([2, 7, 10, 4]))
            attended = R.nn.attention(q3, k3, v3, scale=None, causal_mask=None)
            rows = R.reshape(attended, R.shape([2, 16, 40]))
            out1 = R.permute_dims(out)
            out2 = R.matmul(rows, out1)
            out3 = R.add(out2, out_bias)
            gv: R.Tensor((2, 16, 40), "float32") = out3
            R.output(gv)
        return gv

    module = modules.Attention(40, cross_attention_dim=12, heads=10, dim_head=4, norm_num_groups=8)
    mod, _ = module.export_tvm(
        {
            "forward": {
                "hidden_states": spec.Tensor((2, 16, 40), "float32"),
                "encoder_hidden_states": spec.Tensor((2, 7, 12), "float32"),
            }
        }
    )
    assert_structural_equal(mod["forward"], forward, True)


def test_kv_cache():
    @I.ir_module
    class Module:
        @R.function
        def _initialize_effect() -> R.Tuple(R.Object, R.Object):
            with R.dataflow():
                _io: R.Object = R.null_value()
                lv: R.Tensor((8, 2, 4), dtype="float32") = R.zeros(
                    R.shape([8, 2, 4]), dtype="float32"
                )
                cache: R.Object = R.call_pure_packed(
                    "vm.builtin.attention_kv_cache_create",
                    lv,
                    R.shape([8, 2, 4]),
                    R.prim_value(0),
                    sinfo_args=[R.Object()],
                )
                lv1 = _io, cache
                gv = lv1
                R.output(gv)
            return gv

        @R.function
        def forward(
            x: R.Tensor((2, 4), dtype="float32"), _io: R.Object, cache: R.Object
        ) -> R.Tuple(R.Tensor((4, 2, 4), dtype="float32"), R.Tuple(R.Object, R.Object)):
            R.func_attr({"num_input": 3})
            with R.dataflow():
                lv2: R.Object = R.call_inplace_packed(
                    "vm.builtin.attention_kv_cache_append",
                    cache,
                    x,
                    inplace_indices=[0],
                    sinfo_args=[R.Object()],
                )
                lv3: R.Tensor((4, 2, 4), dtype="float32") = R.call_pure_packed(
                    "vm.builtin.attention_kv_cache_view",
                    lv2,
                    R.shape([4, 2, 4]),
                    sinfo_args=(R.Tensor((4, 2, 4), dtype="float32"),),
                )
                gv1: R.Tuple(R.Tensor((4, 2, 4), dtype="float32"), R.Tuple(R.Object, R.Object)) = (
                    lv3,
                    (_io, lv2),
                )
                R.output(gv1)
            return gv1

    class Cached(modules.Module):
        def __init__(self):
            self.cache = modules.KVCache(8, [2, 4])

        def forward(self, x):
            self.cache.append(x)
            return self.cache.view(4)

    mod, _ = Cached().export_tvm({"forward": {"x": spec.Tensor((2, 4), "float32")}}, debug=True)
    assert_structural_equal(mod, Module, True)


@pytest.mark.parametrize("elements", [tuple, list])
def test_inputs_in_a_row(elements):
    class Layer(nn.Module):
        def forward(self, x):
            assert type(x) is elements
            return elements([nn.add(x[0], x[1]), nn.subtract(x[0], x[1])])

    @R.function
    def forward(
        x: R.Tuple(R.Tensor((10, 5), "float32"), R.Tensor((10, 5), "float32")), _io: R.Object
    ) -> R.Tuple(
        R.Tuple(R.Tensor((10, 5), "float32"), R.Tensor((10, 5), "float32")), R.Tuple(R.Object)
    ):
        R.func_attr({"num_input": 2})
        with R.dataflow():
            lv1: R.Tensor((10, 5), "float32") = x[0]
            lv2: R.Tensor((10, 5), "float32") = x[1]
            add: R.Tensor((10, 5), "float32") = R.add(lv1, lv2)
            subtract: R.Tensor((10, 5), "float32") = R.subtract(lv1, lv2)
            gv1 = (add, subtract), (_io,)
            R.output(gv1)
        return gv1

    two = elements([spec.Tensor([10, 5], "float32"), spec.Tensor([10, 5], "float32")])
    mod, _ = Layer().export_tvm({"forward": {"x": two}}, debug=True)
    assert_structural_equal(mod["forward"], forward)


def test_containers():
    class Model(nn.Module):
        def __init__(self):
            linear = nn.Linear(4, 4, bias=False)
            self.nested = nn.ModuleList([nn.ModuleList([linear, nn.Linear(4, 4)])])
            self.named = nn.ModuleDict({"a": nn.Linear(4, 4, bias=False)})
            self.row = nn.Sequential(nn.Linear(4, 4, bias=False), nn.ReLU())

        def forward(self, x):
            return self.row(self.named["a"](self.nested(x)))

    names = "nested.0.0.weight nested.0.1.weight nested.0.1.bias named.a.weight row.0.weight"
    assert [name for name, _ in Model().named_parameters()] == names.split()
    made = exported(Model(), (2, 4), debug=False)
    assert [p.name_hint for p in made.params] == ["x", *names.split()]
