"""Which instruction ends LLVM's process: each call of a text is compiled in a function, and a process, of its own."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from nvbackend.codegen.looking.ir_places import nodes_of, place_in
from nvbackend.diagnostics import DiagnosticError, Location
from nvbackend.isel.target.target import Target

_CALL = re.compile(r"^\s*(?:%[^ ]+ = )?(?:tail |musttail |notail )?(call .*)$")
_RESULT = re.compile(r"call (?:(?:fast|nnan|ninf|nsz|arcp|contract|afn|reassoc) )*(.+?) (?:@|asm )")
_SUFFIX = re.compile(r"(?:\s*#\d+)?(?:,\s*![\w.]+ ![\w.]+)*\s*$")
_VALUE = re.compile(r"%[-\w.$]+$|%\"[^\"]*\"$")
_OPEN, _CLOSE = "([{<", ")]}>"
_MOST = 256
"""Calls that are tried."""


def culprit(ir_text: str, target: Target) -> tuple[str, Location | None] | None:
    """The first call that ends the process by itself, and its line; None where none does, or processes do not fork."""
    if not hasattr(os, "fork"):
        return None
    lines = ir_text.splitlines()
    kept = [line for line in lines if line.startswith("declare ") or re.match(r"%.* = type ", line)]
    for call, line in list(_calls(lines))[:_MOST]:
        probe = _function_of(call)
        if probe is not None and _ends_it("\n".join([*map(_plain, kept), probe]), target):
            place = place_in(line, nodes_of(lines))
            return call, None if place is None else Location(*place, "")
    return None


def _calls(lines: list[str]) -> Iterator[tuple[str, str]]:
    """Calls of assembly and intrinsics, each text once, with their lines."""
    seen: set[str] = set()
    for line in lines:
        match = _CALL.match(line)
        call = _SUFFIX.sub("", match[1]) if match is not None else ""
        if (" asm " in call or "@llvm." in call or '@"llvm.' in call) and call not in seen:
            seen.add(call)
            yield call, line


def _plain(line: str) -> str:
    return _SUFFIX.sub("", line)


def _function_of(call: str) -> str | None:
    """A function that makes the call, of its own parameters; None where the text is read otherwise."""
    start = _arguments_at(call)
    if start is None:
        return None
    parameters: list[str] = []
    passed: list[str] = []
    for argument in _split(call[start + 1 : -1]):
        match = _VALUE.search(argument)
        if match is None:
            passed.append(argument)
            continue
        of_type = argument[: match.start()]
        parameters.append(f"{of_type}%p{len(parameters)}")
        passed.append(parameters[-1])
    result = _RESULT.match(call)
    kind = result[1] if result is not None else "void"
    body = f"{'' if kind == 'void' else '%result = '}{call[:start]}({', '.join(passed)})"
    end = "ret void" if kind == "void" else f"ret {kind} %result"  # a value that nobody uses is not selected
    return f"define {kind} @probe({', '.join(parameters)}) {{\n  {body}\n  {end}\n}}\n"


def _arguments_at(call: str) -> int | None:
    """Where the list of arguments begins, which ends the text."""
    depth = 0
    is_quoted = False
    for place in range(len(call) - 1, -1, -1):
        letter = call[place]
        is_quoted = is_quoted != (letter == '"')
        if is_quoted:
            continue
        depth += (letter == ")") - (letter == "(")
        if depth == 0:
            return place if letter == "(" else None
    return None


def _split(text: str) -> Iterator[str]:
    depth = start = 0
    for place, letter in enumerate(text):
        depth += (letter in _OPEN) - (letter in _CLOSE)
        if letter == "," and depth == 0:
            yield text[start:place].strip()
            start = place + 1
    if text.strip():
        yield text[start:].strip()


def _ends_it(text: str, target: Target) -> bool:
    """Whether a compile of the text ends its process."""
    from nvbackend.codegen.llvm import compile_ir

    child = os.fork()
    if child == 0:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        try:
            compile_ir(text, target)
        except DiagnosticError:
            pass
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return status != 0
