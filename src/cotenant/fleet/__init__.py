"""Many machines: studies and plans on Ray, which places actors and detects lost nodes. The only user of ray."""
