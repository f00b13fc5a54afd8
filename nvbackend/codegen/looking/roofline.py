"""The roofline of a kernel on the chips of its target: whether operations or bytes bound one round of its inner loops.

Sources: NVIDIA T4, A100 80 GB SXM, L40S, H100 SXM, H200 SXM and HGX B200 data sheets, rates without sparsity. Those of
16-bit floats outside of tensor cores by their results a clock beside those of f32 (CUDA C++ Programming Guide,
Throughput of Native Arithmetic Instructions).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from nvbackend.codegen.looking.work import LoopWork, Work
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.isel.target.target import Target


@dataclass(frozen=True, slots=True)
class Chip:
    """Peak rates in 10^12 operations a second by type, and bandwidth in 10^12 bytes a second."""

    name: str
    bandwidth: float
    rates: Mapping[str, float]


def _rates(
    f32: float, double: float, f16: float, tf32: float, bits8: float, *, halves: tuple[float, float], **more: float
) -> Mapping[str, float]:
    """Of tensor cores those of f16 are those of bf16, and those of integers those of 8-bit floats.

    `halves` are the rates of f16 and bf16 elsewhere, as multiples of that of f32. In pairs they need half of the
    instructions, and so does f32 where it has them, but its rate is that of numbers all the same.
    """
    tensor = {"f16": f16, "bf16": f16, "tf32": tf32}
    tensor |= dict.fromkeys(("e4m3", "e5m2", "f8f6f4", "s8", "u8", "i8", "mxf8f6f4"), bits8) | more
    plain = {"f32": f32, "f64": double, "f16": f32 * halves[0], "bf16": f32 * halves[1]}
    return plain | {f"tensor {name}": rate for name, rate in tensor.items() if rate}


_HOPPER = _rates(66.9, 33.5, 989.4, 494.7, 1978.9, halves=(2, 2), f64=66.9)
CHIPS: Mapping[int, Sequence[Chip]] = {
    75: (Chip("T4", 0.32, {"f32": 8.1, "f16": 16.2, "tensor f16": 65, "tensor s8": 130, "tensor u8": 130}),),
    80: (
        Chip(
            "A100 80 GB SXM",
            2.039,
            {**_rates(19.5, 9.7, 312, 156, 0, halves=(4, 2), f64=19.5), "tensor s8": 624, "tensor u8": 624},
        ),
    ),
    89: (Chip("L40S", 0.864, _rates(91.6, 1.4, 362, 183, 733, halves=(1, 1))),),
    90: (Chip("H100 SXM", 3.35, _HOPPER), Chip("H200 SXM", 4.8, _HOPPER)),
    100: (Chip("HGX B200", 8.0, _rates(80, 40, 2250, 1125, 4500, halves=(2, 2), f64=40, mxf4=9000, mxf4nvf4=9000)),),
}
"""By compute capability, those whose data sheets were read."""


@dataclass(frozen=True, slots=True)
class Roofline:
    """What bounds one round of each inner loop on a chip: "operations" or "bytes", and the rate that is left.

    `rate` and `peak` are in 10^12 operations a second (bytes where there are no operations); `per_byte` is how many
    operations there are for each byte, None where no byte moves.
    """

    chip: str
    bound: str
    per_byte: float | None
    rate: float
    peak: float
    most: bool

    def __str__(self) -> str:
        if self.per_byte == 0:
            return f"{self.chip}: bytes alone, {self.peak:g} TB/s"
        bound = f"{self.rate:.3g} of {self.peak:g} T/s"
        if self.per_byte is None:
            return f"{self.chip}: operations alone, {bound}"
        return f"{self.chip}: {self.bound} bound it, {self.per_byte:.3g} operations a byte, {bound}"


def rooflines(target: Target, works: Sequence[LoopWork]) -> list[Roofline]:
    """One for each chip of the target whose rates are known, where the kernel does anything that they are known for."""
    total = Work()
    for each in works:
        if each.is_inner:
            total.add(each.work)
    return [roof for chip in CHIPS.get(target.number, ()) if (roof := _roofline(chip, total)) is not None]


def _roofline(chip: Chip, work: Work) -> Roofline | None:
    if any(name not in chip.rates for name in work.operations):
        return None
    moved = work.read + work.written
    operations = work.operations.total()
    on_bytes = moved / chip.bandwidth
    on_operations = sum(count / chip.rates[name] for name, count in work.operations.items())
    if not operations:
        return Roofline(chip.name, "bytes", 0.0, chip.bandwidth, chip.bandwidth, work.most) if moved else None
    peak = operations / on_operations
    bound = "bytes" if on_bytes > on_operations else "operations"
    per_byte = operations / moved if moved else None
    return Roofline(chip.name, bound, per_byte, operations / max(on_bytes, on_operations), peak, work.most)


def lines(target: Target, works: Sequence[LoopWork]) -> Iterator[str]:
    """The work of each loop, and what bounds the inner ones, as lines of a report."""
    for each in works:
        yield f"{_where(each)}: {told(each.work)}"
    yield from (f"roofline, {each}" for each in rooflines(target, works))


def _where(each: LoopWork) -> str:
    """Which code it is, in words."""
    if each.place is not None:
        return f"a round of the loop at line {each.place[1]}"
    return "a round of a loop" if each.depth else "outside of loops"


def told(work: Work) -> str:
    """Operations and bytes of a CTA in words."""
    parts = [f"{count:,} operations of {name}" for name, count in Counter(work.operations).most_common()]
    parts += [f"{count:,} bytes {what}" for what, count in (("read", work.read), ("written", work.written)) if count]
    return ("at most " if work.most else "") + ", ".join(parts)
