"""The few errors that are exceptions. A broken invariant is a failed assert."""

from __future__ import annotations


class NInferError(Exception):
    """Base of all errors that a caller may want to catch."""


class BadInput(NInferError):
    """The caller's input cannot be served. `param` names the field, `code` is stable for programs."""

    def __init__(self, message: str, *, param: str | None = None, code: str = "invalid_value") -> None:
        super().__init__(message)
        self.param = param
        self.code = code


class ModelFileError(NInferError):
    """A model directory is incomplete, damaged or of another family. The message names file and tensor."""


class CapacityContractError(NInferError):
    """The only request left cannot get a legal unit: need and capacity are in the message (C10)."""


class Overloaded(NInferError):
    """The engine takes no request now: it is draining, or worse (see the subclasses)."""


class QueueFull(Overloaded):
    """As many requests wait as may wait; the next that ends makes room."""


class QueueTimeout(Overloaded):
    """The request waited longer than `queue_timeout_s` for its first lane."""


class RequestTimeout(NInferError):
    """The request took longer than `request_timeout_s` in all."""


class DeviceFailure(NInferError):
    """The device reported an error; the engine cannot go on with its contents."""


class RequestFailed(NInferError):
    """One request ended with an internal error; the engine goes on."""
