"""The first rounds of a loop, each followed separately, with what is in flight and what is waited for in it."""
