"""The first sentences about a run: its study's main finding, or else the recommendation."""

from collections.abc import Sequence

from cotenant.analyse.decision import Answer
from cotenant.analyse.decision.wording import headline, missed_alone
from cotenant.analyse.dvfs import Sweep
from cotenant.analyse.findings.clocks import clock_findings
from cotenant.analyse.findings.knee import load_findings
from cotenant.analyse.findings.members import Apart, member_findings
from cotenant.analyse.findings.stages import StageShare, stage_findings
from cotenant.analyse.sharing.summary import Summary


def opening(
    answer: Answer,
    summary: Summary,
    *,
    sweeps: Sequence[Sweep] = (),
    members: Sequence[Apart] = (),
    stages: Sequence[StageShare] = (),
) -> list[str]:
    """The finding for this kind of study; a study of who may share opens with the decision."""
    found = (
        member_findings(members) or clock_findings(sweeps) or load_findings(answer, summary) or stage_findings(stages)
    )
    return [*found, *missed_alone(answer)] if found else headline(answer)
