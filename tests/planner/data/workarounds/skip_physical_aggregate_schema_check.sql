-- See tests/planner/workarounds.py.

## DISTINCT of x IS TRUE is an internal error
SELECT DISTINCT (s = 'b') IS TRUE AS x FROM m ORDER BY x
--
False
True
