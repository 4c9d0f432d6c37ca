"""Output for people: terminal, HTML pages, figures, and runs in a browser."""
