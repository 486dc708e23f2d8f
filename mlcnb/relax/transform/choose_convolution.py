"""ChooseConvolution: each convolution by the algorithm that is predicted to be the fastest.

y = R.nn.conv2d(x, w1, …)   ->   u = R.nn.contrib_conv2d_winograd_weight_transform(w, tile_size=4)
                                 y = R.nn.contrib_conv2d_winograd_without_weight_transform(x, u, …)

    >>> print(convolution_choices(mod))          what each would cost, and what is taken

Convolutions that stay as they are run as direct loops, which for a 1 x 1 window are a matrix
product. Weights have to be constants. Small ones are transformed once, by FoldConstant; large ones
stay as they are and are transformed, some channels at a time, where they are used
(R.nn.contrib_conv2d_winograd): they would be 4 times larger, in memory and on the way from it. By
Winograd's algorithm an input that is NaN or infinite makes NaN of the whole tile of results around
it, where the direct loops make it of those whose window holds it. The model of the machine, and its
constants: `mlcnb.machine.convolution`.

Winograd's algorithm also rounds more: results of one tile are sums of the same transformed inputs,
so that a large one leaves an error in all of them, in those too whose window does not hold it. With
D the largest input of a tile, I input channels and tiles of alpha x alpha inputs,

    |error| <= 2^-24 (I + 8 alpha + 3) M D
    growth   = M / (sum of the sizes of the weights of an output channel)

where M are the sizes of the weights, put through the sizes of the numbers in the matrices (formula:
`mlcnb.tir.winograd.error_factors`). The growth is 63 for tiles of 4, 509 for tiles of 6 (windows
of 3) and 301 for tiles of 4 (windows of 5) where all places of the window have weights of the same
size, and up to 175, 1565 and 1565 where only a corner has. What has a `growth` above
`max_growth` takes the next best algorithm.
`mlcnb.compile(…, convolution="direct")` leaves all convolutions as they are, as tile_size=-1 does.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

from mlcnb.core.errors import PassError
from mlcnb.ir.module import IRModule
from mlcnb.ir.prim_ops import as_int
from mlcnb.ir.rules import rule
from mlcnb.ir.transform import FunctionPass
from mlcnb.machine.convolution import (
    LARGE_WEIGHTS,
    TILES,
    Choice,
    Convolution,
    choices,
    direct,
    table,
)
from mlcnb.op import _layout
from mlcnb.op.manipulate.layout import LayoutTransform
from mlcnb.op.nn.conv import Conv2d
from mlcnb.op.nn.winograd import WinogradConv2d, WinogradConv2dWhole, WinogradWeightTransform
from mlcnb.relax.analysis.variables import bindings_of
from mlcnb.relax.expr import Call, Constant, Function, Var
from mlcnb.relax.mutator import Mutator
from mlcnb.relax.operator import OpDecl, attrs_of, call_arguments, called, make_call
from mlcnb.target import Target
from mlcnb.tir.winograd import error_growth

#: lets tiles of 4 through for any window of 3; tiles of 6, and windows of 5, unless most of their
#: weight is in corners: the worst case is then 2^-24 (I + 8 alpha + 3) 800, some 5e-3, of the
#: largest result that the weights can give; what is met is a thousand times smaller
MAX_GROWTH = 800.0


class ChooseConvolution(FunctionPass):
    """Convolutions of stride 1 on blocked channels by Winograd's algorithm where that pays.

    Only float32, of one group or of groups that fill vectors of channels, with weights that are
    constants of known shape; others stay.

    tile_size: 0 lets the model of the machine choose; 2, 4 or 6 takes tiles of that size wherever
    they can be; -1 leaves all as they are.

    Raises:
        PassError: `tile_size` is another number.
    """

    tile_size: int = 0
    #: bytes of weights, as they are, that are not transformed before
    large_weights: int = LARGE_WEIGHTS
    #: the bound of the error may be so many times that of direct loops
    max_growth: float = MAX_GROWTH

    def transform_function(self, func: Function, mod: Any, ctx: Any) -> Function:
        """The function with other convolutions; itself where none pays."""
        if self.tile_size not in (-1, 0, 2, 4, 6):
            raise PassError(
                f"ChooseConvolution: no tile_size {self.tile_size}", hint="-1, 0, 2, 4 or 6"
            )
        chooser = _Chooser(mod.functions, self)
        result = chooser.rewrite(func)
        for name, number in sorted(chooser.taken.items()):
            ctx.note(f"{number} by {name}")
        return result


class _Chooser(Mutator):
    def __init__(self, functions: Any, options: ChooseConvolution) -> None:
        super().__init__(functions)
        self.options = options
        self.target = Target.current() or Target("llvm")
        self.taken: Counter[str] = Counter()

    def visit_call(self, call: Call, var: Var) -> Any:
        conv = convolution_of(call)
        if conv is None:
            return None
        weight = self.plain_weight(call) if conv.fills(self.target.lanes("float32")) else None
        tile = 0 if weight is None else self.tile_of(conv, weight)
        made = self.winograd(call, weight, tile) if tile else None
        direct = "gemm" if conv.window == 1 else "direct"
        name = direct if made is None else f"winograd {tile}"
        self.taken[name] += 1
        return made

    def tile_of(self, conv: Convolution, weight: Constant) -> int:
        """The tile size to take; 0 for none."""
        wanted = self.options.tile_size
        if wanted:
            return wanted if wanted in (2, *TILES.get(conv.window, ())) else 0
        first, *others = choices(conv, self.target, self.options.large_weights)
        for choice in (first, *sorted(others, key=lambda c: c.ms)):
            if not choice.tile or error_growth(weight.data, choice.tile) <= self.options.max_growth:
                return choice.tile
        return 0

    def plain_weight(self, call: Call) -> Constant | None:
        """The weights as (O, I, rows, columns), if they are constant and the call can be by
        Winograd.
        """
        made = self.value_of(call_arguments(call)[1])
        conv: Any = attrs_of(call)
        if not _is_plain(call):
            return None
        if called(made) is not LayoutTransform:
            return None
        blocks = {
            _layout.block_of(layout, dim)
            for layout, dim in (
                (conv.data_layout, "C"),
                (conv.out_layout, "C"),
                (conv.kernel_layout, "O"),
            )
        }  # the kernel's inner channels need not be in blocks: they are cut anew
        weight = made.args[0]
        plain = isinstance(weight, Constant) and attrs_of(made).src == "OIHW"  # type: ignore[attr-defined]
        return weight if plain and blocks == {self.target.lanes("float32")} else None  # type: ignore[return-value]

    @rule("ChooseConvolution")
    def winograd(self, call: Call, weight: Any, tile: int) -> Call:
        """The convolution with weights that are transformed, and lie as the products want them;
        or with the weights as they are, where they are large.
        """
        conv: Any = attrs_of(call)
        data, blocked = call_arguments(call)
        block = _layout.block_of(conv.kernel_layout, "O")
        decl: type[OpDecl] = WinogradConv2dWhole
        layout = conv.kernel_layout
        filled = _layout.block_of(conv.kernel_layout, "I") == block
        if weight.data.nbytes <= self.options.large_weights or not filled:
            decl, layout = WinogradConv2d, f"OABI{block}i{block}o"
            made = make_call(WinogradWeightTransform, weight, tile_size=tile, layout=layout)
            blocked = self.emit(made)
        return make_call(
            decl,
            data,
            blocked,
            tile_size=tile,
            padding=conv.padding,
            data_layout=conv.data_layout,
            kernel_layout=layout,
            out_layout=conv.out_layout,
            out_dtype=conv.out_dtype,
            groups=conv.groups,
        )


def convolution_of(call: Any) -> Convolution | None:
    """What the model of the machine has to know of a float32 conv2d with a square window and known
    sizes that is not depthwise; an open batch counts as one image.
    """
    if called(call) is not Conv2d:
        return None
    conv: Any = attrs_of(call)
    data, weight = (a.struct_info for a in call_arguments(call))
    if data.dims is None or weight.dims is None or data.dtype != "float32":
        return None
    sizes = _layout.sizes_of(conv.data_layout, data.dims)
    kernel = _layout.sizes_of(conv.kernel_layout, weight.dims)
    images = as_int(sizes["N"])
    images = 1 if images is None else images
    found = [kernel["I"], kernel["O"], *conv.places(sizes, kernel).values()]
    known = [as_int(x) for x in (*found, kernel["H"], kernel["W"])]
    if None in known or known[-1] != known[-2]:
        return None
    inner, outer, rows, columns, window, _ = (x or 0 for x in known)
    if conv.groups > 1 and inner == 1:
        return None
    return Convolution(images, inner, outer, (rows, columns), window, conv.groups)


class Explained(NamedTuple):
    """A convolution, how often it is in the program, and its choices, the one to take first."""

    conv: Convolution
    times: int
    choices: list[Choice]


class ConvolutionChoices(list[Explained]):
    """The distinct convolutions of stride 1 of a program; prints as tables.

    A list of (convolution with its shape, how often it occurs, its choices); nothing that it does
    raises.
    """

    def __str__(self) -> str:
        parts = []
        for conv, times, found in self:
            rows, columns = conv.places
            head = f"{times} x {conv.inner} -> {conv.outer} channels, {rows} x {columns}, "
            head += f"{conv.groups} groups, " * (conv.groups > 1)
            parts.append(f"{head}window {conv.window}\n{table(found)}")
        return "\n\n".join(parts)

    __repr__ = __str__


def convolution_choices(mod: IRModule, target: Any = None) -> ConvolutionChoices:
    """What each convolution of a module would cost by each algorithm on a target.

    Only float32 convolutions whose shapes are numbers have choices; a module without any gives an
    empty list, none is refused.

    Args:
        mod: operators, in any layout; those with strides, dilation, or groups that do not fill
            vectors of channels are left out. An open batch counts as one image.
        target: the current one, or this machine, if None.
    """
    where = Target(target or Target.current() or "llvm")
    counted: Counter[Convolution] = Counter()
    for func in mod.of_kind(Function).values():
        for binding in bindings_of(func):
            conv = convolution_of(getattr(binding, "value", None))
            if conv and _is_plain(binding.value) and conv.fills(where.lanes("float32")):
                counted[conv] += 1
    return ConvolutionChoices(Explained(c, n, _open(c, where)) for c, n in counted.items())


def _open(conv: Convolution, target: Target) -> list[Choice]:
    """The choices there are: channels too few for a block (of an image, say) stay as they are."""
    if conv.inner < target.lanes("float32"):
        return [direct(conv, target)]
    return choices(conv, target)


def _is_plain(call: Any) -> bool:
    conv: Any = attrs_of(call)
    return conv.strides == conv.dilation == (1, 1)
