"""The algebra alone: layouts, and the operations on them."""
