"""The `official` verdict: the problem's own check, with nothing added and nothing left out."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from harness.checking.verdict import OfficialVerdict


def official_verdict(reference: ModuleType, data: Any, output: Any) -> OfficialVerdict:
    """What `reference.check_implementation(data, output)` says; an exception in it is a failure, as there.

    Old problems return a message only, empty for a pass. A problem may offer `check_with_ratio`, which
    returns the share of values outside its tolerance as a third item, to be shown beside the verdict.
    """
    check = getattr(reference, "check_with_ratio", reference.check_implementation)
    try:
        result = check(data, output)
    except Exception as error:
        return OfficialVerdict("fail", f"{type(error).__name__}: {error}")
    if not isinstance(result, tuple):
        result = (not result, result)
    passed, message, ratio = (*result, None)[:3]
    return OfficialVerdict("pass" if passed else "fail", str(message or ""), ratio)
