"""Gradient: a function that gives, with its results, how one of them changes with each parameter.

def main(x, w):                    def main_adjoint(x, w):
    with R.dataflow():                 with R.dataflow():
        lv = R.matmul(x, w)                lv = R.matmul(x, w)
        gv = R.sum(lv)         ->          gv = R.sum(lv)
        R.output(gv)                       gv_adjoint = R.ones(R.shape([]))
    return gv                              lv_adjoint = R.broadcast_to(gv_adjoint, …)
                                           x_adjoint = R.matmul(lv_adjoint, R.permute_dims(w))
                                           w_adjoint = R.matmul(R.permute_dims(x), lv_adjoint)
                                           …
                                       return gv, (x_adjoint_out, w_adjoint_out)

Reverse mode: the bindings are gone through backwards, and each call gives a share of its result's
adjoint to its arguments (`mlcnb.op.grad.rules`). Parts between R.grad.start_checkpoint and
R.grad.end_checkpoint are computed again on the way back in place of being kept. `main` stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from mlcnb.core.errors import PassError
from mlcnb.core.node import rewrite
from mlcnb.core.text import kind_of
from mlcnb.ir.expr import GlobalVar
from mlcnb.ir.module import IRModule
from mlcnb.ir.structural import structural_equal
from mlcnb.ir.transform import ModulePass, PassContext
from mlcnb.op.grad.marks import EndCheckpoint, StartCheckpoint
from mlcnb.op.grad.rules import shares
from mlcnb.op.linear_algebra.matmul import Matmul
from mlcnb.op.manipulate.permute import PermuteDims
from mlcnb.relax import expr as rx
from mlcnb.relax import op
from mlcnb.relax.analysis.variables import bound_vars, leaves
from mlcnb.relax.block_builder import BlockBuilder
from mlcnb.relax.infer import infer
from mlcnb.relax.mutator import Mutator
from mlcnb.relax.operator import attrs_of, called
from mlcnb.relax.struct_info import StructInfo, TensorStructInfo, TupleStructInfo
from mlcnb.relax.transform.dead_code_elimination import remove_unused_bindings
from mlcnb.relax.utils import copy_with_new_vars


class Gradient(ModulePass):
    """Add `<func_name>_adjoint`: what the function returns, and a tuple of the derivatives of one
    of its results, a float tensor without dimensions.

    func_name: a function of one dataflow block; target_index: which of its results. require_grads:
    parameters or variables of it, float tensors or tuples of them (default: all parameters); what
    does not reach the result gets zeros. Derivatives have the shapes and dtypes of the variables.

    Raises:
        PassError: the function is of another form, the result is no float scalar, or a variable of
            `require_grads` is not in it, is there twice, or is not of floats, or the module has
            another function of that name.
        UnsupportedOpError: an operator on the way has no gradient.
    """

    func_name: str
    require_grads: rx.Var | Sequence[rx.Var] | None = None
    target_index: int = 0

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The module with one more function."""
        if self.func_name not in mod:
            names = ", ".join(key.name_hint for key in mod)
            self._refuse(f"the module has no function {self.func_name}", f"it has {names}")
        func: Any = mod[self.func_name]
        if not isinstance(func, rx.Function):
            self._refuse(f"{self.func_name} is no graph function", "a PrimFunc has no gradient")
        if len(func.body.blocks) != 1 or not isinstance(func.body.blocks[0], rx.DataflowBlock):
            self._refuse(
                f"{self.func_name} is not one dataflow block",
                "ConvertToDataflow makes them; control flow has no gradient",
            )
        copy = copy_with_new_vars(func)
        renamed = dict(zip(_variables(func), _variables(copy), strict=True))
        marks = _Marks(copy)
        wanted = [marks.now(v) for v in self._required(func, renamed)]
        target = self._target(marks.result)
        name = f"{self.func_name}_adjoint"
        made, added = _adjoint(mod, copy, marks, target, wanted, name)
        if name in mod:
            if structural_equal(mod[name], made):
                return mod
            self._refuse(f"the module has another function {name}", "rename or remove it")
        ctx.note(f"{name}: the gradient of {target.name_hint} by {len(wanted)} variables")
        functions = {k: f for k, f in added.items() if k not in mod}
        return mod.with_functions({**functions, GlobalVar(name): made})

    def _required(self, func: rx.Function, renamed: dict[rx.Var, rx.Var]) -> list[rx.Var]:
        given = self.require_grads
        if given is None:
            return [renamed[p] for p in func.params]
        variables = [given] if isinstance(given, rx.Var) else list(given)
        for number, var in enumerate(variables):
            if var not in renamed:
                self._refuse(
                    f"{self.func_name} has no variable {var.name_hint}",
                    "take it from the function itself: mod[name].params[0]",
                )
            if any(var is other for other in variables[:number]):
                self._refuse(f"{var.name_hint} is in require_grads twice", "name it once")
            if not _is_float(var.struct_info):
                self._refuse(
                    f"{var.name_hint} is {var.struct_info}", "only tensors of floats have gradients"
                )
        return [renamed[v] for v in variables]

    def _target(self, result: Any) -> rx.Var:
        results = result.fields if isinstance(result, rx.Tuple) else (result,)
        if not 0 <= self.target_index < len(results):
            self._refuse(
                f"{self.func_name} has {len(results)} results, target_index is {self.target_index}",
                "count from 0",
            )
        target: Any = results[self.target_index]
        info = target.struct_info
        if not isinstance(target, rx.Var) or not _is_float(info) or getattr(info, "ndim", 1) != 0:
            self._refuse(
                f"result {self.target_index} of {self.func_name} is no variable that holds a float "
                f"tensor without dimensions, but {info}",
                "sum it, or take its mean",
            )
        found: rx.Var = target
        return found

    def _refuse(self, message: str, hint: str) -> None:
        raise PassError(f"Gradient: {message}", hint=hint)


def _variables(func: rx.Function) -> list[rx.Var]:
    return list(dict.fromkeys([*func.params, *bound_vars(func)]))


def _is_float(info: Any) -> bool:
    if isinstance(info, TupleStructInfo):
        return all(map(_is_float, info.fields))
    return isinstance(info, TensorStructInfo) and info.dtype is not None and info.dtype.is_float


class _Marks:
    """The function without its marks, and which values are kept for the way back.

    Kept are parameters, what a part starts from, and what is computed of kept values and ends of
    parts alone.
    """

    def __init__(self, func: rx.Function) -> None:
        self.kept: set[rx.Var] = set(func.params)
        self.bindings: list[rx.VarBinding] = []
        self._ends: set[rx.Var] = set()
        self._now: dict[rx.Var, rx.Var] = {}
        self._original: dict[rx.Var, rx.Var] = {}
        for binding in func.body.blocks[0].bindings:
            self.visit(binding)
        self.result = self.use(func.body.body)

    def use(self, value: Any) -> Any:
        """A value that reads marked variables, reading what was marked."""
        return rewrite(value, lambda n: self._now.get(n) if isinstance(n, rx.Var) else None)

    def now(self, var: rx.Var) -> rx.Var:
        """The variable that holds what a mark's variable held."""
        return self._original.get(var, var)

    def visit(self, binding: rx.Binding) -> None:
        """The next binding."""
        var, value = binding.var, binding.value
        if not isinstance(binding, rx.VarBinding):
            raise PassError(f"Gradient: {var.name_hint} is a match_cast, which has no gradient")
        if called(value) not in (StartCheckpoint, EndCheckpoint):
            if all(v in self.kept or v in self._ends for v in _read(value)):
                self.kept.add(var)
            self.bindings.append(rx.VarBinding(var, self.use(value)))
            return
        source = self.use(value.args[0])
        if not isinstance(source, rx.Var):
            raise PassError(f"Gradient: {var.name_hint} marks what is no variable")
        self._now[var] = self._original[var] = source
        if type(var) is rx.Var and type(source) is not rx.Var:  # it is seen outside
            self._now[var] = seen = rx.Var(source.name_hint, source.struct_info)
            self.bindings.append(rx.VarBinding(seen, source))
        if called(value) is StartCheckpoint:
            self.kept.add(source)
        else:
            self._ends.add(var)


def _read(value: Any) -> Iterable[rx.Var]:
    return (leaf for leaf in leaves(value) if isinstance(leaf, rx.Var))


def _adjoint(
    mod: IRModule, func: rx.Function, marks: _Marks, target: rx.Var, wanted: list[rx.Var], name: str
) -> tuple[rx.Function, IRModule]:
    """The function of name `name`, which goes there and back, and the module with what it calls."""
    builder = BlockBuilder(mod.without_functions([GlobalVar(name)] if name in mod else []))
    with builder.function(
        name, func.params, func.without_attr("global_symbol").attrs, func.is_pure
    ):
        with builder.dataflow():
            for binding in marks.bindings:
                builder.emit_normalized(binding)
            back = _Backward(builder, marks, wanted)
            back.run(target)
            outs = [back.output(v) for v in wanted]
        builder.emit_func_output(rx.Tuple((marks.result, rx.Tuple(tuple(outs)))))
    added = builder.get()
    made: Any = remove_unused_bindings(added[name])
    return remove_unused_bindings(_Plain(added.functions).rewrite(made)), added


class _Backward:
    """Goes backwards; `adjoints` has for each variable the sum of the shares it got so far."""

    def __init__(self, builder: BlockBuilder, marks: _Marks, wanted: list[rx.Var]) -> None:
        self.builder, self.marks = builder, marks
        self.adjoints: dict[rx.Var, rx.Var] = {}
        self.values = {b.var: b.value for b in marks.bindings}
        #: for each variable where its value is now: itself, or computed again
        self.there: dict[rx.Var, Any] = {v: v for v in marks.kept}
        self.reached = set(wanted)
        for binding in marks.bindings:
            if any(v in self.reached for v in _read(binding.value)):
                self.reached.add(binding.var)

    def run(self, target: rx.Var) -> None:
        """From the result that is differentiated to the first binding."""
        info: Any = target.struct_info
        self.reached.add(target)
        self.add(target, op.ones(info.shape, str(info.dtype)))
        for binding in reversed(self.marks.bindings):
            if binding.var in self.adjoints:
                self.visit(binding.var, binding.value)

    def visit(self, var: rx.Var, value: Any) -> None:
        """What the value bound to `var` reads gets its shares."""
        adjoint = self.adjoints[var]
        if isinstance(value, rx.TupleGetItem):
            self.add_to_field(value.tuple_value, value.index, adjoint)
        elif isinstance(value, rx.Var | rx.Tuple):
            self.add(value, adjoint)
        elif isinstance(value, rx.Call):
            self.call(var, value, adjoint)
        elif any(v in self.reached for v in _read(value)):
            raise PassError(f"Gradient: {var.name_hint} is {kind_of(value)}, which has none")

    def call(self, var: rx.Var, call: rx.Call, adjoint: rx.Var) -> None:
        """What the arguments of a call get."""
        if not any(v in self.reached for v in _read(call)):
            return
        again = self.again(call)
        if var not in self.there:
            self.there[var] = self.builder.emit(again, f"{var.name_hint}_cp")
        for arg, share in zip(
            call.args, shares(self.there[var], again, adjoint, self.builder), strict=True
        ):
            if share is not None and any(v in self.reached for v in _read(arg)):
                self.add(arg, share)

    def again(self, value: Any) -> Any:
        """`value`, reading what was kept or is computed again."""
        for var in _read(value):
            if var not in self.there:
                made = self.again(self.values[var])
                self.there[var] = self.builder.emit(made, f"{var.name_hint}_cp")
        return rewrite(value, lambda n: self.there.get(n) if isinstance(n, rx.Var) else None)

    def add(self, to: Any, share: Any) -> None:
        """A share to a variable, or field by field to a tuple."""
        if isinstance(to, rx.Tuple):
            if not isinstance(share, rx.Var | rx.Tuple):
                share = self.builder.emit(share)
            for number, field in enumerate(to.fields):
                self.add(field, _field(share, number))
        elif isinstance(to, rx.Var) and to in self.reached:
            so_far = self.adjoints.get(to)
            self.bind(to, share if so_far is None else self.sum(so_far, share))

    def add_to_field(self, to: Any, index: int, share: rx.Var) -> None:
        """A share to one field of a tuple that a variable holds; the others get zeros at first."""
        if to not in self.reached:
            return
        so_far = self.adjoints.get(to)
        whole: Any = _zeros(to.struct_info) if so_far is None else so_far
        fields = [_field(whole, i) for i in range(len(to.struct_info.fields))]
        fields[index] = share if so_far is None else self.sum(fields[index], share)
        self.bind(to, rx.Tuple(tuple(fields)))

    def sum(self, a: Any, b: Any) -> Any:
        """a + b, of tuples field by field."""
        info = infer(self.builder.normalize(a)) if isinstance(a, rx.Call) else infer(a)
        if not isinstance(info, TupleStructInfo):
            return op.add(a, b)
        a, b = (x if isinstance(x, rx.Var | rx.Tuple) else self.builder.emit(x) for x in (a, b))
        each = range(len(info.fields))
        return rx.Tuple(tuple(self.sum(_field(a, i), _field(b, i)) for i in each))

    def bind(self, var: rx.Var, adjoint: Any) -> None:
        self.adjoints[var] = self.builder.emit(adjoint, f"{var.name_hint}_adjoint")

    def output(self, var: rx.Var) -> rx.Var:
        """The adjoint of a variable as a result of the function."""
        if var not in self.adjoints:
            self.bind(var, _zeros(var.struct_info))
        return self.builder.emit_output(self.adjoints[var], f"{var.name_hint}_adjoint_out")


def _field(value: Any, number: int) -> Any:
    return value.fields[number] if isinstance(value, rx.Tuple) else rx.TupleGetItem(value, number)


def _zeros(info: StructInfo | None) -> Any:
    if isinstance(info, TupleStructInfo):
        return rx.Tuple(tuple(map(_zeros, info.fields)))
    if not isinstance(info, TensorStructInfo) or info.shape is None or info.dtype is None:
        raise PassError(
            f"Gradient: zeros are needed of {info}, whose shape or dtype is not known",
            hint="R.match_cast says them",
        )
    return op.zeros(info.shape, str(info.dtype))


class _Plain(Mutator):
    """What rules leave behind, in fewer words.

    permute_dims(permute_dims(a)) -> a      permute_dims(matmul(a, b)) -> matmul(b', a')
    call_tir_with_grad            -> call_tir
    """

    def visit_call(self, call: rx.Call, var: rx.Var) -> Any:
        """One call."""
        if getattr(call.op, "name", "") == "relax.call_tir_with_grad":
            return rx.Call(rx.Op("relax.call_tir"), call.args, None, call.sinfo_args)
        before: Any = self.value_of(call.args[0]) if _turns(call) else None
        if _turns(before):
            return before.args[0] if isinstance(before.args[0], rx.Var) else None
        if called(before) is not Matmul or 1 in [a.struct_info.ndim for a in before.args]:
            return None
        a, b = (self.turned(x) for x in before.args)
        return rx.Call(before.op, (b, a), before.attrs)

    def turned(self, x: Any) -> Any:
        """x transposed: what it was before, where it is that already."""
        before = self.value_of(x)
        if _turns(before):
            return before.args[0]
        ndim = x.struct_info.ndim
        return op.permute_dims(x, axes=[*range(ndim - 2), ndim - 1, ndim - 2])


def _turns(call: Any) -> bool:
    """True where the last two dimensions change places, and nothing else."""
    if called(call) is not PermuteDims or (ndim := call.args[0].struct_info.ndim) < 2:
        return False
    order = attrs_of(call).order(ndim)  # type: ignore[attr-defined]
    return tuple(order) == (*range(ndim - 2), ndim - 1, ndim - 2)
