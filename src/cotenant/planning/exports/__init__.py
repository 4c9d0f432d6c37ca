"""A plan as the configuration of other tools. What a tool can't express is refused by name, with one that can."""
