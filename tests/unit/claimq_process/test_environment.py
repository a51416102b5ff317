"""Settings from environment variables: read as they are, or named with what to write instead."""

from collections.abc import Callable

import pytest

from claimq_process.environment import Environment, InvalidSettings

Read = Callable[[Environment], object]
VARIABLES = {
    "WORD": " some text ",
    "BLANK": "  ",
    "COLOUR": "GREEN",
    "YES": "True",
    "PORT": "65535",
    "COUNT": "1000",
    "TIME": "1m30s",
    "SIZE": "1Ki",
}


READ: list[tuple[Read, object]] = [
    (lambda one: one.text("WORD"), "some text"),
    (lambda one: one.text("BLANK"), None),
    (lambda one: one.text("ABSENT"), None),
    (lambda one: one.choice("COLOUR", ("red", "green"), None), "green"),
    (lambda one: one.choice("BLANK", ("red", "green"), "red"), "red"),
    (lambda one: one.boolean("YES", default=False), True),
    (lambda one: one.boolean("BLANK", default=True), True),
    (lambda one: one.port("PORT", 80), 65535),
    (lambda one: one.port("BLANK", 80), 80),
    (lambda one: one.whole("COUNT", None, least=1, most=1000), 1000),
    (lambda one: one.whole("BLANK", None, least=1, most=1000), None),
    (lambda one: one.duration("TIME", None), 90.0),
    (lambda one: one.duration("BLANK", 5.0), 5.0),
    (lambda one: one.size("SIZE", 1, least="1Ki"), 1024),
    (lambda one: one.size("BLANK", 1, least="1Ki"), 1),
]
REFUSED: list[tuple[str, Read, str]] = [
    ("blue", lambda one: one.choice("X", ("red", "green"), None), 'X: is "blue"; give one of red, green'),
    ("yes", lambda one: one.boolean("X", default=False), 'X: is "yes"; give true or false'),
    (
        "65536",
        lambda one: one.port("X", 80),
        'X: is "65536"; give a port from 1 to 65535, or 0 for any that is free',
    ),
    (
        "9" * 5000,
        lambda one: one.port("X", 80),
        f'X: is "{"9" * 5000}"; give a port from 1 to 65535, or 0 for any that is free',
    ),
    (
        "0",
        lambda one: one.whole("X", 1, least=1, most=9),
        'X: is "0"; give a whole number from 1 to 9',
    ),
    (
        "1.5",
        lambda one: one.whole("X", None, least=1, most=9),
        'X: is "1.5"; give a whole number from 1 to 9, or omit it for no limit',
    ),
    ("2s", lambda one: one.duration("X", 5.0, at_least=3.0), 'X: is "2s"; give at least 3s'),
    (
        "0s",
        lambda one: one.duration("X", None, at_least=0.001),
        'X: is "0s"; give at least 1ms, or omit it for no limit',
    ),
    ("5", lambda one: one.duration("X", 5.0), 'X: "5" has no unit; write "5s" for seconds, or use'),
    ("1023", lambda one: one.size("X", 1, least="1Ki"), 'X: is "1023"; give at least 1Ki'),
    ("1mb", lambda one: one.size("X", 1, least="1Ki"), 'X: "1mb" is not a size; write "1Mi"'),
]


@pytest.mark.parametrize(("read", "value"), READ)
def test_what_is_set_is_read_and_what_is_not_has_its_default(read: Read, value: object) -> None:
    variables = Environment(VARIABLES)
    assert read(variables) == value
    variables.end()


@pytest.mark.parametrize(("text", "read", "problem"), REFUSED)
def test_what_is_wrong_is_reported_with_what_to_write_instead(text: str, read: Read, problem: str) -> None:
    variables = Environment({"X": text})
    read(variables)
    (found,) = variables.problems
    assert found.startswith(problem)


def test_all_problems_come_together_in_the_order_of_reading() -> None:
    variables = Environment({"A": "x", "B": "y"})
    variables.port("B", 1)
    variables.boolean("A", default=True)
    with pytest.raises(InvalidSettings) as caught:
        variables.end()
    assert [problem.partition(":")[0] for problem in caught.value.problems] == ["B", "A"]
    assert str(caught.value) == "\n".join(caught.value.problems)
