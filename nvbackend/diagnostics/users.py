"""The user's line, for languages that keep it."""

from __future__ import annotations

from nvbackend.diagnostics.boundary import user_facing
from nvbackend.diagnostics.location import Location, caller_location


@user_facing
def user_line() -> Location:
    """The line of the user's program that runs; lines of packages that say that they are plumbing are passed.

    A language keeps it with what the user made there: for `at` of a rule's `fail`, and `k.location(line)`.
    """
    return caller_location() or Location("<unknown>", 1, "")
