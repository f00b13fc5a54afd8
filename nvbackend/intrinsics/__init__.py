"""What the hardware can do: pure tables of machine instruction rows, element types, features and packed words."""
