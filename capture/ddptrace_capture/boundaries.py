"""Where a step of somebody else's training loop ends."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any, TypeAlias

import ddptrace_capture
from ddptrace_capture.leader import Leader

Undo: TypeAlias = Callable[[], object]


class Boundaries:
    """Calls a listener at the end of each step, from one source at a time.

    `ddptrace_capture.step()` is exact and silences the others; then comes what the user named;
    else optimizers are listened to. `close` leaves nothing behind in torch.
    """

    def __init__(
        self,
        listener: Callable[[], None],
        step_mark: str | None,
        on_error: Callable[[Exception], None],
    ) -> None:
        self._listener = listener
        self._on_error = on_error
        self._leader = Leader()
        self._undo: list[Undo] = []
        self._explicit = False
        self._reported = False
        self._marked_by: str | None = None
        self._waits_for_forward = False
        ddptrace_capture._listeners.append(self._on_call)
        self._undo.append(lambda: ddptrace_capture._listeners.remove(self._on_call))
        if step_mark is None:
            self._listen_to_optimizers()
        else:
            self._listen_to_ranges(step_mark)
            self._listen_to_function(step_mark)

    def settle(self) -> bool:
        """Fix which optimizer ends a step; tell whether it is another one than until now."""
        return not self._explicit and self._leader.settle()

    def close(self) -> None:
        """Remove every hook."""
        while self._undo:
            self._undo.pop()()

    def _on_call(self) -> None:
        first, self._explicit = not self._explicit, True
        if not (first and self._reported):  # else another source has counted this step already
            self._report()

    def _on_mark(self, kind: str) -> None:
        """Note the end of a range or function; where several have the name, the first counts."""
        self._marked_by = self._marked_by or kind
        if not self._explicit and kind == self._marked_by:
            self._report()

    def _on_optimizer(self, optimizer: object) -> None:
        try:
            ends = not self._explicit and self._leader.ends_iteration(optimizer)
        except Exception as error:
            self._on_error(error)
        else:
            if ends:
                self._report()

    def _report(self) -> None:
        self._reported = True
        if in_backward():
            self._report_at_forward()
        else:
            self._listener()

    def _report_at_forward(self) -> None:
        """Report when the next module runs: torch's profiler must not begin in a backward pass."""
        if self._waits_for_forward:
            return
        from torch.nn.modules.module import register_module_forward_pre_hook

        def report(*_: object) -> None:
            if not in_backward():  # where a checkpoint's forward pass runs once more
                handle.remove()
                self._waits_for_forward = False
                self._listener()

        self._waits_for_forward = True
        handle = register_module_forward_pre_hook(report)
        self._undo.append(handle.remove)

    def _listen_to_optimizers(self) -> None:
        from torch.amp.grad_scaler import GradScaler
        from torch.optim.optimizer import register_optimizer_step_post_hook

        stepped: list[int] = []

        def after_step(optimizer: object, _args: object, _kwargs: object) -> None:
            stepped.append(id(optimizer))
            del stepped[:-1]
            self._on_optimizer(optimizer)

        # Dynamo would otherwise trace the recorder into a compiled optimizer step.
        after_step._torchdynamo_disable = True  # type: ignore[attr-defined]
        self._undo.append(register_optimizer_step_post_hook(after_step).remove)

        def scaled_step(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
            stepped.clear()
            result = original(*args, **kwargs)
            # Gradients that overflowed: the iteration ends although no optimizer stepped.
            optimizer = args[1] if len(args) > 1 else kwargs.get("optimizer")
            if optimizer is not None and not stepped:
                self._on_optimizer(optimizer)
            return result

        self._wrap(GradScaler, "step", scaled_step)

    def _listen_to_ranges(self, name: str) -> None:
        import torch

        open_ranges: list[str] = []

        def exit_record(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
            result = original(*args, **kwargs)
            if args and getattr(args[0], "name", None) == name:
                self._on_mark("range")
            return result

        def push(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
            open_ranges.append(str(args[0] if args else kwargs.get("msg")))
            return original(*args, **kwargs)

        def pop(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
            result = original(*args, **kwargs)
            if open_ranges and open_ranges.pop() == name:
                self._on_mark("NVTX range")
            return result

        self._wrap(torch.autograd.profiler.record_function, "__exit__", exit_record)
        self._wrap(torch.cuda.nvtx, "range_push", push)
        self._wrap(torch.cuda.nvtx, "range_pop", pop)

    def _listen_to_function(self, name: str) -> None:
        """Wrap the function once it exists: when the first module runs, the loop's are defined."""
        from torch.nn.modules.module import register_module_forward_pre_hook

        module, _, path = name.rpartition(":")

        def find(*_: object) -> None:
            try:
                owner: Any = sys.modules.get(module or "__main__")
                *parents, last = path.split(".")
                for parent in parents:
                    owner = getattr(owner, parent, None)
                if callable(getattr(owner, last, None)):
                    handle.remove()
                    self._wrap(owner, last, self._called)
            except Exception as error:
                self._on_error(error)

        handle = register_module_forward_pre_hook(find)
        self._undo.append(handle.remove)

    def _called(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        result = original(*args, **kwargs)
        self._on_mark("function")
        return result

    def _wrap(self, owner: Any, name: str, around: Callable[..., Any]) -> None:  # noqa: ANN401
        """Put `around(original, …)` in the place of a function until `close`."""
        original, stored = getattr(owner, name), vars(owner)[name]

        @functools.wraps(original)
        def wrapper(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
            return around(original, *args, **kwargs)

        is_bound = isinstance(stored, (staticmethod, classmethod))
        setattr(owner, name, staticmethod(wrapper) if is_bound else wrapper)
        self._undo.append(lambda: setattr(owner, name, stored))


def in_backward() -> bool:
    """Tell whether this thread is inside a backward pass."""
    import torch

    task: Any = getattr(torch._C, "_current_graph_task_id", None)
    return task is not None and task() != -1
