"""What all tables have in common."""

from pydantic import BaseModel, ConfigDict, ValidationInfo, field_validator


class Section(BaseModel):
    """A table of the file; unknown keys are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    @field_validator("*", mode="before")
    @classmethod
    def _refuse_boolean_numbers(cls, value: object, info: ValidationInfo) -> object:
        # Which pydantic takes for 1: a limit of one second, or of one session.
        numeric = cls.model_fields[info.field_name or ""].annotation in {int, float}
        if numeric and isinstance(value, bool):
            raise ValueError("it is not a number")
        return value
