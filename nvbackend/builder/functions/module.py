"""Several kernels as one module: one PTX text and one cubin."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NoReturn

from nvbackend.builder.functions.linked import foreign_clash, linked
from nvbackend.builder.kernel.definition import KernelDefinition
from nvbackend.builder.kernel.kernel import FinishedKernel
from nvbackend.codegen.compiled import CompiledKernel
from nvbackend.codegen.cubin import Cubin
from nvbackend.codegen.llvm import llvm_version
from nvbackend.codegen.saved.c_header import c_header_of_module
from nvbackend.codegen.saved.written import save_module
from nvbackend.codegen.stages.compiling import compile_kernel
from nvbackend.codegen.stages.options import check_options
from nvbackend.codegen.toolchain import Tool
from nvbackend.diagnostics import Rule, printed, user_facing, with_article
from nvbackend.diagnostics.announce import announce
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.isel.target.target import Target
from nvbackend.launch_calls import KernelsByName

MODULE = Rule(
    id="module.kernels",
    message="no module can be made of these kernels: {problem}",
    fix="{advice}",
    why="A module is code for one target, and its kernels are found by their names.",
    reference="PTX ISA 11.1.2 (.target), 7.1 (functions); docs/guide.md, Building and launching",
)


@user_facing
@dataclass(frozen=True)
class CompiledModule(KernelsByName[CompiledKernel]):
    """Kernels of one module by name; each is a CompiledKernel with the PTX and the cubin of the module."""

    target: Target
    kernels: Mapping[str, CompiledKernel]

    @property
    def ptx(self) -> str:
        """The PTX text, of all kernels and of the functions that they call."""
        return self._first.ptx

    @property
    def cubin(self) -> Cubin | None:
        """The cubin; None where it was not assembled."""
        return self._first.cubin

    def report(self) -> str:
        """The reports of the kernels, one after another."""
        return "\n".join(kernel.report() for kernel in self.kernels.values())

    def sass(self, *, tool: Tool | None = None) -> str:
        """The SASS of all kernels, as `CompiledKernel.sass`. Raises what that raises."""
        return self._first.sass(tool=tool)

    def save(self, path: str | os.PathLike[str], *others: CompiledModule) -> None:
        """Write it to one file, which `nvb.load_compiled_module` reads: `CompiledKernel.save` of all its kernels.

        `others` are modules of the same kernels for other targets. Raises saved.together, saved.file.
        """
        save_module(path, (self, *others), {"llvm": llvm_version()})

    def c_header(self, name: str = "kernels") -> str:
        """A header of C99 with the code, as `CompiledKernel.c_header`, for all kernels.

        NAME_load and NAME_unload take a NAME_module; for each kernel, KERNEL_launch takes it first. Raises
        call.argument for a name that C does not have.
        """
        return c_header_of_module(name, tuple(self.kernels.values()))

    def __hash__(self) -> int:
        return hash((self.target, frozenset(self.kernels.items())))

    def __repr__(self) -> str:
        return f"<compiled module for {self.target}: {', '.join(self.kernels)}>"


@user_facing
def compile_module(
    kernels: Sequence[KernelDefinition | FinishedKernel], *, target: str | Target | None = None, **options: Any
) -> CompiledModule:
    """Compile kernels into one module: `nvb.compile_module([scale, sum_rows])["scale"]`.

    A kernel is a definition, with its constants by `definition.with_(...)`, which is built for `target` or its own, or
    what `build` returned. `options` are those of nvb.compile_kernel. Functions that kernels
    call are in the PTX once where they are the same. `nvb.runtime.load` loads all of them, by name. Raises
    module.kernels, and what building and compiling raise.
    """
    check_options(options, of_definitions=True)
    if not isinstance(kernels, Sequence) or not kernels:
        _refuse(f"{_told(kernels)} is not a list of kernels", "pass one or more: nvb.compile_module([scale])")
    built = [_built(kernel, target) for kernel in kernels]
    names = [kernel.signature.name for kernel in built]
    for name in names:
        if names.count(name) > 1:
            advice = f'name one: {name}.with_(name="{name}_2"), or nvb.KernelBuilder("{name}_2", ...)'
            _refuse(f"{names.count(name)} of them are called {name}", advice)
    targets = list(dict.fromkeys(kernel.target for kernel in built))
    if len(targets) > 1:
        _refuse(
            f"they are for {' and '.join(map(str, targets))}", "build them for one: compile_module(..., target=...)"
        )
    clash = foreign_clash([kernel.ir for kernel in built])
    if clash is not None:
        _refuse(f"a foreign text of one and another of them both define {clash}", "give one of them another name")
    first = built[0]
    texts = list(dict.fromkeys(kernel.ir for kernel in built))  # kernels of one attached module have one text
    text = first.ir if len(texts) == 1 else linked(texts)
    options = {"isolated": any(kernel.isolated for kernel in built), **options}
    compiled = compile_kernel(text, first.signature, first.machine, first.target, **options)
    announce(compiled.diagnostics)
    return CompiledModule(
        first.target,
        {
            kernel.signature.name: replace(
                compiled,
                signature=kernel.signature,
                machine=kernel.machine,
                suppressed=kernel.suppressed,
                unknown=kernel.unknown,
                timings={**kernel.timings, **compiled.timings},
                diagnostics=(*kernel.diagnostics, *compiled.diagnostics),
            )
            for kernel in built
        },
    )


def _built(kernel: object, target: str | Target | None) -> FinishedKernel:
    if isinstance(kernel, KernelDefinition):
        return kernel.build(target=target)
    if not isinstance(kernel, FinishedKernel):
        advice = "pass kernels as nvb.kernel made, or as build() or k.finish() returned them"
        return _refuse(f"{_told(kernel)} is not a kernel", advice)
    if target is not None and kernel.target != Target.parse(target):
        _refuse(f"{kernel.signature.name} was built for {kernel.target}", f"build it for {Target.parse(target)}")
    return kernel


def _told(operand: object) -> str:
    """What was given, in one line."""
    text = printed(operand)
    return with_article(type(operand).__name__) if "\n" in text else text


def _refuse(problem: str, advice: str) -> NoReturn:
    MODULE.fail(problem=problem, advice=advice)
