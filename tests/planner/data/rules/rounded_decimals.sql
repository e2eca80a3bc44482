Tables: p (id BIGINT, price DECIMAL(10, 2), big DECIMAL(38, 2), f DOUBLE, r REAL, n BIGINT),
t (id BIGINT, i BIGINT, s TEXT, ts TIMESTAMP(6), at TIMESTAMP(6) of New York),
w (u INT UNSIGNED, v BIGINT UNSIGNED, l DECIMAL(10, 2)[]).

## a rounded decimal beside another
SELECT id FROM p WHERE (round(price, 1)) <> price OR round(price, 1) IN (1, price)
--
SELECT id FROM p WHERE (CAST(round(price, 1) AS DECIMAL(10, 1))) <> price OR CAST(round(price, 1) AS DECIMAL(10, 1)) IN (1, price)

## results, and other numbers
SELECT round(price, 1) AS x, round(price), round(big, 5) AS y, round(price, -1) AS z FROM p WHERE round(f, 1) = f ORDER BY round(price, 1)
--
SELECT CAST(round(price, 1) AS DECIMAL(10, 1)) AS x, CAST(round(price) AS DECIMAL(10, 0)), CAST(round(big, 5) AS DECIMAL(38, 2)) AS y, CAST(round(price, -1) AS DECIMAL(10, 0)) AS z FROM p WHERE round(f, 1) = f ORDER BY CAST(round(price, 1) AS DECIMAL(10, 1))

## a set operation
SELECT id, round(price, 1) FROM p EXCEPT SELECT n, 2.5 FROM p
--
SELECT id, CAST(round(price, 1) AS DECIMAL(10, 1)) FROM p EXCEPT SELECT n, 2.5 FROM p

## within a function, and among groups
SELECT abs(round(price, 1)) + 1 AS x FROM p GROUP BY round(price, 1) HAVING round(price, 1) > 3
--
SELECT abs(CAST(round(price, 1) AS DECIMAL(10, 1))) + 1 AS x FROM p GROUP BY CAST(round(price, 1) AS DECIMAL(10, 1)) HAVING CAST(round(price, 1) AS DECIMAL(10, 1)) > 3

## an output of a subquery
SELECT round(price, 1) AS a FROM p JOIN (SELECT round(price, 1) AS v FROM p) AS q ON round(price, 1) = q.v
--
SELECT CAST(round(price, 1) AS DECIMAL(10, 1)) AS a FROM p JOIN (SELECT CAST(round(price, 1) AS DECIMAL(10, 1)) AS v FROM p) AS q ON CAST(round(price, 1) AS DECIMAL(10, 1)) = q.v

## digits of a parameter
SELECT round(price, $1) AS x, round(f, $1) AS y FROM p
--
SELECT CAST(round(price, $1) AS DECIMAL(11, 2)) AS x, round(f, $1) AS y FROM p
