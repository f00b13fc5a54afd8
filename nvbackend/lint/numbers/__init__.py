"""What integer code computes: bounds along the control flow, or each thread's number, and the words touched with it."""
