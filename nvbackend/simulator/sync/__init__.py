"""Objects that order threads: mbarriers, named and cluster barriers, groups of asynchronous operations.

They hold state and say what is wrong; the instructions that use them are in `calls`.
"""
