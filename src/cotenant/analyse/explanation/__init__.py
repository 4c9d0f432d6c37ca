"""Why a run came out as it did: what binds each tenant, what mixes fight over, who suffers from whom."""
