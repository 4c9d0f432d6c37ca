"""The database: measurements of all machines, keyed by GPU, as a folder of Parquet files.

```
DATABASE/
  index.json       its files and their sources; replaced atomically, never edited in place
  measurements/    a row per measurement of a workload on a GPU
  readings/        a row per sensor reading
  partial/         work in progress, never part of the database
  lock             exclusive while the index changes, shared while queries run
```
"""
