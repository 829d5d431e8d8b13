"""Forces one tier for a test, or skips it where this machine has none of it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from hotlap.core.errors import UsageError
from hotlap.core.spec import Tier
from hotlap.isolation import tiers
from hotlap.isolation.tiers import FORCED, isolation


@pytest.fixture
def force(monkeypatch: pytest.MonkeyPatch) -> Callable[[Tier], None]:
    def forced(tier: Tier) -> None:
        monkeypatch.setenv(FORCED, tier)
        tiers._chosen.cache_clear()
        try:
            isolation(Path.cwd() / ".hotlap" / "scratch")
        except UsageError as error:
            pytest.skip(str(error))

    return forced
