"""wmma: the requests, their rules, the selector."""
