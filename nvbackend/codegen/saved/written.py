"""The file of compiled kernels: what `CompiledKernel.save` and `CompiledModule.save` write."""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from nvbackend.codegen.saved import described
from nvbackend.codegen.saved.archive import packed
from nvbackend.codegen.saved.parts import WholeKernel
from nvbackend.codegen.saved.rules import FILE, TOGETHER
from nvbackend.diagnostics import printed
from nvbackend.diagnostics.arguments import ARGUMENT
from nvbackend.signature import Parameter, Signature

FORMAT_VERSION = 2
"""The version of what is written; a file of any other is refused."""
MANIFEST, PTX, CUBIN, MACHINE = "manifest.json", "kernel.ptx", "kernel.cubin", "machine"
KERNEL, MODULE = "kernel", "module"
"""What a file holds."""


def own_version() -> str:
    """The version of nvbackend."""
    return str(importlib.import_module(__name__.partition(".")[0]).__version__)


def save(path: str | os.PathLike[str], kernels: Sequence[WholeKernel], versions: Mapping[str, str]) -> None:
    """Write a kernel, one a target, to `path`, which appears as a whole. Raises saved.together, saved.file."""
    _check_kind(kernels, "kernel")
    _check_together(kernels)
    _save(path, KERNEL, [(kernel,) for kernel in kernels], versions)


def save_module(
    path: str | os.PathLike[str], modules: Sequence[Mapping[str, WholeKernel]], versions: Mapping[str, str]
) -> None:
    """Write a module, one a target, to `path`, as `save`."""
    _check_kind(modules, "module")
    first, *others = modules
    for other in others:
        if list(other) != list(first):
            problem = f"its module has {', '.join(other)}, and the first {', '.join(first)}"
            _refuse(next(iter(other.values())), next(iter(first.values())), problem, "save modules of the same kernels")
    for name in first:
        _check_together([module[name] for module in modules])
    _save(path, MODULE, [tuple(module.values()) for module in modules], versions)


def _check_kind(saved: Sequence[object], kind: str) -> None:
    """A module in the place of a kernel, or another thing: call.argument."""
    for each in saved[1:]:
        if type(each) is not type(saved[0]):
            problem = f"takes the same {kind} for other targets, not {printed(each)}"
            ARGUMENT.fail(call="save", problem=problem, advice=f"write {kind}.save(path, {kind}_for_another_target)")


def _save(
    path: str | os.PathLike[str], holds: str, variants: Sequence[Sequence[WholeKernel]], versions: Mapping[str, str]
) -> None:
    members: dict[str, bytes] = {}
    manifest = {
        "format": FORMAT_VERSION,
        "holds": holds,
        "versions": {"nvbackend": own_version(), **versions},
        "targets": [_described(str(place), kernels, members) for place, kernels in enumerate(variants)],
    }
    text = json.dumps(manifest, indent=1, sort_keys=True)
    _write(Path(path), packed({MANIFEST: text.encode(), **members}))


def _check_together(kernels: Sequence[WholeKernel]) -> None:
    """Raises saved.together unless the kernels are one for several targets, called with the same arguments."""
    first, *rest = kernels
    seen = {first.target.name}
    for kernel in rest:
        problem, advice = "", "save it to a file of its own"
        if kernel.signature.name != first.signature.name:
            problem = "it is another kernel"
        elif kernel.target.name in seen:
            problem, advice = (
                "the file has that target already",
                "leave one of them out, or give them files of their own",
            )
        elif _called(kernel.signature) != _called(first.signature):
            problem = f"its parameters are {_shown(kernel.signature)}, not {_shown(first.signature)}"
        if problem:
            _refuse(kernel, first, problem, advice)
        seen.add(kernel.target.name)


def _refuse(kernel: WholeKernel, first: WholeKernel, problem: str, advice: str) -> NoReturn:
    TOGETHER.fail(
        name=kernel.signature.name,
        target=kernel.target.name,
        first=first.signature.name,
        first_target=first.target.name,
        problem=problem,
        advice=advice,
    )


def _called(signature: Signature) -> list[tuple[str, str, str]]:
    """What a launch passes: boxes and bounds of values may differ between targets."""
    return [(each.name, type(each.type).__name__, each.type.element.name) for each in signature.parameters]


def _shown(signature: Signature) -> str:
    return ", ".join(map(_parameter, signature.parameters)) or "none"


def _parameter(parameter: Parameter) -> str:
    return f"{parameter.name} ({type(parameter.type).__name__} of {parameter.type.element})"


def _described(place: str, kernels: Sequence[WholeKernel], members: dict[str, bytes]) -> dict[str, Any]:
    """The kernels of a target as the manifest has them; `members` gets their texts and bytes, in the folder `place`."""
    first = kernels[0]
    members[f"{place}/{PTX}"] = first.ptx.encode()
    data: dict[str, Any] = {
        "folder": place,
        "target": first.target.name,
        "ptx_version": list(first.target.ptx_version),
        "kernels": [_kernel(f"{place}/{MACHINE}{number}.txt", each, members) for number, each in enumerate(kernels)],
        "cubin": None,
    }
    if first.cubin is not None:
        members[f"{place}/{CUBIN}"] = first.cubin.data
        resources = described.describe_resources(first.cubin.resources)
        data["cubin"] = {"ptxas": list(first.cubin.ptxas_version), "resources": resources}
    return data


def _kernel(machine: str, kernel: WholeKernel, members: dict[str, bytes]) -> dict[str, Any]:
    members[machine] = str(kernel.machine).encode()
    return {
        "machine": machine,
        "signature": described.describe_signature(kernel.signature),
        "assertions": [described.describe_assertion(each) for each in kernel.assertions],
    }


def _write(path: Path, data: bytes) -> None:
    """Write beside it first: a reader, or a full disk, never sees half a file."""
    try:
        beside = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            beside.write_bytes(data)
            beside.replace(path)
        except OSError:
            beside.unlink(missing_ok=True)
            raise
    except (OSError, ValueError) as error:  # a path without a name, or with a zero byte
        problem = getattr(error, "strerror", None) or error
        advice = "give a file in a directory that exists and can be written to"
        FILE.fail(path=path, done="written", problem=problem, advice=advice)
