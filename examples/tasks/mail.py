"""The tasks of the example: mail that is sent in the background. `web.py` enqueues them, a worker runs them:

    python -m claimq.tasks mail:app

Instead of a mail server there is a file, $MAIL_OUTBOX or outbox. A line has the item's id, so that readers can ignore a
second one: if a worker dies between the line and the end of its task, the task runs again.
"""

import os
from pathlib import Path

from claimq.tasks import App, Fail, current_item

app = App("mail")


@app.task(retries=2, retry_delay=0.5)
def send_mail(to: str, text: str) -> None:
    """An address that is none is no reason to try again; a file that cannot be written is, twice."""
    if "@" not in to:
        raise Fail(f"{to!r} is no address", permanent=True)
    with Path(os.environ.get("MAIL_OUTBOX", "outbox")).open("a") as outbox:
        outbox.write(f"{current_item().id} {to}: {text}\n")


@app.task
async def invite(addresses: list[str]) -> None:
    """One task for each address. They have ids, so a second attempt adds none of them again."""
    for number, address in enumerate(addresses, start=1):
        mail = send_mail.options(id=f"{current_item().id}.{number}")
        await mail.enqueue_async(address, "You are invited.")
