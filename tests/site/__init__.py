"""The documentation as a site of HTML pages, of docs/ and the package: `python -m tests.site FOLDER`, with Sphinx."""
