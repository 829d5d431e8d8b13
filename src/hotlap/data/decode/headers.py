"""What a JPEG's header says, without decoding."""

_START, _END = b"\xff\xd8\xff", b"\xff\xd9"
_SEQUENTIAL = {0xC0, 0xC1}
_FRAMES = set(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_ALONE = {0x01, *range(0xD0, 0xDA)}
_ADOBE = 0xEE


def plain_size(data: bytes) -> tuple[int, int] | None:
    """Return (width, height) of a plain JPEG, and None of everything else.

    Plain is what every decoder takes, those in hardware included: sequential, Huffman-coded, 8 bits
    a component, grey or YCbCr, and with an end. Progressive files are not: nvJPEG decodes them one
    by one, half of it on the CPU.
    """
    if not data.startswith(_START) or data.rfind(_END) < len(data) // 2:
        return None
    at = 2
    while True:
        while data[at : at + 2] == b"\xff\xff":  # fill bytes
            at += 1
        if at + 4 > len(data) or data[at] != 0xFF or data[at + 1] in _ALONE:
            return None
        marker, length = data[at + 1], int.from_bytes(data[at + 2 : at + 4], "big")
        body = data[at + 4 : at + 2 + length]
        if _is_rgb(marker, body):
            return None
        if marker in _FRAMES:
            return _size(body) if marker in _SEQUENTIAL else None
        at += 2 + length


def _is_rgb(marker: int, body: bytes) -> bool:
    """Whether Adobe's marker says that colours were not transformed."""
    return marker == _ADOBE and body.startswith(b"Adobe") and body[11:12] == b"\x00"


def _size(frame: bytes) -> tuple[int, int] | None:
    """Read a frame header (ITU-T T.81, B.2.2): precision, height, width, components."""
    if len(frame) < 6 or frame[0] != 8 or frame[5] not in {1, 3} or frame[6::3] == b"RGB":
        return None
    height, width = int.from_bytes(frame[1:3], "big"), int.from_bytes(frame[3:5], "big")
    return (width, height) if width and height else None
