"""Trained learners as a file: JSON with plain numbers, so that a stranger's file can hold nothing that runs.

The rows they were trained on go with them: a crawl that begins with a model goes on with its training set (S1-12).
Reads and writes no file itself.
"""

import msgspec

from opilio.learn.learner import RowLearner
from opilio.learn.learners import AnyModel, make_learner
from opilio.learn.rows import ATTRIBUTES
from opilio.model.errors import ConfigError


class ModelFile(msgspec.Struct, kw_only=True):
    """What a file holds."""

    schema: int = 1
    made_by: str = ""
    topic: str = ""
    table: dict[str, float] = {}  # the words that the attributes were counted with: a crawl counts with them too
    attributes: tuple[str, ...] = ATTRIBUTES
    rows: tuple[bytes, bytes] = (b"", b"")  # of irrelevant and relevant pages, float32
    models: dict[str, AnyModel] = {}


def write_models(learners: list[RowLearner], **about: object) -> bytes:
    """The file of some learners that were trained on the same rows."""
    models = {learner.name: learner.model for learner in learners}
    file = ModelFile(rows=learners[0].pack_rows(), models=models, **about)  # type: ignore[arg-type]
    return msgspec.json.format(msgspec.json.encode(file), indent=1) + b"\n"


def read_models(data: bytes, source: str) -> ModelFile:
    """A file read back; ConfigError names what is wrong with it."""
    try:
        file = msgspec.json.decode(data, type=ModelFile)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{source}: is no model file ({error}); 'opilio train' makes one") from error
    if file.schema != 1 or file.attributes != ATTRIBUTES:
        raise ConfigError(f"{source}: was made by another version of Opilio; train again with 'opilio train'")
    return file


def learner_from(file: ModelFile, name: str, source: str) -> RowLearner:
    """The learner of that name, or the first one where none is named, ready to go on."""
    name = name or next(iter(file.models), "")
    if name not in file.models:
        known = ", ".join(file.models) or "none"
        raise ConfigError(f"{source}: has no learner '{name}' (it has: {known}); see 'opilio train --learner'")
    learner = make_learner(name)
    try:
        learner.adopt(file.models[name], file.rows)
    except ValueError as error:
        raise ConfigError(f"{source}: is damaged: {error}") from error
    return learner
