"""Who imports whom: diagnostics <- intrinsics <- isel <- layout <- atoms <- tiled <- the rest <- samples; ptx aside."""

from __future__ import annotations

import graphlib
import sys

from tests.support.process import ROOT
from tests.support.source import PACKAGE, Source, imports, sources

LAYERS = ("diagnostics", "intrinsics", "isel", "layout", "atoms", "tiled")
"""Lowest first; whatever else the package holds stands above them."""
OUTSIDE = {
    "diagnostics": frozenset[str](),
    "intrinsics": frozenset({"numpy"}),
    "isel": frozenset({"numpy"}),
    "ptx": frozenset(),
    "simulator": frozenset({"numpy", "ml_dtypes"}),
}
"""What a layer may import besides the standard library and this package."""
_LAUNCHERS = frozenset({"numba", "cuda", "torch", "jax"})
OUTSIDE_OF_THE_REST = frozenset({"numpy", "llvmlite", "nvidia", "ml_dtypes", "pytest", "shtab"}) | _LAUNCHERS
HEAVY = _LAUNCHERS | {"ml_dtypes"}
"""Never imported at the top level of a module; of the others see below."""
USERS = {
    "llvmlite": ("nvbackend.builder", "nvbackend.codegen", "nvbackend.dry_run"),
    "numpy": ("nvbackend.simulator",),
}
"""The modules that import a heavy package at their top level, which themselves are imported on use."""

ALL = sources(PACKAGE)
PROGRAMS = sources("samples", "benchmarks")


def _layer(module: str) -> int:
    parts = module.split(".")
    if parts[0] != PACKAGE:
        return len(LAYERS) + 1
    return LAYERS.index(parts[1]) if len(parts) > 1 and parts[1] in LAYERS else len(LAYERS)


def test_no_layer_imports_a_higher_one() -> None:
    above = [
        f"{source.path.relative_to(ROOT)}:{found.line}: {found.module}"
        for source in ALL
        for found in imports(source)
        if found.module.partition(".")[0] == PACKAGE and _layer(found.module) > _layer(source.module)
    ]
    assert above == []


def test_lower_layers_stand_on_the_standard_library() -> None:
    assert {source.module: extra for source in ALL if (extra := _roots(source) - _allowed(source))} == {}


def _roots(source: Source) -> set[str]:
    return {found.module.partition(".")[0] for found in imports(source)} - {PACKAGE} - sys.stdlib_module_names


def _allowed(source: Source) -> frozenset[str]:
    parts = source.module.split(".")
    return OUTSIDE.get(parts[1] if len(parts) > 1 else "", OUTSIDE_OF_THE_REST)


def test_heavy_packages_are_imported_on_use() -> None:
    eager = {
        source.module: {found.module.partition(".")[0] for found in imports(source) if not found.lazy} for source in ALL
    }
    assert {module: found for module, names in eager.items() if (found := names & HEAVY)} == {}
    for package, users in USERS.items():
        eagerly = [module for module, names in eager.items() if package in names]
        assert eagerly
        assert [module for module in eagerly if not module.startswith(users)] == []


def test_the_ptx_front_end_knows_no_builder() -> None:
    """It reads what anybody printed, so it uses diagnostics and tables of the hardware alone."""
    used = {found.module for source in ALL if source.module.startswith("nvbackend.ptx.") for found in imports(source)}
    ours = {module for module in used if module.startswith(f"{PACKAGE}.")}
    assert {module.split(".")[1] for module in ours} == {"diagnostics", "intrinsics", "ptx"}


def test_the_simulator_is_an_independent_witness() -> None:
    """It shares no table with what it checks."""
    used = {
        found.module for source in ALL if source.module.startswith("nvbackend.simulator") for found in imports(source)
    }
    ours = {module for module in used if module.startswith(f"{PACKAGE}.")}
    assert {module.split(".")[1] for module in ours} <= {"diagnostics", "ptx", "simulator"}


def test_no_import_cycles() -> None:
    """Imports in functions and those for type checkers count too: they hide a cycle, and do not break it."""
    graph = {source.module: {found.module for found in imports(source)} - {source.module} for source in ALL}
    order = tuple(graphlib.TopologicalSorter(graph).static_order())
    assert order.index("nvbackend.diagnostics.location") < order.index("nvbackend.isel.target.target")


def test_programs_import_what_users_can() -> None:
    """Samples use the installed package: no names of the links at the top level, nor of the tests."""
    roots = {source.module: {found.module.partition(".")[0] for found in imports(source)} for source in PROGRAMS}
    assert {
        module: found for module, names in roots.items() if (found := names & {"intrinsics", "isel", "tests"})
    } == {}


def test_programs_exist() -> None:
    assert "samples.hopper_gemm" in {source.module for source in PROGRAMS}
