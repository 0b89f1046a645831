"""What the module shows to other libraries that are loaded beside it."""

import shutil
import subprocess
import sys

import pytest

from pmoss_env import _native


@pytest.mark.skipif(sys.platform != "linux", reason="nm reads ELF")
def test_no_library_of_the_process_can_take_the_place_of_a_function() -> None:
    if (nm := shutil.which("nm")) is None:
        pytest.skip("nm of binutils is missing")
    command = [nm, "--dynamic", "--defined-only", "--format=just-symbols", _native.__file__]
    listed = subprocess.run(command, check=True, capture_output=True, text=True)
    assert listed.stdout.split() == ["PyInit__native"]
