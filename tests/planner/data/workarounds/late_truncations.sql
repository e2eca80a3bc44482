-- See tests/planner/workarounds.py.

## date_trunc of an instant without nanoseconds overflows
SELECT id, date_trunc('month', moment) AS x FROM late
--
1 | 1500-03-01 00:00:00
2 | 2024-02-01 00:00:00
3 | 9999-12-01 00:00:00
