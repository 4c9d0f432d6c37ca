"""How good predictions of interference are: tenants, families and groups that the evidence doesn't hold."""
