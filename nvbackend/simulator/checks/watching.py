"""An observer that does nothing: each check overrides what it looks at."""

from __future__ import annotations

from nvbackend.simulator.events import Access, By, Pending, Sync


class Watching:
    """Every event, passed over."""

    def access(self, access: Access) -> None:
        """Bytes were read or written."""

    def release(self, sync: Sync) -> None:
        """What came before is published under the token."""

    def acquire(self, sync: Sync) -> None:
        """What was published under the token is seen from here on."""

    def fence(self, by: By, kind: str) -> None:
        """A fence."""

    def issued(self, operation: Pending) -> None:
        """An operation is in flight."""

    def completed(self, operation: Pending) -> None:
        """It is done."""

    def waited(self, by: By, what: str) -> None:
        """Threads could not go on."""

    def exited(self, by: By) -> None:
        """Threads ended."""
