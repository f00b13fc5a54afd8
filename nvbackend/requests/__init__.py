"""What a kernel asks of the selector: a module per family, each with its instructions by name, and `select`.

They are `nvb.mma`, `nvb.wgmma`, `nvb.wmma`, `nvb.tcgen05` and `nvb.tma`, whose calls are named as those of `k`:
`k.wgmma.mma_async` takes what `nvb.wgmma.mma_async` returns. What multiplies is described by its shape's name and the
types of A, B and D, what copies by the tensor's rank; the same argument has the same name in all of them. A request
says nothing about a target: `select(request, target)` returns the row, or raises every rule that is broken.
"""

from __future__ import annotations

from types import ModuleType
from typing import NoReturn

from nvbackend.diagnostics import user_facing
from nvbackend.diagnostics.arguments import ARGUMENT


@user_facing
class Requests(ModuleType):
    """A module of requests, which says what to call where it is called itself."""

    def __call__(self, *_: object, **__: object) -> NoReturn:
        """Refused by call.argument."""
        name = f"nvb.{self.__name__.rpartition('.')[2]}"
        calls = [f"{name}.{call}" for call in self.__all__ if call != "select"]
        problem = f"holds the calls {', '.join(calls)}, and is not a call"
        ARGUMENT.fail(call=name, problem=problem, advice=f"call it as {calls[0]}(...)")
