"""Which of several optimizers ends an iteration, told as the order of their steps."""

import pytest

from ddptrace_capture.leader import Leader


class Parameter:
    """What an optimizer moves."""


class Optimizer:
    """An optimizer of one parameter."""

    def __init__(self, parameter):
        self.param_groups = [{"params": [parameter]}]


def ends(order, settle_after=None):
    """Return which of the optimizers in a string such as "DDG" end an iteration."""
    parameters = {letter: Parameter() for letter in order}
    kept = {letter: Optimizer(parameter) for letter, parameter in parameters.items()}
    leader, found = Leader(), []
    for place, letter in enumerate(order):
        if place == settle_after:
            leader.settle()
        found.append(letter if leader.ends_iteration(kept[letter]) else ".")
    return "".join(found)


def test_each_step_of_a_lone_optimizer_ends_an_iteration():
    assert ends("AAAA", settle_after=2) == "AAAA"


def test_of_two_that_take_turns_the_last_one_ends_the_iteration():
    assert ends("ABABABAB", settle_after=5) == "A.A.AB.B"


@pytest.mark.parametrize("critic", [3, 5])
def test_of_a_critic_and_its_generator_the_rare_one_ends_the_round(critic):
    round_ = "D" * critic + "G"
    found = ends(round_ * 4, settle_after=2 * len(round_))
    assert found[2 * len(round_) :] == ("." * critic + "G") * 2


def test_one_that_steps_every_tenth_time_only_ends_nothing():
    order = ("A" * 10 + "X") * 4
    assert ends(order, settle_after=33) == order.replace("X", ".")


def test_a_rare_one_that_steps_first_does_not_hold_up_the_warm_up():
    assert ends(("X" + "A" * 10) * 2) == "X.AAAAAAAAA" + ".AAAAAAAAAA"


def test_one_that_stepped_once_ends_nothing():
    assert ends("AAXAAAA", settle_after=4) == "AA.AAAA"


def test_one_that_has_stopped_stepping_ends_nothing():
    order = "ABABA" + "A" * 10
    assert ends(order, settle_after=11) == order.replace("B", ".")


def test_the_choice_is_made_once():
    leader, first, second = Leader(), Optimizer(Parameter()), Optimizer(Parameter())
    for _ in range(3):
        leader.ends_iteration(first)
        leader.ends_iteration(second)
    assert leader.settle()
    assert not leader.settle()


def test_an_optimizer_made_anew_for_the_same_parameters_goes_on():
    leader, parameter = Leader(), Parameter()
    assert [leader.ends_iteration(Optimizer(parameter)) for _ in range(5)] == [True] * 5


def test_one_whose_parameters_are_gone_is_followed_at_once():
    leader = Leader()
    assert leader.ends_iteration(Optimizer(Parameter()))
    assert leader.ends_iteration(Optimizer(Parameter()))


def test_one_that_steps_no_more_is_followed_after_a_while():
    found = ends("A" * 4 + "B" * 12, settle_after=3)
    assert found == "A" * 4 + "." * 10 + "B" * 2


def test_without_a_step_there_is_nothing_to_settle():
    assert not Leader().settle()
