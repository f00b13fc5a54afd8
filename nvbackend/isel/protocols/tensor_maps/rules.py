"""The rules of tensor maps that a kernel changes."""

from __future__ import annotations

from nvbackend.diagnostics import Rule

_REFERENCE = "PTX ISA 9.7.13 (fence.proxy.tensormap), 8.6 (Proxies)"
_WHY = "Copies read maps through a proxy of their own, which may keep the map as it was: another box, or a fault."

NOT_ACQUIRED = Rule(
    id="tensor-map.not-acquired",
    message="{copy} uses a tensor map that {change} changes, and no acquire of it is between them",
    fix="put k.tensormap.acquire(map) before {copy}, in the threads that copy, after the barrier that orders it and "
    "{change}",
    why=_WHY,
    reference=_REFERENCE,
)
NOT_RELEASED = Rule(
    id="tensor-map.not-released",
    message="{change} changes a tensor map that {copy} uses, and no release is between the change and the acquire",
    fix="put k.tensormap.release() after {change}, in its thread; or change the map in shared memory, and copy it with "
    "k.tensormap.publish",
    why=_WHY,
    reference=_REFERENCE,
)
