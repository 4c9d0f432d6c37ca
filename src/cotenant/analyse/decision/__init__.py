"""What to do: which mixes may share, how, and what to measure where that is unknown."""

from typing import TYPE_CHECKING

from cotenant.front import front

if TYPE_CHECKING:
    from cotenant.analyse.decision.answer import Answer, MixChoice, decide
    from cotenant.analyse.decision.option import (
        Kept,
        MeasuredObjective,
        SharingOption,
        mix_name,
        objective_of,
    )
    from cotenant.analyse.decision.remedies import ended, what_would_tell
    from cotenant.analyse.decision.wording import (
        decision_word,
        headline,
        objectives,
        option_sentence,
        slowdowns,
        verdict,
    )
else:
    __getattr__, __dir__ = front(__name__, __file__)
