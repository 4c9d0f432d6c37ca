"""The answer as plain data: every choice with its verdict and sentence, and the effect of each way to share."""

from typing import Any

from cotenant.analyse.decision.answer import Answer
from cotenant.analyse.decision.choice import Choice
from cotenant.analyse.decision.option import Option
from cotenant.analyse.decision.wording import headline, mix_name, verdict, what_would_tell


def in_words(answer: Answer) -> dict[str, Any]:
    """`{"headline": [...], "missed_alone": [...], "choices": [...]}`, most important first."""
    return {
        "headline": headline(answer),
        "missed_alone": [one.tenant for one in answer.missed_alone],
        "choices": [_choice(one) for one in answer.choices],
    }


def _choice(choice: Choice) -> dict[str, Any]:
    return {
        "mix": mix_name(choice.best.standings),
        "verdict": choice.verdict,
        "because": choice.because,
        "sentence": verdict(choice),
        "what_would_tell": what_would_tell(choice) if choice.verdict == "open" else None,
        "options": [_option(one) for one in choice.options],
    }


def _option(option: Option) -> dict[str, Any]:
    return {
        **option.cell.to_json(),
        "work": option.work,
        "objectives": option.kept,
        "headroom": option.headroom if option.objectives else None,
        "trusted": option.trusted,
        "tenants": option.standings,
    }
