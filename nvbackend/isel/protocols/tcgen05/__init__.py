"""What a whole function that uses tcgen05 must keep."""
