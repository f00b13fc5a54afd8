"""Programs that read as the algorithm. One new idea each."""
