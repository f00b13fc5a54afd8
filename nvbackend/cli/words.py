"""The packed words of tensor-core instructions that `nvbackend decode` and `nvbackend encode` know."""

from __future__ import annotations

import argparse
import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn

from nvbackend.cli import rules
from nvbackend.diagnostics import Diagnostic, one_of
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.copy import tensor_map_word
from nvbackend.intrinsics.copy.tensor_map_word import TensorMapWord
from nvbackend.intrinsics.words import smem_descriptor, tcgen05_control, tcgen05_descriptor
from nvbackend.intrinsics.words.bitfield import PackedWord
from nvbackend.intrinsics.words.smem_descriptor import SmemDescriptor
from nvbackend.intrinsics.words.tcgen05_control import SEED_KINDS, Tcgen05Collector, Tcgen05Ctrl
from nvbackend.intrinsics.words.tcgen05_descriptor import FORMS, InstructionDescriptor, Tcgen05SmemDescriptor
from nvbackend.tileiras import descriptor as tileiras
from nvbackend.tileiras.descriptor import TileirasDescriptor


@dataclass(frozen=True)
class Format:
    """A word that can be read and written: its class, the fields of its bits by kind, and what makes it useless."""

    cls: type[Any]
    word: Callable[[str | None], PackedWord]
    has_kind: bool = False
    faults: Callable[[Any], Iterable[Diagnostic]] = lambda _: ()

    def decode(self, word: int, kind: str | None) -> Any:
        """The object of a word. Raises descriptor.* for bits that mean nothing."""
        return self.cls.decode(word, kind) if self.has_kind else self.cls.decode(word)


def _faults_of_map(word: TensorMapWord) -> Iterable[Diagnostic]:
    from nvbackend.runtime.tensor_map import check_word

    return check_word("word", word)


FORMATS: Mapping[str, Format] = {
    "wgmma-desc": Format(SmemDescriptor, lambda _: smem_descriptor.WORD),
    "umma-desc": Format(Tcgen05SmemDescriptor, lambda _: tcgen05_descriptor.SMEM_WORD),
    "idesc": Format(InstructionDescriptor, lambda kind: FORMS[str(kind)].word, has_kind=True),
    "tcgen05-control": Format(Tcgen05Ctrl, lambda _: tcgen05_control.CONTROL_WORD),
    "collector": Format(Tcgen05Collector, lambda _: tcgen05_control.COLLECTOR_WORD),
    "tensor-map": Format(TensorMapWord, lambda _: tensor_map_word.WORD, faults=_faults_of_map),
    "tileiras-desc": Format(TileirasDescriptor, lambda _: tileiras.WORD),
}
"""The words by the names that the command line has for them."""


def add_format(parser: argparse.ArgumentParser) -> None:
    """The arguments that say which word is meant."""
    parser.add_argument("format", metavar="FORMAT", help=f"one of {', '.join(FORMATS)}")
    parser.add_argument("--kind", metavar="KIND", help=f"of an idesc: {', '.join(FORMS)}")


def chosen(arguments: argparse.Namespace) -> tuple[Format, str | None]:
    """The word that is meant, and its kind where it has one. Raises cli.word."""
    form = FORMATS.get(arguments.format)
    if form is None:
        fail(f"there is no word called {arguments.format!r}", nearest(arguments.format, FORMATS))
    if form.has_kind and arguments.kind is None:
        fail(f"what the bits of an {arguments.format} mean depends on the kind", f"add --kind {' | '.join(FORMS)}")
    if arguments.kind is not None and not form.has_kind:
        fail(f"a {arguments.format} has no kind", "leave --kind out")
    if arguments.kind is not None and arguments.kind not in FORMS:
        fail(f"there is no kind {arguments.kind!r}", nearest(arguments.kind, FORMS))
    return form, arguments.kind


def fail(problem: str, fix: str) -> NoReturn:
    """Raise cli.word."""
    rules.WORD.fail(problem=problem, fix=fix)


def nearest(wrong: str, known: Sequence[str] | Mapping[str, Any]) -> str:
    """The fix for a name that is not known."""
    parts = [name for name in known if name in wrong.split("-")]
    return f"did you mean {parts[0]}? Otherwise {one_of(wrong, known)}" if parts else one_of(wrong, known)


def number(text: str, what: str, example: str = "1024 or 0x400") -> int:
    """The number that `text` writes as Python does. Raises cli.word, with an example of `what`."""
    try:
        return int(text, 0)
    except ValueError:
        fail(f"{text!r} is not a number", f"write {what} as {example}")


def joined(parts: Sequence[str], bits: int) -> int:
    """The word of `bits` bits that `parts` write: as one number, or piece by piece from its lowest bits on.

    Raises cli.word.
    """
    if bits % len(parts):
        fail(f"{len(parts)} numbers do not make {bits} bits", "give one number, or pieces of one size, lowest first")
    size = bits // len(parts)
    word = 0
    for place, text in enumerate(parts):
        piece = number(text, "the word")
        if len(parts) > 1 and not 0 <= piece < 1 << size:
            fail(f"{text} is not a number of {size} bits", f"{len(parts)} numbers have {size} bits each")
        word |= piece << size * place
    return word


def shown(name: str, value: Any) -> Any:
    """The value of a field as it is printed, and as `encode` reads it."""
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, bool):
        return "yes" if value else "no"
    if name == "mma_kind":
        return SEED_KINDS[value]
    if name == "other":
        return hex(value)
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return value if isinstance(value, int) else str(value)
