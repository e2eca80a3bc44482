Texts beside dates, times, booleans and bytes; see planner/sql/rules/values.py.

## coalesce of a date and a text
SELECT coalesce(day, '2024-07-01') FROM (VALUES (CAST(NULL AS DATE))) AS t(day)
--
2024-07-01

## booleans between texts
SELECT CAST(1 AS BOOLEAN) BETWEEN 'false' AND TRUE
--
True
