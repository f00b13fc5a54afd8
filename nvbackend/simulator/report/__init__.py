"""What a launch did: instructions, bytes, bank conflicts, waits and overlap, by line of the program, and drawn."""
