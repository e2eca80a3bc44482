-- See tests/planner/workarounds.py.

## TIMESTAMP '9999-12-31' overflows
SELECT id FROM late WHERE moment = TIMESTAMP '9999-12-31 00:00:00'
--
3
