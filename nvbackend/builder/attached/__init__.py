"""`attach`: the calls on a function that another compiler owns, and what is known of the function's other code."""
