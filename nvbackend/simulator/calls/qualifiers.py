"""The pieces of an opcode between its dots: which are known, which one of a set is there."""

from __future__ import annotations

from collections.abc import Collection

from nvbackend.simulator.machine.compiling import Compiling

SHARED = ("shared", "shared::cta", "shared::cluster")
SCOPES = ("cta", "cluster", "gpu", "sys")


def only(place: Compiling, known: Collection[str]) -> None:
    """Every piece after the first is one of `known`; another one is unknown to the simulator."""
    for part in place.instruction.parts[1:]:
        if part not in known:
            place.unknown(f".{part}")


def chosen(place: Compiling, among: Collection[str], otherwise: str = "") -> str:
    """The first piece that is one of `among`."""
    return next((part for part in place.instruction.parts if part in among), otherwise)
