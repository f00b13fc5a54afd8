"""What a worker and the process that started it say to each other: lines among those of the tool."""

from __future__ import annotations

import sys
from enum import Enum
from typing import NamedTuple

MARK = "@sanitizer"
"""What each line of a worker begins with."""


class Step(Enum):
    """How far a problem is: all but the first two are its end."""

    BEGUN = "begun"
    LAUNCHED = "launched"
    RIGHT = "right"
    WRONG = "wrong"
    RAISED = "raised"


class Line(NamedTuple):
    """A step of a problem, and what there is to say about it."""

    step: Step
    name: str
    text: str = ""


def say(step: Step, name: str, text: str = "") -> None:
    """Print it at once."""
    sys.stdout.write("\t".join((MARK, step.value, name, " ".join(text.split()))) + "\n")
    sys.stdout.flush()


def read(text: str) -> Line | None:
    """The line of a worker, None where it is of something else."""
    mark, *parts = text.rstrip("\n").split("\t")
    return Line(Step(parts[0]), *parts[1:]) if mark == MARK else None
