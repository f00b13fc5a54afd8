"""From a request to a row: a folder for each family, with its request, its rules and its selector."""
