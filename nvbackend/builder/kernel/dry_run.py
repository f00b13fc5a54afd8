"""The dry run of a finished kernel: what it needs of the builder."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, cast

from nvbackend.builder.core.core import Core
from nvbackend.diagnostics.announce import warn
from nvbackend.isel.machine.register_room import LAUNCH_REGISTERS
from nvbackend.signature import Scalar, Signature

if TYPE_CHECKING:
    from nvbackend.dry_run.runs import Judged
    from nvbackend.dry_run.subject import Subject


def dry_run(
    core: Core,
    signature: Signature,
    sizes: Sequence[Mapping[str, int]] = (),
    give_way: Callable[[], None] | None = None,
) -> Judged:
    """What runs of a finished kernel show: with `sizes` of its parameters, or with its own choice.

    `give_way` is called at every step. A mistake in the dry run itself is a RuntimeWarning.
    """
    from nvbackend.dry_run.protocols.run import Run
    from nvbackend.dry_run.runs import Judged, check

    if give_way is not None:
        give_way()
    try:
        return check(subject_of(core, signature), partial(Run, give_way=give_way), sizes)
    except Exception as error:  # noqa: BLE001 - a kernel that cannot be judged is still one that was verified
        warn(f"the dry run of {signature.name} failed: {error!r}", RuntimeWarning)
        return Judged([])


def subject_of(core: Core, signature: Signature) -> Subject:
    """What is executed of a finished kernel."""
    from nvbackend.dry_run.subject import Subject

    scalars = {
        parameter.name: parameter.type
        for parameter in signature.parameters
        if isinstance(parameter.type, Scalar) and parameter.type.element.is_integer
    }
    return Subject(
        core.function,
        core.machine,
        core.anchors.blocks,
        signature.bounds,
        scalars,
        cast("int | None", core.machine.attributes.get(LAUNCH_REGISTERS)),
        core.anchors.loops,
        core.assumed,
    )
