"""Executes the jobs that `claimq export` wrote, with RQ's own worker, and prints the calls.

Usage: python rq_read.py HOST:PORT
"""

import sys
import types

from redis import Redis
from rq import Queue, SimpleWorker
from rq.registry import ScheduledJobRegistry

shop = types.ModuleType("shop")
shop.send_mail = lambda *words, **named: print("executed", words, named)
sys.modules["shop"] = shop
host, port = sys.argv[1].split(":")
mails = Queue("mails", connection=Redis(host, int(port)))
scheduled = ScheduledJobRegistry(queue=mails)
for name in scheduled.get_job_ids():
    print("scheduled", mails.fetch_job(name).args, scheduled.get_scheduled_time(name))
SimpleWorker([mails], connection=mails.connection).work(burst=True, logging_level="WARNING")
print("failed", mails.failed_job_registry.get_job_ids())
