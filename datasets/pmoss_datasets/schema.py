"""The schema of all datasets: fields, episodes and metadata.

The fields that are special to an environment stand in its own folder, e.g. ``spatial/schema.py``.
"""

from __future__ import annotations

import io
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from dataclasses import field as dataclass_field
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from pmoss_datasets.checked import check
from pmoss_env.errors import DatasetError, DescriptionError
from pmoss_env.types import BoolArray

Array = npt.NDArray[Any]

#: Raised by one whenever a reader of the older version could misread the newer one.
SCHEMA_VERSION = 3
FORMAT = "pmoss-dataset"
#: ``<namespace>/<task>/<tier>-v<version>``; also a legal Minari id.
ID_PATTERN = re.compile(r"[a-z0-9][a-z0-9_-]*/[a-z0-9][a-z0-9_-]*/[a-z0-9][a-z0-9_-]*-v[0-9]+")
#: The domain of metadata and recipes that name none: those of before there were others.
FIRST_DOMAIN = "spatial"
#: Optional fields: what random actions reach on an episode's instance on average, and a search.
INSTANCE_FIELDS = ("instance_random", "instance_search")


@dataclass(frozen=True)
class Field:
    """One array of ``data.hdf5``; axis 0 is the episode and is not part of ``axes``.

    Attributes:
        axes: one symbol per further axis; ``Metadata.sizes`` says how long each is.
        dtype: NumPy dtype.
        optional: only in datasets whose metadata lists it under ``optional_fields``.
        shape: sizes of the axes after those of ``axes``.
        nan: whether NaN stands for an unknown value.
        signed: whether values may be below 0.
        fill: what episodes that are shorter than others are padded with.
    """

    name: str
    axes: str
    dtype: str
    unit: str
    meaning: str
    optional: bool = False
    shape: tuple[int, ...] = ()
    nan: bool = False
    signed: bool = False
    fill: int = 0


#: What an episode of every domain has; T steps.
COMMON_FIELDS = {
    "episode": Field("episode", "", "int64", "1", "its number in the recipe, once in a dataset"),
    "seed": Field("seed", "", "int64", "1", "seed given to the environment's reset()"),
    "policy": Field(
        "policy", "", "int16", "1", "behaviour policy: index into metadata policy_names"
    ),
    "propensity": Field(
        "propensity", "T", "float32", "1", "probability of that choice, NaN if not known", nan=True
    ),
}


@dataclass(frozen=True)
class Played:
    """A played episode and what the dataset's metadata must know of it.

    Attributes:
        values: a scalar or array per field.
        about: plain JSON, for ``Domain.facts``.
    """

    values: Mapping[str, Any]
    about: Mapping[str, Any] = dataclass_field(default_factory=dict)

    def to_bytes(self) -> bytes:
        """An npz archive; from_bytes() reads it. Nothing in it needs unpickling."""
        arrays = {name: np.asarray(value) for name, value in self.values.items()}
        arrays["about"] = np.frombuffer(json.dumps(self.about).encode(), dtype=np.uint8)
        buffer = io.BytesIO()
        np.savez(buffer, **arrays)  # type: ignore[arg-type]
        return buffer.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """What to_bytes() wrote."""
        with np.load(io.BytesIO(data), allow_pickle=False) as file:
            arrays: dict[str, Array] = {name: file[name] for name in file.files}
        about = json.loads(arrays.pop("about").tobytes())
        return cls(
            {name: array.item() if array.ndim == 0 else array for name, array in arrays.items()},
            about,
        )


@dataclass(frozen=True, kw_only=True)
class Metadata(ABC):
    """The contents of ``metadata.json``: what one must know to use, cite and redo a dataset.

    A domain adds what its episodes need by a subclass.

    Attributes:
        id: ``pmoss/<task>/<tier>-v<n>``.
        env_kwargs: keyword arguments of the domain's environment.
        recipe: how it was collected, see ``recipes.Recipe``; empty for imported data.
        seed: the recipe's seed.
        code_version: of pmoss_env.
        episodes: number of episodes, N.
        policy_names: what ``policy`` indexes.
        reference_scores: ``{name: {mean, std, n}}`` of the outcomes of the reference episodes. The
            domain's ``references`` name those that are 0 and 100 of Dataset.normalized_score().
            Empty if not computed.
        provenance: backend, its version and, on hardware, the host.
        checksums: sha256 of each field's dtype, shape and bytes.
        optional_fields: names of the optional fields that it holds.
        headroom: of the task, a row of the study headroom; empty if it was not measured.
        schema_version: SCHEMA_VERSION of the writer.
        domain: whose episodes they are; not in the files of the first domain.
    """

    id: str
    env_kwargs: Mapping[str, Any]
    recipe: Mapping[str, Any]
    seed: int
    code_version: str
    episodes: int
    policy_names: tuple[str, ...]
    reference_scores: Mapping[str, Mapping[str, float]]
    provenance: Mapping[str, Any]
    checksums: Mapping[str, str]
    optional_fields: tuple[str, ...] = ()
    headroom: Mapping[str, Any] = dataclass_field(default_factory=dict)
    schema_version: int = SCHEMA_VERSION
    domain: str = FIRST_DOMAIN

    @property
    @abstractmethod
    def fields(self) -> tuple[Field, ...]:
        """The fields of the data file, those that every dataset has first."""

    @property
    def sizes(self) -> Mapping[str, int]:
        """Length of each axis; of others the data file's first field that has it tells."""
        return {}

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"format": FORMAT, **without_first_domain(asdict(self))}

    @classmethod
    def from_json(cls, data: Any, where: Path) -> Self:
        """Reads what to_json() wrote; raises DatasetError naming the file and the key."""
        check_version(data, where)
        data = {"domain": FIRST_DOMAIN, **data}
        names = [field.name for field in fields(cls)]
        for name in names:
            if name not in data:
                raise DatasetError(f"{where}: {name}: is missing")
        values: dict[str, Any] = {name: data[name] for name in names}
        try:
            check(cls, values)
        except DescriptionError as error:
            raise DatasetError(f"{where}: {error}") from error
        for name, value in values.items():
            values[name] = tuple(value) if isinstance(value, list) else value
        return cls(**values)


def without_first_domain(values: dict[str, Any]) -> dict[str, Any]:
    """Without the name of the domain where it is the first: as before there were others."""
    return {k: v for k, v in values.items() if k != "domain" or v != FIRST_DOMAIN}


def check_version(data: Any, where: Path, form: str = FORMAT, newest: int = SCHEMA_VERSION) -> None:
    """Refuses what is no metadata of a dataset, or of another version: DatasetError."""
    if not isinstance(data, dict) or data.get("format") != form:
        raise DatasetError(f"{where}: is not the metadata of a {form}")
    version = data.get("schema_version")
    if not isinstance(version, int) or version < 1:
        raise DatasetError(f"{where}: schema_version = {version!r}: must be a whole number")
    if version < newest:
        raise DatasetError(
            f"{where}: schema_version = {version}: written by an older version, pmoss-env "
            f"{data.get('code_version')!r}; collect it again from its recipe"
        )
    if version > newest:
        raise DatasetError(
            f"{where}: schema_version = {version}: written by a newer version, pmoss-env "
            f"{data.get('code_version')!r}; this one reads up to {newest}"
        )


def sizes_of(metadata: Metadata, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, int]:
    """Length of each axis, by the metadata and else by the shapes of the fields."""
    sizes = dict(metadata.sizes)
    for field in metadata.fields:
        shape = shapes.get(field.name, ())
        if len(shape) == 1 + len(field.axes) + len(field.shape):
            for axis, size in zip(field.axes, shape[1:], strict=False):
                sizes.setdefault(axis, size)
    return sizes


def field_shape(field: Field, metadata: Metadata, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """Shape of a field's array over all episodes."""
    return (metadata.episodes, *(sizes.get(axis, 0) for axis in field.axes), *field.shape)


def stack(
    rows_of: Sequence[Mapping[str, Any]], expected: Sequence[Field], ragged: str
) -> dict[str, Array]:
    """Episodes as one array per field, axis 0 the episode; shorter ones are padded.

    Args:
        rows_of: the values of each episode by field; None or absent where it lacks one.
        ragged: symbols of the axes that may differ in length between episodes.

    Raises:
        DatasetError: a field is missing in some episodes, or values do not fit its dtype.
    """
    arrays: dict[str, Array] = {}
    for field in expected:
        lacking = [i for i, values in enumerate(rows_of) if values.get(field.name) is None]
        if field.optional and len(lacking) == len(rows_of):
            continue
        if lacking:
            raise DatasetError(f"episode {lacking[0]}: {field.name}: is missing; others have it")
        rows = [np.asarray(values[field.name]) for values in rows_of]
        fixed = {
            tuple(
                n
                for n, axis in zip(row.shape, f"{field.axes:.<9}", strict=False)
                if axis not in ragged
            )
            for row in rows
        }
        if len(fixed) > 1 or len({row.ndim for row in rows}) > 1:
            shapes = sorted({row.shape for row in rows})
            raise DatasetError(f"{field.name}: episodes of different shapes: {shapes}")
        kind = np.dtype(field.dtype)
        for i, row in enumerate(rows):
            if not np.can_cast(row.dtype, kind, "same_kind"):
                raise DatasetError(f"episode {i}: {field.name}: {row.dtype} does not fit {kind}")
            if kind.kind == "i" and row.size and np.abs(row).max() > np.iinfo(kind).max:
                raise DatasetError(f"episode {i}: {field.name}: a value does not fit {kind}")
        arrays[field.name] = _padded(rows, field)
    return arrays


def _padded(rows: list[Array], field: Field) -> Array:
    longest = tuple(int(size) for size in np.max([row.shape for row in rows], axis=0))
    result = np.full((len(rows), *longest), field.fill, dtype=field.dtype)
    for number, row in enumerate(rows):
        place: tuple[int | slice, ...] = (number, *(slice(0, size) for size in row.shape))
        result[place] = row
    return result


def first_wrong(wrong: BoolArray, name: str, values: Array, rule: str) -> Iterator[str]:
    """The first wrong entry of a field in words, if there is one."""
    if not wrong.any():
        return
    index = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
    place = ", ".join(
        f"{axis} {i}" for axis, i in zip(("episode", "entry", "counter"), index, strict=False)
    )
    yield f"{place}: {name} = {values[index]}: {rule}"
