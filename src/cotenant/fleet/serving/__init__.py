"""A plan served by the devices of a cluster. Ray carries placement, health and changes; requests go over HTTP."""
