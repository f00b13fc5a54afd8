"""Special registers. PTX ISA 10."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

from nvbackend.diagnostics import user_facing
from nvbackend.simulator.events import Bits
from nvbackend.simulator.machine.lanes import WARP
from nvbackend.simulator.machine.wave import Launch, Wave

CLOCKS = ("%clock", "%clock_hi", "%clock64", "%globaltimer", "%globaltimer_lo", "%globaltimer_hi")
"""The registers that change while a thread runs."""
_AXES = "xyz"
_WIDE = ("%clock64", "%globaltimer", "%gridid")
_SMS = {70: 80, 75: 40, 80: 108, 86: 84, 87: 16, 89: 142, 90: 132, 100: 148, 103: 148, 110: 20, 120: 188, 121: 48}
"""Multiprocessors of a chip of each target, of a T4 for sm_75 and of an H100 SXM for sm_90."""
_NANOSECONDS = 4
"""Of the global timer, an instruction."""


def width(name: str) -> int:
    """The bits of a special register; 1 for a predicate."""
    return 64 if name in _WIDE else 1 if name == "%is_explicit_cluster" else 32


def of_launch(name: str) -> Callable[[Wave], Bits] | None:
    """The value in each thread of a special register that does not change, or None where there is none of that name."""
    stem, _, axis = name.partition(".")
    if axis in tuple(_AXES) and stem in _WITH_AXES:
        of_axis = _WITH_AXES[stem]
        return lambda wave: of_axis(wave)[_AXES.index(axis)]
    return _PLAIN.get(name)


def clock(name: str, wave: Wave) -> int:
    """The value of a clock now."""
    value = wave.steps * (_NANOSECONDS if "timer" in name else 1)
    return value >> 32 if name.endswith("_hi") else value


def _everywhere(wave: Wave, value: int) -> Bits:
    return np.full(wave.size, value, np.uint32)


def _places(wave: Wave) -> Bits:
    return np.arange(wave.size) % wave.cta_threads


def _split(places: Bits, extents: tuple[int, int, int]) -> tuple[Bits, Bits, Bits]:
    x, y, _ = extents
    found = (places % x, places // x % y, places // (x * y))
    return tuple(one.astype(np.uint32) for one in found)  # type: ignore[return-value]


def _same(extents: Callable[[Launch], tuple[int, int, int]]) -> Callable[[Wave], tuple[Bits, Bits, Bits]]:
    return lambda wave: tuple(_everywhere(wave, one) for one in extents(wave.launch))  # type: ignore[return-value]


def _ctas(wave: Wave) -> Bits:
    return np.arange(wave.size) // wave.cta_threads


def _clusterid(wave: Wave) -> tuple[Bits, Bits, Bits]:
    return _split(_ctas(wave) // wave.cluster_size + wave.clusters.start, wave.launch.clusters)


def _cluster_ctaid(wave: Wave) -> tuple[Bits, Bits, Bits]:
    return _split(_ctas(wave) % wave.cluster_size, wave.launch.cluster)


def _ctaid(wave: Wave) -> tuple[Bits, Bits, Bits]:
    parts = zip(_clusterid(wave), wave.launch.cluster, _cluster_ctaid(wave), strict=True)
    return tuple(cluster * np.uint32(each) + inner for cluster, each, inner in parts)  # type: ignore[return-value]


_WITH_AXES: dict[str, Callable[[Wave], tuple[Bits, Bits, Bits]]] = {
    "%tid": lambda wave: _split(_places(wave), wave.launch.block),
    "%ntid": _same(lambda launch: launch.block),
    "%ctaid": _ctaid,
    "%nctaid": _same(lambda launch: launch.grid),
    "%clusterid": _clusterid,
    "%nclusterid": _same(lambda launch: launch.clusters),
    "%cluster_ctaid": _cluster_ctaid,
    "%cluster_nctaid": _same(lambda launch: launch.cluster),
}


def _lane(wave: Wave) -> Bits:
    return (np.arange(wave.size) % WARP).astype(np.uint32)


def _bit(wave: Wave) -> Bits:
    return (np.uint64(1) << _lane(wave).astype(np.uint64)).astype(np.uint64)


def _masked(mask: Callable[[Bits], Bits]) -> Callable[[Wave], Bits]:
    return lambda wave: mask(_bit(wave)).astype(np.uint32)


@user_facing
def multiprocessors(target: str) -> int:
    """How many multiprocessors the chip of a target has, such as "sm_90a" (call.argument for another text)."""
    if not re.fullmatch(r"sm_\d{2,3}[af]?", target):
        from nvbackend.diagnostics.arguments import ARGUMENT

        advice = 'write it as PTX does: multiprocessors("sm_90a")'
        ARGUMENT.fail(call="multiprocessors", problem=f"{target!r} is not the name of a target", advice=advice)
    return _count(target)


def _count(target: str) -> int:
    """The same of any target that a PTX text may name."""
    number = re.match(r"sm_(\d+)", target)
    return _SMS.get(int(number[1]) if number else 90, 132)


def _cta_numbers(wave: Wave) -> Bits:
    return (_ctas(wave) + wave.clusters.start * wave.cluster_size).astype(np.uint32)


_ONE = np.uint64(1)
_PLAIN: dict[str, Callable[[Wave], Bits]] = {
    "%laneid": _lane,
    "%warpid": lambda wave: (_places(wave) // WARP).astype(np.uint32),
    "%nwarpid": lambda wave: _everywhere(wave, 64),
    "%cluster_ctarank": lambda wave: (_ctas(wave) % wave.cluster_size).astype(np.uint32),
    "%cluster_nctarank": lambda wave: _everywhere(wave, wave.cluster_size),
    "%is_explicit_cluster": lambda wave: np.full(wave.size, wave.launch.clustered),
    "%smid": lambda wave: _cta_numbers(wave) % np.uint32(_count(wave.launch.target)),
    "%nsmid": lambda wave: _everywhere(wave, _count(wave.launch.target)),
    "%gridid": lambda wave: np.ones(wave.size, np.uint64),
    "%lanemask_eq": _masked(lambda bit: bit),
    "%lanemask_lt": _masked(lambda bit: bit - _ONE),
    "%lanemask_le": _masked(lambda bit: (bit << _ONE) - _ONE),
    "%lanemask_gt": _masked(lambda bit: ~((bit << _ONE) - _ONE)),
    "%lanemask_ge": _masked(lambda bit: ~(bit - _ONE)),
    "%dynamic_smem_size": lambda wave: _everywhere(wave, wave.launch.dynamic_shared),
    "%total_smem_size": lambda wave: _everywhere(wave, wave.launch.shared_bytes),
    "%aggr_smem_size": lambda wave: _everywhere(wave, wave.launch.shared_bytes + 1024),
    "%reserved_smem_offset_begin": lambda wave: _everywhere(wave, 0),
    "%reserved_smem_offset_end": lambda wave: _everywhere(wave, 1024),
    "%reserved_smem_offset_cap": lambda wave: _everywhere(wave, 1024),
    "%current_graph_exec": lambda wave: np.zeros(wave.size, np.uint64),
}
