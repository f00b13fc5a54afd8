"""The PTX front end: reading, writing, names, and refusals."""
