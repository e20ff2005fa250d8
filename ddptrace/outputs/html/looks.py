"""How the parts of a step look: colours for readers with any colour vision, and a pattern each.

The page's script and style sheet get these from here. The colours are Okabe and Ito's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

Hatch: TypeAlias = Literal["", "/", "\\", "x", "-", "|", "."]


@dataclass(frozen=True, slots=True)
class Look:
    """What one kind of time is called, its colour, its pattern and the colour of text on it."""

    title: str
    colour: str
    hatch: Hatch = ""
    ink: str = "#000"

    @property
    def css(self) -> str:
        """The CSS background that looks so."""
        return f"{_HATCHES[self.hatch]}{self.colour}"

    @property
    def marker(self) -> dict[str, Any]:
        """The fill of plotly's bars that look so."""
        if not self.hatch:
            return {"color": self.colour}
        pattern = {"shape": self.hatch, "fillmode": "overlay", "size": 7, "solidity": 0.2}
        return {"color": self.colour, "pattern": pattern | {"fgcolor": "rgba(255,255,255,0.45)"}}


LOOKS = {
    "compute": Look("compute", "#0072b2", ink="#fff"),
    "kernels": Look("compute", "#0072b2", ink="#fff"),
    "hidden": Look("hidden communication", "#56b4e9"),
    "exposed": Look("exposed communication", "#d55e00", "/"),
    "transfer": Look("exposed transfer", "#d55e00", "/"),
    "wait": Look("exposed waiting", "#f0b429", "."),
    "unclear": Look("exposed, not divided", "#b8860b", "x"),
    "copies": Look("copies", "#cc79a7", "x"),
    "exposed_copies": Look("exposed copies", "#cc79a7", "x"),
    "idle": Look("idle", "#9aa5b1", "|"),
    "idle_input": Look("idle: input", "#8fb996", "|"),
    "idle_sync": Look("idle: synchronization", "#b7a57a", "\\"),
    "idle_launch": Look("idle: launches", "#a5b4cb", "-"),
    "idle_unknown": Look("idle: cause unknown", "#b5bcc4"),
    "data_loader": Look("data loader", "#8fb996", "|"),
    "forward": Look("forward", "#7fb8d6"),
    "backward": Look("backward", "#4a90b8", "/"),
    "optimizer": Look("optimizer", "#b39ac9", "\\"),
    "sync_calls": Look("synchronizing call", "#b7a57a", "x"),
    "unknown": Look("unknown", "#d9dde2", "."),
}

LEDGER = {
    "compute_ns": LOOKS["compute"],
    "straggler_ns": LOOKS["wait"],
    "bucket_schedule_ns": Look("", "#d55e00", "/"),
    "comm_bandwidth_ns": Look("", "#e98a4d", "\\"),
    "comm_latency_ns": Look("", "#f3b48b", "-"),
    "comm_unknown_ns": LOOKS["unclear"],
    "exposed_mem_ns": LOOKS["copies"],
    "input_stall_ns": LOOKS["idle_input"],
    "sync_wait_ns": LOOKS["idle_sync"],
    "launch_bound_ns": LOOKS["idle_launch"],
    "idle_unknown_ns": LOOKS["idle_unknown"],
}
"""How the parts of a ledger look; their words are those of a comparison."""


def style_rules() -> str:
    """Return the style of the class `look-NAME` of each kind of time and part of a ledger."""
    looks = LOOKS | {f"ledger-{name}": look for name, look in LEDGER.items()}
    return "\n".join(
        f".look-{name} {{ background: {look.css}; color: {look.ink}; }}"
        for name, look in looks.items()
    )


_LINE = "rgba(0,0,0,.28) 0 1.5px, transparent 1.5px 6px"
_HATCHES = {
    "": "",
    "/": f"repeating-linear-gradient(135deg, {_LINE}) ",
    "\\": f"repeating-linear-gradient(45deg, {_LINE}) ",
    "x": f"repeating-linear-gradient(135deg, {_LINE}), repeating-linear-gradient(45deg, {_LINE}) ",
    "-": f"repeating-linear-gradient(0deg, {_LINE}) ",
    "|": f"repeating-linear-gradient(90deg, {_LINE}) ",
    ".": "radial-gradient(rgba(0,0,0,.4) 26%, transparent 30%) 0 0 / 5px 5px ",
}
