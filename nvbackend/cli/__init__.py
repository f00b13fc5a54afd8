"""The command line: lists instructions and targets, explains and draws. One module per command."""

from nvbackend.cli.program import main

__all__ = ["main"]
