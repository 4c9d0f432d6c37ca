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

from typing import TYPE_CHECKING

from cotenant.front import front

if TYPE_CHECKING:
    from cotenant.store.database.additions import Added, add, add_tables, kept_tables, split_tables
    from cotenant.store.database.database import Database, MeasuredWork, SensorUse
    from cotenant.store.database.from_runs import BITS, CLOCKS
    from cotenant.store.database.index import Source
    from cotenant.store.database.questions import (
        Anomalies,
        Contents,
        GpuStory,
        HeatOf,
        SensorPair,
        StuckSensor,
        all_anomalies,
        compare_named,
        gpu_story,
        heat_fits,
        sensor_lines,
        sensor_pairs,
        stuck_sensors,
        variabilities,
    )
else:
    __getattr__, __dir__ = front(__name__, __file__)
