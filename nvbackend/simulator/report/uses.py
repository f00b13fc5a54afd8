"""What one instruction, or one line of the program, does in a launch: counters that add up."""

from __future__ import annotations

from collections import Counter
from dataclasses import field
from typing import NoReturn

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.simulator.report.banks import Cost
from nvbackend.simulator.rules import NOT_KEPT, REPORT


@dataclass(slots=True)
class Access:
    """Accesses of whole warps to one memory, and what they cost there."""

    requests: int = 0
    """Of a warp each."""
    taken: int = 0
    """Passes over the banks of shared memory, or sectors of global memory."""
    least: int = 0
    """What as many threads or bytes take at best."""

    @property
    def excess(self) -> int:
        """Passes that bank conflicts cost, or sectors that scattered addresses cost."""
        return self.taken - self.least

    def add(self, other: Access | Cost) -> None:
        """And those."""
        self.requests += other.requests
        self.taken += other.taken
        self.least += other.least


@dataclass(slots=True)
class Use:
    """What an instruction, a line or a launch did."""

    threads: int = 0
    """Threads that executed it, counted each time."""
    read: Counter[str] = field(default_factory=Counter)
    written: Counter[str] = field(default_factory=Counter)
    """Bytes by space: global, shared (of the own CTA), distributed (of another CTA of the cluster), tensor, local,
    const, param. An atomic reads and writes."""
    shared: Access = field(default_factory=Access)
    """Of threads to their CTA's shared memory, in passes over the banks; atomics and engines are left out."""
    global_: Access = field(default_factory=Access)
    """Of threads to global memory, in sectors of 32 bytes."""
    waits: int = 0
    """Times that a warp waited."""
    waited: int = 0
    """Steps that warps waited, together."""
    longest: int = 0
    """The longest wait, in steps."""

    def add(self, other: Use) -> None:
        """And that."""
        self.threads += other.threads
        self.read.update(other.read)
        self.written.update(other.written)
        self.shared.add(other.shared)
        self.global_.add(other.global_)
        self.waits += other.waits
        self.waited += other.waited
        self.longest = max(self.longest, other.longest)


class Threads(Use):
    """A `Use` of a launch that was not asked for a report: how many threads there were, and nothing else."""

    __slots__ = ("kernel",)

    def __init__(self, kernel: str, threads: int) -> None:
        self.kernel, self.threads = kernel, threads

    def __repr__(self) -> str:
        return f"<use of {self.kernel}: {self.threads} threads>"

    def __getattr__(self, name: str) -> NoReturn:
        """Raises simulator.report for what was not watched: zeros would say that there was none of it."""
        if name in Use.__slots__:
            REPORT.fail(what=f"`{name}` of a line", kernel=self.kernel, problem=NOT_KEPT, more="")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)


@dataclass(slots=True)
class Engine:
    """The operations of an asynchronous engine."""

    operations: int = 0
    read: Counter[str] = field(default_factory=Counter)
    written: Counter[str] = field(default_factory=Counter)
    """Bytes by space."""
    in_flight: int = 0
    """Steps of CTA 0 in which one or more were in flight."""
    issuing: int = 0
    """Of these, steps in which a warp of the CTA was not waiting."""
    products: int = 0
    """Of these, steps in which a product of the tensor cores was in flight."""
    most: int = 0
    """The most that were in flight at once in CTA 0."""
