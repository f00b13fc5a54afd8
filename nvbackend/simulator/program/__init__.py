"""Programs: PTX functions compiled to blocks of closures, and the scheduler that runs waves of CTAs through them."""
