"""A session in a live process that hotlap did not start: the report stays here."""

from types import TracebackType
from typing import ClassVar

from hotlap.core.protocol import ProfilePayload, decode
from hotlap.core.spec import Spec
from hotlap.seam.wire import Wire


class _LocalWire(Wire):
    """Keeps the messages that a session would send."""

    def __init__(self) -> None:
        super().__init__("")
        self.messages: dict[str, dict[str, object]] = {}

    def send(self, kind: str, **fields: object) -> None:
        """Keep the last message of a kind."""
        self.messages[kind] = fields

    def receive(self) -> None:
        """Nobody gives orders."""


class LocalSession:
    """A session from entering to leaving a `with` block; one in a process."""

    current: ClassVar["LocalSession | None"] = None

    def __init__(self, spec: Spec) -> None:
        from hotlap.seam.session import Session

        self._session = Session(spec)
        self._wire = _LocalWire()
        self._session.wire = self._wire

    def __enter__(self) -> "LocalSession":
        self._session.enter()
        LocalSession.current = self
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        LocalSession.current = None
        self._session.undo.close()

    @property
    def payload(self) -> ProfilePayload | None:
        """The profile's payload, if there is one."""
        fields = self._wire.messages.get("profile")
        return decode(ProfilePayload, fields) if fields else None

    @property
    def problem(self) -> str:
        """What went wrong in hotlap, if something did."""
        return str(self._wire.messages.get("broken", {}).get("error", ""))
