"""Which multiply of a stage is certainly in flight, against what the text of the PTX ISA says of each one alone."""

from __future__ import annotations

import random
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from nvbackend.builder.tiles.stage_uses import multiply_in_flight
from nvbackend.intrinsics.row.semantics import Completion, Semantics
from nvbackend.isel.protocols.wgmma.state import PENDING

TILE, OTHER = "tile", "other"
STEPS = ("mma", "elsewhere", "commit", 0, 1, 2)
"""A multiply that reads the tile, one that reads another, a commit, and waits by how many groups they leave."""


def _instruction(step: object) -> Any:
    if isinstance(step, int):
        return SimpleNamespace(semantics=Semantics(awaits=Completion.MMA_GROUP), immediates={PENDING: step}, memory=())
    if step == "commit":
        return SimpleNamespace(semantics=Semantics(commits=Completion.MMA_GROUP), memory=())
    read = SimpleNamespace(object=TILE if step == "mma" else OTHER)
    return SimpleNamespace(semantics=Semantics(issues=Completion.MMA_GROUP), memory=(read,))


def _is_in_flight(place: int, steps: Sequence[object]) -> bool:
    """It has a commit, and a wait after it; each of these leaves as many groups as were committed since, or more."""
    if "commit" not in steps[place:]:
        return False
    committed = steps.index("commit", place)
    waits = [at for at in range(committed, len(steps)) if isinstance(steps[at], int)]
    return bool(waits) and all(list(steps[committed:at]).count("commit") <= int(str(steps[at])) for at in waits)


def test_random_sequences() -> None:
    rng, said = random.Random(3), set()
    for _ in range(4000):
        length = rng.randint(1, 6)
        steps = rng.choices(STEPS, k=length + rng.randint(0, 3))
        stage, following = ([_instruction(step) for step in part] for part in (steps[:length], steps[length:]))
        wanted = [at for at in range(length) if steps[at] == "mma" and _is_in_flight(at, steps)]
        found = multiply_in_flight(stage, following, {TILE})  # type: ignore[arg-type]
        assert found is (stage[wanted[-1]] if wanted else None), steps
        said.add(len(wanted))
    assert said >= {0, 1, 2}
