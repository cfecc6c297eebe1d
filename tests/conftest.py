import signal

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """A shell starts programs in the background with ignored signals, which trainers respect."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture
def torch_as_before():
    """One thread, as a trainer leaves torch; afterwards torch is as it was, random state included.

    The trained policies of a test differ in the last bits by the number of threads.
    """
    torch = pytest.importorskip("torch")
    threads, state = torch.get_num_threads(), torch.get_rng_state()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
    torch.set_rng_state(state)
    torch.set_flush_denormal(False)
