-- See tests/planner/workarounds.py.

## a power
SELECT 2 ^ 3
--
8.0
