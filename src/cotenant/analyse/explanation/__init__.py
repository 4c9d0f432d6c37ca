"""Why a run came out as it did: what limits each tenant, what mixes contend for, and who slows whom."""
