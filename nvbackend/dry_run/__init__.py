"""Executes a finished kernel on its own control values, with data unknown, and judges its protocols as they run."""
