"""Fixtures that the tests of formats share."""

from __future__ import annotations

import pytest
from format_tables import FORMATS, Maker


@pytest.fixture(params=FORMATS, ids=lambda maker: maker.name)
def maker(request: pytest.FixtureRequest) -> Maker:
    """Each format in turn."""
    table_maker: Maker = request.param
    return table_maker
