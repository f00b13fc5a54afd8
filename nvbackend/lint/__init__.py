"""Other people's PTX: lifted into the machine form, checked against its target and along its control flow."""

from nvbackend.lint.lint import lint

__all__ = ["lint"]
