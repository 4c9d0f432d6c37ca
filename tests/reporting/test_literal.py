"""Names are text, never control sequences for the terminal."""

from hypothesis import given
from hypothesis import strategies as st

from cotenant.text import literal


def test_ordinary_names_stay_as_they_are():
    for name in ("bert-mini#2", "größe 2", "模型", "[red]x[/red]", "<b>&amp;"):
        assert literal(name) == name


def test_escapes_and_direction_marks_are_escaped():
    assert literal("\x1b[31mred") == "\\x1b[31mred"
    assert literal("a\u202eb") == "a\\u202eb"
    assert literal("two\nlines") == "two\\x0alines"
    assert literal("two\nlines", keep="\n") == "two\nlines"


@given(st.text())
def test_nothing_that_moves_the_cursor_is_left(text):
    assert all(char == " " or char.isprintable() or char.isspace() for char in literal(text))
    assert "\x1b" not in literal(text)
    assert "\n" not in literal(text)
