"""What to do: which mixes may share, how, and what to measure where that is unknown."""

from cotenant.analyse.decision.answer import Answer, decide
from cotenant.analyse.decision.choice import Choice
from cotenant.analyse.decision.objective import Objective
from cotenant.analyse.decision.option import Option, Standing

__all__ = ["Answer", "Choice", "Objective", "Option", "Standing", "decide"]
