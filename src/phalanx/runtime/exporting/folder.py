"""The folder of an export: what is written there is written down, and a file of somebody else's is left alone."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

from phalanx.errors import Error

LISTING = ".phalanx_export.json"
"""Files that exports wrote into a folder, each with the hash of what was written."""


class ExportFolder:
    """A folder that exports are written to; several may share it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.known = _listed(path / LISTING)

    def claim(self, names: Iterable[str]) -> None:
        """Raises `px.Error` unless each of these files is absent or as an export left it."""
        for name in names:
            file = self.path / name
            if not file.exists() and not file.is_symlink():
                continue
            if not file.is_file() or file.is_symlink() or self.known.get(name) != _hash(file.read_bytes()):
                what = "was changed since px.export wrote it" if name in self.known else "was not written by px.export"
                raise Error(
                    f"{file} {what}: it is not overwritten", remedy="export to another folder, or move the file away"
                )

    def write(self, name: str, content: str | bytes) -> str:
        """Writes a file that may be claimed, and gives its name."""
        self.claim([name])
        file = self.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)
        return self.record(name)

    def record(self, name: str) -> str:
        """Writes down that a file, as it is now, is the export's, and gives its name."""
        self.known[name] = _hash((self.path / name).read_bytes())
        listing = json.dumps(dict(sorted(self.known.items())), indent=1) + "\n"
        (self.path / LISTING).write_text(listing, encoding="utf-8")
        return name


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _listed(file: Path) -> dict[str, str]:
    """What a folder's listing says; nothing where it has none that can be read."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return {name: mark for name, mark in found.items() if isinstance(mark, str)} if isinstance(found, dict) else {}
