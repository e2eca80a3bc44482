Windows that begin with the name of another one have all that it has.

## a window adds an order
SELECT sum(n) OVER (w ORDER BY id) FROM t WINDOW w AS (PARTITION BY k)
--
SELECT sum(n) OVER (PARTITION BY k ORDER BY id) FROM t WINDOW w AS (PARTITION BY k)

## a definition may use those before it
SELECT sum(n) OVER ("B" ROWS 1 PRECEDING) FROM t WINDOW a AS (PARTITION BY k), "B" AS (A ORDER BY id)
--
SELECT sum(n) OVER (PARTITION BY k ORDER BY id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM t WINDOW a AS (PARTITION BY k), "B" AS (PARTITION BY k ORDER BY id)

## each SELECT has its own
SELECT sum(n) OVER (w) FROM t WINDOW w AS () UNION SELECT sum(n) OVER w FROM t WINDOW w AS (ORDER BY k)
--
SELECT sum(n) OVER () FROM t WINDOW w AS () UNION SELECT sum(n) OVER (ORDER BY k) FROM t WINDOW w AS (ORDER BY k)
