"""Barriers, mbarriers and groups of the simulator."""
