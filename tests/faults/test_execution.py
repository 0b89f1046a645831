"""Nothing that is read is executed: a file names code, and that code never runs."""

import pytest

from pmoss_datasets import Recipe, collect, open_dataset, suite
from pmoss_env.errors import DatasetError, DescriptionError


def test_a_rebuild_imports_nothing_that_the_metadata_names(tampered, canary, run):
    name, trace = canary
    recipe = {"env": {"machine": "toy", "slices": 4}, "episodes": 3, "reference_episodes": 0}
    behaviours = [{"policy": f"{name}:make", "arguments": ["an argument"]}]
    folder = tampered(recipe={**recipe, "behaviours": behaviours})
    output = run("data", "verify", folder, "--rebuild", code=1)
    assert f"cannot be rebuilt: policy '{name}:make'" in output and f"--trust {name}:make" in output
    output = run("data", "verify", folder, "--rebuild", "--trust", "another:make", code=1)
    assert f"--trust {name}:make" in output
    with pytest.raises(DescriptionError, match="what a file names is not imported"):
        suite.rebuild(open_dataset(folder), folder.parent / "again")
    assert not trace.exists()
    output = run("data", "verify", folder, "--rebuild", "--trust", f"{name}:make", code=1)
    assert "cannot be made of its arguments" in output and trace.exists()


def test_a_recipe_file_imports_nothing_unless_the_command_names_it(canary, tmp_path):
    name, trace = canary
    path = tmp_path / "recipe.toml"
    path.write_text(f'[[behaviours]]\npolicy = "{name}:make"\n[env]\nmachine = "toy"\n')
    with pytest.raises(DescriptionError, match=rf"recipe\.toml: .*--trust {name}:make"):
        Recipe.from_toml(path)
    assert not trace.exists()
    with pytest.raises(DescriptionError, match="cannot be made of its arguments"):
        collect(Recipe.from_toml(path, [f"{name}:make"]), tmp_path / "out")


def test_a_dataset_of_a_foreign_function_is_another_dataset(tampered, canary):
    name, trace = canary
    recipe = Recipe(env={"machine": "toy", "slices": 4}, episodes=3, reference_episodes=0)
    folder = tampered(recipe={**recipe.as_dict(), "behaviours": [{"policy": f"{name}:make"}]})
    with pytest.raises(DatasetError, match="from another recipe"):
        suite.obtain(recipe, folder)
    assert not trace.exists()


def test_a_library_that_the_metadata_names_is_reported_and_the_others_are_checked(
    whole, tampered, tmp_path, run
):
    library = tmp_path / "index.so"
    library.write_bytes(b"\x7fELF")
    name = f"plugin:{library}"
    folder = tampered(env_kwargs={**whole.metadata.env_kwargs, "index": name})
    output = run("data", "verify", folder, whole.path, code=1)
    assert output.count("\n") == 1 and output.startswith(str(folder)) and "not registered" in output
    assert "foreign index" in run("list", "datasets", "--root", folder.parent)
    output = run("data", "verify", folder, "--plugin", library)
    assert "1 datasets, nothing wrong" in output and "not checked" not in output
    assert "no' cannot be read" in run("data", "verify", folder, "--plugin", "no", code=2)


def test_what_needs_a_workload_that_is_gone_is_not_called_checked(whole, tampered, run):
    folder = tampered(env_kwargs={**whole.metadata.env_kwargs, "workload": "/gone/mine.toml"})
    output = run("data", "verify", folder)
    assert "not checked: " in output and "workload = '/gone/mine.toml': cannot be loaded" in output
    assert "1 datasets, nothing wrong in what can be checked here" in output
