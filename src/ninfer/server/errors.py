"""Errors as clients see them: HTTP status and the OpenAI error body.

Knows which status each error of ours deserves. An exception that is not one of ours becomes a plain 500: its text
never reaches a client, since it may hold anything (LIMIT-03).
"""

from __future__ import annotations

import logging
import traceback
from typing import Any

from ninfer.base.errors import (
    BadInput,
    CapacityContractError,
    DeviceFailure,
    NInferError,
    Overloaded,
    QueueFull,
    QueueTimeout,
    RequestTimeout,
)

RETRY_AFTER_S = 1
_LOG = logging.getLogger("ninfer.server")


class ApiError(Exception):
    """One refusal: HTTP status, the fields of the OpenAI error, extra response headers (lower-case names)."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        type: str = "invalid_request_error",
        param: str | None = None,
        code: str | None = None,
        headers: tuple[tuple[bytes, bytes], ...] = (),
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.type = type
        self.param = param
        self.code = code
        self.headers = headers

    def body(self) -> dict[str, Any]:
        """The JSON body, the same on every route and inside a stream."""
        return {"error": {"message": self.message, "type": self.type, "param": self.param, "code": self.code}}


def invalid(message: str, param: str | None = None, code: str = "invalid_value") -> ApiError:
    """400: a field has a wrong value."""
    return ApiError(400, message, param=param, code=code)


def unsupported(param: str, message: str) -> ApiError:
    """400: a field that would change the output and is not built. Refused by name, never ignored (JSON-01)."""
    return ApiError(400, message, param=param, code="unsupported_parameter")


def unavailable(message: str, code: str) -> ApiError:
    """503: not now; the client may try again."""
    retry = ((b"retry-after", str(RETRY_AFTER_S).encode()),)
    return ApiError(503, message, type="server_error", code=code, headers=retry)


def too_many(message: str, retry_after_s: int = RETRY_AFTER_S) -> ApiError:
    """429: the queue is full. `retry_after_s`: when a place in it is likely to be free."""
    retry = ((b"retry-after", str(retry_after_s).encode()),)
    return ApiError(429, message, type="rate_limit_error", code="queue_full", headers=retry)


def internal() -> ApiError:
    """500: our fault, without details."""
    return ApiError(500, "The request ended with an internal error.", type="server_error", code="internal_error")


def find_api_error(error: Exception) -> ApiError:
    """The refusal a client gets for an error raised below the server."""
    match error:
        case ApiError():
            return error
        case BadInput():
            return ApiError(400, str(error), param=error.param, code=error.code)
        case QueueTimeout():
            return unavailable(str(error), "queue_timeout")
        case RequestTimeout():
            return ApiError(504, str(error), type="server_error", code="request_timeout")
        case QueueFull():
            return too_many(str(error))
        case Overloaded():
            return unavailable(str(error) or "The server has no room for more requests.", "overloaded")
        case CapacityContractError():
            return ApiError(503, str(error), type="server_error", code="capacity_exceeded")
        case DeviceFailure():
            return unavailable("The engine has failed.", "engine_failed")
        case NInferError():
            return internal()
        case RecursionError():
            return invalid("The request is nested too deeply.", code="invalid_json")
        case _:
            return internal()


def log_exception(error: Exception, request_id: str) -> None:
    """Where it happened, without the exception's text: that may quote a prompt (OPS-06)."""
    frames = "".join(traceback.format_tb(error.__traceback__))
    _LOG.error("request %s ended with %s\n%s", request_id, type(error).__name__, frames)
