"""A compiled kernel: every form of it down to the cubin, and what can be asked of it.

Of a kernel from the cache each form is unpacked when it is asked for, and what looks at a kernel is imported by that.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

from nvbackend.codegen.toolchain import Tool
from nvbackend.diagnostics import Diagnostic, user_facing
from nvbackend.diagnostics.announce import Suppressed
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.isel.target.target import Target
from nvbackend.launch_calls import NotLoaded
from nvbackend.signature import Signature

if TYPE_CHECKING:
    from nvbackend.codegen.cubin import Cubin
    from nvbackend.codegen.looking.drawn import Drawing
    from nvbackend.isel.machine.assertions import Assertion
    from nvbackend.isel.machine.function import MachineFunction

PACKED_FORMS = "_packed_forms"
"""Where a kernel from a cache has its forms as bytes, by their names, until they are asked for."""


@user_facing
@dataclass(frozen=True)
class CompiledKernel(NotLoaded):
    """A kernel that was built: what it takes, what was selected, and every form down to the cubin.

    `ir` is the IR before optimisation, `optimized_ir` the one that `ptx` was printed from; `cubin` is None where it
    was not assembled. `diagnostics` are warnings, `suppressed` what the kernel allows, `unknown` what was not judged.
    `timings` holds seconds by stage, and `cached` the stages whose result came from the cache, in their order.
    `not_kept` is what the kernel's function reads that cannot be compared, or that the build changed, so that the next
    `compile()` builds it again; empty where it need not. None of these says anything about the kernel, so they stay
    out of comparisons.
    """

    signature: Signature
    target: Target
    machine: MachineFunction = field(compare=False, repr=False)
    ir: str = field(repr=False)
    optimized_ir: str = field(repr=False)
    ptx: str = field(repr=False)
    cubin: Cubin | None
    diagnostics: tuple[Diagnostic, ...] = ()
    timings: Mapping[str, float] = field(default_factory=dict, compare=False)
    cached: tuple[str, ...] = field(default=(), compare=False)
    suppressed: tuple[Suppressed, ...] = ()
    unknown: tuple[str, ...] = ()
    not_kept: str = field(default="", compare=False)

    if not TYPE_CHECKING:  # it would make a type checker accept every name

        def __getattr__(self, name: str) -> Any:
            packed: bytes | None = vars(self).get(PACKED_FORMS, {}).get(name)
            if packed is None:
                return super().__getattr__(name)
            from nvbackend.codegen.pickled import loaded

            form = loaded(packed)
            object.__setattr__(self, name, form)
            return form

    def _stage(self) -> tuple[str, int, bool]:
        return self.name, self.signature.bounds.threads, True

    @property
    def name(self) -> str:
        """The kernel's name."""
        return self.signature.name

    @property
    def selected(self) -> dict[str, int]:
        """How many instructions of each opcode were selected, in the order of their first appearance."""
        return dict(Counter(instr.opcode for instr in self.machine.instructions() if instr.row is not None))

    def __repr__(self) -> str:
        registers = "" if self.cubin is None else f", {self.cubin.kernel(self.name).registers} registers"
        warnings = f", {len(self.diagnostics)} warning(s)" if self.diagnostics else ""
        return f"<compiled kernel: {self.machine!r}, {self.signature.bounds.threads} threads{registers}{warnings}>"

    def again(self) -> CompiledKernel:
        """The same kernel as the result of a second compile: no stage takes time, all come from a cache."""
        return replace(self, timings=dict.fromkeys(self.timings, 0.0), cached=tuple(self.timings))

    def sass(self, *, tool: Tool | None = None) -> str:
        """The SASS of the cubin, which is assembled first if it is not there yet.

        Raises sass.missing, sass.failed, and what `nvbackend.codegen.ptxas.assemble` raises.
        """
        from nvbackend.codegen.ptxas import assemble
        from nvbackend.codegen.sass import disassemble

        cubin = self.cubin or assemble(self.ptx, self.target)
        return disassemble(cubin.data, tool=tool)

    @property
    def assertions(self) -> tuple[Assertion, ...]:
        """The places where it ends its launch itself, by the numbers that it records."""
        return tuple(self.machine.assertions)

    def save(self, path: str | os.PathLike[str], *others: CompiledKernel) -> None:
        """Write it to one file, which `nvb.load_compiled` reads: cubin, PTX, signature, text of the machine form.

        `others` are the same kernel for other targets: a loader takes what suits its device. The file is a zip of JSON
        and bytes with a checksum, the same for the same kernel. Raises saved.together, saved.file.
        """
        from nvbackend.codegen.llvm import llvm_version
        from nvbackend.codegen.saved.written import save

        save(path, (self, *others), {"llvm": llvm_version()})

    def c_header(self) -> str:
        """A header of C99 with the cubin (the PTX where it was not assembled), and functions that load and launch it.

        NAME_load, NAME_launch and NAME_unload call the CUDA driver API alone. The launcher's arguments have the types
        of the parameters; tensor maps are encoded from addresses and shapes at each launch. CUDA 12 or later.
        """
        from nvbackend.codegen.saved.c_header import c_header

        return c_header(self)

    def html(self, timeline: Drawing | None = None) -> str:
        """One HTML page that loads nothing else: Python, machine form, PTX and SASS side by side, with linked lines.

        Its packed words are decoded there, and its fragments and swizzles are drawn. `timeline` adds that of a launch
        in the simulator, `report.timeline()`.
        """
        from nvbackend.codegen.looking.page import page

        return page(self, timeline)

    def _repr_html_(self) -> str:
        """What a notebook shows: the resources, and the report folded away."""
        from html import escape

        from nvbackend.codegen.looking.page import summary

        report = escape(self.report())
        return f"<b>{escape(repr(self))}</b>\n{summary(self)}<details><pre>{report}</pre></details>\n"

    def report(self) -> str:
        """What was built, as a plain text table; its last section, the times, differs from run to run."""
        from nvbackend.codegen.looking.report import report

        return report(self)

    def figures(self) -> dict[str, Any]:
        """The numbers of `report` as JSON has them; those of the cubin are left out where it was not assembled."""
        from nvbackend.codegen.looking.report import figures

        return figures(self)

    def summary(self) -> str:
        """What was built, as `report` without the times: the same for the same kernel."""
        from nvbackend.codegen.looking.report import summary

        return summary(self)
