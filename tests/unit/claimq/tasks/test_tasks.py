"""Tasks without a server: what is enqueued, and what an item does when it is handled."""

import asyncio
import importlib.metadata
import inspect
import json
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any, cast

import pytest

import claimq
from claimq import Fail, Item, NewItem, Requeue
from claimq.tasks import App, Task, current_item
from claimq.testing import make_item

app = App("mail")
sent: list[tuple[Any, ...]] = []


@pytest.fixture(autouse=True)
def nothing_sent() -> None:
    sent.clear()


@app.task
def send(to: str, subject: str = "Hello", *, copies: int = 1) -> int:
    sent.append((to, subject, copies))
    return copies


@app.task(name="mail.digest", retries=2, retry_delay=60)
async def digest(of: list[str]) -> None:
    await asyncio.sleep(0)
    if not of:
        raise OSError("no network")
    sent.append((current_item().id, *of))


@app.task(retries=1)
def refuse(how: str) -> None:
    raise {"fail": Fail("not this one", delay=5), "requeue": Requeue(delay=7)}[how]


def handled(payload: object, **fields: Any) -> None:
    work = app.handle(make_item(payload, **fields))
    if work is not None:

        async def finish() -> None:
            await work

        asyncio.run(finish())


def verdict(payload: object, **fields: Any) -> Fail:
    with pytest.raises(Fail) as raised:
        handled(payload, **fields)
    return raised.value


def test_a_task_called_directly_is_the_function() -> None:
    assert send("ann", copies=2) == 2
    assert inspect.unwrap(send) is send.function
    assert sent == [("ann", "Hello", 2)]


def test_an_item_has_the_name_and_the_arguments_as_json() -> None:
    hour = timedelta(hours=1)
    options: dict[str, Any] = {
        "id": "1",
        "client": "ann",
        "delay": 60,
        "priority": "high",
        "key": "k",
    }
    options |= {"deadline": hour, "max_requeues": 9}
    item = send.options(**options).item("ann", copies=2)
    call = {"task": "send", "args": ["ann"], "kwargs": {"copies": 2}}
    assert item == NewItem(call, **options)
    assert send.item("ann").id is None


def test_an_item_calls_its_task() -> None:
    handled(send.item("ann", "Hi", copies=3))
    handled(digest.item(["a", "b"]), id="x")
    assert sent == [("ann", "Hi", 3), ("x", "a", "b")]
    with pytest.raises(LookupError):
        current_item()


def test_another_producer_may_leave_out_empty_arguments() -> None:
    handled('{"task": "send", "kwargs": {"to": "ann"}}')
    assert sent == [("ann", "Hello", 1)]


def test_fields_of_a_later_release_are_ignored() -> None:
    handled('{"task": "send", "args": ["ann"], "trace": {"id": 1}, "version": 2}')
    assert sent == [("ann", "Hello", 1)]


def test_arguments_are_checked_before_they_are_enqueued() -> None:
    broken: Any = send
    with pytest.raises(TypeError, match="send: missing a required argument: 'to'"):
        broken.item()
    with pytest.raises(TypeError, match=r"argument 1 of send cannot be sent as JSON .*set"):
        broken.item({"ann"})
    with pytest.raises(ValueError, match="argument copies of send cannot be sent as JSON"):
        broken.item("ann", copies=float("nan"))
    with pytest.raises(TypeError, match=r"argument 1 .*the key '7' of a dict is int, not text.*text as keys"):
        broken.item([{"by id": {7: "ann"}}])


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("delay", "send.enqueue(...)"),
        ("apply_async", "send.options(delay=...).enqueue(...)"),
        ("s", "send.item(...)"),
        ("retry", "raise Fail(why, delay=...)"),
        ("request", "current_item()"),
    ],
)
def test_a_method_of_celerys_tasks_is_answered_with_the_one_to_call(name: str, instead: str) -> None:
    with pytest.raises(AttributeError, match=re.escape(f"a task has no {name}; write {instead}")):
        getattr(send, name)
    assert not hasattr(send, "__deepcopy__")


def test_another_name_of_an_option_is_answered_with_the_right_one() -> None:
    wrong: Any = send
    with pytest.raises(TypeError, match=r"an item has no option countdown; did you mean delay\?"):
        wrong.options(countdown=60)
    with pytest.raises(TypeError, match=r"an item has no option prio; did you mean priority\?"):
        wrong.options(prio="high")
    with pytest.raises(
        TypeError, match=r"send: .*'countdown'; options of the item: send.options\(...\).enqueue"
    ):
        wrong.enqueue("ann", countdown=60)
    for option, meant in {"max_retries": "retries", "retry_dely": "retry_delay"}.items():
        with pytest.raises(TypeError, match=rf"a task has no option {option}; did you mean {meant}\?"):
            app.task(**cast("dict[str, Any]", {option: 3}))


def test_the_library_has_its_version() -> None:
    assert claimq.__version__ == importlib.metadata.version("claimq")


def takes_any(*names: str) -> None: ...
def takes_two(to: str, subject: str = "", /) -> None: ...
def needs_copies(to: str, *, copies: int) -> None: ...
def takes_options(to: str, **options: int) -> None: ...


@pytest.mark.parametrize(
    ("function", "counts"),
    [
        (takes_any, [0, 1, 2, 3]),
        (takes_two, [1, 2]),
        (needs_copies, []),
        (takes_options, [1]),
        (print, [0, 1, 2, 3]),
    ],
)
def test_a_task_takes_as_many_arguments_as_its_function(
    function: Callable[..., None], counts: list[int]
) -> None:
    task = App("q").task(function)

    def is_taken(count: int) -> bool:
        try:
            task.item(*("x" * count))
        except TypeError:
            return False
        return True

    assert [count for count in range(4) if is_taken(count)] == counts


@pytest.mark.parametrize(
    ("payload", "why"),
    [
        ("\udcff".encode("utf-8", "surrogatepass"), "it is not JSON"),
        ("[1]", "it is not an object"),
        ("{}", "task is not a string"),
        ('{"task": "send", "args": {}}', "args is not a list"),
        ('{"task": "send", "kwargs": []}', "kwargs is not an object"),
        ('{"task": "send", "arguments": []}', "argument: 'to'; its field 'arguments' was ignored"),
        ('{"task": "sen\\nd"}', r"there is no task 'sen\nd'; the worker has: mail.digest, refuse, send"),
        ('{"task": "send"}', "send: missing a required argument: 'to'"),
        ('{"task": "send", "args": ["ann"], "kwargs": {"cc": 1}}', "send: got an unexpected keyword"),
    ],
)
def test_a_payload_that_calls_no_task_fails_permanently(payload: str | bytes, why: str) -> None:
    error = verdict(payload)
    assert why in error.error
    assert error.permanent


def test_an_exception_is_a_failure_until_the_retries_are_used_up() -> None:
    errors = [verdict(digest.item([]), fail_count=count) for count in range(3)]
    assert [(error.permanent, error.delay) for error in errors] == [(False, 60), (False, 60), (True, 60)]
    assert errors[0].error == "OSError: no network"
    assert isinstance(errors[0].__cause__, OSError)
    assert errors[0].detail.endswith("in digest")
    assert "handler.py" not in errors[0].detail


def test_without_retries_of_its_own_an_exception_is_the_policys() -> None:
    @app.task(name="broken")
    def broken() -> None:
        raise OSError("no network")

    with pytest.raises(OSError, match="no network"):
        handled(broken.item(), fail_count=99)


def test_a_task_may_raise_its_own_verdict() -> None:
    first, last = (verdict(refuse.item("fail"), fail_count=count) for count in (0, 1))
    assert (first.error, first.permanent, first.delay) == ("not this one", False, 5)
    assert last.permanent
    with pytest.raises(Requeue) as raised:
        handled(refuse.item("requeue"), fail_count=99)
    assert raised.value.delay == 7


def nothing(_: Item) -> None:
    pass


@pytest.mark.parametrize(
    ("define", "error", "why"),
    [
        (lambda: app.task(name="send")(nothing), ValueError, "has a task 'send'; give another"),
        (lambda: app.task(retries=-1), ValueError, "retries is -1"),
        (lambda: app.task(retry_delay=-1), ValueError, "retry_delay is -1"),
        (lambda: App("a b"), ValueError, "queue name"),
        (lambda: send.options(id=""), ValueError, "item id"),
        (lambda: send.options(deadline=cast("Any", 60)), TypeError, "give a datetime.timedelta from now"),
        (lambda: send.options(deadline=timedelta(-1)), ValueError, "deadline is"),
        (lambda: send.options(max_requeues=-1), ValueError, "max_requeues is -1"),
        (lambda: send.options(priority="urgent"), ValueError, "give one of: high, normal, low"),
    ],
)
def test_a_wrong_definition_is_refused(
    define: Callable[[], Task[..., Any]], error: type[Exception], why: str
) -> None:
    with pytest.raises(error, match=why):
        define()


async def test_enqueue_refuses_to_block_an_event_loop() -> None:
    with pytest.raises(RuntimeError, match="write await enqueue_async"):
        send.enqueue("ann")


def test_the_payload_is_what_other_languages_read() -> None:
    assert json.loads(make_item(send.item("ann")).payload) == {"task": "send", "args": ["ann"], "kwargs": {}}
