"""What several threads compute together: reductions and scans of a warp, a CTA, a cluster."""
