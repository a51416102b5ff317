"""The alerts fire when they should, as promtool replays histories of series."""

from pathlib import Path

import pytest

from testkit import tiers
from testkit.repository.chart import FOLDER
from testkit.repository.prometheus import programs, promtool
from testkit.servers import debian

ALERTS = FOLDER / "files/alerts.yaml"
HISTORIES = Path(__file__).parent / "alerts_test.yaml"


@pytest.fixture(autouse=True)
def promtool_is_there() -> None:
    try:
        programs()
    except debian.PackageMissing as error:
        tiers.skip_missing(f"promtool: {error}")


def test_promtool_accepts_the_rules() -> None:
    checked = promtool("check", "rules", "--lint-fatal", ALERTS)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "SUCCESS: 12 rules found" in checked.stdout


def test_each_alert_fires_when_it_should_and_only_then(tmp_path: Path) -> None:
    histories = tmp_path / "alerts_test.yaml"
    text = HISTORIES.read_text()
    histories.write_text(text.replace("rule_files: [ALERTS]", f"rule_files: [{ALERTS}]"))
    checked = promtool("test", "rules", histories)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_each_alert_has_a_history_in_which_it_fires() -> None:
    text = HISTORIES.read_text()
    names = {line.split()[-1] for line in ALERTS.read_text().splitlines() if "- alert:" in line}
    assert {name for name in names if f'alertname="{name}"' in text} == names
