"""The machine form: functions of selected instructions, their packed words, and both as text."""
