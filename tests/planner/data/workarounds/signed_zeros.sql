-- See tests/planner/workarounds.py.

## zeros with a sign in lists and CASE
SELECT x IN (0, 5, 6, 7, 8), CASE x WHEN 0 THEN 'zero' END, nullif(x, 0), x = 0 OR x = 5 OR x = 6 OR x = 7 FROM (VALUES (-0.0)) AS t(x)
--
True | zero | NULL | True
