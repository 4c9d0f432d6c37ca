"""Many machines: studies and plans on Ray, which places actors and notices lost nodes; nobody else imports ray."""
