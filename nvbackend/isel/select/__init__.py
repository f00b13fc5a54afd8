"""From a request to a row: the rules on each choice, with a folder for each family that has requests."""
