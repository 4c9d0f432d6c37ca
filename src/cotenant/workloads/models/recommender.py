"""Recommenders. Table sizes: the categories of the Criteo Kaggle click data, as in the paper's own evaluation."""

from cotenant.workloads.models.entry import Architecture, ModelEntry

DLRM = Architecture("cotenant.workloads.models.networks", "DlrmConfig", {"score": "Dlrm"})

CRITEO_ROWS = (
    *(1_460, 583, 10_131_227, 2_202_608, 305, 24, 12_517, 633, 3, 93_145, 5_683, 8_351_593, 3_194),
    *(27, 14_992, 5_461_306, 10, 5_652, 2_173, 4, 7_046_547, 18, 15, 286_181, 105, 142_572),
)
"""Rows of the 26 tables."""
MINI_LARGEST = 65_536
"""Rows of the small sibling's largest table: its tables together still exceed a core's own caches."""

DEFAULT_SKEW = 1.05
"""Exponent of the Zipf law of row accesses."""
DEFAULT_LOOKUPS = 1
"""Rows accessed per table and item."""

RECOMMENDERS: tuple[ModelEntry, ...] = (
    ModelEntry(
        name="dlrm",
        family="recommender",
        about="DLRM with the 26 tables of Criteo Kaggle, width 16, dot interaction, Zipf access",
        architecture=DLRM,
        config={"tables": CRITEO_ROWS, "width": 16, "dense": 13, "bottom": (512, 256, 64), "top": (512, 256)},
        mini={"tables": tuple(min(rows, MINI_LARGEST) for rows in CRITEO_ROWS), "bottom": (128, 64), "top": (128, 64)},
        params=540_677_217,
        counted="tables and both networks; the paper rounds it to 540M",
        source="arXiv:1906.00091, section 5, and the table sizes of its Criteo Kaggle data",
    ),
)
