"""What people see: terminal, HTML pages, figures, and runs in a browser."""
