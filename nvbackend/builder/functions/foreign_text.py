"""A function in the PTX text of another compiler: what it needs of the text, what it does, which targets have it."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

from nvbackend.builder.ops.inline.effects import TextEffect, effects_of_lanes_and_memory, is_of_protocol
from nvbackend.builder.scopes.function_rules import FOREIGN
from nvbackend.builder.scopes.names import has_meaning
from nvbackend.diagnostics import printed
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.isel.target.target import Target, dotted
from nvbackend.ptx import Function, Instruction, Module, Names, Variable, parse, print_module, resolve
from nvbackend.ptx.names import names_in
from nvbackend.ptx.syntax import Block, Loc, Name, Statement, flattened

Item = Function | Variable
_INSIDE = frozenset({"bra", "ret", "call"})
"""Control flow that stays inside a function."""
_OWN_MEMORY = ("param", "local", "const")
_VARIABLES = ("global", "const")
"""State spaces of variables that a text may bring with it."""
_HEAD_LINES = 3
"""Version, target and size of addresses, which a module's text begins with."""
_TARGET = re.compile(r"sm_(\d+)([af]?)")
_SUFFIX = ".ptx"


@dataclass(frozen=True, slots=True)
class ForeignText:
    """A function, with all that it needs of its text, each after what it uses itself, and what its code does."""

    module: Module
    function: Function
    items: tuple[Item, ...]
    performed: tuple[TextEffect, ...]
    digest: str

    def printed(self, target: Target) -> str:
        """What it needs as a text of its own for `target`."""
        return print_module(replace(self.module, version=target.ptx_version, target=(target.name,), items=self.items))

    def pieces(self) -> Iterator[tuple[str, str]]:
        """What it needs, piece by piece: the name and the text. Memory that it writes is this text's own."""
        for item in self.items:
            text = print_module(replace(self.module, items=(item,))).split("\n", _HEAD_LINES)[_HEAD_LINES]
            is_own = isinstance(item, Variable) and item.space == "global"
            yield item.name, f"// of a text {self.digest}\n{text}" if is_own else text

    def check_target(self, target: Target) -> None:
        """Raises function.foreign where the text is for another chip, or in a newer PTX."""
        name, version = self.module.target[0], self.module.version
        match = _TARGET.fullmatch(name)
        if match is None or not _runs(name, int(match[1]), match[2], target):
            advice = f"compile the text for {target.name} or an earlier chip without a suffix"
            _refuse(self.function.name, f"its text is for {name}, and the kernel for {target.name}", advice)
        if version > target.ptx_version:
            problem = f"its text is PTX {dotted(version)}, and the kernel is printed as {dotted(target.ptx_version)}"
            advice = "compile the text by an earlier toolkit, or build the kernel for a Target of that PTX version"
            _refuse(self.function.name, problem, advice)


def _runs(name: str, number: int, suffix: str, target: Target) -> bool:
    if suffix == "a":
        return name == target.name
    is_family = suffix != "f" or (target.suffix != "" and number // 10 == target.number // 10)
    return is_family and number <= target.number


def read(name: str, ptx: object) -> ForeignText:
    """The function `name` of a text, a file or the bytes of one. Raises function.foreign and ptx.*."""
    text, source = _text(name, ptx)
    module = parse(text, source)
    if module.address_size != 64:
        _refuse(name, f"its text has addresses of {module.address_size} bits", "compile it with .address_size 64")
    walk = _Walk(name, module, resolve(module))
    function = walk.function(name)
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return ForeignText(module, function, tuple(walk.items), tuple(walk.performed), digest)


def _text(name: str, text: object) -> tuple[str, str]:
    if isinstance(text, os.PathLike):
        try:
            return Path(text).read_text(encoding="utf-8"), os.fspath(text)
        except (OSError, UnicodeDecodeError) as error:
            _refuse(name, f"{os.fspath(text)} cannot be read: {error}", "pass the path of a file of PTX")
    if isinstance(text, bytes):
        text = text.rstrip(b"\0").decode("utf-8", "replace")
    if not isinstance(text, str):
        _refuse(name, f"ptx is {printed(text)}", "pass PTX as text or bytes, or the pathlib.Path of a file of it")
    if "\n" not in text and text.strip().endswith(_SUFFIX):
        advice = f"pass the path as one: ptx=pathlib.Path({text.strip()!r})"
        _refuse(name, f"ptx is the text {text.strip()!r}, the path of a file", advice)
    return text, f"the PTX of {name}"


class _Walk:
    """The functions and variables that a function uses, depth first."""

    def __init__(self, name: str, module: Module, names: Names) -> None:
        self.name = name
        self.names = names
        items = (item for item in module.items if isinstance(item, Item))
        self.known: dict[str, Item] = {}
        for item in items:
            if item.name not in self.known or not isinstance(item, Function) or item.body is not None:
                self.known[item.name] = item
        self.open: list[str] = []
        self.items: list[Item] = []
        self.done: set[str] = set()
        self.performed: list[TextEffect] = []

    def refuse(self, problem: str, advice: str) -> NoReturn:
        """Raises function.foreign."""
        _refuse(self.name, problem, advice)

    def function(self, name: str) -> Function:
        """A function, which is noted with all that it uses."""
        item = self.known.get(name)
        if not isinstance(item, Function) or item.is_entry or item.body is None:
            self._lacks(name, item)
        self._add(item)
        return item

    def _lacks(self, name: str, item: Item | None) -> NoReturn:
        there = [each.name for each in self.known.values() if isinstance(each, Function) and _is_called(each)]
        what = (
            "declares it without a body"
            if isinstance(item, Function) and not item.is_entry
            else "has it as a kernel"
            if isinstance(item, Function)
            else "has no function of that name"
        )
        whose = "its text" if name == self.name else f"it calls {name}, and the text"
        advice = f"name one that the text has: {', '.join(there) or 'it has none'}"
        if name != self.name:
            advice = "compile both into one text, or write the function without that call"
        self.refuse(f"{whose} {what}", advice)

    def _add(self, item: Item) -> None:
        if item.name in self.open:
            cycle = " -> ".join([*self.open[self.open.index(item.name) :], item.name])
            self.refuse(f"it calls itself: {cycle}", "write the recursion as a loop")
        if item.name in self.done:
            return
        if has_meaning(item.name):
            self.refuse(f"{item.name} is the name of a function of CUDA or LLVM", "give it another name in its source")
        self.open.append(item.name)
        if isinstance(item, Variable):
            self._variable(item)
        else:
            assert item.body is not None
            self._block(item.body)
        self.open.pop()
        self.done.add(item.name)
        self.items.append(_hidden(item))

    def _variable(self, variable: Variable) -> None:
        if variable.linkage == "extern":
            problem = f"it uses {variable.name}, which the text declares without a value"
            self.refuse(problem, "pass the address as an argument, or define the variable in the text")
        if variable.space not in _VARIABLES:
            advice = 'pass memory of the kernel: a parameter nvb.Pointer(nvb.f32, space="shared")'
            self.refuse(f"it has {variable.name} in .{variable.space} memory of its own", advice)
        for name in names_in(variable.initial) if variable.initial is not None else ():
            if name.text in self.known:
                self._use(self.known[name.text])

    def _use(self, item: Item) -> None:
        if isinstance(item, Function):
            self.refuse(f"it takes the address of {item.name}", "call the function by its name in the source")
        self._add(item)

    def _block(self, block: Block) -> None:
        for statement in flattened(block.statements):
            if isinstance(statement, Variable) and statement.space not in ("reg", "param", "local"):
                self._variable(statement)
            elif isinstance(statement, Instruction):
                self._instruction(statement)

    def _instruction(self, instruction: Instruction) -> None:
        opcode = instruction.parts[0]
        if opcode not in _INSIDE and is_of_protocol(instruction):
            problem = f"it has {instruction.opcode}, which is part of a protocol or ends the thread"
            self.refuse(problem, "leave it to the kernel, by nvbackend's own call, and pass what the function computes")
        callee = next((each for each in instruction.operands if isinstance(each, Name)), None)
        if opcode == "call" and (callee is None or self._item(callee) is None):
            self.refuse("it calls a function by its address", "call the function by its name in the source")
        for operand in instruction.operands:
            for name in names_in(operand):
                item = self._item(name)
                if opcode == "call" and name is callee:
                    self.function(name.text)
                elif item is not None:
                    self._use(item)
        self.performed += [each for each in effects_of_lanes_and_memory(instruction) if _is_seen(each)]

    def _item(self, name: Name) -> Item | None:
        """What a name means, where it is a function or a variable of the module."""
        known = self.known.get(name.text)
        declared = self.names.of.get(name.position)
        is_module = isinstance(declared, Function) or declared is known
        return known if known is not None and is_module else None


def _is_called(function: Function) -> bool:
    return not function.is_entry and function.body is not None


def _is_seen(effect: TextEffect) -> bool:
    return not effect.space.startswith(_OWN_MEMORY)


def _hidden(item: Item) -> Item:
    """Without its linkage, so that no other module sees it, and without places in a source that is not there."""
    if isinstance(item, Variable):
        return replace(item, linkage="")
    assert item.body is not None
    return replace(item, linkage="", body=_without_places(item.body))


def _without_places(block: Block) -> Block:
    return replace(block, statements=tuple(_kept(block.statements)))


def _kept(statements: tuple[Statement, ...]) -> Iterator[Statement]:
    for each in statements:
        if isinstance(each, Block):
            yield _without_places(each)
        elif not isinstance(each, Loc):
            yield each


def _refuse(function: str, problem: str, advice: str) -> NoReturn:
    FOREIGN.fail(function=function, problem=problem, advice=advice)
