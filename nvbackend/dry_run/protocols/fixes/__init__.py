"""What to write so that two accesses are ordered: by who makes them, and what these wait for."""
