"""Builds and runs the C++ tests and examples: as they ship, and under sanitizers."""

import re
import warnings
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from tests.native.builds import (
    REPOSITORY,
    SANITIZERS,
    build_arm,
    build_native,
    check_syntax,
    has_clang,
    need_compiler,
    processor_sources,
    run,
)
from tests.native.examples import EXAMPLES, need_example

#: What each build runs. ThreadSanitizer looks at what runs in several threads: the rest of the
#: tests would take it a quarter of an hour. Both leave out what takes the mean of much work that
#: other tests do, too.
FILTERS = {
    "plain": "*",
    "thread": "*Concurrent*:*Epochs*:Batch*:Team*:BlockPool*:*Runner*:"
    "SpscRing*:Counters*:Probe*:Window*:Item*:Affinity*:*Migration*:Numa*:*LargeValues*:"
    "ScanPaths.TheSameSeed*:Plugin.AGood*:Plugin.OurOwn*:Plugin.Threads*:Plugin.Hidden*:"
    "Plugin.SlicesCome*:BulkLoad.LoadsParts*",
    "address-undefined": "*-RTreeProfile*:*FormulaAgainstTrace*:"
    "BulkLoad.FillsNodesLikeRandomInserts:Server.MoreBandwidthNeverLowersThroughput",
}


#: A failed test in the brief output of googletest.
FAILED = r"^\[  FAILED  \] (\S+?)(?:, where .*)? \(\d+ ms\)$"


@pytest.mark.native
@pytest.mark.parametrize("name", SANITIZERS)
def test_native_tests_pass(name: str) -> None:
    build = build_native(name, "pmoss_tests")

    def run_tests(chosen: str, *more: str) -> str:
        return run(
            # ThreadSanitizer needs the classic address layout.
            *(("setarch", "-R") if name == "thread" else ()),
            *(
                build / "tests" / "pmoss_tests",
                f"--gtest_filter={chosen}",
                "--gtest_brief=1",
                *more,
            ),
            timeout=1800,
            # Memory that a sanitizer gives back now and then would hide pages that came.
            ASAN_OPTIONS="allocator_release_to_os_interval_ms=-1",
            TSAN_OPTIONS="halt_on_error=1:allocator_release_to_os_interval_ms=-1",
            UBSAN_OPTIONS="print_stacktrace=1:halt_on_error=1",
        )

    try:
        output = run_tests(FILTERS[name])
    except AssertionError as error:
        # A host that stands still for a third of a second costs a measurement its queries. What a
        # sanitizer finds ends the process, without a list of what failed.
        text = str(error)
        if "Sanitizer" in text or "test suites ran." not in text:
            raise
        failed = re.findall(FAILED, text, re.M)
        # An empty filter would run nothing, and pass.
        assert 1 <= len(failed) <= 2, text
        output = run_tests(":".join(failed), "--gtest_repeat=5")
        warnings.warn(f"failed once, and passed five times after that:\n{text}", stacklevel=1)
    assert "[  PASSED  ]" in output and "[  FAILED  ]" not in output


def test_what_is_not_compiled_for_threads_has_no_test_for_them() -> None:
    tests = REPOSITORY / "native" / "tests"
    left_out = re.findall(r'EXCLUDE REGEX\s+"([^"]+)"', (tests / "CMakeLists.txt").read_text())
    files = [path for path in tests.rglob("*_test.cpp") if re.search(left_out[0], str(path))]
    assert len(left_out) == 1 and len(files) == 13
    chosen = FILTERS["thread"].split(":")
    for path in files:
        names = re.findall(r"^TEST(?:_F|_P)?\((\w+),\s*(\w+)\)", path.read_text(), re.M)
        assert names
        assert not [n for n in names if any(fnmatchcase(".".join(n), each) for each in chosen)]


#: Inserts and scans, data on their way and readers outside the runtime for a minute; and a live run
#: in which each answer is looked at, and each query counted in one round.
STRESSES = [
    *(("WhileSchedulesChangeAllTheTime", name) for name in ("plain", "thread")),
    *(("WhileALiveRunSwitches", name) for name in ("thread", "address-undefined")),
]


@pytest.mark.native
@pytest.mark.heavy
@pytest.mark.parametrize(("test", "name"), STRESSES)
def test_nothing_is_lost_at_length(test: str, name: str) -> None:
    tests = build_native(name, "pmoss_tests") / "tests" / "pmoss_tests"
    output = run(
        *(("setarch", "-R") if name == "thread" else ()),
        *(tests, f"--gtest_filter=*{test}"),
        timeout=1800,
        PMOSS_STRESS_SECONDS="60",
        PMOSS_STRESS_SWITCHES="10000",
        TSAN_OPTIONS="halt_on_error=1",
        UBSAN_OPTIONS="print_stacktrace=1:halt_on_error=1",
    )
    assert "[  PASSED  ] 2 tests" in output
    assert "Live" not in test or re.search(r"^10000 switches, \d+ queries$", output, re.M)


@pytest.mark.native
def test_the_builds_with_sanitizers_are_by_clang() -> None:
    """So that clang++ compiles all layers and their tests, with its warnings as errors."""
    need_compiler("clang++")
    build = build_native("address-undefined", "pmoss_tests")
    assert re.search(r"^CMAKE_CXX_COMPILER:.*clang", (build / "CMakeCache.txt").read_text(), re.M)


@pytest.fixture(scope="module")
def arm_build() -> Path:
    need_compiler("aarch64-linux-gnu-g++")
    return build_arm()


@pytest.mark.native
def test_native_code_is_valid_for_aarch64(arm_build: Path) -> None:
    """What names a processor, without code; the heavy test below generates that of everything."""
    sources = processor_sources()
    names = {path.name for path in sources}
    assert {"search.cpp", "user_page.cpp", "clock.cpp", "kernels.cpp", "decay.cpp"} <= names
    check_syntax(arm_build, sources)
    run(
        *("aarch64-linux-gnu-g++", "-std=c++20", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"),
        REPOSITORY / "native" / "tests" / "guest" / "guest_init.cpp",
        timeout=600,
    )


@pytest.mark.native
@pytest.mark.heavy
def test_native_code_compiles_for_aarch64(arm_build: Path) -> None:
    assert build_arm("all") == arm_build


@pytest.mark.native
@pytest.mark.heavy
@pytest.mark.parametrize("name", [name for name, flags in SANITIZERS.items() if flags])
def test_the_examples_pass_under_a_sanitizer(name: str, tmp_path: Path) -> None:
    for example in EXAMPLES.values():
        need_example(example)
    # By the same compiler: each has a runtime of its own.
    compiler = "clang++" if has_clang() else "c++"
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
