Ties are rows of equal rank.

## rows that are skipped count
SELECT id, n FROM t ORDER BY n DESC OFFSET 2 ROWS FETCH FIRST $1 ROWS WITH TIES
--
SELECT id, n FROM t QUALIFY rank() OVER (ORDER BY n DESC) <= $1 + 2 ORDER BY n DESC OFFSET 2

## outputs are their expressions
SELECT a + 1 AS g, count(*) AS c FROM t GROUP BY a ORDER BY G, 2 FETCH FIRST ROW WITH TIES
--
SELECT a + 1 AS g, count(*) AS c FROM t GROUP BY a QUALIFY rank() OVER (ORDER BY a + 1, count(*)) <= 1 ORDER BY G, 2
