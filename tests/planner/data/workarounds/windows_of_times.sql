-- See tests/planner/workarounds.py.

## a window over times, without a frame
SELECT count(*) OVER (ORDER BY x) FROM (SELECT TIME '10:00' AS x UNION ALL SELECT TIME '11:00') AS q
--
1
2
