"""What to do: which mixes may share, how, and what to measure where that is unknown."""

from cotenant.analyse.decision.answer import Answer, decide
from cotenant.analyse.decision.choice import Choice
from cotenant.analyse.decision.objective import MeasuredObjective
from cotenant.analyse.decision.option import Option, TenantInOption

__all__ = ["Answer", "Choice", "MeasuredObjective", "Option", "TenantInOption", "decide"]
