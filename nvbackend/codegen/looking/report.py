"""What was built, as text and as numbers: resources, sizes, work and its roofline, warnings, times."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any, Protocol

from nvbackend.codegen.looking import roofline
from nvbackend.codegen.looking.built import BuiltKernel
from nvbackend.codegen.looking.occupancy import occupancy, register_limit
from nvbackend.codegen.looking.work import work_by_loop
from nvbackend.codegen.ptxas import declared
from nvbackend.diagnostics.announce import Suppressed
from nvbackend.isel.target.target import dotted
from nvbackend.signature import Shape

_Row = tuple[str, str]


class ReportedKernel(BuiltKernel, Protocol):
    """A kernel with what its report says besides its forms."""

    @property
    def selected(self) -> dict[str, int]:
        """How many instructions of each opcode were selected."""

    @property
    def suppressed(self) -> tuple[Suppressed, ...]:
        """What the kernel allows."""

    @property
    def unknown(self) -> tuple[str, ...]:
        """What was not judged."""

    @property
    def timings(self) -> Mapping[str, float]:
        """Seconds by stage."""

    @property
    def cached(self) -> tuple[str, ...]:
        """The stages whose result came from the cache."""

    @property
    def not_kept(self) -> str:
        """What makes the next compile build the kernel again."""


def report(kernel: ReportedKernel) -> str:
    """What was built, as a plain text table; its last section, the times, differs from run to run."""
    return "\n".join((summary(kernel), *_section("time", _times(kernel))))


def figures(kernel: ReportedKernel) -> dict[str, Any]:
    """The numbers of `report` as JSON has them; those of the cubin are left out where it was not assembled."""
    bounds = kernel.signature.bounds
    works = work_by_loop(kernel)
    numbers: dict[str, Any] = {
        "threads": bounds.threads,
        "cluster": bounds.cluster,
        "selected": kernel.selected,
        "dynamic_shared_bytes": bounds.dynamic_shared_bytes,
        "warnings": [diagnostic.rule_id for diagnostic in kernel.diagnostics],
        "work": [each.data() for each in works],
        "roofline": [asdict(each) for each in roofline.rooflines(kernel.target, works)],
    }
    if kernel.cubin is not None:
        used = asdict(kernel.cubin.kernel(kernel.signature.name))
        numbers |= {name: value for name, value in used.items() if name != "kernel"}
        numbers["register_limit"] = register_limit(bounds, declared(kernel.ptx, kernel.signature.name, "maxnreg"))
        room = occupancy(kernel.target, bounds, kernel.cubin.kernel(kernel.signature.name))
        numbers["occupancy"] = None if room is None else asdict(room)
    return numbers


def summary(kernel: ReportedKernel) -> str:
    """What was built, as `report` without the times: the same for the same kernel."""
    bounds = kernel.signature.bounds
    target = f"{kernel.target.name} (PTX {dotted(kernel.target.ptx_version)})"
    cluster = f", cluster {_extents(bounds.cluster, bounds.cluster_shape)}" if bounds.cluster > 1 else ""
    lines = [f"kernel {kernel.signature.name} for {target}, {_extents(bounds.threads, bounds.shape)} threads{cluster}"]
    lines += _section("selected", ((opcode, f"{count:>6}") for opcode, count in kernel.selected.items()))
    lines += _section("resources", _resources(kernel))
    lines += _section("size", _sizes(kernel))
    lines += ["  work of a CTA, and its roofline where no byte stays in a cache"]
    lines += [f"    {line}" for line in roofline.lines(kernel.target, work_by_loop(kernel))]
    lines += [f"  {len(kernel.diagnostics) or 'no'} warning{'' if len(kernel.diagnostics) == 1 else 's'}"]
    lines += [f"    {line}" for diagnostic in kernel.diagnostics for line in str(diagnostic).splitlines()]
    lines += [f"  {len(kernel.suppressed)} suppressed"] * bool(kernel.suppressed)
    lines += [f"    {each}" for each in kernel.suppressed]
    lines += ["  not judged"] * bool(kernel.unknown)
    lines += [f"    {each}" for each in kernel.unknown]
    return "\n".join(lines)


def _section(title: str, rows: Iterator[_Row]) -> list[str]:
    pairs = list(rows)
    width = max((len(name) for name, _ in pairs), default=0)
    return [f"  {title}", *(f"    {name:<{width}}  {value}" for name, value in pairs)]


def _resources(kernel: ReportedKernel) -> Iterator[_Row]:
    dynamic = f"{kernel.signature.bounds.dynamic_shared_bytes} bytes dynamic"
    if kernel.cubin is None:
        yield "registers", "not assembled"
        yield "shared memory", dynamic
        return
    used = kernel.cubin.kernel(kernel.signature.name)
    limit = register_limit(kernel.signature.bounds, declared(kernel.ptx, kernel.signature.name, "maxnreg"))
    yield "registers", f"{used.registers} a thread, of {limit}"
    yield "barriers", f"{used.barriers}"
    yield "shared memory", f"{used.shared_bytes} bytes static, {dynamic}"
    yield "local memory", f"{used.stack_bytes} bytes a thread"
    room = occupancy(kernel.target, kernel.signature.bounds, used)
    if room is not None:
        yield "occupancy", str(room)
    yield "spills", f"{used.spill_stores_bytes} bytes stored, {used.spill_loads_bytes} bytes loaded"


def _sizes(kernel: ReportedKernel) -> Iterator[_Row]:
    yield "PTX", f"{len(kernel.ptx.encode())} bytes"
    if kernel.cubin is not None:
        release = ".".join(map(str, kernel.cubin.ptxas_version))
        yield "cubin", f"{len(kernel.cubin.data)} bytes (ptxas {release})"


def _times(kernel: ReportedKernel) -> Iterator[_Row]:
    for stage, seconds in kernel.timings.items():
        yield stage, f"{seconds * 1000:8.1f} ms{', cached' if stage in kernel.cached else ''}"
    yield "together", f"{sum(kernel.timings.values()) * 1000:8.1f} ms"
    if kernel.not_kept:
        yield "again", f"the next compile() builds it again, as its function reads {kernel.not_kept}"


def _extents(count: int, shape: Shape) -> str:
    """So many, and along which axes where those are several."""
    return f"{count}" if shape == (count, 1, 1) else f"{count} ({' x '.join(map(str, shape))})"
