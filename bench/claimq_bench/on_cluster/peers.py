"""What others take for the same, to be shown beside the figures. Not measured here: see bench/benchmarks.md."""

AFTER_A_KILL = (
    ("sidekiq (basic fetch), huey, taskiq with lists", "the item is lost"),
    ("streaq, bullmq, saq with retries", "61 to 76 s"),
    ("asynq; celery with a visibility timeout of 30 s", "101 s"),
    ("arq", "309 s"),
    ("taskiq with streams, rq with retries", "631 s, 810 s"),
    ("celery", "3,602 s"),
)
"""One worker killed with -9, a new one started at once: until the item was started again."""

FROM_ZERO = (
    ("KEDA", "0 to 30 s, 15 on average: it asks the list's length each pollingInterval (30 s)"),
    ("Kubernetes' HPA", "not from zero; its period is 15 s"),
)
"""By their documentation, with defaults: until the first worker is asked for."""
