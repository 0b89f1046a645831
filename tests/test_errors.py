import multiprocessing
from concurrent.futures import ProcessPoolExecutor

from pmoss_env.errors import MissingExtraError, PmossError, UnknownNameError


def test_unknown_name_suggests_the_nearest() -> None:
    error = UnknownNameError("machine", "skylake-x-8m", ["milan-nps4", "skylake-x-8n"])
    assert str(error) == (
        "unknown machine 'skylake-x-8m'. Did you mean 'skylake-x-8n'? "
        "Known: milan-nps4, skylake-x-8n"
    )
    assert isinstance(error, KeyError)
    assert isinstance(error, PmossError)


ERRORS = (UnknownNameError("machine", "x", ["y"]), MissingExtraError("torch", "agents"))


def fail(number: int) -> None:
    raise ERRORS[number]


def test_errors_come_whole_out_of_worker_processes() -> None:
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        for number, error in enumerate(ERRORS):
            again = pool.submit(fail, number).exception(timeout=60)
            assert type(again) is type(error)
            assert str(again) == str(error)


def test_missing_extra_says_what_to_install() -> None:
    assert "pip install '.[agents]' in a checkout" in str(MissingExtraError("torch", "agents"))
