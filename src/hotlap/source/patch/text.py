"""Source files as text and back: encoding, byte order mark, line ends and mode are kept."""

import codecs
import contextlib
import io
import os
import shutil
import tempfile
import tokenize
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hotlap.core.errors import UsageError


@dataclass(frozen=True)
class File:
    """One file as it was read; `text` has the file's own line ends."""

    path: Path
    text: str
    encoding: str
    mark: bytes = b""

    @staticmethod
    def read(path: Path) -> "File":
        """Read it.

        Raises:
            UsageError: it is not there, or is not Python in an encoding that is known.
        """
        try:
            content = path.read_bytes()
            encoding, _ = tokenize.detect_encoding(io.BytesIO(content).readline)
            mark = codecs.BOM_UTF8 if content.startswith(codecs.BOM_UTF8) else b""
            encoding = "utf-8" if mark else encoding
            return File(path, content[len(mark) :].decode(encoding), encoding, mark)
        except OSError as error:
            raise UsageError(f"cannot read {path}: {error.strerror}") from None
        except (SyntaxError, UnicodeDecodeError) as error:
            raise UsageError(f"{path} is not Python: {error}") from None

    def content(self, text: str) -> bytes:
        """A new text as the bytes of this file."""
        return self.mark + text.encode(self.encoding)


def write_all(files: Mapping[File, str]) -> None:
    """Replace the text of each file, each in one piece, and none if one of them cannot be.

    Raises:
        UsageError: a file cannot be written, or has changed since it was read.
    """
    ready: list[tuple[Path, Path]] = []
    try:
        for file, text in files.items():
            target = file.path.resolve()
            if target.read_bytes() != file.content(file.text):
                raise UsageError(f"{file.path} has changed meanwhile", "patch it again")
            if not os.access(target, os.W_OK):
                raise UsageError(f"cannot write {file.path}: it is read-only")
            ready.append((_beside(target, file.content(text)), target))
        for fresh, target in ready:
            fresh.replace(target)
    except OSError as error:
        raise UsageError(f"cannot write {error.filename}: {error.strerror}") from None
    finally:
        for fresh, _ in ready:
            with contextlib.suppress(FileNotFoundError):
                fresh.unlink()


def _beside(target: Path, content: bytes) -> Path:
    """The content in a new file next to the target, with the target's mode."""
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    with os.fdopen(handle, "wb") as stream:
        stream.write(content)
    shutil.copymode(target, name)
    return Path(name)
