"""mma.sync: the request, its rules, the selector."""
