"""Where the recorder sees the end of a step in somebody else's loop."""

import sys
import types

import pytest

torch = pytest.importorskip("torch")


class Loop:
    """Counts the ends of steps that a loop reports."""

    def __init__(self, step_mark=None):
        from ddptrace_capture.boundaries import Boundaries

        self.steps = 0
        self.errors = []
        self.boundaries = Boundaries(self.step, step_mark, self.errors.append)
        self.model = torch.nn.Linear(4, 4)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def step(self):
        self.steps += 1

    def backward(self):
        self.model(torch.ones(2, 4)).sum().backward()


@pytest.fixture
def loop(request):
    made = Loop(getattr(request, "param", None))
    yield made
    made.boundaries.close()
    assert made.errors == []


pytestmark = pytest.mark.torch


def test_a_step_of_the_optimizer_is_a_step(loop):
    for _ in range(3):
        loop.backward()
        loop.optimizer.step()
    assert loop.steps == 3


def test_gradients_that_are_accumulated_are_one_step(loop):
    for micro_step in range(8):
        loop.backward()
        if micro_step % 4 == 3:
            loop.optimizer.step()
    assert loop.steps == 2


def test_a_step_that_the_scaler_skips_is_a_step(loop):
    scaler = torch.amp.GradScaler("cpu")
    for infinite in (False, True, False):
        loop.optimizer.zero_grad()
        scaler.scale(loop.model(torch.ones(2, 4)).sum()).backward()
        if infinite:
            loop.model.weight.grad[0, 0] = float("inf")
        scaler.step(loop.optimizer)
        scaler.update()
    assert loop.steps == 3


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's own, while it compiles
def test_a_step_of_a_compiled_optimizer_is_a_step(loop):
    compiled = torch.compile(loop.optimizer.step, backend="eager")
    for _ in range(3):
        loop.backward()
        compiled()
    assert loop.steps == 3


def test_a_call_is_exact_and_silences_the_optimizers(loop):
    import ddptrace_capture

    for _ in range(3):
        loop.backward()
        loop.optimizer.step()
        loop.optimizer.step()
        ddptrace_capture.step()
    # The first call ends the iteration whose optimizer steps were counted before it.
    assert loop.steps == 2 + 2


@pytest.mark.parametrize("loop", ["iteration"], indirect=True)
def test_a_named_range_ends_a_step_and_optimizers_do_not(loop):
    for name in ("iteration", "other", "iteration"):
        with torch.profiler.record_function(name):
            loop.backward()
            loop.optimizer.step()
    assert loop.steps == 2


@pytest.mark.parametrize("loop", ["iteration"], indirect=True)
def test_a_named_nvtx_range_ends_a_step(loop, monkeypatch):
    pytest.importorskip("torch.cuda.nvtx")
    loop.boundaries.close()
    for name in ("range_push", "range_pop"):
        monkeypatch.setattr(torch.cuda.nvtx, name, lambda *_: 0)
    marked = Loop("iteration")
    for name in ("iteration", "other"):
        torch.cuda.nvtx.range_push(name)
        torch.cuda.nvtx.range_push("inner")
        torch.cuda.nvtx.range_pop()
        torch.cuda.nvtx.range_pop()
    marked.boundaries.close()
    assert marked.steps == 1


def test_optimizers_that_step_inside_backward_end_a_step_with_the_next_forward(loop):
    from ddptrace_capture.boundaries import in_backward

    optimizers = {p: torch.optim.SGD([p], lr=0.1) for p in loop.model.parameters()}
    inside = []
    step, loop.step = loop.step, lambda: (inside.append(in_backward()), step())
    loop.boundaries._listener = loop.step
    for parameter, optimizer in optimizers.items():
        parameter.register_post_accumulate_grad_hook(
            lambda _, optimizer=optimizer: optimizer.step()
        )
    for _ in range(4):
        loop.backward()
    assert inside == [False] * 3


@pytest.mark.parametrize("loop", ["iteration"], indirect=True)
def test_a_range_inside_a_function_of_the_same_name_counts_once(loop, monkeypatch):
    module = sys.modules["__main__"]

    def iteration():
        with torch.profiler.record_function("iteration"):
            loop.backward()

    monkeypatch.setattr(module, "iteration", iteration, raising=False)
    for _ in range(3):
        module.iteration()
    assert loop.steps == 3


class Trainer:
    """Somebody's trainer, with every kind of method."""

    @staticmethod
    def still(_): ...

    @classmethod
    def of_class(cls, _): ...

    def own(self, _): ...


@pytest.mark.parametrize(
    ("owner", "method"),
    [(Trainer, "still"), (Trainer(), "still"), (Trainer, "of_class"), (Trainer(), "own")],
)
def test_a_named_function_ends_a_step(owner, method, monkeypatch):
    module = types.ModuleType("their_module")
    module.Trainer = Trainer
    monkeypatch.setitem(sys.modules, "their_module", module)
    before = vars(Trainer)[method]
    loop = Loop(f"their_module:Trainer.{method}")
    loop.backward()  # the first module that runs shows that the script's functions exist
    getattr(owner, method)(1)
    getattr(owner, method)(2)
    loop.boundaries.close()
    getattr(owner, method)(3)
    assert loop.steps == 2
    assert vars(Trainer)[method] is before
    assert loop.errors == []


def test_nothing_is_left_in_torch(loop):
    from torch.amp.grad_scaler import GradScaler
    from torch.optim import optimizer

    import ddptrace_capture

    hooks, scaled = dict(optimizer._global_optimizer_post_hooks), GradScaler.step
    assert hooks
    loop.boundaries.close()
    assert not optimizer._global_optimizer_post_hooks
    assert GradScaler.step is not scaled
    assert ddptrace_capture._listeners == []
    loop.optimizer.step()
    assert loop.steps == 0
