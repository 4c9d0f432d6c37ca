"""Terminal tables and sentences."""
