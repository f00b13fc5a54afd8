"""A text of PTX as a kernel of its own: read, and assembled by ptxas where one is installed."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from nvbackend.codegen.ptxas import run_ptxas
from nvbackend.codegen.toolchain import find_ptxas, locate
from nvbackend.isel.target.target import Target, dotted
from nvbackend.ptx import parse, resolve
from nvbackend.ptx.rules import SYNTAX
from nvbackend.ptx.syntax import Block, Statement, Variable

_WHOLE = """.version {version}
.target {target}
.address_size 64
.visible .entry statement() {{
{registers}
{{
{text}
}}
ret;
}}
"""
_AFTER = 1
"""The statements of that kernel after the text."""


def whole_text(text: str, registers: Iterable[str], target: Target) -> str:
    """A kernel of these declarations and this text."""
    return _WHOLE.format(
        version=dotted(target.ptx_version), target=target.name, registers=" ".join(registers), text=text
    )


def statements_of(whole: str, source: str) -> tuple[Statement, ...]:
    """The statements of the text in such a kernel. Raises ptx.syntax and ptx.undeclared, naming `source`."""
    module = parse(whole, source)
    resolve(module)
    body = module.kernels["statement"].body
    assert body is not None
    text, *rest = [each for each in body.statements if not isinstance(each, Variable)]
    if not isinstance(text, Block) or len(rest) != _AFTER:
        shown = f": {source} closes a brace that it did not open"
        SYNTAX.fail(column=1, found="'}'", expected="a statement", text=shown, printed="")
    return text.statements


@lru_cache(maxsize=1024)
def check_assembled(whole: str, target: Target) -> None:
    """Raises what ptxas has against a kernel; nothing where no ptxas is installed."""
    if locate("ptxas") is not None:
        run_ptxas(whole, target, find_ptxas(), opt_level=0, register_limit=None)
