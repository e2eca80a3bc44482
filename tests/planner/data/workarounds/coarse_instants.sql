-- See tests/planner/workarounds.py.

## a constant is cut to the seconds of the column beside it
SELECT id FROM m WHERE whole = TIMESTAMP '2024-02-29 23:59:59.5'
--
(no rows)

## a constant is cut to the seconds of the column below a cast
SELECT id FROM m WHERE CAST(whole AS TIMESTAMP) = '2024-02-29 23:59:59.5'
--
(no rows)

## an interval is cut to the seconds of the column beside it
SELECT id, CAST(whole + INTERVAL '500 milliseconds' AS VARCHAR) AS x FROM m WHERE id < 2
--
0 | 2024-02-29 23:59:59.5
1 | 2024-02-29 23:59:59.5
--
to_timestamp_nanos
