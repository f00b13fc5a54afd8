"""`import nvbackend`: what it loads, and the names that it offers."""

from __future__ import annotations

import ast
import importlib

import pytest

import nvbackend
from tests.support.process import ROOT, python_output
from tests.support.source import PACKAGE, sources

HEAVY = ("llvmlite", "numba", "cuda", "numpy", "ml_dtypes", "ctypes", "subprocess")
PURE_LAYERS = ("diagnostics", "intrinsics", "isel")
LIGHT_NAMES = ("Diagnostic", "DiagnosticError", "Rule", "Severity", "Target", "f16", "i32", "Pointer", "TensorMap")

LOADED = "import sys; print(*{name.partition('.')[0] for name in sys.modules})"


def _heavy_after(code: str) -> set[str]:
    return set(python_output(f"{code}\n{LOADED}").split()) & set(HEAVY)


def test_the_witness_sees_a_heavy_import() -> None:
    assert _heavy_after("import numpy") >= {"numpy"}


def test_importing_the_package_loads_nothing_heavy() -> None:
    assert _heavy_after("import nvbackend") == set()


def test_importing_the_package_loads_nothing_else_of_it() -> None:
    loaded = python_output(
        "import sys, nvbackend; print(*(name for name in sys.modules if name.split('.')[0] == 'nvbackend'))"
    )
    assert loaded.split() == ["nvbackend"]


@pytest.mark.parametrize("layer", PURE_LAYERS)
def test_pure_layers_load_nothing_heavy(layer: str) -> None:
    modules = [source.module for source in sources(f"{PACKAGE}/{layer}")]
    assert modules
    assert _heavy_after("import " + ", ".join(modules)) == set()


def test_types_and_targets_load_nothing_heavy() -> None:
    assert _heavy_after(f"from nvbackend import {', '.join(LIGHT_NAMES)}\nTarget.parse('sm_90a')") == set()


FIRST_COMPILE = """
import nvbackend as nvb
from samples import hopper_gemm
hopper_gemm.gemm.compile(assemble=False, cache=nvb.Cache.disabled())
import sys
print(*sys.modules)
"""
NOT_FOR_A_COMPILE = {
    *("argparse", "difflib", "hashlib", "html", "numpy", "pickle", "sysconfig"),
    *(
        f"{PACKAGE}.{part}"
        for part in ("layout.pictures", "layout.drawing", "ptx", "simulator", "runtime", "lint", "cli")
    ),
    *(f"{PACKAGE}.codegen.{part}" for part in ("isolated", "register_hazards", "sass")),
    *(f"{PACKAGE}.builder.kernel.again.{part}" for part in ("on_disk", "reads", "snapshot")),
    *(f"{PACKAGE}.builder.ops.{part}" for part in ("constants", "copy.multimem", "debug.debug", "math.accurate")),
    *(f"{PACKAGE}.builder.ops.{part}" for part in ("cluster_reduction", "combine", "cta", "warp")),
    *(f"{PACKAGE}.builder.ops.matrix.{part}" for part in ("tcgen05", "wmma")),
    *(f"{PACKAGE}.builder.tiles.mma.{part}" for part in ("tcgen05", "warp_mma")),
    *(f"{PACKAGE}.builder.tiles.{part}" for part in ("register_tensor", "tiled_copy", "elements.tile_values")),
    *(f"{PACKAGE}.dry_run.protocols.{part}" for part in ("deadlocks", "explain", "left_out", "overruns", "tensor")),
    *(f"{PACKAGE}.isel.protocols.{part}" for part in ("grids", "tensor_maps", "tmem", "wgmma.text", "wmma")),
    *(f"{PACKAGE}.isel.select.{part}" for part in ("mma", "tcgen05", "wmma")),
    *(f"{PACKAGE}.intrinsics.{part}" for part in ("copy.tcgen05_memory", "maps.tcgen05", "mma.tcgen05")),
    f"{PACKAGE}.intrinsics.words.tcgen05_control",
    *(f"{PACKAGE}.{part}" for part in ("intrinsics.mma.mma", "intrinsics.mma.wmma", "layout.banks", "tiled.tma_copy")),
    f"{PACKAGE}.builder.core.old_calls",
}
"""What few programs need and takes long to import."""


def test_a_compile_loads_nothing_that_it_does_not_need() -> None:
    loaded = set(python_output(FIRST_COMPILE).split())
    assert {"llvmlite.binding", f"{PACKAGE}.dry_run.runs"} <= loaded  # the witness sees
    assert loaded & NOT_FOR_A_COMPILE == set()


WITHOUT_NUMPY = """
import sys
sys.modules["numpy"] = None  # importing it fails
import nvbackend as nvb
from samples import hopper_gemm
from samples.attention import forward
from samples.w4a16 import clusters
for kernel in (hopper_gemm.gemm, clusters.clusters, forward.attention):
    print(kernel.compile(assemble=False, cache=nvb.Cache.disabled()).name)
"""


def test_kernels_compile_without_numpy() -> None:
    """It takes 30 ms to import, and its threads keep another core busy for as long."""
    assert python_output(WITHOUT_NUMPY).split() == ["gemm", "clusters", "attention"]


def test_dataclasses_are_those_that_are_made_quickly() -> None:
    """Python's own decorator compiles several texts for a class, and a fresh process makes hundreds of classes."""
    makers = [
        source.module
        for source in sources(PACKAGE)
        for node in ast.walk(source.tree)
        if isinstance(node, ast.ImportFrom) and node.module == "dataclasses"
        if any(alias.name == "dataclass" for alias in node.names)
    ]
    assert makers == ["nvbackend.diagnostics.classes.dataclass"]  # for type checkers


def test_star_and_dir_show_the_public_names() -> None:
    assert len(set(nvbackend.__all__)) == len(nvbackend.__all__)
    assert set(nvbackend.__all__) <= set(dir(nvbackend))
    namespace: dict[str, object] = {}
    exec("from nvbackend import *", namespace)
    assert set(nvbackend.__all__) <= set(namespace)


def test_type_checkers_see_the_names_that_programs_get() -> None:
    """Those that annotate parameters are classes of a stub, which no program imports."""
    (source,) = (found for found in sources(PACKAGE) if found.module == PACKAGE)
    stub = ast.parse((ROOT / PACKAGE / "annotations.pyi").read_text(encoding="utf-8"))
    classes = {node.name for node in stub.body if isinstance(node, ast.ClassDef)}
    aliases = {node.targets[0].id for node in stub.body if isinstance(node, ast.Assign)}  # type: ignore[attr-defined]
    seen: dict[str, object] = {}
    for node in ast.walk(source.tree):
        if isinstance(node, ast.ImportFrom) and node.module is not None and node.module.startswith(PACKAGE):
            for alias in node.names:
                if node.module == f"{PACKAGE}.annotations":
                    assert alias.name in classes | aliases
                    seen[alias.name] = getattr(nvbackend, alias.name)
                    continue
                module = importlib.import_module(node.module)
                full = f"{node.module}.{alias.name}"
                seen[alias.name] = getattr(module, alias.name, None) or importlib.import_module(full)
    assert seen == {name: getattr(nvbackend, name) for name in nvbackend.__all__}


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        nvbackend.no_such_name  # noqa: B018
