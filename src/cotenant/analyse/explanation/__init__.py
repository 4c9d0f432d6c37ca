"""Why a run came out as it did: what limits each tenant, what mixes contend for, and who slows whom."""

from typing import TYPE_CHECKING

from cotenant.front import front

if TYPE_CHECKING:
    from cotenant.analyse.explanation.explanation import Explanation, explain_run
    from cotenant.analyse.explanation.sentences import explanation_sentences, main_sentences, mix_name
else:
    __getattr__, __dir__ = front(__name__, __file__)
