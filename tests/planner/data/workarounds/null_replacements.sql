Functions that replace NULL; see planner/sql/rules/values.py.

## nvl of a decimal
SELECT nvl(price, 0) FROM (SELECT CAST('12345678901234567.89' AS DECIMAL(19, 2)) AS price) AS t
--
12345678901234567.89

## nvl of a date
SELECT arrow_typeof(nvl(day, day)) FROM (SELECT DATE '2024-07-01' AS day) AS t
--
Date32
