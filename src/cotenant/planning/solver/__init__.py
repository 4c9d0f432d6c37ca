"""Groups of units on devices at the least cost: enumeration, column generation, and blocks of it at scale."""
