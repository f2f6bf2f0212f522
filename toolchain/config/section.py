"""What every section of `node.toml` is."""

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """One table of the file: no unknown keys, no silent conversion, no change afterwards."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, hide_input_in_errors=True)
