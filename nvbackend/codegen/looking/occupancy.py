"""How many CTAs of a kernel an SM holds at once, and which resource it is that allows no more.

Source: CUDA C++ Programming Guide, Technical Specifications per Compute Capability; the rounding is that of
cuda_occupancy.h, which comes with the toolkit.
"""

from __future__ import annotations

from nvbackend.codegen.cubin import Resources
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.isel.target.target import Target
from nvbackend.signature import LaunchBounds

_SHARED = "shared memory"
_WARP, _THREAD_REGISTERS = 32, 255
_REGISTERS = 64 << 10
"""Registers of 32 bits of an SM. A warp takes units of them, from the fourth that its part of the SM has."""
_WARP_UNIT, _PARTS = 256, 4
_SHARED_UNITS = {7: 256}
_SHARED_UNIT = 128
"""Bytes; those before of compute capability 7."""
_RESERVED_FROM, _RESERVED_BYTES = 80, 1024
"""What the system takes of shared memory for each CTA, from compute capability 8.0 on."""


@dataclass(frozen=True, slots=True)
class Multiprocessor:
    """The room of an SM: threads, CTAs, and bytes of shared memory."""

    threads: int
    ctas: int
    shared_bytes: int


_LARGE = Multiprocessor(2048, 32, 228 << 10)
_SMALL = Multiprocessor(1536, 24, 100 << 10)
MULTIPROCESSORS = {
    70: Multiprocessor(2048, 32, 96 << 10),
    72: Multiprocessor(2048, 32, 96 << 10),
    75: Multiprocessor(1024, 16, 64 << 10),
    80: Multiprocessor(2048, 32, 164 << 10),
    86: Multiprocessor(1536, 16, 100 << 10),
    87: Multiprocessor(1536, 16, 164 << 10),
    89: _SMALL,
    90: _LARGE,
    100: _LARGE,
    103: _LARGE,
    120: _SMALL,
    121: _SMALL,
}
"""By compute capability, those that the guide has."""


@dataclass(frozen=True, slots=True)
class Occupancy:
    """CTAs that an SM holds at once, the threads in them, of `most_threads`, and what allows no more CTAs."""

    ctas: int
    threads: int
    most_threads: int
    limited_by: tuple[str, ...]

    def __str__(self) -> str:
        ctas = f"{self.ctas} CTA{'' if self.ctas == 1 else 's'} an SM"
        allow = "allows" if self.limited_by == (_SHARED,) else "allow"
        return f"{ctas}, {self.threads} of {self.most_threads} threads; {' and '.join(self.limited_by)} {allow} no more"


def register_limit(bounds: LaunchBounds, most: int | None = None) -> int:
    """The registers a thread that ptxas may use for these launch bounds, `most` where the entry has `.maxnreg`."""
    warps = -(-bounds.threads // _WARP) * (bounds.min_ctas or 1)
    return min(most or _THREAD_REGISTERS, _THREAD_REGISTERS, _REGISTERS // max(warps, 1) // _WARP // 8 * 8)


def occupancy(target: Target, bounds: LaunchBounds, used: Resources) -> Occupancy | None:
    """What an SM of `target` holds of a kernel; None for a chip whose numbers are not published."""
    room = MULTIPROCESSORS.get(target.number)
    if room is None:
        return None
    warps = -(-bounds.threads // _WARP)
    per_warp = -(-max(used.registers, 1) * _WARP // _WARP_UNIT) * _WARP_UNIT
    warps_of_a_part = _REGISTERS // _PARTS // per_warp
    allowed = {
        "threads": room.threads // _WARP // warps,
        "registers": warps_of_a_part * _PARTS // warps,
        "slots for CTAs": room.ctas,
    }
    shared = used.shared_bytes + bounds.dynamic_shared_bytes
    unit = _SHARED_UNITS.get(target.number // 10, _SHARED_UNIT)
    reserved = _RESERVED_BYTES if target.number >= _RESERVED_FROM else 0
    taken = -(-(shared + reserved) // unit) * unit
    if taken:
        allowed[_SHARED] = room.shared_bytes // taken
    ctas = min(allowed.values())
    limits = tuple(name for name, count in allowed.items() if count == ctas)
    return Occupancy(ctas, ctas * bounds.threads, room.threads, limits)
