Tables: days (id BIGINT, tm TIME, b BYTEA).

## times
SELECT rank() OVER (ORDER BY tm) AS r, count(*) OVER (PARTITION BY id ORDER BY tm DESC, id) AS n FROM days
--
SELECT rank() OVER (ORDER BY arrow_cast(tm, 'Int64')) AS r, count(*) OVER (PARTITION BY id ORDER BY arrow_cast(tm, 'Int64') DESC, id) AS n FROM days

## bytes
SELECT count(*) OVER (ORDER BY b) AS n FROM days
--
SELECT count(*) OVER (ORDER BY encode(arrow_cast(b, 'LargeBinary'), 'hex')) AS n FROM days

## frames of rows
SELECT count(*) OVER (ORDER BY tm ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS n FROM days
--
SELECT count(*) OVER (ORDER BY tm ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS n FROM days

## frames of equal rows
SELECT count(*) OVER (ORDER BY tm RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS n FROM days
--
SELECT count(*) OVER (ORDER BY arrow_cast(tm, 'Int64') RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS n FROM days

## bytes of a fixed size
SELECT rank() OVER (ORDER BY fixed) AS n FROM mixed
--
SELECT rank() OVER (ORDER BY encode(arrow_cast(fixed, 'LargeBinary'), 'hex')) AS n FROM mixed
