"""What the dry run of finished kernels is held to: right and wrong pipelines in the styles that people write."""
