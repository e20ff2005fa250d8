"""Which of several caps to take: the fastest one, if these steps can tell it from the script's."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from ddptrace.check.statistics import FEW_STEPS, Runs, interval, middle
from ddptrace.sweep.document import Change, Winner
from ddptrace.sweep.measure import Measurement
from ddptrace.whatif.anchor import NOISE_RATIO

_SURE = "99 %"


@dataclass(frozen=True, slots=True, eq=False)
class Judged:
    """The configurations that count.

    `others` may be taken in the place of `own`; `alike` are lists of runs that had the same
    buckets: what those differ by is no cap's doing.
    """

    own: Measurement | None
    others: Sequence[Measurement]
    measured: Sequence[Measurement]
    alike: Sequence[Runs]

    @classmethod
    def of(cls, found: Sequence[Measurement]) -> Judged:
        """Return what can be compared: enough steps, and replicas no worse than with the own cap.

        A cap with which replicas drift apart is no answer, however fast it is; nor is one that
        packs the same buckets.
        """
        enough = [one for one in found if _is_timed(one)]
        own = next((one for one in enough if one.is_own), None)
        others = [] if own is None else [one for one in enough if _may_replace(own, one)]
        return cls(own, others, enough, _alike(enough))

    def change(self, one: Measurement) -> Change | None:
        """Return how a configuration differs from the script's own."""
        if self.own is None or one is self.own or one not in self.measured:
            return None
        return self._between(self.own, one)

    def _between(self, first: Measurement, second: Measurement) -> Change:
        found = interval(first.times, second.times, self.alike)
        before, after = middle(first.times), middle(second.times)
        return Change(
            ratio=after / before - 1,
            low_ratio=found.low_ns / before if found.low_ratio is None else found.low_ratio,
            high_ratio=found.high_ns / before if found.high_ratio is None else found.high_ratio,
            confidence=found.confidence,
        )

    @property
    def is_repeated(self) -> bool:
        """Whether it is known how much runs that do the same differ."""
        return any(len(runs) > 1 for runs in self.alike)

    def _is_sure(self, change: Change) -> bool:
        """Tell whether a change is one: beyond what steps, and what runs, may differ by."""
        is_one = change.high_ratio < 0 or change.low_ratio > 0
        return is_one and (self.is_repeated or abs(change.ratio) >= NOISE_RATIO)

    def winner(self) -> Winner:
        """Return which cap to take."""
        if self.own is None:
            return _unknown("the script's own cap was not measured, so nothing is compared with it")
        if not self.others:
            return _unknown("no other cap with buckets of its own was measured")
        changes = {one.folder: self._between(self.own, one) for one in self.others}
        sure = [one for one in self.others if self._is_sure(changes[one.folder])]
        faster = [one for one in sure if changes[one.folder].ratio < 0]
        best = min(faster or self.others, key=lambda one: middle(one.times))
        if faster:
            return self._faster(self.own, best, changes[best.folder])
        return self._keep(self.own, best, changes[best.folder], is_fastest=sure == self.others)

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
            for one in self.measured
            if one not in (best, self.own) and one.cap_mb is not None
            if one in self.others or _is_alike(one, best)
            if not self._is_sure(self._between(best, one))
        ]

    def is_like_own(self, one: Measurement) -> bool:
        """Tell whether a cap packs the same buckets as the script's own."""
        return self.own is not None and one is not self.own and _is_alike(self.own, one)

    def thin(self) -> list[float]:
        """Return the caps whose change only further runs could tell from none."""
        if self.own is None or self.is_repeated:
            return []
        changes = [(one.cap_mb, self._between(self.own, one)) for one in self.others]
        return [
            cap
            for cap, change in changes
            if cap is not None and (change.high_ratio < 0 or change.low_ratio > 0)
            if not self._is_sure(change)
        ]


def _is_timed(one: Measurement) -> bool:
    return sum(map(len, one.times)) >= FEW_STEPS and middle(one.times) > 0


def _may_replace(own: Measurement, one: Measurement) -> bool:
    is_sound = own.replicas().equal is False or one.replicas().equal is not False
    return one is not own and is_sound and not _is_alike(own, one)


def _is_alike(one: Measurement, other: Measurement) -> bool:
    return one.layout is not None and one.layout == other.layout


def _alike(found: Sequence[Measurement]) -> list[Runs]:
    """Return the runs by what they did: with one cap, or with caps that pack the same buckets."""
    by_layout: dict[Hashable, list[Sequence[int]]] = defaultdict(list)
    for one in found:
        by_layout[one.layout or one.folder].extend(one.times)
    return [*by_layout.values()]


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
