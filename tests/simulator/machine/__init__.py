"""Tests of programs, registers and the scheduler."""
