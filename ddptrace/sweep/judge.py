"""Which of several caps to take: the fastest one, if these steps can tell it from the script's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ddptrace.check.statistics import FEW_STEPS, interval, middle
from ddptrace.sweep.document import Change, Winner
from ddptrace.sweep.measure import Measurement
from ddptrace.whatif.anchor import NOISE_RATIO

_SURE = "99 %"


@dataclass(frozen=True, slots=True, eq=False)
class Judged:
    """The configurations that count, and how each differs from the script's own."""

    own: Measurement | None
    others: Sequence[Measurement]
    measured: Sequence[Measurement]

    @classmethod
    def of(cls, found: Sequence[Measurement]) -> Judged:
        """Return what can be compared: enough steps, and replicas no worse than with the own cap.

        A cap with which replicas drift apart is no answer, however fast it is.
        """
        enough = [one for one in found if sum(map(len, one.times)) >= FEW_STEPS]
        own = next((one for one in enough if one.is_own), None)
        is_split = own is not None and own.replicas().equal is False
        others = [
            one
            for one in enough
            if one is not own and (is_split or one.replicas().equal is not False)
        ]
        return cls(own, others, enough)

    def change(self, one: Measurement) -> Change | None:
        """Return how a configuration differs from the script's own."""
        if self.own is None or one is self.own or one not in self.measured:
            return None
        return self._between(self.own, one)

    def _between(self, first: Measurement, second: Measurement) -> Change:
        rest = [each.times for each in self.measured if each not in (first, second)]
        found = interval(first.times, second.times, rest)
        before, after = middle(first.times), middle(second.times)
        return Change(
            ratio=after / before - 1,
            low_ratio=found.low_ns / before if found.low_ratio is None else found.low_ratio,
            high_ratio=found.high_ns / before if found.high_ratio is None else found.high_ratio,
            confidence=found.confidence,
        )

    def winner(self) -> Winner:
        """Return which cap to take."""
        if self.own is None:
            return _unknown("the script's own cap was not measured, so nothing is compared with it")
        if not self.others:
            return _unknown("no other cap was measured")
        changes = {one.folder: self._between(self.own, one) for one in self.others}
        faster = [one for one in self.others if changes[one.folder].high_ratio < 0]
        if faster:
            best = min(faster, key=lambda one: middle(one.times))
            return self._faster(self.own, best, changes[best.folder])
        best = min(self.others, key=lambda one: middle(one.times))
        change = changes[best.folder]
        slower = all(each.low_ratio > 0 for each in changes.values())
        return self._keep(self.own, best, change, is_fastest=slower)

    def _faster(self, own: Measurement, best: Measurement, change: Change) -> Winner:
        before, after = middle(own.times), middle(best.times)
        return Winner(
            outcome="faster",
            bucket_cap_mb=best.cap_mb,
            sentence=(
                f"bucket_cap_mb={best.cap_mb:g} is faster than yours ({_own_words(own)}): "
                f"{after / 1e6:.2f} of {before / 1e6:.2f} ms a step, {_change_words(change)}"
            ),
            line=f"DistributedDataParallel(model, …, bucket_cap_mb={best.cap_mb:g})",
            gain_ns=before - after,
            as_good_mb=self._as_good(best),
        )

    def _keep(
        self, own: Measurement, best: Measurement, change: Change, *, is_fastest: bool
    ) -> Winner:
        yours = f"keep yours ({_own_words(own)})"
        if is_fastest:
            sentence = f"{yours}: every other cap is slower, the next one, "
            sentence += f"bucket_cap_mb={best.cap_mb:g}, by {_change_words(change)}"
        else:
            sentence = f"{yours}: no difference that these steps can tell; the best other one, "
            sentence += (
                f"bucket_cap_mb={best.cap_mb:g}, changes the step by {_change_words(change)}"
            )
        return Winner(
            outcome="keep" if is_fastest else "no_difference",
            bucket_cap_mb=None,
            sentence=sentence,
            line=None,
            gain_ns=None,
            as_good_mb=self._as_good(own),
        )

    def _as_good(self, best: Measurement) -> list[float]:
        """Return the other caps that may be as fast as the best one."""
        return [
            one.cap_mb
            for one in self.others
            if one is not best and one.cap_mb is not None
            if self._between(best, one).low_ratio <= 0
        ]

    def is_thin(self, winner: Winner) -> bool:
        """Tell whether a gain is no larger than what runs of one job differ by anyway."""
        if self.own is None or winner.gain_ns is None or len(self.own.times) > 1:
            return False
        return winner.gain_ns < NOISE_RATIO * middle(self.own.times)


def _unknown(sentence: str) -> Winner:
    return Winner("unknown", None, sentence, None, None, [])


def _own_words(own: Measurement) -> str:
    asked = own.asked_mb
    if asked is None:
        return "PyTorch's default, 25 MiB"
    if isinstance(asked, list):
        return f"{', '.join(f'{cap:g}' for cap in asked)} MiB"
    return f"{asked:g} MiB"


def _change_words(change: Change) -> str:
    low, high = 100 * change.low_ratio, 100 * change.high_ratio
    return f"{100 * change.ratio:+.1f} % ({low:+.1f} to {high:+.1f} %, {_SURE} sure)"
