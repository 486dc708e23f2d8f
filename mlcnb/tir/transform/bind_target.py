"""BindTarget: every function is told which machine it is for.

def main(): ...       target: cuda, host llvm     called from outside: the device with its host
def helper(): ...     target: cuda                called by those: the device alone
def on_host(): ...    target: llvm                marked "tir.is_host_func", or called by such

A function that both sides call is there twice, for the host as `name_host`.
"""

from __future__ import annotations

from typing import Any

from mlcnb.core.node import Node, replace, rewrite, walk
from mlcnb.ir.expr import GlobalVar
from mlcnb.ir.module import IRModule
from mlcnb.ir.transform import ModulePass
from mlcnb.target import Target
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.functor import callee
from mlcnb.tir.transform.device_regions import without_host

#: attribute of a function that runs on the host
IS_HOST = "tir.is_host_func"


class BindTarget(ModulePass):
    """Bind the loop functions of a module to a target; those that have one keep it.

    target: of the device, with its host where there is one.
    """

    target: Any

    def transform_module(self, mod: IRModule, ctx: Any) -> IRModule:
        """The functions with the attribute `target`."""
        target = Target(self.target)
        functions = {k.name_hint: f for k, f in mod.of_kind(PrimFunc).items()}
        by_host, by_device = _callers(functions, target)
        made: dict[str, PrimFunc] = {}
        for name, func in functions.items():
            if func.attrs.get(IS_HOST):
                func = func.without_attr(IS_HOST)  # type: ignore[assignment]
                made[name] = _bound(func, target.host or target)
            elif "global_symbol" in func.attrs:
                made[name] = _bound(func, target)
            elif name in by_host and name in by_device:
                made[name] = _bound(func, without_host(target))
                made[f"{name}_host"] = _bound(func, target.host or target)
            elif name in by_host:
                made[name] = _bound(func, target.host or target)
            else:
                made[name] = _bound(func, without_host(target))
        twice = by_host & by_device & {n for n in functions if f"{n}_host" in made}
        changed = {n: _renamed(f, twice) if _on_host(f, target) else f for n, f in made.items()}
        return mod.with_functions(changed)


def _bound(func: PrimFunc, target: Target) -> PrimFunc:
    if "target" in func.attrs:
        return func
    return func.with_attr("target", target)  # type: ignore[return-value]


def _on_host(func: PrimFunc, target: Target) -> bool:
    return target.host is not None and func.attrs["target"] == target.host


def _callers(functions: dict[str, PrimFunc], target: Target) -> tuple[set[str], set[str]]:
    """The functions that host functions call, and those that device functions call."""
    by_host: set[str] = set()
    by_device: set[str] = set()
    for func in functions.values():
        bound = func.attrs.get("target")
        host = func.attrs.get(IS_HOST) or (
            bound is not None and target.host is not None and Target(bound) == target.host
        )
        called = filter(None, map(callee, walk(func.body)))
        (by_host if host else by_device).update(called)
    return by_host, by_device


def _renamed(func: PrimFunc, twice: set[str]) -> PrimFunc:
    """A function of the host calls what is there for the host."""

    def rule(n: Node) -> Node | None:
        if callee(n) in twice:
            return replace(n, op=GlobalVar(f"{callee(n)}_host"))
        return None

    return func.with_body(rewrite(func.body, rule)) if twice else func
