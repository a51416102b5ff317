"""Tasks: functions that a queue's items call. A thin layer over ``consume`` and the client of the sidecar.

    app = App("mail")

    @app.task(retries=3, retry_delay=60)
    def send_email(to: str, subject: str) -> None: ...

    send_email.enqueue("ann@example.com", subject="Hello")

``python -m claimq.tasks MODULE:app`` works on them. docs/tasks.md describes it.
"""

from __future__ import annotations

from claimq.handler_verdicts import Fail, Later, Requeue
from claimq.tasks.app import App
from claimq.tasks.handler import current_item
from claimq.tasks.task import Task

__all__ = ["App", "Fail", "Later", "Requeue", "Task", "current_item"]
