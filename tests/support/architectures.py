"""One model of each architecture: sizes of one family share their code, and a test of the code needs one of them."""


def one_of_each(entries):
    """The first model of each architecture, in the catalogue's order."""
    first = {}
    for entry in entries:
        code = entry.architecture
        first.setdefault((code.module, code.config, *sorted(code.classes.items())), entry)
    return list(first.values())
