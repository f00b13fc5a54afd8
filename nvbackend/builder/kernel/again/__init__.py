"""Finds kernels that were compiled before, in any process, by the contents of all that their functions read."""

import time

STARTED_NS = time.time_ns()
"""When this package was imported, with the package around it: what changed later on disk is not what runs."""
