"""How a limit of `ddptrace check` is written, and what is refused."""

from fractions import Fraction

import pytest

from ddptrace.check.figures import METRICS
from ddptrace.check.limits import DEFAULT, Limit, parse
from ddptrace.errors import UsageError
from ddptrace.metrics.summary import FIGURES


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        (DEFAULT, "step@slowest:3%,min=50us"),
        ("step:5%", "step@slowest:5%,min=50us"),
        ("exposed_comm:20%,min=1ms", "exposed_comm@slowest:20%,min=1ms"),
        ("step@3:2.5%", "step@3:2.5%,min=50us"),
        ("step:2.5%@3", "step@3:2.5%,min=50us"),
        ("step:5%,min=1ms@0", "step@0:5%,min=1ms"),
        ("step@slowest:5%", "step@slowest:5%,min=50us"),
        ("tail:2ms", "tail@slowest:2ms,min=50us"),
        ("idle:0.1s,min=0", "idle@slowest:100ms,min=0ns"),
        ("step:0%", "step@slowest:0%,min=50us"),
        (" step : 5 % , min = 1.5 us ", "step@slowest:5%,min=1.5us"),
        ("step:.1%,min=2µs", "step@slowest:0.1%,min=2us"),
        ("step:5%,min=10ns", "step@slowest:5%,min=10ns"),
        ("input_stall:10%", "input_stall@slowest:10%,min=50us"),
    ],
)
def test_a_limit_may_be_written_so(text, meant):
    assert str(parse(text)) == meant
    assert parse(meant) == parse(text)


def test_a_limit_is_exact():
    assert parse("step:0.1%").ratio == Fraction(1, 1000)
    assert parse("step:0.1%").allowed_ns(1_000_000_000) == 1_000_000
    assert parse("step:3.3ms").ns == 3_300_000


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("stp:5%", "'stp' is no metric; there is step"),
        ("step_ns:5%", "'step_ns' is no metric; there is step"),
        ("exposed:5%", "exposed_comm"),
        ("loss:5%", "no metric; there is"),
        (":5%", "nothing before the colon"),
        ("", "nothing before the colon"),
        ("step", "states no limit"),
        ("step:", "neither a percentage nor a time"),
        ("step:5", "neither a percentage nor a time"),
        ("step:-5%", "neither a percentage nor a time"),
        ("step:nan%", "neither a percentage nor a time"),
        ("step:1e3%", "neither a percentage nor a time"),
        ("step:٥%", "neither a percentage nor a time"),
        ("step:5%,max=3ms", "only min=TIME may follow"),
        ("step:5%,1ms", "only min=TIME may follow"),
        ("step:5%,min=1ms,min=2ms", "only min=TIME may follow"),
        ("step:5%,min=5%", "neither a percentage nor a time"),
        ("step:5%,min=1", "neither a percentage nor a time"),
        ("step@-1:5%", "'-1' is no rank"),
        ("step@one:5%", "'one' is no rank"),
        ("step@:5%", "names no rank"),
        ("step@1:5%@2", "names two ranks"),
        ("step@99999999:5%", "is no rank"),
    ],
)
def test_anything_else_is_refused_in_one_line(text, words):
    with pytest.raises(UsageError) as refused:
        parse(text)
    assert words in str(refused.value)
    assert str(refused.value).startswith(f"--fail-on {text}")
    assert "\n" not in str(refused.value)


def test_every_time_of_a_step_can_be_limited():
    assert {f"{name}_ns" for name in METRICS} >= {name for name in FIGURES if name.endswith("_ns")}
    assert {"exposed_wait", "exposed_transfer", "input_stall", "launch_bound"} <= set(METRICS)


@pytest.mark.parametrize(
    ("limit", "baseline_ns", "allowed_ns"),
    [
        (Limit("step", ratio=Fraction(5, 100)), 10_000_000, 500_000),
        (Limit("step", ratio=Fraction(5, 100)), 1_000_000, 50_000),
        (Limit("step", ratio=Fraction(5, 100)), 999_999, 50_000),
        (Limit("step", ratio=Fraction(5, 100)), 0, 50_000),
        (Limit("step", ns=Fraction(80_000)), 0, 80_000),
        (Limit("step", ns=Fraction(20_000)), 10_000_000, 50_000),
    ],
)
def test_a_change_up_to_the_larger_of_limit_and_floor_passes(limit, baseline_ns, allowed_ns):
    assert limit.allowed_ns(baseline_ns) == allowed_ns
