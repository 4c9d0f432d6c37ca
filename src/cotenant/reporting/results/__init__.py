"""What each result says, as elements: the terminal, the page and Markdown all render these."""

from typing import TYPE_CHECKING

from cotenant.front import front

if TYPE_CHECKING:
    from cotenant.reporting.results.batch_sizes import NOTE, batch_elements
    from cotenant.reporting.results.calibrated import calibrated_elements, predicted_elements
    from cotenant.reporting.results.compared import compared_elements, compared_markdown
    from cotenant.reporting.results.copied import copies_elements
    from cotenant.reporting.results.explained import explanation_elements, explanation_screen, metric_elements
    from cotenant.reporting.results.measured import answer_screen, measured_elements, measured_markdown
    from cotenant.reporting.results.planned import job_elements, moves_elements, plan_elements, plan_page
    from cotenant.reporting.results.predicted import prediction_elements, prediction_page
    from cotenant.reporting.results.profiled import profile_elements, profile_page
    from cotenant.reporting.results.promised import check_elements, judged_elements
    from cotenant.reporting.results.searched import search_elements, search_file_elements, search_page
    from cotenant.reporting.results.varied import (
        added_elements,
        anomaly_elements,
        contents_elements,
        gpu_elements,
        gpus_elements,
        pair_elements,
        sensor_elements,
        trend_elements,
    )
    from cotenant.reporting.results.watched import (
        explained_elements,
        live_parts,
        watched_elements,
        watched_markdown,
        watched_page,
    )
else:
    __getattr__, __dir__ = front(__name__, __file__)
