"""setmaxnreg: what each warpgroup has of the CTA's registers."""
