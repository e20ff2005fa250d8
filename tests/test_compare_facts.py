"""How far two runs can be compared, and what changed between them."""

from dataclasses import replace

import pytest
from ledgers import MS, changed, codes, ledger, report

from ddptrace.compare.comparison import compare
from ddptrace.compare.facts import Unknown
from ddptrace.metrics.bucket_summary import Bucket, BucketFacts
from ddptrace.metrics.recording import PartTime, Recording, RunPart
from ddptrace.metrics.settings import DdpSettings, Settings

# --- how far times can be compared ---


def with_settings(**told):
    return {"run_facts": {"settings": Settings(**told)}}


FULL = [RunPart("full", ["cpu", "cuda"], [7], ["steps"])]
CHEAP = [RunPart("figures", ["cuda"], [7], ["steps"]), RunPart("full", ["cpu"], [9], ["causes"])]


@pytest.mark.parametrize(
    ("facts", "code"),
    [
        ({"measured": "host"}, "other_measure"),
        ({"sources": {"0": "nsys", "1": "nsys"}}, "other_profiler"),
        ({"parts": CHEAP}, "other_recording"),
        ({"settings": Settings(switches=["with_stack"])}, "other_options"),
        ({"settings": Settings(options={"record_shapes": True})}, "other_options"),
    ],
)
def test_runs_that_were_recorded_otherwise_are_not_comparable(facts, code):
    found = compare(report(ledger(compute=9)), report(ledger(compute=8), run_facts=facts))
    assert codes(found) == [code]
    assert not found.comparable
    assert found.step_ns.difference_ns == -MS  # shown all the same


def test_shapes_of_other_steps_than_those_of_the_figures_do_not_matter():
    """Options of the recorder are of its full part; figures come from GPU activities alone."""
    plain, shapes = ({"parts": CHEAP, "settings": Settings(options={"record_shapes": on})}
                     for on in (False, True))  # fmt: skip
    found = compare(report(ledger(), run_facts=plain), report(ledger(), run_facts=shapes))
    assert (codes(found), found.comparable) == ([], True)
    assert changed(found) == {"options.record_shapes": (False, True)}


def test_a_slowed_or_partial_run_is_said_to_be():
    slow = Recording(10 * MS, [PartTime("full", 12 * MS, 0.2)])
    facts = {"recording": slow, "partial_ranks": [1], "missing_ranks": [2, 3]}
    found = compare(report(ledger(compute=9)), report(ledger(compute=9), run_facts=facts))
    assert [(one.code, one.message) for one in found.cautions] == [
        ("partial", "B: rank 1 was not read whole and does not count"),
        ("missing_ranks", "B: rank 2-3 is not recorded"),
        ("slowed", "B: recording made the step 20 % longer"),
    ]
    assert found.comparable
    calm = replace(slow, parts=[PartTime("full", 11 * MS, 0.1)])
    facts = {"recording": calm}
    assert codes(compare(report(ledger()), report(ledger(), run_facts=facts))) == []


@pytest.mark.parametrize(
    ("steps", "few"), [(0, False), (1, True), (2, True), (3, False), (None, False)]
)
def test_few_steps_are_said_to_be_few(steps, few):
    found = compare(report(ledger(compute=9)), report(ledger(compute=8), counted=steps))
    assert codes(found) == ["few_steps"] * few


@pytest.mark.parametrize(("spread_ms", "overlap"), [(0.5, True), (0.499, False)])
def test_steps_that_vary_by_as_much_as_the_difference_are_said_to(spread_ms, overlap):
    runs = [report(ledger(compute=ms), spread_ms=spread_ms) for ms in (9, 10)]
    assert codes(compare(*runs)) == ["within_spread"] * overlap


def test_what_forbids_to_compare_comes_first():
    nsys = {"sources": {"0": "nsys"}, "device": "another"}
    found = compare(report(ledger(), run_facts={"device": "one"}), report(ledger(), run_facts=nsys))
    assert codes(found) == ["other_profiler", "other_device"]
    assert [one.comparable for one in found.cautions] == [False, True]


def test_another_gpu_and_another_number_of_ranks_are_said_first():
    a = report(ledger(compute=9), run_facts={"device": "A100", "world_size": 2})
    b = report(ledger(compute=9), run_facts={"device": "H100", "world_size": 4})
    found = compare(a, b)
    assert [one.message for one in found.cautions] == [
        "A ran on A100, B on H100", "A has 2 ranks, B 4"
    ]  # fmt: skip
    assert changed(found) == {"run.device": ("A100", "H100"), "run.world_size": (2, 4)}


# --- what changed ---

DDP = DdpSettings(26_214_400, False, False, True, None)


def test_what_the_recorder_tells_is_compared():
    a = Settings(command=["train", "--bf16"], options={"steps": 3, "new": 1}, ddp=[DDP])
    b = Settings(
        command=["train"],
        options={"steps": 5},
        ddp=[replace(DDP, bucket_cap_bytes=1, static_graph=True, comm_hook="bf16")],
    )
    versions = {"torch": "2.10", "nccl": "2.28", "cupti": "1"}, {"torch": "2.11", "nccl": "2.28"}
    found = compare(
        report(ledger(), run_facts={"settings": a, "versions": versions[0]}),
        report(ledger(), run_facts={"settings": b, "versions": versions[1], "ranks": [0]}),
    )
    assert changed(found) == {
        "run.ranks": ([0, 1], [0]),
        "command.command": (["train", "--bf16"], ["train"]),
        "versions.torch": ("2.10", "2.11"),
        "ddp.bucket_cap_bytes": (26_214_400, 1),
        "ddp.static_graph": (False, True),
        "ddp.comm_hook": ("none told", "bf16"),
        "options.steps": (3, 5),
    }
    assert Unknown("versions", "cupti", ["b"]) in found.unknown
    assert Unknown("options", "new", ["b"]) in found.unknown


def test_buckets_are_compared_by_their_number_and_sizes():
    def with_buckets(*sizes, total=None):
        layout = [Bucket(number, size, None, None, []) for number, size in enumerate(sizes)]
        facts = BucketFacts(len(sizes), total, None)
        return replace(report(ledger(), run_facts={"buckets": facts}), buckets=layout)

    assert changed(compare(with_buckets(1, 2, total=3), with_buckets(3, total=3))) == {
        "buckets.count": (2, 1),
        "buckets.sizes": ([1, 2], [3]),
    }
    unsized = compare(with_buckets(1, 2, total=3), with_buckets(None, None))
    assert changed(unsized) == {}
    assert Unknown("buckets", "sizes", ["b"]) in unsized.unknown
    without = compare(with_buckets(1), report(ledger(), run_facts={"buckets": None}))
    assert Unknown("buckets", None, ["b"]) in without.unknown


def test_the_cuda_that_a_driver_runs_is_no_version_of_the_driver():
    versions = [{"driver": word} for word in ("12.4", "13.0", "580.65.06", "570.1")]
    runs = [report(ledger(), run_facts={"versions": one}) for one in versions]
    assert changed(compare(*runs[:2])) == {"versions.CUDA that the driver runs": ("12.4", "13.0")}
    assert changed(compare(*runs[1:3])) == {}
    assert changed(compare(*runs[2:])) == {"versions.driver": ("580.65.06", "570.1")}


def test_a_world_size_that_is_not_known_is_no_other_one():
    found = compare(report(ledger(), run_facts={"world_size": None}), report(ledger()))
    assert (codes(found), changed(found)) == ([], {})
    assert Unknown("run", "world_size", ["a"]) in found.unknown


def test_several_modules_are_compared_one_by_one():
    a, b = (Settings(ddp=[DDP, replace(DDP, bucket_cap_bytes=cap)]) for cap in (1, 2))
    found = compare(*(report(ledger(), run_facts={"settings": one}) for one in (a, b)))
    assert changed(found) == {"ddp.bucket_cap_bytes of module 1": (1, 2)}


def test_what_a_report_does_not_tell_is_said_of_it():
    old = report(ledger(), counted=None, run_facts={"settings": None})
    new = report(ledger(), run_facts={"settings": Settings(command=["x"], ddp=[DDP])})
    found = compare(old, new)
    assert changed(found) == {}
    unknown = [(one.topic, one.what, one.runs) for one in found.unknown]
    assert ("command", None, ["a"]) in unknown
    assert ("ddp", None, ["a"]) in unknown
    assert ("options", None, ["a", "b"]) in unknown
    assert ("recording", "switches", ["a"]) in unknown
    assert ("steps", None, ["a"]) in unknown
