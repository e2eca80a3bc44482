-- See tests/planner/workarounds.py.

## an interval is cut to the seconds of the column beside it in FILTER
SELECT count(*) FILTER (WHERE whole >= whole + INTERVAL '500 milliseconds') AS x FROM m
--
0
--
to_timestamp_nanos
