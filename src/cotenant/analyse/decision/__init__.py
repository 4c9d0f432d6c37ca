"""What to do: which mixes may share, how, and what to measure where that is unknown."""

from cotenant.analyse.decision.answer import Answer, MixChoice, decide
from cotenant.analyse.decision.option import MeasuredObjective, SharingOption, TenantInOption

__all__ = ["Answer", "MeasuredObjective", "MixChoice", "SharingOption", "TenantInOption", "decide"]
