"""Passes on virtual devices: which tensor lies where.

UpdateVDevice      every tensor on one virtual device
RealizeVDevice     what R.hint_on_device wishes, and R.to_vdevice says, spreads to what has to lie
                   on the same device; wishes become moves where devices differ
"""

from __future__ import annotations

from typing import Any

from mlcnb.core.errors import PassError
from mlcnb.core.node import replace
from mlcnb.ir.global_info import VDevice
from mlcnb.ir.module import IRModule
from mlcnb.ir.transform import FunctionPass, PassContext
from mlcnb.op.telling import HintOnDevice, ToVDevice
from mlcnb.relax import op
from mlcnb.relax.analysis.variables import bindings_of, leaves
from mlcnb.relax.expr import Call, Function, MatchCast, Tuple, Var
from mlcnb.relax.mutator import Renamer
from mlcnb.relax.operator import attrs_of, called
from mlcnb.relax.struct_info import StructInfo, TensorStructInfo, TupleStructInfo


class UpdateVDevice(FunctionPass):
    """Put every tensor on a virtual device.

    Shapes and dtypes stay.

    new_vdevice: the device; index: its place among the module's virtual devices.

    Raises:
        PassError: there is no device, or none at that place.
    """

    new_vdevice: VDevice | None = None
    index: int = 0

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """All graph functions, and the module's list of devices."""
        if not isinstance(self.new_vdevice, VDevice):
            raise PassError("UpdateVDevice: no device to put tensors on", hint='ir.VDevice("llvm")')
        known = list(mod.global_infos.get("vdevice", ()))
        if not 0 <= self.index < len(known):
            raise PassError(
                f"UpdateVDevice: the module has {len(known)} virtual devices: there is none at "
                f"{self.index}",
                root=mod,
                hint='I.module_global_infos({"vdevice": [I.vdevice("llvm")]})',
            )
        made = super().transform_module(mod, ctx)
        if known[self.index] == self.new_vdevice:
            return made
        known[self.index] = self.new_vdevice
        infos = type(mod.global_infos)({**mod.global_infos, "vdevice": tuple(known)})
        return replace(made, global_infos=infos)

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """Every tensor of the function."""
        device = self.new_vdevice
        return _with_infos(func, lambda var: _placed(var.struct_info, device))


def _placed(info: Any, device: Any) -> Any:
    """A struct info with all its tensors on a device; itself where that is not known."""
    if isinstance(info, TensorStructInfo):
        return info if device in (None, info.vdevice) else replace(info, vdevice=device)
    if isinstance(info, TupleStructInfo):
        return replace(info, fields=tuple(_placed(f, device) for f in info.fields))
    return info


def _with_infos(func: Function, new: Any) -> Function:
    """The function with other struct infos of its variables; a result's follows its variable."""
    changed: dict[Var, Var] = {}
    for var in [*func.params, *(b.var for b in bindings_of(func))]:
        info = new(var)
        if info is not var.struct_info:
            changed[var] = type(var)(var.name_hint, info, var.span)
    if not changed:
        return func
    renamer = _Placer(changed)
    made = renamer.rewrite(func)
    params = tuple(changed.get(p, p) for p in func.params)
    ret = _devices_of(func.ret_struct_info, made.body.struct_info)
    return replace(made, params=params, ret_struct_info=ret)


def _devices_of(info: Any, like: Any) -> Any:
    """A struct info with the devices of another."""
    if isinstance(info, TensorStructInfo) and isinstance(like, TensorStructInfo):
        return replace(info, vdevice=like.vdevice)
    if isinstance(info, TupleStructInfo) and isinstance(like, TupleStructInfo):
        pairs = zip(info.fields, like.fields, strict=True)
        return replace(info, fields=tuple(_devices_of(a, b) for a, b in pairs))
    return info


class _Placer(Renamer):
    """Variables with other struct infos; the calls that they are bound to say the same."""

    def _binding(self, binding: Any) -> None:
        super()._binding(binding)
        last = self.emitter.bindings[-1]
        info, value = last.var.struct_info, last.value
        if isinstance(value, Call):
            given = tuple(_devices_of(s, info) for s in value.sinfo_args)
            value = replace(value, struct_info=info, sinfo_args=given)
        made = replace(last, value=value)
        if isinstance(made, MatchCast):
            made = replace(made, struct_info=_devices_of(made.struct_info, info))
        self.emitter.bindings[-1] = made


class RealizeVDevice(FunctionPass):
    """Spread the virtual devices of tensors, and make moves of the wishes that differ.

    Shapes and dtypes stay.

    Raises:
        PassError: a wish names no device of the module, or an operator's operands lie on
            several.
    """

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """What is known of parameters, results, wishes and moves, forward and backward."""
        places = _Places(func, mod)
        places.spread()
        made = _Realizer(places).rewrite(func)
        return _with_infos(made, lambda v: _placed(v.struct_info, places.where.get(v)))


class _Places:
    """Where each variable lies."""

    def __init__(self, func: Function, mod: IRModule) -> None:
        self.func = func
        self.known = [d for d in mod.global_infos.get("vdevice", ()) if isinstance(d, VDevice)]
        self.where: dict[Var, VDevice] = {}
        self.bindings = list(bindings_of(func))
        for var in [*func.params, *(b.var for b in self.bindings)]:
            self._say(var, _device_of(var.struct_info))
        self._say_parts(func.body.body, func.ret_struct_info)

    def _say_parts(self, value: Any, info: Any) -> None:
        """What a result's struct info says of the tensors that it is made of."""
        if isinstance(info, TupleStructInfo) and isinstance(value, Tuple):
            for field, inner in zip(value.fields, info.fields, strict=True):
                self._say_parts(field, inner)
        else:
            self._say(value, _device_of(info))

    def wish(self, call: Call) -> VDevice:
        """The module's device that a hint names."""
        attrs: Any = attrs_of(call)
        kind = {1: "llvm", 2: "cuda"}.get(attrs.device_type)
        alike = [d for d in self.known if d.kind == kind and d.memory_scope == attrs.memory_scope]
        if attrs.index >= len(alike):
            raise PassError(
                f"RealizeVDevice: the module has no virtual device of kind {kind!r} number "
                f"{attrs.index}, which R.hint_on_device names",
                where=call,
                root=self.func,
                hint='I.module_global_infos({"vdevice": [I.vdevice("llvm")]})',
            )
        return alike[attrs.index]

    def _say(self, var: Any, device: VDevice | None) -> bool:
        if device is None or not isinstance(var, Var) or var in self.where:
            return False
        self.where[var] = device
        return True

    def spread(self) -> None:
        """Forward, then backward, until nothing is new."""
        for binding in self.bindings:
            if called(binding.value) is HintOnDevice:
                self._say(binding.var, self.wish(binding.value))  # type: ignore[arg-type]
        new = True
        while new:
            steps = [self._forward(b) for b in self.bindings]
            steps += [self._backward(b) for b in reversed(self.bindings)]
            new = any(steps)

    def _forward(self, binding: Any) -> bool:
        if called(binding.value) in (HintOnDevice, ToVDevice):
            return False
        found = [self.where[v] for v in _tensors(binding.value) if v in self.where]
        return bool(found) and self._say(binding.var, found[0])

    def _backward(self, binding: Any) -> bool:
        device = self.where.get(binding.var)
        if device is None or called(binding.value) is ToVDevice:
            return False
        said = [self._say(v, device) for v in _tensors(binding.value)]
        return any(said)


def _tensors(value: Any) -> list[Var]:
    return [v for v in leaves(value) if isinstance(v, Var)]


def _device_of(info: StructInfo | None) -> VDevice | None:
    device = info.vdevice if isinstance(info, TensorStructInfo) else None
    return device if isinstance(device, VDevice) else None


class _Realizer(Renamer):
    """Wishes become moves, or other names of tensors that lie there already."""

    def __init__(self, places: _Places) -> None:
        super().__init__({})
        self.places = places

    def _binding(self, binding: Any) -> None:
        if called(binding.value) is not HintOnDevice:
            super()._binding(binding)
            return
        source = self.substitute(binding.value.args[0])
        wanted = self.places.where[binding.var]
        if self.places.where.get(source) == wanted:
            self.emitter.bindings.append(replace(binding, value=source))
            return
        move = op.to_vdevice(source, dst_vdevice=wanted)
        info = _placed(binding.var.struct_info, wanted)
        self.emitter.bindings.append(replace(binding, value=replace(move, struct_info=info)))
