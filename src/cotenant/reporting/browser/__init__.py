"""A folder of runs in a browser: a small read-only web server."""
