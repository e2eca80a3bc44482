Tables: p (id BIGINT, price DECIMAL(10, 2), big DECIMAL(38, 2), f DOUBLE, r REAL, n BIGINT),
t (id BIGINT, i BIGINT, s TEXT, ts TIMESTAMP(6), at TIMESTAMP(6) of New York),
w (u INT UNSIGNED, v BIGINT UNSIGNED, l DECIMAL(10, 2)[]).

## a comparison
SELECT id FROM p WHERE price = f
--
SELECT id FROM p WHERE CAST(price AS DOUBLE) = f

## nothing is done to decimals alone, or to arithmetic
SELECT price + f AS x FROM p WHERE price = big AND price > n
--
SELECT price + f AS x FROM p WHERE price = big AND price > n

## joins
SELECT p.id FROM p JOIN (VALUES (1.1), (4.44)) AS v(x) ON price = x
--
SELECT p.id FROM p JOIN (VALUES (1.1), (4.44)) AS v(x) ON CAST(price AS DOUBLE) = x

## functions, lists and CASE
SELECT greatest(price, f), CASE WHEN n = 1 THEN price ELSE f END FROM p WHERE f IN (price, 1)
--
SELECT greatest(CAST(price AS DOUBLE), f), CASE WHEN n = 1 THEN CAST(price AS DOUBLE) ELSE f END FROM p WHERE f IN (CAST(price AS DOUBLE), 1)

## subqueries
SELECT id FROM p WHERE price IN (SELECT f FROM p AS q) AND f NOT IN (SELECT price FROM p AS q) AND price > (SELECT max(f) FROM p AS q)
--
SELECT id FROM p WHERE CAST(price AS DOUBLE) IN (SELECT f FROM p AS q) AND f NOT IN (SELECT CAST(price AS DOUBLE) AS "price" FROM p AS q) AND CAST(price AS DOUBLE) > (SELECT max(f) FROM p AS q)

## set operations
SELECT price FROM p UNION ALL SELECT f FROM p
--
SELECT CAST(price AS DOUBLE) AS "price" FROM p UNION ALL SELECT f FROM p

## set operations of all columns
SELECT * FROM (SELECT id, price FROM p) AS q INTERSECT SELECT id, f FROM p
--
SELECT c0 AS "id", CAST(c1 AS DOUBLE) AS "price" FROM (SELECT * FROM (SELECT id, price FROM p) AS q) AS q(c0, c1) INTERSECT SELECT id, f FROM p

## joins by names
SELECT * FROM p JOIN (SELECT f AS price FROM p) AS q USING (price)
--
SELECT * FROM (SELECT "id", CAST("price" AS DOUBLE) AS "price", "big", "f", "r", "n" FROM p) AS "p" JOIN (SELECT f AS price FROM p) AS q USING (price)

## a double with an exponent
SELECT id FROM p WHERE price < 1e300
--
SELECT id FROM p WHERE CAST(price AS DOUBLE) < 1e300

## arithmetic with a REAL
SELECT r - price AS x, r * 1.5 AS y FROM p
--
SELECT r - CAST(price AS DOUBLE) AS x, r * 1.5 AS y FROM p

## integers whose common type is a decimal
SELECT CASE n WHEN 18446744073709551615 THEN 1 WHEN f THEN 2 END AS x FROM p
--
SELECT CASE n WHEN CAST(18446744073709551615 AS DOUBLE) THEN 1 WHEN f THEN 2 END AS x FROM p
