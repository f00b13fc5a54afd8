"""The command line: what there is, where it is legal, and what it does. One module for each command."""

from nvbackend.cli.program import main

__all__ = ["main"]
