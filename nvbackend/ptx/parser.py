"""Reading a whole PTX text. PTX ISA 4 (Syntax), 5 and 11 (Directives)."""

from __future__ import annotations

import os
from collections.abc import Callable

from nvbackend.diagnostics import user_facing
from nvbackend.ptx.declarations import LINKAGES, SPACES, declaration, parameters
from nvbackend.ptx.lexer import Text
from nvbackend.ptx.reader import Reader
from nvbackend.ptx.statements import block, pragma
from nvbackend.ptx.syntax import Alias, Block, Directive, File, Function, Item, Module, Section

_WITH_NUMBERS = (
    *("maxntid", "reqntid", "maxnreg", "minnctapersm", "maxnctapersm", "reqnctapercluster", "maxclusterrank"),
    *("abi_preserve", "abi_preserve_control"),
)
_PLAIN = ("noreturn", "explicitcluster", "blocksareclusters")
_OF_A_FUNCTION = (*_WITH_NUMBERS, *_PLAIN, "pragma")
_OF_A_MODULE = ("entry", "func", *LINKAGES, *SPACES, "file", "section", "alias", "pragma")


@user_facing
def parse(text: str, source: str = "<ptx>") -> Module:
    """The syntax tree of a PTX text; `source` is the file that diagnostics name.

    Raises ptx.syntax and ptx.directive at the line that is not PTX as this reads it. Instructions are read by their
    form: whether one exists is checked when it is looked up.
    """
    reader = Reader(Text(text, os.fspath(source)))
    version = _version(reader)
    target = _target(reader)
    address_size = 32
    if reader.skips(".address_size"):
        address_size = reader.integer("32 or 64")
    items: list[Item] = []
    while not reader.at_end:
        items.extend(_item(reader))
    return Module(version, target, address_size, tuple(items), source)


def _version(reader: Reader) -> tuple[int, int]:
    reader.must(".version")
    if reader.next.text.startswith("."):
        reader.fail("a version such as 9.0")
    major, _, minor = reader.must_be("float", "a version such as 9.0").text.partition(".")
    return int(major), int(minor or 0)


def _target(reader: Reader) -> tuple[str, ...]:
    reader.must(".target")
    names = [reader.name("a target such as sm_90a")]
    while reader.skips(","):
        names.append(reader.name("an option of the target"))
    return tuple(names)


def _item(reader: Reader) -> tuple[Item, ...]:
    if reader.next.kind != "dotted":
        reader.fail("a directive such as .entry")
    linkage = ""
    while reader.next.text[1:] in LINKAGES and reader.next.kind == "dotted":
        linkage = reader.take().text[1:]
    word = reader.next.text[1:]
    if word in ("entry", "func"):
        return (_function(reader, linkage),)
    if word in SPACES or word == "align":
        return declaration(reader, linkage)
    if word not in _OTHER_ITEMS:
        reader.unknown_directive(_OF_A_MODULE)
    return (_OTHER_ITEMS[word](reader),)


def _function(reader: Reader, linkage: str) -> Function:
    position = reader.position
    is_entry = reader.take().text == ".entry"
    directives = list(_directives(reader))
    results = () if is_entry else parameters(reader)
    name = reader.name("the name of a function")
    arguments = parameters(reader)
    directives += _directives(reader)
    body: Block | None = None
    if reader.sees("{"):
        body = block(reader)
    else:
        reader.must(";")
    return Function(name, is_entry, arguments, results, tuple(directives), body, linkage, position=position)


def _directives(reader: Reader) -> tuple[Directive, ...]:
    directives: list[Directive] = []
    while reader.next.kind == "dotted":
        position = reader.position
        name = reader.next.text[1:]
        values: tuple[int | str, ...] = ()
        if name == "pragma":
            values = pragma(reader).texts
        elif name in _WITH_NUMBERS:
            reader.take()
            numbers = [reader.integer()]
            while reader.skips(","):
                numbers.append(reader.integer())
            values = tuple(numbers)
        elif name in _PLAIN:
            reader.take()
        else:
            reader.unknown_directive(_OF_A_FUNCTION)
        directives.append(Directive(name, values, position=position))
    return tuple(directives)


def _file(reader: Reader) -> File:
    position = reader.position
    reader.must(".file")
    index, name, stamp = reader.integer(), reader.string(), []
    while reader.skips(","):
        stamp.append(reader.integer())
    return File(index, name, tuple(stamp), position=position)


def _section(reader: Reader) -> Section:
    """Debug information stays text: nothing here reads it."""
    position = reader.position
    reader.must(".section")
    name = reader.take().text
    start = reader.must("{").offset
    while not reader.sees("}"):
        if reader.at_end:
            reader.fail("'}'")
        reader.take()
    end = reader.must("}").offset
    lines = (line.partition("//")[0].strip() for line in reader.text.text[start + 1 : end].splitlines())
    return Section(name, tuple(line for line in lines if line), position=position)


def _alias(reader: Reader) -> Alias:
    position = reader.position
    reader.must(".alias")
    name = reader.name()
    reader.must(",")
    function = reader.name()
    reader.must(";")
    return Alias(name, function, position=position)


_OTHER_ITEMS: dict[str, Callable[[Reader], Item]] = {
    "file": _file,
    "section": _section,
    "alias": _alias,
    "pragma": pragma,
}
