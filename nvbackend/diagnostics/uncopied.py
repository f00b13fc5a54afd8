"""Objects that are in a kernel or on a device, of which there is neither a deep copy nor a pickle."""

from __future__ import annotations

from typing import Any, NoReturn, SupportsIndex, TypeVar

from nvbackend.diagnostics.boundary import user_facing
from nvbackend.diagnostics.diagnostic import Rule, with_article

COPY = Rule(
    id="call.copy",
    message="{owner} has no deep copy and no pickle: it {problem}",
    fix="{advice}",
    why="A copy would name the same registers, memory or device, or none.",
    reference="Python Standard Library, copy and pickle",
)


_Itself = TypeVar("_Itself")


@user_facing
def refuse_copy(self: object, protocol: SupportsIndex) -> NoReturn:  # noqa: ARG001
    """`__reduce_ex__`, which Python asks for to copy or to pickle an object: raises call.copy."""
    kind: Any = type(self)
    problem = getattr(kind, "_uncopied_for", "is of a kernel that is being built")
    advice = getattr(kind, "_uncopied_advice", "pass it as it is; k.var(value) makes another variable")
    COPY.fail(owner=with_article(kind.__name__), problem=problem, advice=advice)


class Uncopied:
    """An object that has no deep copy and no pickle, such as all of a kernel that is being built (call.copy)."""

    __slots__ = ()
    __reduce_ex__ = refuse_copy

    def __copy__(self: _Itself) -> _Itself:
        """The object itself: a shallow copy would name the same things."""
        return self
