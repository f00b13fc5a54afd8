"""The with-blocks that are open, the names of a program's objects, and the rules on both."""
