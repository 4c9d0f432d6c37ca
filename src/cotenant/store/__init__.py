"""The run folder: Parquet files and a manifest, DuckDB views over any number of runs.

```
RUN/
  manifest.json      what was measured, where and with what; replaced as a whole, never edited in place
  trials/000012/     one Parquet file per table that has rows; appears in one atomic rename
  partial/           work in progress; whatever is left there was never part of the run
```
"""
