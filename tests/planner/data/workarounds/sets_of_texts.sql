-- See tests/planner/workarounds.py.

## a large text and a large set
SELECT find_in_set(arrow_cast('b', 'LargeUtf8'), arrow_cast('a,b', 'LargeUtf8'))
--
2
