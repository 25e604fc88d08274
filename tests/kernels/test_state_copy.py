"""Every route of `state_copy` against its judge."""

from __future__ import annotations

import torch

from ninfer.kernels.state_copy import copy_state, reference


def test_an_image_is_copied_bit_by_bit() -> None:
    """[D7] [decision 8]"""
    images = torch.randint(0, 256, (4, 193), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    want = reference.copy_state(images, 3, 1)
    copy_state(images, 3, 1)
    assert torch.equal(images, want)
