"""A kernel with a value of every kind, to try builder calls on."""

from __future__ import annotations

from typing import Any

from nvbackend.builder.core.memory import Address
from nvbackend.builder.kernel.kernel import KernelBuilder
from nvbackend.builder.values.values import Value
from nvbackend.intrinsics.row.row import RegisterClass, Row
from nvbackend.intrinsics.row.types import (
    BY_NAME,
    PAIR_TYPES,
    ElementType,
    f32,
    f64,
    pred,
    s8,
    s32,
    s64,
    u8,
    u16,
    u32,
    u64,
)
from nvbackend.isel.target.target import Target
from nvbackend.signature import Im2col, Parameter, Pointer, Scalar, TensorMap

RANKS = range(1, 6)
_HELD = {
    RegisterClass.PRED: pred,
    RegisterClass.B16: u16,
    RegisterClass.B32: u32,
    RegisterClass.F16X2: u32,
    RegisterClass.B64: u64,
    RegisterClass.F32: f32,
    RegisterClass.F64: f64,
}
_SCALARS = {f"scalar_{element.name}": element for element in (u16, u32, s32, u64, s64, f32, f64)}


def _walks(rank: int) -> dict[str, Im2col]:
    corners = (0,) * (rank - 2)
    wide = {f"wide_{mode}": Im2col(rank, (0,), (0,), mode) for mode in ("w", "w128")}
    return {"pixels": Im2col(rank, corners, corners), **wide}


class Bench:
    """A kernel for `target`, with memory, a barrier, values of every type and a tensor map of every rank.

    Chips without TMA take it with `cluster` 1 and no `maps`.
    """

    def __init__(self, target: Target, *, name: str = "calls", cluster: int = 2, maps: bool = True) -> None:
        mapped = [Parameter(f"map{rank}", TensorMap(u32, (8,) * (rank - 1) + (4,), swizzle=0)) for rank in RANKS]
        mapped += [
            Parameter(f"{kind}{rank}", TensorMap(u32, (16, 4), 0, walk))
            for rank in RANKS[2:]
            for kind, walk in _walks(rank).items()
        ]
        mapped = mapped if maps else []
        scalars = [Parameter(name, Scalar(element)) for name, element in _SCALARS.items()]
        memory, const = Parameter("memory", Pointer(u8, 1024)), Parameter("const", Pointer(u8, 1024, const=True))
        self.k: Any = KernelBuilder(
            name, target, threads=128, cluster=cluster, parameters=[memory, const, *scalars, *mapped]
        )
        given = dict(zip((one.name for one in (memory, const, *scalars, *mapped)), self.k.arguments, strict=True))
        self.memory: Any = given["memory"]
        self.const: Any = given["const"]
        self.maps = {one.name: given[one.name] for one in mapped}
        self.values: dict[ElementType, Any] = {element: given[name] for name, element in _SCALARS.items()}
        self.values |= {element: self.values[u16].to(element) for element in (s8, u8)}
        self.values |= {pair: self.values[BY_NAME[f"u{pair.bits}"]].bitcast(pair) for pair in PAIR_TYPES}
        self.values[pred] = self.values[u32] == 1
        self.shared: Address = self.k.shared(u8, 4096, align=1024)
        self.barrier: Address = self.k.shared(u64, 1, align=8)
        self.word: Any = self.values[u32]
        self.wide: Any = self.values[u64]

    @property
    def shared_of_peer(self) -> Any:
        """The same memory of the other CTA of the cluster."""
        return self.k.cluster.map_shared_rank(self.shared, 1)

    def map_of(self, rank: int, mode: str) -> Any:
        """The tensor map of a rank that copies in a mode take."""
        wide = {"im2col::w": "wide_w", "im2col::w::128": "wide_w128"}
        kind = wide.get(mode, "pixels" if mode.startswith("im2col") else "map")
        return self.maps[f"{kind}{rank}"]

    def of(self, row: Row, name: str) -> list[Value]:
        """Values for the registers of an operand."""
        one = row.operand(name)
        return [self.values[_HELD[one.register]]] * one.count

    def element(self, name: str) -> Value:
        """A value of the PTX type `name`, bits as unsigned."""
        return self.values[BY_NAME[name.replace("b", "u")]] if name[1:] != "16" else self.values[u16]

    def place(self, space: str | None) -> Any:
        """An address in `space`: of global or shared memory, or a generic one."""
        return {"global": self.memory, "shared": self.shared}.get(str(space), self.wide)
