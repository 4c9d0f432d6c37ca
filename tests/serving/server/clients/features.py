"""Tries features of a client and prints what became of each, as JSON; imported by the scripts beside it."""

import json
import sys

REFUSALS = ("isn't supported", "has no option", "has no /v1/responses", "isn't available")


class Features:
    """The features of one client. Decorate a function to try one; it fails by raising.

    What isn't ``offered`` has to be refused by name.
    """

    def __init__(self, client):
        self.client = client
        self.found = {}

    def __call__(self, name, *, offered=True):
        def run(function):
            try:
                function()
            except Exception as error:  # noqa: BLE001 - whatever a client raises is its outcome
                text = " ".join(str(error).split())
                refused = not offered and any(part in text for part in REFUSALS)
                self.found[name] = "refused" if refused else f"fails: {type(error).__name__}: {text[:300]}"
            else:
                self.found[name] = "works" if offered else "fails: it was ignored"
            return function

        return run

    def report(self):
        """Print the outcomes."""
        sys.stdout.write(json.dumps({"client": self.client, "features": self.found}) + "\n")


def expect(condition, about=""):
    """Raise unless something holds."""
    if not condition:
        raise AssertionError(f"not as expected: {about}")
