from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.assets.fetch import fetch_all


def test_one_download_for_all_members_of_an_archive(index: Any, stocked: str) -> None:
    base = "package:toy==1.0/toy/{}#sha256=" + stocked
    wanted = [base.format("data/words.txt"), base.format("data/deep"), base.format("data/words.txt")]
    done = fetch_all(wanted)
    assert [d.reference for d in done] == wanted[:2]
    assert all(d.downloaded and not d.error for d in done)
    assert [d.size for d in done] == [8, 6]
    assert len(index.downloads) == 1
    again = fetch_all(wanted)
    assert [d.path for d in again] == [d.path for d in done]
    assert not any(d.downloaded for d in again)
    assert len(index.downloads) == 1


def test_failures_are_reported_and_do_not_stop_the_others(index: Any, stocked: str, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"123")
    good = f"package:toy==1.0/toy/data#sha256={stocked}"
    bad = [
        f"package:toy==1.0/toy/date#sha256={stocked}",
        "package:toy==2.0/x#sha256=" + "0" * 64,
        "no.such",
        "nonsense",
    ]
    done = {d.reference: d for d in fetch_all([*bad, good, f"file:{tmp_path}/x", f"file:{tmp_path}/y"])}
    assert done[good].path is not None
    assert done[f"file:{tmp_path}/x"].size == 3
    assert all(done[b].path is None and done[b].error for b in [*bad, f"file:{tmp_path}/y"])
    assert "did you mean toy/data or" in done[bad[0]].error
    assert len(index.downloads) == 1


@pytest.mark.slow
def test_the_whole_catalogue_for_real() -> None:
    """200 MB from the index that this machine's pip is configured with."""
    from harness.assets import catalogue

    assert [d.error for d in fetch_all(catalogue())] == [""] * len(catalogue())
