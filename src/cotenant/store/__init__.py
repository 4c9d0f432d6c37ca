"""The run folder: Parquet files and a manifest, DuckDB views over any number of runs."""
