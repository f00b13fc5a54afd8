"""wgmma: the request, its rules, the selector."""
