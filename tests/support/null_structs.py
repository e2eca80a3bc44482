"""Rows as converters make them: below NULL structs lie zeros and empty texts."""

import pyarrow as pa


def null_structs() -> pa.Table:
    """Return two rows; the structs of the first are NULL, in lists and structs too."""
    is_null = pa.array([True, False])
    inner = pa.StructArray.from_arrays([pa.array([0, 5])], names=["c"])
    struct = pa.StructArray.from_arrays(
        [pa.array([0, 5]), pa.array(["", "x"]), inner], names=["a", "b", "below"], mask=is_null
    )
    offsets = pa.array([0, 1, 2], pa.int32())
    columns = {
        "id": pa.array([1, 2]),
        "st": struct,
        "outer": pa.StructArray.from_arrays([struct], names=["st"]),
        "ls": pa.ListArray.from_arrays(offsets, struct),
    }
    fields = [pa.field(name, column.type, nullable=name != "id") for name, column in columns.items()]
    return pa.table(list(columns.values()), schema=pa.schema(fields))


READS = {
    "st['a']": [None, 5],
    "st['b']": [None, "x"],
    "st['below']['c']": [None, 5],
    "st['a'] IS NULL": [True, False],
    "outer['st']['b']": [None, "x"],
    "ls[1]['a']": [None, 5],
    "ls[1]['below']['c']": [None, 5],
}
"""Expression -> its values in these rows."""
