"""Whole modules before and after, of passes whose other tests look at parts or at numbers."""

from __future__ import annotations

import numpy as np

from mlcnb.ir.transform import Sequential
from mlcnb.relax import transform as X
from mlcnb.relax.expr import const
from mlcnb.script import ir as I
from mlcnb.script import relax as R
from mlcnb.script import tir as T
from mlcnb.target import Target
from tests.relax.harness import check_pass, constant

KERNEL = constant(4, 3, 3, 3)
GROUPED = constant(4, 2, 1, 1)
SCALE = const(np.array([1, 4, 9, 16], "float32"))
WINDOWS = constant(32, 32, 3, 3)
MATRIX = constant(8, 40)
SCALED = const(KERNEL.data * np.arange(1, 5, dtype="float32").reshape(4, 1, 1, 1))
SHIFTED = const(np.array([0, -4, -18, -48], "float32").reshape(1, 4, 1, 1))
BYTES = const(np.arange(16, dtype="int8").reshape(4, 4))
#: four rows of each column beside each other, eight columns in a block
PACKED = const(np.pad(BYTES.data.T, ((0, 4), (0, 0))).reshape(1, 1, 8, 4))


def test_sizes_that_have_to_agree_are_compared() -> None:
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor(("m", "k"), "float32"), y: R.Tensor(("j", "n"), "float32")):
            with R.dataflow():
                gv = R.matmul(x, y)
                R.output(gv)
            return gv

    @I.ir_module
    class After:
        @R.function
        def main(x: R.Tensor(("m", "k"), "float32"), y: R.Tensor(("j", "n"), "float32")):
            k, j = T.int64(), T.int64()
            with R.dataflow():
                _ = R.match_cast(R.shape([j]), R.Shape([k]))
                gv = R.matmul(x, y)
                R.output(gv)
            return gv

    check_pass(
        X.CheckSizes(), Before, After, args=[np.ones((2, 3), "float32"), np.ones((3, 4), "float32")]
    )


def test_zeros_around_an_image_become_padding() -> None:
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((1, 3, 6, 6), "float32"), w: R.Tensor((4, 3, 3, 3), "float32")):
            with R.dataflow():
                lv = R.nn.pad(x, (0, 0, 0, 0, 0, 1, 0, 1))
                gv = R.nn.conv2d(lv, w, padding=(1, 1))
                R.output(gv)
            return gv

    @I.ir_module
    class After:
        @R.function
        def main(x: R.Tensor((1, 3, 6, 6), "float32"), w: R.Tensor((4, 3, 3, 3), "float32")):
            with R.dataflow():
                gv = R.nn.conv2d(x, w, padding=(1, 1, 2, 2))
                R.output(gv)
            return gv

    check_pass(Sequential([X.FoldPad(), X.DeadCodeElimination()]), Before, After)


def test_grouped_windows_of_one_are_a_product() -> None:
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((1, 4, 3, 3), "float32")):
            with R.dataflow():
                gv = R.nn.conv2d(x, GROUPED, groups=2)
                R.output(gv)
            return gv

    @I.ir_module
    class After:
        @R.function
        def main(x: R.Tensor((1, 4, 3, 3), "float32")):
            with R.dataflow():
                lv = R.reshape(x, (1, 2, 2, 9))
                lv1 = R.reshape(GROUPED, (2, 2, 2))
                lv2 = R.matmul(lv1, lv)
                gv = R.reshape(lv2, (1, 4, 3, 3))
                R.output(gv)
            return gv

    check_pass(X.GroupConvToMatmul(), Before, After)


def test_a_window_of_one_away_from_others_is_a_product() -> None:
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((2, 2, 8, 9), "float32")):
            with R.dataflow():
                lv = R.nn.relu(x)
                gv = R.nn.conv2d(lv, GROUPED)
                R.output(gv)
            return gv

    @I.ir_module
    class After:
        @R.function
        def main(x: R.Tensor((2, 2, 8, 9), "float32")):
            with R.dataflow():
                lv = R.nn.relu(x)
                lv1 = R.reshape(lv, (2, 2, 72))
                lv2 = R.reshape(GROUPED, (4, 2))
                lv3 = R.matmul(lv2, lv1)
                gv = R.reshape(lv3, (2, 4, 8, 9))
                R.output(gv)
            return gv

    check_pass(X.GroupConvToMatmul(), Before, After)


def test_a_window_of_one_near_others_stays_in_blocks() -> None:
    """Before or behind a larger one, whatever stands between them."""

    @I.ir_module
    class Behind:
        @R.function
        def main(x: R.Tensor((1, 2, 8, 9), "float32"), w: R.Tensor((2, 2, 3, 3), "float32")):
            with R.dataflow():
                lv = R.nn.conv2d(x, w, padding=(1, 1, 1, 1))
                lv1 = R.nn.max_pool2d(lv, pool_size=(1, 1))
                gv = R.nn.conv2d(lv1, GROUPED)
                R.output(gv)
            return gv

    @I.ir_module
    class Few:
        @R.function
        def main(x: R.Tensor((1, 2, 7, 9), "float32")):
            with R.dataflow():
                gv = R.nn.conv2d(x, GROUPED)
                R.output(gv)
            return gv

    for mod in (Behind, Few):
        assert "matmul" not in X.GroupConvToMatmul()(mod).script()


def test_scaled_channels_go_into_the_kernel() -> None:
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((1, 3, 4, 4), "float32")):
            with R.dataflow():
                lv = R.nn.conv2d(x, KERNEL, padding=(1, 1))
                lv1 = R.nn.batch_norm(
                    lv, SCALE, SCALE, SCALE, SCALE, axis=1, epsilon=0.0, training=False
                )
                gv = lv1[0]
                R.output(gv)
            return gv

    @I.ir_module
    class After:
        #: gamma / sqrt(variance) is [1, 2, 3, 4], beta - mean * that is gamma * (1 - it)
        @R.function
        def main(x: R.Tensor((1, 3, 4, 4), "float32")):
            with R.dataflow():
                lv = R.nn.conv2d(x, SCALED, padding=(1, 1))
                lv1 = R.add(lv, SHIFTED)
                gv = lv1
                R.output(gv)
            return gv

    check_pass(X.FoldBatchNorm(), Before, After)


def test_a_matrix_lies_in_blocks_of_columns() -> None:
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((5, 8), "float32")):
            with R.dataflow():
                gv = R.matmul(x, MATRIX)
                R.output(gv)
            return gv

    @I.ir_module
    class After:
        @R.function
        def main(x: R.Tensor((5, 8), "float32")):
            with R.dataflow():
                lv = R.layout_transform(MATRIX, src="KN", dst="NK32n")
                gv = R.nn.matmul_packed(x, lv, columns=40)
                R.output(gv)
            return gv

    check_pass(X.PackMatmul(lanes=16), Before, After)


def test_bytes_lie_in_fours_of_rows() -> None:
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((5, 4), "uint8")):
            with R.dataflow():
                gv = R.qnn.matmul(x, BYTES)
                R.output(gv)
            return gv

    @I.ir_module
    class After:
        @R.function
        def main(x: R.Tensor((5, 4), "uint8")):
            with R.dataflow():
                gv = R.qnn.matmul_packed(x, PACKED, columns=4)
                R.output(gv)
            return gv

    check_pass(X.PackQuantizedMatmul(lanes=4), Before, After)


def test_relu_of_bytes_is_a_bound() -> None:
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((5, 4), "uint8")):
            with R.dataflow():
                lv = R.dequantize(x, R.const(0.5, "float32"), R.const(3, "uint8"), axis=0)
                lv1 = R.nn.relu(lv)
                gv = R.quantize(
                    lv1, R.const(0.5, "float32"), R.const(3, "uint8"), axis=0, out_dtype="uint8"
                )
                R.output(gv)
            return gv

    @I.ir_module
    class After:
        @R.function
        def main(x: R.Tensor((5, 4), "uint8")):
            with R.dataflow():
                gv = R.maximum(x, R.const(3, "uint8"))
                R.output(gv)
            return gv

    check_pass(X.IntegerOps(), Before, After)


def test_a_batch_norm_in_training_is_written_out() -> None:
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((1, 4, 2, 2), "float32"), g: R.Tensor((4,), "float32")):
            with R.dataflow():
                lv = R.nn.batch_norm(x, g, g, g, g, axis=1, training=True)
                gv = lv[0]
                R.output(gv)
            return gv

    @I.ir_module
    class After:
        @R.function
        def main(x: R.Tensor((1, 4, 2, 2), "float32"), g: R.Tensor((4,), "float32")):
            with R.dataflow():
                lv1 = R.mean(x, axis=[0, 2, 3])
                lv2 = R.variance(x, axis=[0, 2, 3])
                lv3 = R.expand_dims(lv1, axis=[0, 2, 3])
                lv4 = R.subtract(x, lv3)
                lv5 = R.expand_dims(lv2, axis=[0, 2, 3])
                lv6 = R.add(lv5, R.const(1e-05, "float32"))
                lv7 = R.sqrt(lv6)
                lv8 = R.divide(lv4, lv7)
                lv9 = R.expand_dims(g, axis=[0, 2, 3])
                lv10 = R.multiply(lv8, lv9)
                lv11 = R.expand_dims(g, axis=[0, 2, 3])
                lv12 = R.add(lv10, lv11)
                gv = lv12
                R.output(gv)
            return gv

    check_pass(X.DecomposeOpsForTraining(), Before, After)


def test_a_batch_norm_in_inference_is_written_out() -> None:
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((1, 4, 2, 2), "float32"), g: R.Tensor((4,), "float32")):
            with R.dataflow():
                lv = R.nn.batch_norm(x, g, g, g, g, axis=1, training=False)
                gv = lv[0]
                R.output(gv)
            return gv

    @I.ir_module
    class After:
        @R.function
        def main(x: R.Tensor((1, 4, 2, 2), "float32"), g: R.Tensor((4,), "float32")):
            with R.dataflow():
                lv1 = R.add(g, R.const(1e-05, "float32"))
                lv2 = R.sqrt(lv1)
                lv3 = R.divide(g, lv2)
                lv4 = R.reshape(lv3, (1, 4, 1, 1))
                lv5 = R.multiply(x, lv4)
                lv6 = R.multiply(g, lv3)
                lv7 = R.subtract(g, lv6)
                lv8 = R.reshape(lv7, (1, 4, 1, 1))
                lv9 = R.add(lv5, lv8)
                gv = lv9
                R.output(gv)
            return gv

    check_pass(
        X.DecomposeOpsForInference(),
        Before,
        After,
        args=[np.ones((1, 4, 2, 2), "float32"), np.arange(1, 5, dtype="float32")],
    )


def test_a_private_body_takes_the_place_of_its_calls() -> None:
    @I.ir_module
    class Before:
        @R.function(private=True)
        def twice(x: R.Tensor((4,), "float32")):
            gv = R.add(x, x)
            return gv

        @R.function
        def main(x: R.Tensor((4,), "float32")):
            cls = Before
            a = cls.twice(x)
            b = cls.twice(a)
            return b

    @I.ir_module
    class After:
        @R.function
        def main(x: R.Tensor((4,), "float32")):
            a = R.add(x, x)
            b = R.add(a, a)
            return b

    check_pass(X.InlinePrivateFunctions(), Before, After)


def test_a_bound_parameter_is_a_constant() -> None:
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((4,), "float32"), s: R.Tensor((4,), "float32")):
            gv = R.add(x, s)
            return gv

    @I.ir_module
    class After:
        @R.function
        def main(x: R.Tensor((4,), "float32")):
            gv = R.add(x, SCALE)
            return gv

    check_pass(X.BindParams("main", {"s": SCALE}), Before, After, args=False, again=False)


def test_neighbours_of_one_library_are_one_function() -> None:
    @I.ir_module
    class Before:
        @R.function(private=True)
        def fused_relax_nn_relu(x: R.Tensor((4,), "float32")):
            R.func_attr({"Composite": "toy.relu", "Primitive": True})
            with R.dataflow():
                gv = R.nn.relu(x)
                R.output(gv)
            return gv

        @R.function
        def main(x: R.Tensor((4,), "float32")):
            cls = Before
            with R.dataflow():
                a = cls.fused_relax_nn_relu(x)
                gv = cls.fused_relax_nn_relu(a)
                R.output(gv)
            return gv

    @I.ir_module
    class After:
        @R.function
        def fused_relax_nn_relu_relax_nn_relu_toy(x: R.Tensor((4,), "float32")):
            R.func_attr({"Codegen": "toy"})

            @R.function
            def local(y: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
                R.func_attr({"Composite": "toy.relu"})
                with R.dataflow():
                    z = R.nn.relu(y)
                    R.output(z)
                return z

            a = local(x)
            gv = local(a)
            return gv

        @R.function
        def main(x: R.Tensor((4,), "float32")):
            cls = After
            with R.dataflow():
                gv = cls.fused_relax_nn_relu_relax_nn_relu_toy(x)
                R.output(gv)
            return gv

    check_pass(X.MergeCompositeFunctions(), Before, After)


def test_a_convolution_by_winograd() -> None:
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((1, 2, 20, 20, 16), "float32")):
            with R.dataflow():
                lv = R.layout_transform(WINDOWS, src="OIHW", dst="OIHW16i16o")
                gv = R.nn.conv2d(
                    x, lv, padding=1, data_layout="NCHW16c", kernel_layout="OIHW16i16o"
                )
                R.output(gv)
            return gv

    @I.ir_module
    class After:
        @R.function
        def main(x: R.Tensor((1, 2, 20, 20, 16), "float32")):
            with R.dataflow():
                lv = R.layout_transform(WINDOWS, src="OIHW", dst="OIHW16i16o")
                lv1 = R.nn.contrib_conv2d_winograd_weight_transform(
                    WINDOWS, tile_size=4, layout="OABI16i16o"
                )
                gv = R.nn.contrib_conv2d_winograd_without_weight_transform(
                    x,
                    lv1,
                    tile_size=4,
                    padding=1,
                    data_layout="NCHW16c",
                    kernel_layout="OABI16i16o",
                )
                R.output(gv)
            return gv

    with Target("llvm -mcpu=x86-64-v4"):
        check_pass(X.ChooseConvolution(4), Before, After, tolerance=1e-3)
