"""Checks for what numbers alone do not show: accesses without an order, missing proxy fences, what outlives a CTA.

`watchers(wave)` are the observers of a wave. Each raises the Diagnostic of the first mistake that it sees.
"""

from nvbackend.simulator.checks.rules import ORDER
from nvbackend.simulator.checks.watchers import watchers

__all__ = ["ORDER", "watchers"]
