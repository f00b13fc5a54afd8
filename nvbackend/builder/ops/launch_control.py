"""Clusters taken over from the launch: clusterlaunchcontrol."""

from __future__ import annotations

from nvbackend.builder.core.instructions import issue, result
from nvbackend.builder.core.memory import Address
from nvbackend.builder.core.noun import Noun
from nvbackend.builder.values.carried import DRAWN, over_tiles
from nvbackend.builder.values.values import Value
from nvbackend.diagnostics import user_facing
from nvbackend.intrinsics.row.types import u32, u64
from nvbackend.intrinsics.sync import launch_control
from nvbackend.isel.target.target import variant


@user_facing
class LaunchControl(Noun):
    """Taking over clusters that have not started yet: clusterlaunchcontrol (PTX ISA 9.7.13)."""

    __noun__ = "launch_control"
    __usual__ = "try_cancel"

    def try_cancel(self, answer: Address, barrier: Address, *, multicast: bool = False) -> None:
        """clusterlaunchcontrol.try_cancel: ask for the work of a cluster that has not started.

        The 16 bytes of `answer` complete on `barrier`; with `multicast`, in every CTA of the cluster. Raises
        mbarrier.address, target.feature.
        """
        issue(self._k, launch_control.try_cancel(multicast=multicast), destination=answer, barrier=barrier)

    def canceled_cluster(self, answer: Address) -> tuple[Value, list[Value]]:
        """The answer of `try_cancel`: whether it returned a cluster, and ctaid x, y, z (u32) of its first CTA.

        The coordinates are undefined without one.
        """
        over_tiles(self._k.regions, DRAWN)
        halves = answer.cast(u64).load(2)
        got = result(self._k, launch_control.is_canceled(), answer=halves)
        first = issue(self._k, launch_control.first_ctaid(), answer=halves)["ctaid"]
        return got, [self._k.wrap(coordinate, u32) for coordinate in first[: len(launch_control.AXES)]]

    def canceled_coordinate(self, answer: Address, axis: str) -> Value:
        """The answer of `try_cancel`: ctaid (u32) along `axis` of the cluster's first CTA, if it returned one.

        Raises instruction.variant, target.feature. PTX ISA 9.7.13 (clusterlaunchcontrol.query_cancel).
        """
        row = variant("clusterlaunchcontrol.query_cancel", launch_control.first_ctaid_on, axis)
        return result(self._k, row, answer=answer.cast(u64).load(2))
