-- See tests/planner/workarounds.py.

## now() has no zone
SELECT arrow_typeof(now()) AS x
--
Timestamp(ns, "+00:00")
