"""The smallest wrong program of rules of the dry run, and the same with what its fix says: nothing else differs."""
