"""What holds for all tests."""

import signal

from hypothesis import settings

# A busy machine is no fault of the code.
settings.register_profile("without deadlines", deadline=None)
settings.load_profile("without deadlines")

# Whoever starts the tests may ignore these (nohup, a shell's background), and so would all that
# tests start: a signal that is ignored is left alone.
for _number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
    if signal.getsignal(_number) == signal.SIG_IGN:
        _is_interrupt = _number == signal.SIGINT
        signal.signal(_number, signal.default_int_handler if _is_interrupt else signal.SIG_DFL)
