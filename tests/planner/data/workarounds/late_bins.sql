-- See tests/planner/workarounds.py.

## date_bin of an instant without nanoseconds is NULL
SELECT id FROM late WHERE date_bin(INTERVAL '1 day', moment) IS NULL
--
(no rows)
