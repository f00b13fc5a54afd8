"""The functions that make rows: what each makes of its defaults, and what it says of a value that no row has."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from typing import Any

import nvbackend.intrinsics
from nvbackend.intrinsics.row.row import NoSuchRow, Row
from nvbackend.intrinsics.row.types import f16, f32
from tests.support.golden import Golden

WRONG = "no such value"
OTHERS = {"asm_form.asm_form", "row.guarded", "tcgen05_memory.row", "tma.copy_row", "mma.mma", "wgmma.zero_unwritten"}
"""Functions that take a row, parts of one, or an object for all axes, and what the builder alone asks for."""
Calls = dict[str, Callable[..., Row]]


def functions() -> Calls:
    """Each function of the tables that makes a row of the values of its axes, by its module and name."""
    every: Calls = {}
    for found in pkgutil.walk_packages(nvbackend.intrinsics.__path__, "nvbackend.intrinsics."):
        for name, call in {} if found.ispkg else vars(importlib.import_module(found.name)).items():
            plain = inspect.unwrap(call) if callable(call) else call
            own = inspect.isfunction(plain) and plain.__module__ == found.name and not name.startswith("_")
            full = f"{found.name.rpartition('.')[2]}.{name}"
            if own and plain.__annotations__.get("return") == "Row" and full not in OTHERS:
                every[full] = call
    return every


GIVEN: dict[str, tuple[Any, ...]] = {
    "async_store.add_global": ("u32", "gpu"),
    "async_store.reduce": ("add", "u32"),
    "async_store.store": ("f32",),
    "async_store.store_global": ("f32", "gpu"),
    "atomics.atomic": ("add", "f16"),
    "barriers.barrier_reduce": ("and",),
    "barriers.fence": ("acquire", "cta"),
    "barriers.fence_shared": ("acquire",),
    "barriers.griddepcontrol": ("wait",),
    "barriers.membar": ("cta",),
    "cache_control.policy_fractional": ("L2::evict_last",),
    "cache_control.policy_range": ("L2::evict_last",),
    "cache_control.prefetch": ("L1",),
    "conversions.pack": ("f16x2",),
    "conversions.pack_four": ("e4m3x4",),
    "conversions.pair": ("f16x2", "e4m3x2"),
    "conversions.single": ("f16", "rn"),
    "cp_async.copy": ("ca", 4),
    "floats.arithmetic": ("add", "f16"),
    "floats.extreme": ("min", "f16"),
    "floats.function": ("ex2", "f32", "approx"),
    "integers.carry": ("add", False),
    "integers.count": ("popc", "u32"),
    "integers.difference": ("u32",),
    "integers.dot": ("u32", "u32"),
    "integers.extract": ("u32",),
    "integers.funnel": ("l", "wrap"),
    "integers.insert": ("u32",),
    "integers.multiply_high": ("u32",),
    "integers.reverse": ("u32",),
    "integers.saturating": ("add",),
    "integers.wide": ("u32",),
    "launch_control.first_ctaid_on": ("x",),
    "load_store.access": ("ld", "b32"),
    "matrix_move.ldmatrix": (1,),
    "matrix_move.pack": ("f16x2",),
    "matrix_move.pack_two": ("e4m3x2",),
    "matrix_move.stmatrix": (1,),
    "mbarrier_phases.transaction": ("expect_tx",),
    "mbarrier_phases.wait": ("test_wait",),
    "multimem.load_reduce": ("add", "f32"),
    "multimem.reduce": ("add", "f32"),
    "multimem.store": ("f32",),
    "packed.arithmetic": ("add", "f16x2"),
    "packed.compare": ("eq", "f16x2"),
    "packed.extreme": ("min", "f16x2"),
    "packed.function": ("ex2", "f16x2"),
    "packed.sign": ("abs", "f16x2"),
    "register_budget.setmaxnreg": ("inc",),
    "special_registers.special_register": ("tid.x",),
    "tcgen05.mma": ("f8f6f4",),
    "tcgen05.mma_ws": ("f8f6f4",),
    "tcgen05_memory.cp": ("128x256b",),
    "tcgen05_memory.fence": ("before",),
    "tcgen05_registers.ld": ("32x32b", 1),
    "tcgen05_registers.ld_red": ("32x32b", 2, "min", "f32"),
    "tcgen05_registers.st": ("32x32b", 1),
    "tcgen05_registers.wait": ("ld",),
    "tensormap.copy_and_publish": ("cta",),
    "tensormap.fence": ("acquire", "cta"),
    "tensormap.replace": ("global_address",),
    "tma_bulk.reduce_bulk": ("global", "add", "f16"),
    "tma_tensor.load_tensor": (1,),
    "tma_tensor.prefetch_tensor": (1,),
    "tma_tensor.reduce_tensor": (1, "add"),
    "tma_tensor.store_tensor": (1,),
    "traps.trap": ("trap",),
    "warp.match": ("all",),
    "warp.reduce": ("add", "u32"),
    "warp.shuffle": ("idx",),
    "warp.vote": ("all",),
    "wgmma.mma_async": (64, f32, f16, f16),
    "wmma.load": ("a", (16, 16, 16), f16, "row", None, True),
    "wmma.mma": ((16, 16, 16), f16, f32, f32, ("row", "col")),
    "wmma.store": ((16, 16, 16), f32, "row", None, True),
}
"""Values of the parameters without a default, for which there is a row."""


def said(call: Callable[..., Row], given: dict[str, Any]) -> str:
    try:
        return repr(call(**given))
    except NoSuchRow as error:
        return error.diagnostics[0].message


def told() -> Iterator[str]:
    for name, call in functions().items():
        parameters = list(inspect.signature(call).parameters)
        given = dict(zip(parameters, GIVEN.get(name, ()), strict=False))
        yield f"{name}: {said(call, given)}"
        for parameter in parameters:
            yield f"    {parameter}: {said(call, {**given, parameter: WRONG})}"


def test_defaults_and_refusals(golden: Golden) -> None:
    lines = list(told())
    assert [line for line in lines if not line.startswith(" ") and ": <row " not in line] == []
    golden.check("calls.txt", "\n".join(lines))
