"""A check as JUnit XML: a testcase a limit, as Jenkins, GitLab and others read it."""

from __future__ import annotations

import re
from collections import Counter
from xml.etree import ElementTree as ET

from ddptrace.check.judge import OnInconclusive
from ddptrace.check.result import CheckResult, LimitResult
from ddptrace.check.words import difference_words
from ddptrace.outputs.check_lines import Grade, grade, name, values

_SUITE = "ddptrace check"
_CLASS = "ddptrace.check"
_ELEMENTS: dict[Grade, str] = {"failed": "failure", "unknown": "error", "doubtful": "skipped"}
_NO_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What no XML 1.0 may hold, not even escaped."""


def render(result: CheckResult, on_inconclusive: OnInconclusive) -> str:
    """Return a check as JUnit XML: failures, errors where nothing can be told, skipped doubts."""
    grades = Counter(grade(one, on_inconclusive) for one in result.limits)
    counts = {
        "tests": str(len(result.limits)),
        "failures": str(grades["failed"]),
        "errors": str(grades["unknown"]),
    }
    top = ET.Element("testsuites", {"name": _SUITE, **counts, "time": "0"})
    skipped = {"skipped": str(grades["doubtful"]), "time": "0"}
    suite = ET.SubElement(top, "testsuite", {"name": _SUITE, **counts, **skipped})
    _properties(suite, result)
    for one in result.limits:
        _testcase(suite, one, grade(one, on_inconclusive))
    ET.SubElement(suite, "system-out").text = _text("\n".join([result.headline, *result.notes]))
    ET.indent(top)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(top, encoding="unicode")}\n'


def _properties(suite: ET.Element, result: CheckResult) -> None:
    told = {
        "baseline": ", ".join(result.baseline.names),
        "current": ", ".join(result.current.names),
    }
    told |= {f"differs.{one.name}": difference_words(one) for one in result.differences}
    properties = ET.SubElement(suite, "properties")
    for key, value in told.items():
        ET.SubElement(properties, "property", {"name": _text(key), "value": _text(value)})


def _testcase(suite: ET.Element, one: LimitResult, found: Grade) -> None:
    case = ET.SubElement(
        suite, "testcase", {"name": _text(name(one)), "classname": _CLASS, "time": "0"}
    )
    line = _text(values(one))
    if found == "passed":
        ET.SubElement(case, "system-out").text = line
        return
    what = {"message": _text(f"{one.place}: {one.reason}")}
    if found != "doubtful":  # to which the usual schema gives no type
        what["type"] = one.outcome
    ET.SubElement(case, _ELEMENTS[found], what).text = line


def _text(text: str) -> str:
    return _NO_XML.sub("", text)
