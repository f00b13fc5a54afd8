"""Executes a finished kernel on its own control values, data unknown, so that its protocols are judged as they run."""
