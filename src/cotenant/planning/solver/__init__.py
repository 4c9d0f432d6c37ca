"""Place groups of units on devices at the least cost: enumeration, column generation, and blocks at scale."""
