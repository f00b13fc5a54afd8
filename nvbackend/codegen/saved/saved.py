"""Kernels in files: what `CompiledKernel.save` writes and `load_compiled` reads, without LLVM and without a pickle."""

from __future__ import annotations

import importlib
import json
import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from nvbackend.codegen.ptxas import Cubin, assemble, is_cubin
from nvbackend.codegen.sass import disassemble
from nvbackend.codegen.saved import described
from nvbackend.codegen.saved.archive import NotWhole, packed, unpacked
from nvbackend.codegen.saved.c_header import c_header
from nvbackend.codegen.saved.parts import WholeKernel
from nvbackend.codegen.saved.rules import DAMAGED, FILE, FORMAT, TOGETHER
from nvbackend.codegen.toolchain import Tool
from nvbackend.diagnostics import DiagnosticError, missing_name, user_facing
from nvbackend.isel.machine.assertions import Assertion
from nvbackend.isel.target.target import Target
from nvbackend.launch_calls import NotLoaded
from nvbackend.signature import Parameter, Signature

FORMAT_VERSION = 1
"""The version of what is written; a file of any other is refused."""
_MOST_BYTES = 1 << 30
"""More than a file of every target takes; a larger one is not read at all."""
_MANIFEST, _PTX, _CUBIN, _MACHINE = "manifest.json", "kernel.ptx", "kernel.cubin", "machine.txt"


@user_facing
@dataclass(frozen=True)
class SavedKernel(NotLoaded):
    """A kernel of a file, for one target: what it takes, PTX, cubin, and the text of its machine form.

    `others` are the same kernel for the other targets of the file, in its order. `versions` are those of nvbackend,
    LLVM, the PTX and ptxas that made it, by their names. `nvbackend.runtime.load` takes it, and takes of the file's
    targets the one that suits the device: a cubin of its architecture, else PTX that the driver compiles for it.
    """

    signature: Signature
    target: Target
    machine: str = field(repr=False)
    ptx: str = field(repr=False)
    cubin: Cubin | None
    assertions: tuple[Assertion, ...] = field(default=(), repr=False)
    versions: Mapping[str, str] = field(default_factory=dict, compare=False)
    others: tuple[SavedKernel, ...] = field(default=(), repr=False)

    def _stage(self) -> tuple[str, int, bool]:
        return self.name, self.signature.bounds.threads, True

    @property
    def name(self) -> str:
        """The kernel's name."""
        return self.signature.name

    @property
    def variants(self) -> tuple[SavedKernel, ...]:
        """This one and the others."""
        return (self, *self.others)

    def for_target(self, name: str) -> SavedKernel:
        """The kernel for the target called `name`. Raises call.name for a target that the file does not have."""
        for variant in self.variants:
            if variant.target.name == name:
                rest = tuple(replace(each, others=()) for each in self.variants if each is not variant)
                return replace(variant, others=rest)
        known = [variant.target.name for variant in self.variants]
        raise missing_name(f"the file of {self.name}", "target", name, known)

    def sass(self, *, tool: Tool | None = None) -> str:
        """The SASS, as `CompiledKernel.sass`. Raises what that raises."""
        cubin = self.cubin or assemble(self.ptx, self.target)
        return disassemble(cubin.data, tool=tool)

    def c_header(self) -> str:
        """A header of C that loads and launches it, as `CompiledKernel.c_header`."""
        return c_header(self)

    def __repr__(self) -> str:
        targets = ", ".join(variant.target.name for variant in self.variants)
        return f"<saved kernel {self.name} for {targets}, {self.signature.bounds.threads} threads>"


def save(path: str | os.PathLike[str], kernels: Sequence[WholeKernel], versions: Mapping[str, str]) -> None:
    """Write the kernels, one a target, to `path`, which appears as a whole. Raises saved.together, saved.file."""
    _check_together(kernels)
    members: dict[str, bytes] = {}
    manifest = {
        "format": FORMAT_VERSION,
        "versions": {"nvbackend": _own_version(), **versions},
        "targets": [_described(str(place), kernel, members) for place, kernel in enumerate(kernels)],
    }
    text = json.dumps(manifest, indent=1, sort_keys=True)
    _write(Path(path), packed({_MANIFEST: text.encode(), **members}))


@user_facing
def load_compiled(path: str | os.PathLike[str]) -> SavedKernel:
    """The kernel that `CompiledKernel.save` wrote to `path`, for its first target, with the others beside it.

    Neither LLVM nor ptxas is loaded, and nothing of the file is run. Raises saved.file where it cannot be read,
    saved.damaged where it is not a whole file of a kernel, saved.format for one of another version of nvbackend.
    """
    data = _read(Path(path))
    try:
        members = unpacked(data)
        manifest = _manifest(members)
        _check_format(path, manifest)
        versions = described.member(manifest, "versions", dict)
        variants = [_variant(each, members, versions) for each in described.entries(manifest, "targets")]
        if not variants:
            raise NotWhole("it has no kernel")
    except (NotWhole, ValueError) as error:
        DAMAGED.fail(path=path, problem=error)
    return replace(variants[0], others=tuple(variants[1:]))


def _read(path: Path) -> bytes:
    """The bytes of a regular file: a pipe may never end, nor a device. Raises saved.file."""
    try:
        about = path.stat()
        if not stat.S_ISREG(about.st_mode):
            problem: object = "it is a directory" if stat.S_ISDIR(about.st_mode) else "it is not a regular file"
        elif about.st_size > _MOST_BYTES:
            problem = f"it has {about.st_size} bytes, more than any saved kernel ({_MOST_BYTES})"
        else:
            return path.read_bytes()
    except (OSError, ValueError) as error:
        problem = getattr(error, "strerror", None) or error
    FILE.fail(path=path, done="read", problem=problem, advice="name a file that compiled.save(path) wrote")


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
            TOGETHER.fail(
                name=kernel.signature.name,
                target=kernel.target.name,
                first=first.signature.name,
                first_target=first.target.name,
                problem=problem,
                advice=advice,
            )
        seen.add(kernel.target.name)


def _called(signature: Signature) -> list[tuple[str, str, str]]:
    """What a launch passes: boxes and bounds of values may differ between targets."""
    return [(each.name, type(each.type).__name__, each.type.element.name) for each in signature.parameters]


def _shown(signature: Signature) -> str:
    return ", ".join(map(_parameter, signature.parameters)) or "none"


def _parameter(parameter: Parameter) -> str:
    return f"{parameter.name} ({type(parameter.type).__name__} of {parameter.type.element})"


def _described(place: str, kernel: WholeKernel, members: dict[str, bytes]) -> dict[str, Any]:
    """A kernel as the manifest has it; its texts and bytes are added to `members`, in the folder `place`."""
    members[f"{place}/{_PTX}"] = kernel.ptx.encode()
    members[f"{place}/{_MACHINE}"] = str(kernel.machine).encode()
    data: dict[str, Any] = {
        "folder": place,
        "target": kernel.target.name,
        "ptx_version": list(kernel.target.ptx_version),
        "signature": described.describe_signature(kernel.signature),
        "assertions": [described.describe_assertion(each) for each in kernel.assertions],
        "cubin": None,
    }
    if kernel.cubin is not None:
        members[f"{place}/{_CUBIN}"] = kernel.cubin.data
        resources = described.describe_resources(kernel.cubin.resources)
        data["cubin"] = {"ptxas": list(kernel.cubin.ptxas_version), "resources": resources}
    return data


def _write(path: Path, data: bytes) -> None:
    """Write beside it first: a reader, or a full disk, never sees half a file."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        beside.write_bytes(data)
        beside.replace(path)
    except (OSError, ValueError) as error:
        beside.unlink(missing_ok=True)
        problem = getattr(error, "strerror", None) or error
        advice = "give a file in a directory that exists and can be written to"
        FILE.fail(path=path, done="written", problem=problem, advice=advice)


def _manifest(members: Mapping[str, bytes]) -> dict[str, Any]:
    """Raises NotWhole, ValueError."""
    if _MANIFEST not in members:
        raise NotWhole(f"it has no {_MANIFEST}")
    try:
        manifest = json.loads(members[_MANIFEST])
    except RecursionError:
        raise NotWhole(f"its {_MANIFEST} is nested too deeply") from None
    if not isinstance(manifest, dict):
        raise NotWhole(f"its {_MANIFEST} is not an object")
    return manifest


def _own_version() -> str:
    return str(importlib.import_module(__name__.partition(".")[0]).__version__)


def _check_format(path: str | os.PathLike[str], manifest: Mapping[str, Any]) -> None:
    versions = manifest.get("versions")
    maker = versions.get("nvbackend", "?") if isinstance(versions, dict) else "?"
    if manifest.get("format") != FORMAT_VERSION:
        FORMAT.fail(path=path, given=manifest.get("format"), version=maker, own=_own_version(), readable=FORMAT_VERSION)


def _variant(data: Mapping[str, Any], members: Mapping[str, bytes], versions: Mapping[str, str]) -> SavedKernel:
    """The kernel for one target. Raises ValueError where anything in it does not fit the rest."""
    folder = described.text(data, "folder")
    signature = described.read_signature(described.member(data, "signature", dict))
    name, version = described.text(data, "target"), described.numbers(data, "ptx_version")
    try:
        target = Target.parse(name, version)  # type: ignore[arg-type]
    except DiagnosticError as error:
        raise ValueError(error.diagnostics[0].message) from None
    ptx, machine = (_member(members, f"{folder}/{file}").decode() for file in (_PTX, _MACHINE))
    if f".target {name}" not in ptx or f".entry {signature.name}(" not in ptx:
        raise ValueError(f"{folder}/{_PTX} is not the PTX of {signature.name} for {name}")
    cubin = _cubin(data, members, folder, signature.name)
    made = {**{str(key): str(value) for key, value in versions.items()}, "ptx": ".".join(map(str, version))}
    if cubin is not None:
        made["ptxas"] = ".".join(map(str, cubin.ptxas_version))
    assertions = tuple(described.read_assertion(each) for each in described.entries(data, "assertions"))
    return SavedKernel(signature, target, machine, ptx, cubin, assertions, made)


def _cubin(data: Mapping[str, Any], members: Mapping[str, bytes], folder: str, kernel: str) -> Cubin | None:
    if data.get("cubin") is None:
        return None
    about = described.member(data, "cubin", dict)
    image = _member(members, f"{folder}/{_CUBIN}")
    resources = described.read_resources(about)
    if not is_cubin(image) or kernel not in [each.kernel for each in resources]:
        raise ValueError(f"{folder}/{_CUBIN} is not a cubin of {kernel}")
    release = described.numbers(about, "ptxas")
    if len(release) != 3:
        raise ValueError(f"ptxas is {release!r}")
    return Cubin(image, resources, (), (release[0], release[1], release[2]))


def _member(members: Mapping[str, bytes], name: str) -> bytes:
    if name not in members:
        raise ValueError(f"it has no {name}")
    return members[name]
