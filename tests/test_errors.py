from pmoss_env.errors import MissingExtraError, PmossError, UnknownNameError


def test_unknown_name_suggests_the_nearest() -> None:
    error = UnknownNameError("machine", "skylake-x-8m", ["milan-nps4", "skylake-x-8n"])
    assert str(error) == (
        "unknown machine 'skylake-x-8m'. Did you mean 'skylake-x-8n'? "
        "Known: milan-nps4, skylake-x-8n"
    )
    assert isinstance(error, KeyError)
    assert isinstance(error, PmossError)


def test_missing_extra_says_what_to_install() -> None:
    assert "pip install 'pmoss-env[agents]'" in str(MissingExtraError("torch", "agents"))
