"""Where these tests compute: NINFER_TEST_DEVICE=cuda, else the CPU, with Triton kernels in Triton's interpreter."""

from __future__ import annotations

import os

import pytest
import torch

DEVICE = torch.device(os.environ.get("NINFER_TEST_DEVICE", "cpu"))
if DEVICE.type == "cpu":
    os.environ["TRITON_INTERPRET"] = "1"  # read when a kernel is declared, so before any is imported
else:
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False


@pytest.fixture(scope="session")
def device() -> torch.device:
    """The device under test."""
    return DEVICE
