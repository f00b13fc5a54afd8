"""The rows that order threads and tell them apart: barriers, mbarriers, clusters, warps, special registers."""
