"""What is passed to a launch, as the driver takes it: arrays of any library and numbers, and what must hold of them."""
