"""The tests of nvbackend, in the folders of what they test."""
