"""The file of compiled kernels, read back: each value compared with its kind, and nothing of it run."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nvbackend.codegen.cubin import Cubin, is_cubin
from nvbackend.codegen.saved import described
from nvbackend.codegen.saved.archive import NotWhole, unpacked
from nvbackend.codegen.saved.rules import DAMAGED, FILE, FORMAT, HOLDS
from nvbackend.codegen.saved.written import CUBIN, FORMAT_VERSION, KERNEL, MANIFEST, MODULE, PTX, own_version
from nvbackend.diagnostics import DiagnosticError
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.isel.machine.assertions import Assertion
from nvbackend.isel.target.target import Target
from nvbackend.signature import Signature

_MOST_BYTES = 1 << 30
"""More than a file of every target takes; a larger one is not read at all."""
_LOADS = {KERNEL: "nvb.load_compiled", MODULE: "nvb.load_compiled_module"}
"""What a file holds, and what loads it."""


@dataclass(frozen=True)
class ReadKernel:
    """A kernel of a file, as far as it is its own."""

    signature: Signature
    machine: str
    assertions: tuple[Assertion, ...]


@dataclass(frozen=True)
class ReadTarget:
    """What a file has for one target."""

    target: Target
    ptx: str
    cubin: Cubin | None
    kernels: tuple[ReadKernel, ...]
    versions: Mapping[str, str]


def read_file(path: str | os.PathLike[str], holds: str | None) -> tuple[ReadTarget, ...]:
    """What a file has that holds a kernel or a module, or either where it is None.

    Raises saved.file, saved.damaged, saved.format, saved.holds.
    """
    data = _read(path)
    try:
        members = unpacked(data)
        manifest = _manifest(members)
        _check_format(path, manifest)
        held = _held(path, manifest, holds)
        versions = described.member(manifest, "versions", dict)
        targets = [_target(each, members, versions) for each in described.entries(manifest, "targets")]
        if not targets:
            raise NotWhole("it has no kernel")
        _check_same(targets, is_kernel=held == KERNEL)
    except (NotWhole, ValueError) as error:
        DAMAGED.fail(path=path, problem=error)
    return tuple(targets)


def _read(path: str | os.PathLike[str]) -> bytes:
    """The bytes of a regular file: a pipe may never end, nor a device. Raises saved.file."""
    try:
        place = Path(path)
        about = place.stat()
        if not stat.S_ISREG(about.st_mode):
            problem: object = "it is a directory" if stat.S_ISDIR(about.st_mode) else "it is not a regular file"
        elif about.st_size > _MOST_BYTES:
            problem = f"it has {about.st_size} bytes, more than any saved kernel ({_MOST_BYTES})"
        else:
            return place.read_bytes()
    except (OSError, ValueError) as error:
        problem = getattr(error, "strerror", None) or error
    FILE.fail(path=path, done="read", problem=problem, advice="name a file that compiled.save(path) wrote")


def _manifest(members: Mapping[str, bytes]) -> dict[str, Any]:
    """Raises NotWhole, ValueError."""
    if MANIFEST not in members:
        raise NotWhole(f"it has no {MANIFEST}")
    try:
        manifest = json.loads(members[MANIFEST])
    except RecursionError:
        raise NotWhole(f"its {MANIFEST} is nested too deeply") from None
    if not isinstance(manifest, dict):
        raise NotWhole(f"its {MANIFEST} is not an object")
    return manifest


def _check_format(path: str | os.PathLike[str], manifest: Mapping[str, Any]) -> None:
    versions = manifest.get("versions")
    maker = versions.get("nvbackend", "?") if isinstance(versions, dict) else "?"
    if manifest.get("format") != FORMAT_VERSION:
        FORMAT.fail(path=path, given=manifest.get("format"), version=maker, own=own_version(), readable=FORMAT_VERSION)


def _held(path: str | os.PathLike[str], manifest: Mapping[str, Any], wanted: str | None) -> str:
    held = described.text(manifest, "holds")
    if held not in _LOADS:
        raise ValueError(f"holds is {held!r}")
    if wanted is not None and held != wanted:
        HOLDS.fail(path=path, held=held, wanted=wanted, call=_LOADS[wanted], right=_LOADS[held])
    return held


def _check_same(targets: list[ReadTarget], *, is_kernel: bool) -> None:
    """The same kernels for each target; one of them where the file is of a kernel. Raises ValueError."""
    first = [each.signature.name for each in targets[0].kernels]
    for target in targets:
        names = [each.signature.name for each in target.kernels]
        if names != first or len(set(names)) != len(names) or not names or (is_kernel and len(names) > 1):
            raise ValueError(f"the kernels for {target.target.name} are {', '.join(names) or 'none'}")


def _target(data: Mapping[str, Any], members: Mapping[str, bytes], versions: Mapping[str, str]) -> ReadTarget:
    """What there is for one target. Raises ValueError where anything in it does not fit the rest."""
    folder = described.text(data, "folder")
    kernels = tuple(_kernel(each, members) for each in described.entries(data, "kernels"))
    name, version = described.text(data, "target"), described.numbers(data, "ptx_version")
    try:
        target = Target.parse(name, version)  # type: ignore[arg-type]
    except DiagnosticError as error:
        raise ValueError(error.diagnostics[0].message) from None
    ptx = _member(members, f"{folder}/{PTX}").decode()
    for each in kernels:
        if f".target {name}" not in ptx or f".entry {each.signature.name}(" not in ptx:
            raise ValueError(f"{folder}/{PTX} is not the PTX of {each.signature.name} for {name}")
    cubin = _cubin(data, members, folder, kernels)
    made = {**{str(key): str(value) for key, value in versions.items()}, "ptx": ".".join(map(str, version))}
    if cubin is not None:
        made["ptxas"] = ".".join(map(str, cubin.ptxas_version))
    return ReadTarget(target, ptx, cubin, kernels, made)


def _kernel(data: Mapping[str, Any], members: Mapping[str, bytes]) -> ReadKernel:
    signature = described.read_signature(described.member(data, "signature", dict))
    assertions = tuple(described.read_assertion(each) for each in described.entries(data, "assertions"))
    return ReadKernel(signature, _member(members, described.text(data, "machine")).decode(), assertions)


def _cubin(
    data: Mapping[str, Any], members: Mapping[str, bytes], folder: str, kernels: tuple[ReadKernel, ...]
) -> Cubin | None:
    if data.get("cubin") is None:
        return None
    about = described.member(data, "cubin", dict)
    image = _member(members, f"{folder}/{CUBIN}")
    resources = described.read_resources(about)
    there = {each.kernel for each in resources}
    for each in kernels:
        if not is_cubin(image) or each.signature.name not in there:
            raise ValueError(f"{folder}/{CUBIN} is not a cubin of {each.signature.name}")
    release = described.numbers(about, "ptxas")
    if len(release) != 3:
        raise ValueError(f"ptxas is {release!r}")
    return Cubin(image, resources, (), (release[0], release[1], release[2]))


def _member(members: Mapping[str, bytes], name: str) -> bytes:
    if name not in members:
        raise ValueError(f"it has no {name}")
    return members[name]
