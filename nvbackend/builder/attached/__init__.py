"""`attach`: the calls on a function that somebody else owns, and what of its other code is known."""
