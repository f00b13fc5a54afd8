"""Mistakes around the groups of cp.async."""

from __future__ import annotations

from tests.mutations.mutation import Mutation


class ReadCopiesBeforeTheWait(Mutation):
    """no wait for the groups of cp.async"""

    found_by = ("async-copy.read-before-wait",)

    def cp_async_wait_group(self, pending=None):
        self.change()


class LeaveOneCopyMore(Mutation):
    """leave one group of cp.async more in flight"""

    found_by = ("async-copy.read-before-wait",)

    def cp_async_wait_group(self, pending=None):
        self.change()
        self.right.cp_async.wait_group((pending or 0) + 1)


class CopiesOfNoGroup(Mutation):
    """no commit of the groups of cp.async"""

    found_by = ("async-copy.read-before-wait",)

    def cp_async_commit_group(self):
        self.change()
