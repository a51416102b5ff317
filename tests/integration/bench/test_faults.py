"""`make faults` runs a row of its table, prints it, and exits with 0 when its promises are kept."""

import pytest

from claimq_faults.program import main


def test_a_row_of_the_fault_table_is_run_and_kept(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--rounds", "1", "valkey", "| single | always | none |", "disk full"]) == 0
    *_, row = capsys.readouterr().out.splitlines()
    *case, stored = [cell.strip() for cell in row.split("|")][1:7]
    *counts, _, verdict = [cell.strip() for cell in row.split("|")][7:14]
    assert case == ["Valkey 9", "single", "always", "none", "disk full"]
    assert (int(stored.replace(",", "")) >= 300, counts, verdict) == (True, ["0"] * 5, "kept")


def test_words_that_no_row_contains_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["no such row"])
    assert "no row contains all of these words" in capsys.readouterr().err
