"""Tests of what comes before griddepcontrol.wait."""
