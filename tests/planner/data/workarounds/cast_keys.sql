-- See tests/planner/workarounds.py.

## an output is taken for the cast of a column of its name
SELECT max(id) AS a, CAST(a AS VARCHAR) AS k FROM t GROUP BY CAST(a AS VARCHAR) ORDER BY a
--
26 | 5
33 | NULL
34 | 6
35 | 0
36 | 1
37 | 2
38 | 3
39 | 4
