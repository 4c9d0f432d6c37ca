"""The database: what every machine has measured, keyed by GPU, as a folder of Parquet files.

```
DATABASE/
  index.json       which files belong to it and where each came from; replaced as a whole, never edited in place
  measurements/    one row for each measurement of a workload on a GPU
  readings/        one row for each reading of a sensor
  partial/         work in progress; whatever is left there was never part of the database
  lock             held while the index changes, shared while questions are answered
```
"""
