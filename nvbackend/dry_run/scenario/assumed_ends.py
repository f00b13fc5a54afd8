"""Parameters of which `k.assume` admits a few values, as their annotations could declare."""

from __future__ import annotations

from collections.abc import Mapping

from nvbackend.dry_run.scenario.rounds import Rounds
from nvbackend.intrinsics.row.types import Scalar

FEW_VALUES = 8
"""A parameter that declares at most so many values takes its ends, and the others where there is room for that."""
_MOST = 32
"""Values up to this one are tried."""
_BEYOND = (-1, 33, 48, 64, 100, 128, 1000, 1024, 4096, 1 << 20)
"""Values of which none may be admitted."""


def has_ends(scalar: Scalar) -> bool:
    """Whether a parameter declares its least and its greatest value."""
    return scalar.minimum is not None and scalar.maximum is not None


def with_assumed_ends(scalars: Mapping[str, Scalar], rounds: Rounds) -> dict[str, Scalar]:
    """The parameters, those without declared ends with the ends that are assumed of each alone, where these are few."""
    return {name: scalar if has_ends(scalar) else _narrowed(name, scalar, rounds) for name, scalar in scalars.items()}


def _narrowed(name: str, scalar: Scalar, rounds: Rounds) -> Scalar:
    alone = [one for one in rounds.assumptions if one.names == {name}]
    if not alone:
        return scalar

    def is_admitted(number: int) -> bool:
        broken = rounds.of({name: number & (1 << scalar.element.bits) - 1}).broken
        return number in scalar.values and not any(one in alone for one in broken)

    admitted = [number for number in range(_MOST + 1) if is_admitted(number)]
    if not 1 < len(admitted) <= FEW_VALUES or any(map(is_admitted, _BEYOND)):
        return scalar
    least, most, step = admitted[0], admitted[-1], admitted[1] - admitted[0]
    if admitted != [*range(least, most + 1, step)] or least % step:
        return scalar
    return Scalar(scalar.element, minimum=least, maximum=most, multiple_of=step)
