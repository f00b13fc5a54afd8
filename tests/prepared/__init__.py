"""The methods of the package's dataclasses that are compiled with it, and the texts that they come from."""
