"""The measured SQL, in one place because families share it."""

from typing import Final

TABLE_NAME: Final = "items"
FILTERED_QTY: Final = 7

GROUP_BY: Final = f"SELECT grp, sum(price) AS total, count(*) AS n FROM {TABLE_NAME} GROUP BY grp"
FILTERED: Final = f"SELECT id, price FROM {TABLE_NAME} WHERE qty = {FILTERED_QTY}"
COUNT: Final = f"SELECT count(*) AS n FROM {TABLE_NAME}"
LOOKUP: Final = f"SELECT * FROM {TABLE_NAME} WHERE id = $1"
STREAM: Final = f"SELECT id, grp, price FROM {TABLE_NAME}"
