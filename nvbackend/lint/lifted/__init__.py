"""The text of a function in the machine form: each instruction with its row, its registers and its line."""
