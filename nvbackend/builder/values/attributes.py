"""The diagnostics for attributes that values, addresses and tiles do not have, such as those of arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from nvbackend.diagnostics import MissingAttribute, Rule, Uncopied, one_of

ATTRIBUTE = Rule(
    id="value.attribute",
    message="{owner} has no {name}",
    fix="{advice}",
    why="A value is one register of each thread and an address is a number: neither knows an array's shape.",
    reference="docs/guide.md, Values and variables",
)
OF_TILE = Rule(
    id="tile.attribute",
    message="{owner} has no {name}",
    fix="{advice}",
    why="A name that is spelled otherwise, or is another object's, does nothing by itself.",
    reference="docs/api.md",
)
_OF_ADDRESSES = ("atomic", "load", "store", "cast", "byte_offset")
_OF_ARRAYS = ("shape", "size", "ndim", "strides", "T", "reshape")
_MATH = "call k.math.{name}(...) with it"
_INSTEAD = {
    **dict.fromkeys(_OF_ADDRESSES, "call it on the address, not on the element: (pointer + index).{name}(...)"),
    **dict.fromkeys(
        _OF_ARRAYS, "take sizes as parameters or build-time constants; k.tensor(address, layout) has a shape"
    ),
    **dict.fromkeys(("astype", "cast"), "convert it: .to(type)"),
    "dtype": "use .{type}",
    "item": "use the value itself",
    **dict.fromkeys(("abs", "ceil", "cos", "exp", "floor", "log", "max", "min", "pow", "sin", "sqrt", "tanh"), _MATH),
    **dict.fromkeys(
        ("value", "set"),
        "use it as it is; k.var(...) makes a variable, which has .value and .set, and changes by `x += 1`: after "
        "`x = x + 1` the name x is that of a value",
    ),
    **dict.fromkeys(("x", "y", "z"), 'name the axis in the call: k.thread_id("{name}"), k.block_id("{name}")'),
}


def refuse_assignment() -> NoReturn:
    """Raises value.attribute for an assignment to the value of a variable."""
    advice = "set it: variable.set(...), or variable += ..."
    ATTRIBUTE.fail(owner="a variable", name="value that Python can assign", advice=advice)


def missing_attribute(owner: object, name: str, shown: str, kind: str) -> AttributeError:
    """The error for a name that `owner`, called `shown` in the message, does not have.

    `kind` is the attribute that holds the type of its elements.
    """
    if name.startswith("_"):
        return AttributeError(f"{type(owner).__name__!r} object has no attribute {name!r}", name=name, obj=owner)
    known = [name for name in dir(type(owner)) if not name.startswith("_")]
    advice = _INSTEAD.get(name, f"use one of {', '.join(known)}").format(name=name, type=kind)
    return MissingAttribute([ATTRIBUTE.diagnose(owner=shown, name=f".{name}", advice=advice)])


class KnownAttributes(Uncopied):
    """An object of a kernel that is not a value: a name that it does not have is tile.attribute."""

    __slots__ = ()

    if not TYPE_CHECKING:  # it would make a type checker accept every name

        def __getattr__(self, name: str) -> Any:
            """Raises tile.attribute."""
            kind = type(self).__name__
            if name.startswith("_"):
                raise AttributeError(f"{kind!r} object has no attribute {name!r}", name=name, obj=self)
            known = [each for each in dir(type(self)) if not each.startswith("_")]
            raise MissingAttribute([OF_TILE.diagnose(owner=f"nvb.{kind}", name=f".{name}", advice=one_of(name, known))])
