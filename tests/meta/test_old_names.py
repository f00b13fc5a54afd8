"""Every call that a text names exists: `k.mbarrier.wait` and `k.warp.vote`, not `mbarrier_wait` and `k.vote`."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

import nvbackend as nvb
from nvbackend.builder.attached.attach import AttachedBuilder
from nvbackend.builder.core.noun import Noun, nouns
from tests.support.process import ROOT

FLAT = {
    "barriers_ready",
    "mbarriers",
    "tma_commit_stores",
    "tma_wait_stores",
    "bulk_copy_peer",
    "tensor_map_at",
    "prefetch_tensor_map",
    "cp_async_commit",
    "cp_async_wait",
    "store_async",
    "reduce_async",
    "store_async_global",
    "tmem_alloc",
    "increase_registers",
    "decrease_registers",
    "mma_sync",
}
"""Names that were not the noun, an underscore and the call; those are derived."""
OF_OTHERS = {"cache_policy", "cp_async_copy", "mbarriers"}
"""An option of copies, a copy atom, and a plural: they are flat names only after `k.` or as code."""
PAGES = ("README.md", "CONTRIBUTING.md", "docs/*.md")
PROGRAMS = ("nvbackend/**/*.py", "samples/**/*.py", "benchmarks/**/*.py")
OTHER = {
    "docs/rules.md": {"barrier_sync", "value"},
    "docs/divergences.md": {"cubin"},
    "benchmarks/emulation.py": {"ptx", "cubin"},
    "nvbackend/ptx/vocabulary.py": {"mbarrier_init"},
    "nvbackend/simulator/checks/races.py": {"mbarrier_init"},
}
"""What programs break call.unknown with, an object that is called k, files of that name, and modifiers of PTX."""
TEXTS = {tokenize.COMMENT, tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}


def _builder() -> nvb.KernelBuilder:
    return nvb.KernelBuilder("kernel", "sm_100a", threads=128)


def _flat() -> set[str]:
    """Every flat name that is not one of somebody else's."""
    derived = {
        f"{noun}_{call}" for noun, one in nouns(_builder()).items() for call in dir(one) if not call.startswith("_")
    }
    return (derived | FLAT) - OF_OTHERS


TABLE = ROOT / "nvbackend" / "builder" / "core" / "old_calls.py"
"""Where the old names are on purpose."""
WORD = re.compile(rf"(?<![\w.:])(?:{'|'.join(sorted(_flat()))})(?!\w)")
CALL = re.compile(r"(?<![\w.])k\.([a-z]\w*)(?:\.([a-z]\w*))?")


def _texts(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a page; of a program its comments, docstrings and other strings."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        yield from enumerate(text.splitlines(), 1)
        return
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in TEXTS:
            yield from enumerate(token.string.splitlines(), token.start[0])


def _missing(k: nvb.KernelBuilder, line: str) -> Iterator[str]:
    """The calls on `k` in a line that do not exist."""
    for found in CALL.finditer(line):
        name, call = found.groups()
        of_builders = hasattr(k, name) or hasattr(AttachedBuilder, name) or name in AttachedBuilder.__annotations__
        if not of_builders or (call and isinstance(noun := getattr(k, name), Noun) and not hasattr(noun, call)):
            yield found.group().removeprefix("k.")


def _old(path: Path) -> list[str]:
    k, name = _builder(), path.relative_to(ROOT).as_posix()
    return [
        f"{name}:{number}: {word}"
        for number, line in _texts(path)
        for word in (*WORD.findall(line), *_missing(k, line))
        if word not in OTHER.get(name, ())
    ]


def test_no_text_names_a_call_that_does_not_exist() -> None:
    paths = [path for pattern in (*PAGES, *PROGRAMS) for path in sorted(ROOT.glob(pattern)) if path != TABLE]
    assert len(paths) > 400
    assert [found for path in paths for found in _old(path)] == []


@pytest.mark.parametrize(
    "text", ["put `wgmma_fence` here", "k.sqrt(x)", "k.tma.laod", "barriers_ready()", "k.mbarriers"]
)
def test_what_an_old_name_is(text: str) -> None:
    assert WORD.search(text) or list(_missing(_builder(), text))
