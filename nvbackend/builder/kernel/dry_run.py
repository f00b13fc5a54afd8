"""The dry run of a finished kernel: what it needs of the builder."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast

from nvbackend.diagnostics import Diagnostic
from nvbackend.isel.machine.register_room import LAUNCH_REGISTERS
from nvbackend.signature import Scalar

if TYPE_CHECKING:
    from nvbackend.builder.kernel.kernel import KernelBuilder


def dry_run(kernel: KernelBuilder, sizes: Sequence[Mapping[str, int]] = ()) -> list[Diagnostic]:
    """What runs of `kernel`, which is finished, show: with `sizes` of its parameters, or with its own choice.

    A mistake in the dry run itself is a RuntimeWarning.
    """
    from nvbackend.dry_run.protocols.run import Run
    from nvbackend.dry_run.runs import Subject, check

    core, signature = kernel.core, kernel.signature
    scalars = {
        one.name: one.type.element.bits
        for one in signature.parameters
        if isinstance(one.type, Scalar) and one.type.element.is_integer
    }
    subject = Subject(
        core.function,
        core.machine,
        core.anchors.blocks,
        signature.bounds.dynamic_shared_bytes,
        kernel.threads,
        kernel.cluster_size,
        scalars,
        cast("int | None", core.machine.attributes.get(LAUNCH_REGISTERS)),
    )
    try:
        return check(subject, Run, sizes)
    except Exception as error:  # a kernel that cannot be judged is still one that was verified
        warnings.warn(f"the dry run of {signature.name} failed: {error!r}", RuntimeWarning, stacklevel=2)
        return []
