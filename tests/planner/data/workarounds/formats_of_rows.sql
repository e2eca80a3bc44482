-- See tests/planner/workarounds.py.

## a format that is NULL
SELECT count(to_char(DATE '2022-01-08', x)) FROM (VALUES ('ab'), (NULL)) AS v(x)
--
1
