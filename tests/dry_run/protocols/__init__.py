"""The protocols of a dry run, driven by steps made by hand."""
