"""The command line, one module per command: builds, explains, draws, checks and simulates."""

from nvbackend.cli.program import main

__all__ = ["main"]
