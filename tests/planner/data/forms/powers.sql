## powers
SELECT 2 ^ 3 AS a, i ^ (i + 1) AS b, -i ^ 2 AS c, 2 * i ^ 2 AS d FROM t
--
SELECT power(2, 3) AS a, power(i, i + 1) AS b, power(-i, 2) AS c, 2 * power(i, 2) AS d FROM t

## powers of powers, from left to right
SELECT 2 ^ i ^ 2 AS a FROM t
--
SELECT power(power(2, i), 2) AS a FROM t
