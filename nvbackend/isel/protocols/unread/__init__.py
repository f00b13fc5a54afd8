"""Work for nothing: products that nothing reads, and groups that nothing is in."""
