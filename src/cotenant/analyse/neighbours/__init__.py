"""Who slows whom: from the natural variation of tenants that nothing was done to."""
