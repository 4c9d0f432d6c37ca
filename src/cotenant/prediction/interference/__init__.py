"""How much tenants slow each other down: a closed-form prior, corrected by what was measured, with intervals."""
