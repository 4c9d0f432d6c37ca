"""When requests come: arrival schedules and pacing."""
