"""Every mutation, every kernel, and the table of what becomes of them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Sequence

from nvbackend.builder.kernel.definition import KernelDefinition
from samples import (
    ada_gemm,
    ampere_gemm,
    blackwell_gemm,
    consumer_blackwell_gemm,
    dynamic_gemm,
    hopper_gemm,
    turing_gemm,
)
from tests.mutations.mutation import Mutation, Verdict, may_apply, verdict
from tests.support import protocol_kernels
from tests.support.process import ROOT

KERNELS: dict[str, KernelDefinition] = {
    "turing_gemm": turing_gemm.gemm,
    "ampere_gemm": ampere_gemm.gemm,
    "ada_gemm": ada_gemm.gemm,
    "hopper_gemm": hopper_gemm.gemm,
    "dynamic_gemm": dynamic_gemm.gemm,
    "blackwell_gemm": blackwell_gemm.gemm,
    "consumer_blackwell_gemm": consumer_blackwell_gemm.gemm,
    "register_operand": protocol_kernels.register_operand,
    "ordinary_stores": protocol_kernels.ordinary_stores,
    "tensor_memory": protocol_kernels.tensor_memory,
    "shared_depth": protocol_kernels.shared_depth,
    "equal_shares": protocol_kernels.equal_shares,
}
HEADER = """\
# Mutations

<!-- Made by `pytest tests/mutations --update-golden`. -->

Each row is one mistake, made alone in correct kernels: the samples, and small kernels of single operations and of sums
of several CTAs (`tests/support/protocol_kernels.py`). A cell holds the rules that find the mistake before the kernel
runs ([rules.md](rules.md)). `-` means that the kernel has nothing that the mistake changes; words in parentheses say
why nothing is reported.
"""
ABSENT, PENDING = "-", "(pending)"
Cell = Callable[[str, type[Mutation]], str]


def name_of(mutation: type[Mutation]) -> str:
    """What the mistake is called."""
    return inspect.getdoc(mutation) or mutation.__name__


@functools.cache
def outcome(kernel: str, mutation: type[Mutation]) -> Verdict:
    """What becomes of the kernel with the mutation; it is built where it has anything that the mutation changes."""
    if not may_apply(KERNELS[kernel], mutation):
        return Verdict(applies=False, diagnostics=())
    return verdict(KERNELS[kernel], mutation)


def cell(kernel: str, mutation: type[Mutation]) -> str:
    """A cell of the table: the rules, `-` where the kernel has nothing to change, or why nothing is said."""
    found = outcome(kernel, mutation)
    if not found.applies:
        return ABSENT
    if kernel in mutation.pending:
        return PENDING
    if kernel in mutation.unseen:
        return f"({mutation.because})"
    return ", ".join(f"`{rule}`" for rule in found.rules)


def noted() -> dict[tuple[str, str], str]:
    """The cells of docs/mutations.md, by the mistake and the kernel."""
    lines = (ROOT / "docs" / "mutations.md").read_text(encoding="utf-8").splitlines()
    (_, *kernels), _, *rows = [
        [each.strip() for each in line.strip("|").split("|")] for line in lines if line.startswith("|")
    ]
    return {(name, kernel): each for name, *cells in rows for kernel, each in zip(kernels, cells, strict=True)}


def document(mistakes: Sequence[type[Mutation]], cell: Cell = cell) -> str:
    """The table as Markdown, docs/mutations.md, with the text of each cell.

    Raises ValueError for a mistake that is made in no kernel, and for a cell that would be empty: such a table looks
    as if it said something.
    """
    return "\n".join([HEADER, *_lines(mistakes, cell)]) + "\n"


def _row(mutation: type[Mutation], cell: Cell) -> list[str]:
    cells = [cell(kernel, mutation) for kernel in KERNELS]
    if set(cells) == {ABSENT}:
        raise ValueError(f"{name_of(mutation)!r} is made in no kernel")
    if "" in cells:
        unsaid = ", ".join(kernel for kernel, text in zip(KERNELS, cells, strict=True) if not text)
        raise ValueError(f"nothing is said of {name_of(mutation)!r} in {unsaid}")
    return cells


def _lines(mistakes: Sequence[type[Mutation]], cell: Cell) -> Iterator[str]:
    yield f"| mistake | {' | '.join(KERNELS)} |"
    yield f"| --- |{' --- |' * len(KERNELS)}"
    for mutation in mistakes:
        yield f"| {name_of(mutation)} | {' | '.join(_row(mutation, cell))} |"
