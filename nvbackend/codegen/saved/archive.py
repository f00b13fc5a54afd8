"""The file of a saved kernel: a zip of texts and bytes that are not compressed, whose comment is its own checksum.

Any program that reads zip files shows what is in it. The checksum is compared before anything else is looked at.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Mapping

_DATE = (1980, 1, 1, 0, 0, 0)
"""The same kernel gives the same bytes."""
_MARK = b"nvbackend kernel sha256 "
_DIGITS = 2 * hashlib.sha256().digest_size
_ZIP = b"PK\x03\x04"


class NotWhole(ValueError):
    """Bytes that are not what `packed` made."""


def packed(members: Mapping[str, bytes]) -> bytes:
    """The bytes of a file with these members."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        archive.comment = _MARK + b"0" * _DIGITS
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name, _DATE), content)
    content = buffer.getvalue()[:-_DIGITS]
    return content + hashlib.sha256(content).hexdigest().encode()


def unpacked(data: bytes) -> dict[str, bytes]:
    """The members of a file, by name. Raises NotWhole, and nothing else."""
    content, checksum = data[:-_DIGITS], data[-_DIGITS:]
    if not content.endswith(_MARK):
        if data.startswith(_ZIP) and _MARK[: len(_MARK) // 2] not in data[-2 * _DIGITS :]:
            raise NotWhole("it has no checksum at its end: it was cut off, or another program wrote it")
        raise NotWhole("it is empty" if not data else "it was damaged, or is a file of another kind")
    if hashlib.sha256(content).hexdigest().encode() != checksum:
        raise NotWhole("its bytes do not have the checksum at its end")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return {member.filename: _content(archive, member) for member in archive.infolist()}
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, RuntimeError, EOFError) as error:
        raise NotWhole(f"its members cannot be read: {error}") from None


def _content(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    if member.compress_type != zipfile.ZIP_STORED:
        raise NotWhole(f"{member.filename} is compressed")
    return archive.read(member)
