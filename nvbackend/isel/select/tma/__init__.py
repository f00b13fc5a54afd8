"""TMA tensor copies: the request, its rules, the selector."""
