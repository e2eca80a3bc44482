Tables: days (id BIGINT, tm TIME, b BYTEA).

## literals and casts
SELECT id FROM days WHERE tm > CAST('10:30' AS TIME) AND tm < CAST('12:00' AS TIME)
--
SELECT id FROM days WHERE tm > arrow_cast('10:30', 'Time64(Microsecond)') AND tm < arrow_cast('12:00', 'Time64(Microsecond)')

## fractions that microseconds do not have, and other types
SELECT CAST('10:30:00.1234567' AS TIME) AS x, TRY_CAST('10:30' AS TIME) AS y FROM days
--
SELECT CAST('10:30:00.1234567' AS TIME) AS x, TRY_CAST('10:30' AS TIME) AS y FROM days
