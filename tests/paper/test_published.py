"""The published numbers, as printed."""

from lggd.paper.published import BASELINES, PUBLISHED, Published


def test_table_of_the_paper() -> None:
    assert len(PUBLISHED) == 12 * 5 - 1
    assert ("05", "pubmed") not in PUBLISHED
    assert PUBLISHED["01", "cora"] == Published(74.13, 2.08)
    assert PUBLISHED["05", "computers"] == Published(83.03, 0.50)
    assert PUBLISHED["10", "photo"] == Published(92.39, 2.11)
    assert PUBLISHED["12", "citeseer"] == Published(66.57, 1.26)
    assert {row for row, _ in PUBLISHED} == set(BASELINES) | {"08", "09", "10"}
