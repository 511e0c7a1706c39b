"""The type that decorators keep: type checkers see what they decorate, unchanged."""

from collections.abc import Callable
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])
