"""Faster, slower or the same as before: two runs, or a history of runs."""

from typing import TYPE_CHECKING

from cotenant.front import front

if TYPE_CHECKING:
    from cotenant.analyse.comparison.environment import changes_over_time, differences, forbids
    from cotenant.analyse.comparison.history import (
        FEWEST_RUNS,
        History,
        compare_history,
        history_sentences,
        mostly_valid,
    )
    from cotenant.analyse.comparison.pair import PairComparison, RowChange, compare_pair
    from cotenant.analyse.comparison.sentences import comparison_sentences, row_name, row_reason
else:
    __getattr__, __dir__ = front(__name__, __file__)
