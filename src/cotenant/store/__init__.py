"""The run folder: Parquet files and a manifest, DuckDB views over any number of runs.

```
RUN/
  manifest.json      what was measured, where and with what, with its checksum; replaced atomically
  trials/000012/     a Parquet file per table that has rows, and their seal; appears in an atomic rename
  damaged/           trials that no longer matched their seal when the run was resumed
  partial/           work in progress, never part of the run
```
"""
