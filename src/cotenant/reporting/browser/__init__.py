"""A folder of runs in a browser: a small web server that reads, and nothing else."""
