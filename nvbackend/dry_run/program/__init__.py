"""The finished function as what a dry run executes: the slice that branches and recorded instructions need."""
