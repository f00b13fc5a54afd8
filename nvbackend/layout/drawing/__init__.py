"""Drawing grids as SVG."""
