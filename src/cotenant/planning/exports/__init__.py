"""Export a plan as configuration of other tools. What a tool can't express is an error that names a tool that can."""
