Tables: p (id BIGINT, price DECIMAL(10, 2), big DECIMAL(38, 2), f DOUBLE, r REAL, n BIGINT),
t (id BIGINT, i BIGINT, s TEXT, ts TIMESTAMP(6), at TIMESTAMP(6) of New York),
w (u INT UNSIGNED, v BIGINT UNSIGNED, l DECIMAL(10, 2)[]).

## a cast that loses something is hidden
SELECT id FROM p WHERE CAST(price AS INT) = 1 AND arrow_cast(price, 'Int32') > 1
--
SELECT id FROM p WHERE greatest(CAST(price AS INT)) = 1 AND greatest(arrow_cast(price, 'Int32')) > 1

## one that loses nothing is not
SELECT id FROM p WHERE CAST(price AS DECIMAL(12, 3)) = 1 AND CAST(n AS INT) = 1 AND CAST(f AS INT) = 1
--
SELECT id FROM p WHERE CAST(price AS DECIMAL(12, 3)) = 1 AND CAST(n AS INT) = 1 AND CAST(f AS INT) = 1

## what is only shown is not hidden
SELECT CAST(price AS INT) FROM p ORDER BY CAST(price AS INT)
--
SELECT CAST(price AS INT) FROM p ORDER BY CAST(price AS INT)

## conditions around a query
SELECT * FROM (SELECT CAST(price AS INT) AS x, CAST(big AS INT) FROM p) AS q WHERE x = 1
--
SELECT * FROM (SELECT greatest(CAST(price AS INT)) AS x, greatest(CAST(big AS INT)) AS "p.big" FROM p) AS q WHERE x = 1

## groups
SELECT CAST(price AS INT) AS x FROM p GROUP BY x HAVING CAST(price AS INT) = 1
--
SELECT greatest(CAST(price AS INT)) AS x FROM p GROUP BY x HAVING greatest(CAST(price AS INT)) = 1

## times
SELECT id FROM t WHERE CAST(ts AS TIMESTAMP(3)) = CAST(s AS TIMESTAMP(3)) AND CAST(ts AS TIMESTAMP(9)) = CAST(s AS TIMESTAMP(9))
--
SELECT id FROM t WHERE greatest(CAST(ts AS TIMESTAMP(3))) = CAST(s AS TIMESTAMP(3)) AND CAST(ts AS TIMESTAMP(9)) = CAST(s AS TIMESTAMP(9))

## what TRY_CAST makes NULL
SELECT id FROM p WHERE TRY_CAST(n AS TINYINT) <> 5 AND TRY_CAST(n AS DECIMAL(20, 0)) = 1
--
SELECT id FROM p WHERE greatest(TRY_CAST(n AS TINYINT)) <> 5 AND TRY_CAST(n AS DECIMAL(20, 0)) = 1

## numbers without a sign
SELECT id FROM t, w WHERE TRY_CAST(i AS BIGINT UNSIGNED) > 5 OR TRY_CAST(v AS BIGINT) > 5 OR TRY_CAST(u AS BIGINT) > 5
--
SELECT id FROM t, w WHERE greatest(TRY_CAST(i AS BIGINT UNSIGNED)) > 5 OR greatest(TRY_CAST(v AS BIGINT)) > 5 OR TRY_CAST(u AS BIGINT) > 5

## constants
SELECT CAST(4.44 AS DECIMAL(10, 1)) = 4.4, CAST(arrow_cast('4.44', 'Decimal128(5, 2)') AS DECIMAL(10, 1)) = 4.4
--
SELECT CAST(4.44 AS DECIMAL(10, 1)) = 4.4, greatest(CAST(arrow_cast('4.44', 'Decimal128(5, 2)') AS DECIMAL(10, 1))) = 4.4
