"""The sentence about clients that delay others, with the command that helps."""

from claimq.limits import Neighbour
from claimq.model import Snapshot
from claimq_control.decide.neighbours_note import neighbours_note
from testkit.kubernetes.kubernetes_objects import snapshot


def note(look: Snapshot) -> str:
    return neighbours_note(look, "claimq limits q")


def test_a_queue_without_such_clients_has_no_sentence() -> None:
    assert note(snapshot(main=3, busy=10)) == ""


def test_the_sentence_names_the_client_what_it_delays_and_the_command() -> None:
    look = snapshot(main=3, busy=10, neighbours=(Neighbour("acme", 0.9, 0.954, 3, 42.4),))
    assert note(look) == (
        "client acme has 90% of the slots and 95% of the time, while 3 others wait, for up to 42 s; limit each client: "
        "claimq limits q set each-client:per=client,busy=5"
    )


def test_several_clients_are_named_in_one_sentence() -> None:
    heavy = (Neighbour("a", 0.5, 0.6, 1, 2.0), Neighbour(None, 0.3, 0.2, 1, 3.0))
    assert note(snapshot(main=3, busy=4, neighbours=heavy)).startswith(
        "client a has 50% of the slots and 60% of the time, no client has 30% of the slots and 20% of the time, while "
        "another client waits, for up to 3 s; limit each client: claimq limits q set each-client:per=client,busy=1"
    )


def test_the_sentence_about_five_long_names_fits_into_a_condition() -> None:
    heavy = tuple(Neighbour(f"{number}" * 128, 0.2, 0.2, 1, 2.0) for number in range(5))
    text = note(snapshot(main=3, busy=10, neighbours=heavy))
    assert len(text) < 900
    assert "2" * 128 in text
    assert "3" * 128 not in text
    assert ", 2 more clients have much too, while " in text


def test_the_limit_is_never_zero() -> None:
    look = snapshot(main=3, busy=1, neighbours=(Neighbour("acme", 1.0, 1.0, 3, 42.4),))
    assert note(look).endswith("each-client:per=client,busy=1")
