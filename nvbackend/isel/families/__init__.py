"""Each family of instructions: what a request says, the rules that it must keep, and the row that it selects."""
