"""Elements as one HTML page without network access."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from cotenant import __version__
from cotenant.reporting.elements import (
    DataTable,
    Drawing,
    Element,
    Facts,
    Remark,
    Section,
    Sentence,
    Sentences,
    TableCell,
    drawings,
)
from cotenant.reporting.html.assets import columnar, embedded_json, environment, markup, policy, resource, scripts

if TYPE_CHECKING:
    from jinja2 import Environment

KINDS: dict[type, str] = {
    Section: "section",
    Remark: "remark",
    Sentence: "sentence",
    Sentences: "sentences",
    Facts: "facts",
    DataTable: "table",
    Drawing: "drawing",
}


def page(
    elements: Sequence[Element], *, title: str, brand: str, simulated: str = "", when: str = "", links: str = ""
) -> str:
    """The complete page.

    Args:
        elements: Its contents; sections are in the navigation.
        title: What it is about.
        brand: The command that wrote it.
        simulated: What a model computed, for the badge; empty if everything was measured.
        when: When and where it was measured.
        links: HTML of navigation links to put on top.
    """
    figures = drawings(elements)
    texts = [*(scripts() if figures else ()), resource("templates", "copy.js")]
    data = {
        "figures": {
            figure.name: {"spec": figure.spec, "margin": figure.margin} | columnar(figure.rows) for figure in figures
        },
        "mixes": {},
        "mix_specs": {},
    }
    return (
        template_environment()
        .get_template("result.html.j2")
        .render(
            title=title,
            brand=brand,
            simulated=simulated,
            when=when,
            links=markup(links),
            version=__version__,
            policy=policy(texts),
            style=markup(resource("templates", "report.css")),
            scripts=[markup(text) for text in texts],
            data=markup(embedded_json(data)) if figures else "",
            elements=elements,
            sections=[element for element in elements if isinstance(element, Section)],
        )
    )


def fragment(elements: Sequence[Element]) -> Any:
    """Elements inside another page."""
    drawn: Any = template_environment().get_template("elements.html.j2").module
    return drawn.render(elements)


def template_environment() -> "Environment":
    """The templates, which ask for the kind of an element."""
    made = environment()
    made.globals["kind_of"] = kind_of
    made.tests["cell"] = lambda value: isinstance(value, TableCell)
    return made


def kind_of(element: Element) -> str:
    """`section`, `sentence`, `remark`, `sentences`, `table` or `drawing`."""
    return KINDS[type(element)]
