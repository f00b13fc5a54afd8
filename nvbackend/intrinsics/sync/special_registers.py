"""Special register rows: where a thread is, and what time it is. PTX ISA 10.

Each row has no input and one output, `value`. A register that is not in the table has no row.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.row.features import Feature
from nvbackend.intrinsics.row.row import Asm, Effect, Intrinsic, PtxVersion, RegisterClass, Row, chosen, output
from nvbackend.intrinsics.row.types import s32, s64


@dataclass(frozen=True, slots=True)
class _Special:
    """What sets one register apart; `llvm` is the end of its intrinsic's name, None where LLVM has no right one."""

    llvm: str | None
    summary: str
    register: RegisterClass = RegisterClass.B32
    requires: Feature = Feature.NONE
    ptx_version: PtxVersion = (6, 0)
    volatile: bool = False


def _vector(name: str, llvm: str, summary: str, requires: Feature = Feature.NONE) -> dict[str, _Special]:
    version = (7, 8) if Feature.SM_90 in requires else (6, 0)
    return {
        f"{name}.{axis}": _Special(f"{llvm}.{axis}", f"{summary}, {axis}", requires=requires, ptx_version=version)
        for axis in "xyz"
    }


def _of_cluster(llvm: str, summary: str) -> _Special:
    return _Special(llvm, summary, requires=Feature.SM_90, ptx_version=(7, 8))


_SPECIAL: dict[str, _Special] = {
    **_vector("tid", "tid", "thread in its CTA"),
    **_vector("ntid", "ntid", "threads of the CTA"),
    **_vector("ctaid", "ctaid", "CTA in the grid"),
    **_vector("nctaid", "nctaid", "CTAs of the grid"),
    **_vector("clusterid", "clusterid", "cluster in the grid", Feature.SM_90),
    **_vector("nclusterid", "nclusterid", "clusters of the grid", Feature.SM_90),
    **_vector("cluster_ctaid", "cluster.ctaid", "CTA in its cluster", Feature.SM_90),
    **_vector("cluster_nctaid", "cluster.nctaid", "CTAs of the cluster", Feature.SM_90),
    "cluster_ctarank": _of_cluster("cluster.ctarank", "rank of the CTA in its cluster"),
    "cluster_nctarank": _of_cluster("cluster.nctarank", "CTAs of the cluster, all axes together"),
    "laneid": _Special("laneid", "lane in the warp"),
    "warpid": _Special("warpid", "warp slot; may change, use the thread number to number warps"),
    "nwarpid": _Special("nwarpid", "warp slots of the SM"),
    "smid": _Special("smid", "SM the thread runs on; may change"),
    "nsmid": _Special("nsmid", "bound of smid"),
    "gridid": _Special(None, "number of the grid, 64 bits (LLVM's intrinsic cuts it to 32)", RegisterClass.B64),
    **{
        f"lanemask_{which}": _Special(f"lanemask.{which}", f"mask of the lanes {which} this one")
        for which in ("eq", "le", "lt", "ge", "gt")
    },
    "clock": _Special("clock", "cycle counter, low 32 bits", volatile=True),
    "clock64": _Special("clock64", "cycle counter", RegisterClass.B64, volatile=True),
    "globaltimer": _Special("globaltimer", "nanoseconds", RegisterClass.B64, volatile=True),
    "clock_hi": _Special(None, "cycle counter, high 32 bits", volatile=True),
    "globaltimer_lo": _Special("globaltimer.lo", "nanoseconds, low 32 bits", volatile=True),
    "globaltimer_hi": _Special(None, "nanoseconds, high 32 bits", volatile=True),
    **{f"pm{n}": _Special(None, f"performance counter {n}, low 32 bits", volatile=True) for n in range(8)},
    **{f"pm{n}_64": _Special(None, f"performance counter {n}", RegisterClass.B64, volatile=True) for n in range(8)},
    **{f"envreg{n}": _Special(None, f"word {n} that the driver sets before the launch") for n in range(32)},
    **{
        f"reserved_smem_offset_{part}": _Special(
            None, f"shared memory that the system reserves, {part}", requires=Feature.SM_80, ptx_version=(7, 6)
        )
        for part in ("begin", "end", "cap", "0", "1")
    },
    "is_explicit_cluster": _Special(
        "is_explicit_cluster",
        "whether the launch gave the cluster's size",
        RegisterClass.PRED,
        requires=Feature.SM_90,
        ptx_version=(7, 8),
    ),
    "current_graph_exec": _Special(None, "the graph that runs the kernel, or 0", RegisterClass.B64, ptx_version=(8, 0)),
    "dynamic_smem_size": _Special("dynamic_smem_size", "bytes of dynamic shared memory"),
    "total_smem_size": _Special("total_smem_size", "bytes of shared memory, static and dynamic"),
    "aggr_smem_size": _Special(
        "aggr_smem_size", "bytes of shared memory, reserved ones too", requires=Feature.SM_90, ptx_version=(8, 1)
    ),
}
NAMES = tuple(_SPECIAL)
"""The registers that have a row, without their percent sign."""
COUNTERS = tuple(name for name, special in _SPECIAL.items() if special.volatile)
"""Those that count on by themselves: each read gives another number."""


_SIGNED = {RegisterClass.B32: s32, RegisterClass.B64: s64}


@cache
def special_register(name: str) -> Row:
    """The row that reads register `name` (as in NAMES, without percent sign). Raises NoSuchRow for another name."""
    special = _SPECIAL[chosen("special register", name, NAMES)]
    opcode = "mov.pred" if special.register is RegisterClass.PRED else f"mov.u{special.register.llvm[1:]}"
    return Row(
        family="special_registers",
        opcode=opcode,
        ptx=f"%{name}",
        operands=(output("value", special.register, element=_SIGNED.get(special.register)),),
        lowering=Asm(f"{opcode} {{value}}, {{ptx}};")
        if special.llvm is None
        else Intrinsic(f"llvm.nvvm.{'' if opcode == 'mov.pred' else 'read.ptx.sreg.'}{special.llvm}"),
        requires=special.requires,
        ptx_version=special.ptx_version,
        effects=Effect.READS_MEMORY if special.volatile else Effect.NONE,
        section=f"10 (%{name.partition('.')[0]})",
        summary=f"Reads %{name}: {special.summary}.",
        axes={"register": name},
    )


def rows() -> Iterator[Row]:
    """A row for each register."""
    return (special_register(name) for name in NAMES)
