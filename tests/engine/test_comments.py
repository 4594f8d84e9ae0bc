"""The comments of a class's fields."""

from __future__ import annotations

from dataclasses import dataclass

from overseer.engine.models import field_comments


def test_a_comment_above() -> None:
    class Fields:
        # Above.
        a: int

    assert field_comments(Fields) == {"a": "Above."}


def test_several_lines_above_are_one_text() -> None:
    class Fields:
        # One
        #   two.
        a: int

    assert field_comments(Fields) == {"a": "One two."}


def test_a_comment_beside() -> None:
    class Fields:
        a: int  # Beside a.
        b: int = 3  # Beside b.

    assert field_comments(Fields) == {"a": "Beside a.", "b": "Beside b."}


def test_a_string_below() -> None:
    class Fields:
        a: int
        """Below,
        in two lines."""
        b: int

    assert field_comments(Fields) == {"a": "Below, in two lines."}


def test_all_three_together() -> None:
    class Fields:
        # Above,
        a: int = 1  # beside,
        """below."""

    assert field_comments(Fields) == {"a": "Above, beside, below."}


def test_a_comment_after_a_blank_line_belongs_to_nobody() -> None:
    class Fields:
        # A heading.

        a: int

    assert field_comments(Fields) == {}


def test_a_comment_beside_one_field_is_not_above_the_next() -> None:
    class Fields:
        a: int  # Beside a.
        b: int

    assert field_comments(Fields) == {"a": "Beside a."}


def test_the_class_s_own_docstring_is_nobody_s() -> None:
    class Fields:
        """The class."""

        a: int

    assert field_comments(Fields) == {}


def test_comments_inside_methods_do_not_count() -> None:
    class Fields:
        a: int

        def method(self) -> None:
            # Not a field.
            a: int = 1
            print(a)

    assert field_comments(Fields) == {}


def test_fields_of_base_classes_count_and_can_be_said_anew() -> None:
    class Base:
        a: int  # Base's a.
        b: int  # Base's b.

    class Derived(Base):
        b: int  # Derived's b.
        c: int  # Derived's c.

    assert field_comments(Derived) == {
        "a": "Base's a.",
        "b": "Derived's b.",
        "c": "Derived's c.",
    }


def test_a_decorator_is_no_hindrance() -> None:
    @dataclass(
        frozen=True,
    )
    class Fields:
        a: int = 0  # Beside.

    assert field_comments(Fields) == {"a": "Beside."}


def test_a_text_that_is_not_indented_is_no_hindrance() -> None:
    class Fields:
        a: str = """
text at the margin
"""  # Beside.
        b: int = 0  # After.

    assert field_comments(Fields) == {"a": "Beside.", "b": "After."}


def test_comments_for_tools_are_not_for_people() -> None:
    class Fields:
        a: int = 0  # pragma: no branch
        b: int = 0  # Beside, in C#.  # pragma: no cover

    assert field_comments(Fields) == {"b": "Beside, in C#."}


def test_a_class_without_a_source_has_none() -> None:
    names: dict[str, type] = {}
    exec("class Fields:\n    # Above.\n    a: int\n", {"__name__": "nowhere"}, names)
    assert field_comments(names["Fields"]) == {}


def test_a_built_in_class_has_none() -> None:
    assert field_comments(int) == {}
