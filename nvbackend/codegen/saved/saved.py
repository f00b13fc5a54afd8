"""Kernels of files: what `load_compiled` and `load_compiled_module` give, without LLVM and without a pickle."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Protocol, TypeVar

from nvbackend.codegen.cubin import Cubin
from nvbackend.codegen.ptxas import assemble
from nvbackend.codegen.sass import disassemble
from nvbackend.codegen.saved.c_header import c_header, c_header_of_module
from nvbackend.codegen.saved.read import ReadTarget, read_file
from nvbackend.codegen.saved.written import KERNEL, MODULE
from nvbackend.codegen.toolchain import Tool
from nvbackend.diagnostics import missing_name, user_facing
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.isel.machine.assertions import Assertion
from nvbackend.isel.target.target import Target
from nvbackend.launch_calls import KernelsByName, NotLoaded
from nvbackend.signature import Signature


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
        chosen, rest = _chosen(self.variants, name, self.name)
        return replace(chosen, others=tuple(replace(each, others=()) for each in rest))

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


@user_facing
@dataclass(frozen=True)
class SavedModule(KernelsByName[SavedKernel]):
    """The kernels of a module of a file, for one target; each has the module's PTX and cubin.

    `others` are the same module for the other targets of the file. `nvbackend.runtime.load` takes it, as a SavedKernel.
    """

    target: Target
    kernels: Mapping[str, SavedKernel] = field(repr=False)
    others: tuple[SavedModule, ...] = field(default=(), repr=False)

    @property
    def ptx(self) -> str:
        """The PTX text, of all kernels."""
        return self._first.ptx

    @property
    def cubin(self) -> Cubin | None:
        """The cubin; None where it was not assembled."""
        return self._first.cubin

    @property
    def versions(self) -> Mapping[str, str]:
        """The versions of what made it."""
        return self._first.versions

    @property
    def variants(self) -> tuple[SavedModule, ...]:
        """This one and the others."""
        return (self, *self.others)

    def for_target(self, name: str) -> SavedModule:
        """The module for the target called `name`. Raises call.name for a target that the file does not have."""
        chosen, rest = _chosen(self.variants, name, "the module")
        kernels = {each: kernel.for_target(name) for each, kernel in self.kernels.items()}
        return replace(chosen, kernels=kernels, others=tuple(replace(each, others=()) for each in rest))

    def sass(self, *, tool: Tool | None = None) -> str:
        """The SASS of the whole module, as `CompiledKernel.sass`."""
        return self._first.sass(tool=tool)

    def c_header(self, name: str = "kernels") -> str:
        """A header of C that loads all of them and launches each, as `CompiledModule.c_header`."""
        return c_header_of_module(name, tuple(self.kernels.values()))

    def __hash__(self) -> int:
        return hash((self.target, frozenset(self.kernels.items()), self.others))

    def __repr__(self) -> str:
        targets = ", ".join(variant.target.name for variant in self.variants)
        return f"<saved module for {targets}: {', '.join(self.kernels)}>"


@user_facing
def load_compiled(path: str | os.PathLike[str]) -> SavedKernel:
    """The kernel that `CompiledKernel.save` wrote to `path`, for its first target, with the others beside it.

    Neither LLVM nor ptxas is loaded, and nothing of the file is run. Raises saved.file where it cannot be read,
    saved.damaged where it is not a whole file of a kernel, saved.format for one of another version of nvbackend, and
    saved.holds for a file of a module.
    """
    return _with_others([_kernels(each)[0] for each in read_file(path, KERNEL)])


@user_facing
def load_compiled_module(path: str | os.PathLike[str]) -> SavedModule:
    """The module that `CompiledModule.save` wrote to `path`, for its first target, with the others beside it.

    As `load_compiled`; saved.holds is for a file of a single kernel.
    """
    targets = read_file(path, MODULE)
    columns = [_kernels(each) for each in targets]
    modules = [SavedModule(each.target, _by_name(kernels)) for each, kernels in zip(targets, columns, strict=True)]
    whole = _by_name([_with_others(kernels) for kernels in zip(*columns, strict=True)])
    return replace(modules[0], kernels=whole, others=tuple(modules[1:]))


def _kernels(read: ReadTarget) -> list[SavedKernel]:
    return [
        SavedKernel(each.signature, read.target, each.machine, read.ptx, read.cubin, each.assertions, read.versions)
        for each in read.kernels
    ]


def _with_others(variants: Sequence[SavedKernel]) -> SavedKernel:
    return replace(variants[0], others=tuple(variants[1:]))


def _by_name(kernels: Sequence[SavedKernel]) -> dict[str, SavedKernel]:
    return {each.name: each for each in kernels}


class _ForTarget(Protocol):
    @property
    def target(self) -> Target:
        """Its target."""


_Variant = TypeVar("_Variant", bound=_ForTarget)


def _chosen(variants: Sequence[_Variant], name: str, whose: str) -> tuple[_Variant, list[_Variant]]:
    """The variant for a target, and the others. Raises call.name."""
    for variant in variants:
        if variant.target.name == name:
            return variant, [each for each in variants if each is not variant]
    raise missing_name(f"the file of {whose}", "target", name, [each.target.name for each in variants])
