"""Enqueues jobs with RQ. Usage: python rq_jobs.py HOST:PORT"""

import json
import platform
import sys
from datetime import UTC, datetime
from importlib.metadata import version

from redis import Redis
from rq import Queue, Retry
from rq.serializers import JSONSerializer

host, port = sys.argv[1].split(":")
connection = Redis(host, int(port))
mails = Queue("mails", connection=connection)
first = mails.enqueue("shop.send_mail", "ann@example.com", subject="Grüße", job_id="mail-1")
mails.enqueue("shop.send_mail", "bob@example.com", job_timeout=30, meta={"by": "test"}, retry=Retry(max=3))
mails.enqueue("shop.send_mail", "front@example.com", at_front=True, job_id="mail-3")
mails.enqueue("shop.send_mail", "has a space", job_id="mail_4")
mails.enqueue_at(
    datetime.fromtimestamp(4_000_000_000, UTC), "shop.send_mail", "later@example.com", job_id="mail-5"
)
mails.enqueue("shop.send_mail", "after@example.com", depends_on=first, job_id="mail-6")
in_json = Queue("numbers", connection=connection, serializer=JSONSerializer)
in_json.enqueue("shop.add", 1, 2, job_id="sum-1")
print(json.dumps({"python": platform.python_version(), "rq": version("rq"), "redis": version("redis")}))
