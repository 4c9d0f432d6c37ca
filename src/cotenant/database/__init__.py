"""Every run of every machine in one place, and what it says of each device over time."""
