"""Dataclasses, made in a part of the time, and shown in a line."""
