"""The comparison of the plain model with what the server holds."""

from testkit.checkers.comparing import differences
from testkit.checkers.model import QueueModel
from testkit.checkers.model_item import ModelItem
from testkit.checkers.stored import Stored, StoredItem


def delayed(*items: StoredItem) -> Stored:
    return Stored(delayed=[(1500 + n / 100, item) for n, item in enumerate(items)])


def test_items_with_one_id_that_are_due_at_once_are_distinguished_by_their_contents() -> None:
    first = StoredItem("x", 1, "-", {}, b"first", False)
    second = StoredItem("x", 2, "ann", {}, b"second", False)
    other = StoredItem("y", 1, "-", {}, b"other", False)
    model = QueueModel("q", 1000)
    model.delayed = [
        (1500, ModelItem(b"other", "y", "-", 1, batch=1)),
        (1500, ModelItem(b"first", "x", "-", 1, batch=1)),
        (1500, ModelItem(b"second", "x", "ann", 2, batch=2)),
    ]
    before = list(model.delayed)
    for order in ([other, first, second], [second, other, first], [other, second, first]):
        assert not [one for one in differences(model, delayed(*order), 0) if "due at" in one]
    model.delayed = before
    (wrong,) = [one for one in differences(model, delayed(first, second, other), 0) if "due at" in one]
    assert "['y', 'x'] were delayed by one call" in wrong
