"""A device divided between tenants: a part for each, as the file's `sharing` says."""
