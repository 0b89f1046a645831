"""What all tests share."""

import signal


def pytest_configure() -> None:
    """Lets Ctrl-C work where the tests run in the background, whose shells ignore it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
