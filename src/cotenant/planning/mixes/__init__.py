"""Plans for serving tenants: their needs, ways to share a device, and a plan that meets every objective."""
