-- See tests/planner/workarounds.py.

## a local time that a zone skips
SELECT CAST((TIMESTAMP '2024-03-10 02:30:00' AT TIME ZONE 'America/New_York') AS TEXT) AS x
--
2024-03-10T07:30:00Z
