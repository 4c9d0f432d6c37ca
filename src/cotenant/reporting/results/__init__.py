"""What each result says, as elements: the terminal, the page and Markdown all render these."""
