"""The registry of right kernels and of the mistakes that are made in them, one at a time.

A scene is a right kernel whose build-time constant `mistake` names one of its mistakes, or a variant that is right too;
without it the kernel is right. So a wrong kernel and its right one differ by one branch of Python.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import nvbackend as nvb
from tests.dry_run.kinds import KINDS


@dataclass(frozen=True)
class Out:
    """An argument that the kernel writes: zeros at first, `expected` at the end, or `tolerance` of the largest off."""

    expected: np.ndarray[Any, Any]
    tolerance: float = 0.0
    begins: Any = 0
    """What it holds before."""

    def fresh(self) -> np.ndarray[Any, Any]:
        made = np.empty_like(self.expected, order="C")
        made[...] = self.begins
        return made

    def is_right(self, found: np.ndarray[Any, Any]) -> bool:
        if not self.tolerance:
            return bool(np.array_equal(found, self.expected))
        off = np.abs(found.astype(np.float64) - self.expected)
        return bool(off.max() <= self.tolerance * np.abs(self.expected).max())


@dataclass(frozen=True)
class Launch:
    """A launch: the grid, and the arguments in order: arrays, numbers, and `Out`."""

    grid: int | tuple[int, ...]
    arguments: tuple[Any, ...]


@dataclass(frozen=True)
class Mistake:
    """A mistake: its kind (`KINDS`) and what is wrong, in a sentence."""

    kind: str
    what: str


@dataclass(frozen=True)
class Scene:
    """A right kernel, the launches that show it, and its mistakes by name.

    `why` says what looks wrong in it and is not, `variants` the same of other right ways to write it, by name.
    """

    style: str
    kernel: nvb.KernelDefinition
    launches: Callable[[], Sequence[Launch]]
    mistakes: Mapping[str, Mistake]
    why: str
    variants: Mapping[str, str]

    @property
    def name(self) -> str:
        return self.kernel.__name__


@dataclass(frozen=True)
class Case:
    """A kernel: the scene as it is, with one mistake, or written in another right way."""

    scene: Scene
    change: str | None = None

    @property
    def name(self) -> str:
        return self.scene.name + (f"[{self.change}]" if self.change else "")

    @property
    def wrong(self) -> Mistake | None:
        return self.scene.mistakes.get(self.change or "")

    def build(self, **options: Any) -> nvb.FinishedKernel:
        """Build it: raises what is found wrong with it. `options` are those of the kernel's `build`."""
        given = {"mistake": self.change} if self.change else {}
        return self.scene.kernel.build(**given, **options)


_SCENES: list[Scene] = []


def scene(
    style: str,
    launches: Callable[[], Sequence[Launch]],
    why: str = "",
    variants: Mapping[str, str] | None = None,
    **mistakes: Mistake,
) -> Callable[[nvb.KernelDefinition], nvb.KernelDefinition]:
    """Register a kernel with its launches and mistakes, each by the name that it has in the kernel."""
    assert all(mistake.kind in KINDS for mistake in mistakes.values()), mistakes

    def register(kernel: nvb.KernelDefinition) -> nvb.KernelDefinition:
        _SCENES.append(Scene(style, kernel, launches, mistakes, why, variants or {}))
        return kernel

    return register


def scenes() -> list[Scene]:
    """All scenes, style by style."""
    from tests.dry_run import kernels

    assert kernels.STYLES
    return list(_SCENES)


def cases() -> Iterator[Case]:
    """All kernels: each right one, then those with its mistakes."""
    for one in scenes():
        yield Case(one)
        yield from (Case(one, name) for name in (*one.variants, *one.mistakes))
