"""A host block as a file: header and bytes, readable by another process with the same execution identity (decision 19).

Knows the frame, docs/design/byte-layout.md describes it; which history the content belongs to is the caller's business.
"""

from __future__ import annotations

import hashlib
import struct

from ninfer.base.errors import NInferError
from ninfer.base.pools import Pool
from ninfer.ports.device import BYTE_LAYOUT_VERSION

_MAGIC = b"NINFER\x00B"
_HEADER = struct.Struct("<8sII16sQ16s")
HEADER_BYTES = 128
"""The header with its padding: what follows keeps the alignment of the sections."""
_KINDS = {Pool.STATE: 0, Pool.MAIN_KV: 1, Pool.MTP_KV: 2, Pool.DFLASH_KV: 3}


class BlockRefused(NInferError):
    """A dumped block cannot be read back here: another layout, identity or size, or damaged."""


def dump_block(pool: Pool, block: bytes | memoryview, identity: bytes) -> bytes:
    """A page of `pool`, or a StateImage (Pool.STATE). `identity`: 16 bytes of whoever computed it."""
    assert len(identity) == 16
    payload = bytes(block)
    header = _HEADER.pack(_MAGIC, BYTE_LAYOUT_VERSION, _KINDS[pool], identity, len(payload), _sum(payload))
    return header.ljust(HEADER_BYTES, b"\0") + payload


def read_block(dumped: bytes | memoryview, pool: Pool, block_bytes: int, identity: bytes) -> memoryview:
    """The block's bytes, to be written to the host arena. Raises BlockRefused and says why."""
    view = memoryview(dumped)
    if len(view) < HEADER_BYTES:
        raise BlockRefused("the block is cut short")
    magic, version, kind, made_by, size, checksum = _HEADER.unpack(view[: _HEADER.size])
    if magic != _MAGIC:
        raise BlockRefused("this is no block")
    if version != BYTE_LAYOUT_VERSION:
        raise BlockRefused(f"byte layout {version}, this build reads {BYTE_LAYOUT_VERSION}")
    if made_by != identity:
        raise BlockRefused(f"execution identity {made_by.hex()}, this engine is {identity.hex()}")
    if kind != _KINDS[pool] or size != block_bytes:
        raise BlockRefused(f"block of kind {kind} with {size} bytes, wanted kind {_KINDS[pool]} with {block_bytes}")
    payload = view[HEADER_BYTES:]
    if len(payload) != size or _sum(payload) != checksum:
        raise BlockRefused("the block is damaged")
    return payload


def _sum(payload: bytes | memoryview) -> bytes:
    return hashlib.blake2b(payload, digest_size=16).digest()
