"""What helps to find mistakes: prints, assertions and traps of a kernel."""
