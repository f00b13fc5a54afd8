"""What the evaluator knows of values, and what is asked of it."""
