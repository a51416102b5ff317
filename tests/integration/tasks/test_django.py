"""docs/howto/django.md: the lines of the page in a project that uWSGI serves and a worker works for."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from claimq.testing import EmbeddedServer
from testkit.programs.processes import Process
from testkit.queues.looking import texts
from testkit.repository.tree import ROOT
from testkit.waiting import PATIENCE, eventually_sync
from testkit.web.unix_http import get

ON_COMMIT, *WORKER = re.findall(r"(?m)^    (.*)", (ROOT / "docs/howto/django.md").read_text())
(COMMAND,) = re.findall(r"`(DJANGO_SETTINGS_MODULE=.*?)`", (ROOT / "docs/howto/django.md").read_text())
FILES = {
    "shop/settings.py": """
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "shop.sqlite3"}}
INSTALLED_APPS = ["shop"]
DEFAULT_AUTO_FIELD = "django.db.models.AutoField"
ALLOWED_HOSTS = ["*"]
ROOT_URLCONF = "shop.urls"
""",
    "shop/models.py": """
from django.db import models

class Order(models.Model):
    receipt = models.TextField(default="")
""",
    "shop/tasks.py": """
from claimq.tasks import App
from django.db import close_old_connections
from shop.models import Order

app = App("receipts")

@app.task
def send_receipt(number):
    close_old_connections()
    assert Order.objects.filter(pk=number).update(receipt="sent") == 1
""",
    "shop/urls.py": f"""
from django.db import transaction
from django.http import HttpResponse
from django.urls import path
from shop.models import Order
from shop.tasks import send_receipt

@transaction.atomic
def place(request, ending):
    order = Order.objects.create()
    {ON_COMMIT}
    if ending == "error":
        raise ValueError("no such article")
    return HttpResponse(str(order.pk))

urlpatterns = [path("place/<ending>", place)]
""",
    "shop/worker.py": "\n".join(WORKER),
    "shop/wsgi.py": "from django.core.wsgi import get_wsgi_application\napplication = get_wsgi_application()\n",
    "shop/table.py": """
import django
django.setup()
from django.db import connection
from shop.models import Order
with connection.schema_editor() as editor:
    editor.create_model(Order)
""",
    "shop/receipts.py": """
import django
django.setup()
from shop.models import Order
print(*Order.objects.values_list("pk", "receipt"))
""",
}


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the project."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("DJANGO_SETTINGS_MODULE", "shop.settings")
    return tmp_path


def run(shop: Path, command: str) -> str:
    words = command.replace("python ", f"{sys.executable} ", 1)
    done = subprocess.run(
        ["bash", "-c", words], cwd=shop, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_an_order_that_is_committed_gets_its_receipt_and_one_that_is_not_gets_none(
    claimq_server: EmbeddedServer, shop: Path
) -> None:
    run(shop, "python -m shop.table")
    uwsgi, place = Path(sys.executable).parent / "uwsgi", shop / "s"
    words: list[str | Path] = [uwsgi, "--master", "--processes", "2", "--need-app", "--die-on-term"]
    words += ["--http-socket", place, "--module", "shop.wsgi"]
    with Process(words, log=shop / "log", cwd=shop, env=dict(os.environ)) as server:
        eventually_sync(place.exists, needs=[server])
        get(place, "/place/error")
        assert claimq_server.queue("receipts").length() == 0
        number = get(place, "/place/commit")
    assert texts(claimq_server.queue("receipts").peek(9)) == [
        f'{{"task":"send_receipt","args":[{number}],"kwargs":{{}}}}'
    ]
    run(shop, f"{COMMAND} --until-empty")
    assert run(shop, "python -m shop.receipts") == f"({number}, 'sent')\n"
