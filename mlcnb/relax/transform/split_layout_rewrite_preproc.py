"""SplitLayoutRewritePreproc: a weight's change of layout leaves the loop function that needs it.

def f(X, W, Out):                          def f_weight_prepack(W, W1): W1[i // 4, i % 4] = W[i]
    W1[i // 4, i % 4] = W[i]        ->     def f_prepacked(X, W1, Out): Out[i] = X[i] + W1[…]
    Out[i] = X[i] + W1[i // 4, i % 4]      lv = R.call_tir(cls.f_weight_prepack, (w,), …)
                                           gv = R.call_tir(cls.f_prepacked, (x, lv), …)

The blocks that change a layout say `meta_schedule.layout_rewrite_preproc`, as RewriteLayout of
`meta_schedule` writes them. What is split off depends on weights alone, so that LiftTransformParams
and FoldConstant can do it once, before the model runs.
"""

from __future__ import annotations

from typing import Any

from mlcnb.core.errors import PassError
from mlcnb.core.node import FrozenDict, replace, rewrite, walk
from mlcnb.ir.dtype import dtype
from mlcnb.ir.expr import GlobalVar, Var
from mlcnb.ir.module import IRModule
from mlcnb.ir.prim_ops import as_int
from mlcnb.ir.transform import ModulePass, PassContext
from mlcnb.relax.analysis.calls import callee_of
from mlcnb.relax.expr import Call, Tuple, TupleGetItem, tensor_info
from mlcnb.relax.expr import Var as GraphVar
from mlcnb.relax.function_table import FunctionTable
from mlcnb.relax.mutator import Mutator
from mlcnb.relax.struct_info import TupleStructInfo
from mlcnb.relax.transform.dead_code_elimination import remove_unused_functions
from mlcnb.tir.buffer import Buffer
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.renew import Renewer
from mlcnb.tir.stmt import Block, BlockRealize, SeqStmt, Stmt, seq

#: the annotation of a block that changes a layout
PREPROC = "meta_schedule.layout_rewrite_preproc"
#: attributes that speak of the function as it was
_OLD = ("global_symbol", "layout_free_buffers")


class SplitLayoutRewritePreproc(ModulePass):
    """Split loop functions that change the layout of a weight before they use it.

    The weight in its new layout is a tensor of the buffer's shape, which has to be numbers, and
    dtype.

    Raises:
        PassError: a block changes a layout and does more, or its sizes are open.
    """

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Every call_tir of such a function becomes two."""
        table = FunctionTable(mod.functions)
        loops = mod.of_kind(PrimFunc)
        parts = {k: _Parts(f) for k, f in loops.items() if any(map(_is_preproc, walk(f.body)))}
        if not parts:
            return mod
        splitter = _Splitter(table, parts)
        table.rewrite(splitter.rewrite)
        ctx.note(f"{splitter.count} calls with their weights packed before")
        return remove_unused_functions(table.module(mod))


def _is_preproc(n: Any) -> bool:
    return isinstance(n, Block) and bool(as_int(n.annotations.get(PREPROC, 0)))


class _Parts:
    """The two functions that one becomes.

    Attributes:
        places: parameters that are packed, counted from 0.
        packed: the buffers that hold them packed.
    """

    def __init__(self, func: PrimFunc) -> None:
        self.func = func
        root: Any = func.body
        if not isinstance(root, BlockRealize):
            raise _refused(func, "its body is no root block")
        body = root.block.body
        statements = list(body.seq) if isinstance(body, SeqStmt) else [body]
        changes = [s for s in statements if _changes(func, s)]
        rest = [s for s in statements if not any(s is c for c in changes)]
        if not rest:
            raise _refused(func, "it does nothing but change layouts")
        pairs = [self.buffers(block) for s in changes for block in walk(s) if _is_preproc(block)]
        pairs.sort(key=lambda pair: self.place(pair[0]))
        self.places = [self.place(old) for old, _ in pairs]
        self.packed = [new for _, new in pairs]
        self.before = self.made(root, changes, [*(o for o, _ in pairs), *self.packed], [])
        self.after = self.computing(root, rest)

    def buffers(self, block: Any) -> tuple[Buffer, Buffer]:
        """What a block reads and what it writes, one of each."""
        if len(block.reads) != 1 or len(block.writes) != 1 or block.alloc_buffers:
            raise _refused(self.func, f"block {block.name_hint} does more than change a layout")
        return block.reads[0].buffer, block.writes[0].buffer

    def place(self, buffer: Buffer) -> int:
        """Which parameter a buffer is."""
        for place, param in enumerate(self.func.params):
            if self.func.buffer_map.get(param) is buffer:
                return place
        raise _refused(self.func, f"{buffer.name}, whose layout changes, is no parameter")

    def computing(self, root: BlockRealize, body: list[Stmt]) -> PrimFunc:
        """What is left, which takes the packed weights."""
        buffers = [self.func.buffer_map.get(p) for p in self.func.params]
        for place, new in zip(self.places, self.packed, strict=True):
            buffers[place] = new
        kept = [b for b in root.block.alloc_buffers if not any(b is p for p in self.packed)]
        return self.made(root, body, buffers, kept)

    def made(
        self, root: BlockRealize, body: list[Stmt], buffers: list[Any], allocated: list[Buffer]
    ) -> PrimFunc:
        """A function of statements over buffers; a parameter without one is a scalar."""
        plain: Any = rewrite(seq(*body), _unmarked)
        block = replace(root.block, body=plain, alloc_buffers=tuple(allocated), reads=(), writes=())
        params = [
            self.func.params[i] if b is None else Var(f"var_{b.name}", dtype("handle"))
            for i, b in enumerate(buffers)
        ]
        known = {p: b for p, b in zip(params, buffers, strict=True) if b is not None}
        attrs = {k: v for k, v in self.func.attrs.items() if k not in _OLD}
        func = PrimFunc(
            tuple(params),
            replace(root, block=block),
            buffer_map=FrozenDict(known),
            attrs=FrozenDict(attrs),
        )
        return Renewer(everywhere=True).function(func)


def _changes(func: PrimFunc, statement: Stmt) -> bool:
    """True where all blocks of a statement change layouts."""
    marks = {_is_preproc(n) for n in walk(statement) if isinstance(n, Block)}
    if len(marks) > 1:
        raise _refused(func, "one loop nest changes a layout and does more")
    return True in marks


def _unmarked(n: Any) -> Any:
    if not _is_preproc(n):
        return None
    kept = {k: v for k, v in n.annotations.items() if k != PREPROC}
    return replace(n, annotations=FrozenDict(kept))


def _refused(func: PrimFunc, why: str) -> PassError:
    return PassError(f"SplitLayoutRewritePreproc: {why}", where=func)


class _Splitter(Mutator):
    def __init__(self, table: FunctionTable, parts: dict[GlobalVar, _Parts]) -> None:
        super().__init__(table.functions)
        self.table, self.parts = table, parts
        self.names: dict[GlobalVar, tuple[GlobalVar, GlobalVar]] = {}
        self.count = 0

    def visit_call(self, call: Call, var: GraphVar) -> Any:
        """A call that packs weights, and one that uses them."""
        if callee_of(call, self.functions) is None:
            return None
        key: Any = call.args[0]
        part = self.parts.get(key)
        if part is None:
            return None
        self.count += 1
        before, after = self.named(key, part)
        inputs: list[Any] = list(call.args[1].fields)  # type: ignore[attr-defined]
        infos = tuple(_static(part.func, b) for b in part.packed)
        info: Any = infos[0] if len(infos) == 1 else TupleStructInfo(infos)
        weights = Tuple(tuple(inputs[p] for p in part.places))
        first: tuple[Any, ...] = (before, weights)
        packed = self.emit(Call(call.op, first, None, (info,), info, call.span))
        for number, place in enumerate(part.places):
            one = packed if len(infos) == 1 else self.emit(TupleGetItem(packed, number))
            inputs[place] = one
        args: tuple[Any, ...] = (after, Tuple(tuple(inputs)), *call.args[2:])
        return Call(call.op, args, call.attrs, call.sinfo_args, None, call.span)

    def named(self, key: GlobalVar, part: _Parts) -> tuple[GlobalVar, GlobalVar]:
        """The two functions in the module."""
        if key not in self.names:
            name = key.name_hint
            self.names[key] = (
                self.table.add(part.before, f"{name}_weight_prepack"),
                self.table.add(part.after, f"{name}_prepacked"),
            )
        return self.names[key]


def _static(func: PrimFunc, buffer: Buffer) -> Any:
    """The struct info of a packed weight."""
    if any(as_int(d) is None for d in buffer.shape):
        raise _refused(func, f"the sizes of {buffer.name} are not known")
    return tensor_info([as_int(d) for d in buffer.shape], buffer.dtype)
