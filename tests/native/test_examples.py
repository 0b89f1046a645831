"""The conformance program on the example libraries, both built with a sanitizer."""

import re
from pathlib import Path

import pytest

from tests.native.builds import SANITIZERS, build_native, has_clang, run
from tests.native.examples import EXAMPLES, need_example


@pytest.mark.native
@pytest.mark.heavy
@pytest.mark.parametrize("name", [name for name, flags in SANITIZERS.items() if flags])
def test_the_examples_pass_under_a_sanitizer(name: str, tmp_path: Path) -> None:
    for example in EXAMPLES.values():
        need_example(example)
    # By the same compiler: each has a runtime of its own.
    compiler = "clang++" if name == "address-undefined" and has_clang() else "c++"
    words = ("-O1", "-g", f"-fsanitize={SANITIZERS[name]}")
    built = [example.build(tmp_path, *words, compiler=compiler) for example in EXAMPLES.values()]
    tests = build_native(name, "pmoss_tests") / "tests" / "pmoss_tests"
    output = run(
        # ThreadSanitizer needs the classic address layout.
        *(("setarch", "-R") if name == "thread" else ()),
        *(tests, "--gtest_filter=Plugin.GivenLibrariesPass"),
        timeout=1800,
        PMOSS_PLUGINS_TO_CHECK=":".join(map(str, built)),
        # Packages bring their libraries without ThreadSanitizer: it would miss their atomics, and
        # call what they order by them a race.
        TSAN_OPTIONS="halt_on_error=1 ignore_noninstrumented_modules=1",
        UBSAN_OPTIONS="print_stacktrace=1:halt_on_error=1",
    )
    assert len(re.findall(r"^CHECKED ", output, re.MULTILINE)) == len(EXAMPLES)
