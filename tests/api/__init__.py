"""What is public, and docs/api.md, the page that says so."""
