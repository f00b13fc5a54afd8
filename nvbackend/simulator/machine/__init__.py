"""The machine: PTX functions compiled to closures, and waves of CTAs whose threads run them."""
