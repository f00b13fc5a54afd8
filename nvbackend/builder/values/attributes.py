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
    **dict.fromkeys(("astype", "cast", "float", "half", "int"), "convert it: .to(type)"),
    **dict.fromkeys(("view", "bit_cast"), "take the same bits as another type: .bitcast(type)"),
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

_OF_EACH_ROW = 'combine each row by .reduce_rows("{0}"), and each column by .reduce_columns("{0}")'
_OF_EACH = "compute it of each element: .map(k.math.{name})"
_FILL = "use `with ring.fill() as stage:`, which acquires a stage and commits it; its mbarrier is stage.full"
_DRAIN = "use `with ring.drain() as stage:`, which waits for a stage and releases it"
_FROM_SHARED = (
    "copy the tiles to k.shared_tile(mma.smem_a(columns)) and k.shared_tile(mma.smem_b(columns)), by k.tma.load for "
    "example, and multiply those: mma.accumulate(acc, a, b)"
)
_THREAD = "partition the tensor by the thread's part: tensor.partition(mma.thread.{name}), or use load_a and load_b"
_SUM = 'add those of all threads: k.cta.reduce("add", value), or k.warp.reduce'
_OF_CLASSES = {
    "Value": {"sum": _SUM},
    "Variable": {"sum": _SUM},
    "Address": {
        **dict.fromkeys(("item", "at", "read", "get"), "read an element: address[index]"),
        **dict.fromkeys(("write", "put", "fill"), "set an element: address[index] = value"),
        **dict.fromkeys(("offset", "add", "advance", "ptr", "address"), "step to another element: address + index"),
        **dict.fromkeys(("view", "bit_cast", "bitcast"), "take it as an address of another type: .cast(type)"),
        "tile": "lay a layout over it: k.tensor(address, layout).tile(shape, place)",
    },
    "TileValues": {
        **{name: _OF_EACH_ROW.format(how) for name, how in (("max", "max"), ("min", "min"), ("sum", "add"))},
        **dict.fromkeys(("abs", "exp", "exp2", "log", "log2", "rsqrt", "sigmoid", "sqrt", "tanh"), _OF_EACH),
        "values": "take an element by x[i], and all by list(x); acc.set(x) writes them to an accumulator",
    },
    "RegisterTensor": dict.fromkeys(("fill", "zero", "zero_"), "use .clear() for zeros, and .set(values) for others"),
    "Accumulator": dict.fromkeys(
        ("zero", "zero_"), "use .clear(), after which the next mma overwrites it, or .fill(0), to which it adds"
    ),
    "Tensor": {
        "T": "lay the other layout over its address: k.tensor(tensor.address, Layout(shape, strides))",
        **dict.fromkeys(("stride", "strides"), "use .layout.stride"),
    },
    "SharedTile": {
        **dict.fromkeys(("load", "store"), "call it on the address of an element: tile.at(row, column).{name}(...)"),
        "shape": "use .layout.rows and .layout.columns",
    },
    "TiledWarpMma": dict.fromkeys(("partition_A", "partition_B", "partition_C"), _THREAD),
    "TiledWgmma": dict.fromkeys(("load_a", "load_b"), _FROM_SHARED),
    "TiledTcgen05": {
        **dict.fromkeys(("load_a", "load_b"), _FROM_SHARED),
        "accumulator": "allocate tensor memory for it: with k.tcgen05.tmem(mma.columns) as acc",
    },
    "TmemColumns": {
        "load": "load elements by mma.load(columns), or registers by k.tcgen05.ld(columns, ...)",
        "store": "store registers by k.tcgen05.st(columns, ...)",
    },
    "Ring": {
        **dict.fromkeys(("producer_acquire", "producer_commit", "producer_get_barrier"), _FILL),
        **dict.fromkeys(("consumer_wait", "consumer_release"), _DRAIN),
        "producer_tail": "use ring.finish()",
    },
    "TmaEpilogue": {"store": "reserve a buffer first: epilogue.reserve((row, column), warpgroup).store(acc)"},
}
"""What to use instead, by the class and the name that it does not have."""
_SHOWN = {"TmemColumns": "a block of tensor memory"}


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
    of_class = type(owner).__name__
    own = _OF_CLASSES.get(of_class, {})
    instead = own if of_class in _SHOWN else {**_INSTEAD, **own}
    advice = instead.get(name, f"use one of {', '.join(known)}").format(name=name, type=kind)
    return MissingAttribute([ATTRIBUTE.diagnose(owner=_SHOWN.get(of_class, shown), name=f".{name}", advice=advice)])


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
            advice = _OF_CLASSES.get(kind, {}).get(name, one_of(name, known)).format(name=name)
            raise MissingAttribute([OF_TILE.diagnose(owner=f"nvb.{kind}", name=f".{name}", advice=advice)])
