"""What holds along the control flow of a finished function: a folder for each protocol, with its rules."""
