-- Totals, groups and what is computed of them
SELECT t.a, count(*) AS c FROM t GROUP BY t.a HAVING count(*) > (SELECT count(*) FROM w WHERE w.a < t.a);
SELECT t.a, max(t.v) AS m, (SELECT count(*) FROM u WHERE u.b > t.a) AS c FROM t GROUP BY t.a;
SELECT t.a + 1 AS b, (SELECT count(*) FROM u WHERE u.a = t.a + 1) AS c FROM t GROUP BY t.a + 1;
SELECT count(*) AS n, (SELECT max(u.x) FROM u WHERE u.b > max(t.v)) AS c FROM t;
SELECT max(v) AS m FROM t HAVING max(v) > (SELECT count(*) FROM u WHERE u.b < min(t.v));
SELECT t.a FROM t GROUP BY t.a ORDER BY (SELECT max(u.x) FROM u WHERE u.a < t.a), t.a;
SELECT a, sum(v) AS s FROM t GROUP BY ROLLUP (a) HAVING EXISTS (SELECT 1 FROM u WHERE u.a >= t.a);
SELECT sum((SELECT count(*) FROM u)) AS c FROM t;
-- Names
SELECT *, (SELECT count(*) FROM u WHERE u.b < t.v) AS c FROM t JOIN w ON t.a = w.a;
SELECT * FROM t WHERE (SELECT count(*) FROM u WHERE u.b < t.v) > 2;
SELECT * FROM t, LATERAL (SELECT u.* FROM u WHERE u.a = t.a ORDER BY u.k LIMIT 1) l;
SELECT t.*, l.* FROM t, LATERAL (SELECT u.k AS id FROM u WHERE u.a = t.a ORDER BY u.k LIMIT 1) l;
SELECT x.id, (SELECT count(*) FROM t WHERE t.v < x.v) AS c FROM t x;
SELECT id, (SELECT count(*) FROM t t2 WHERE t2.v < t.v AND t2.id <> t.id) AS count FROM t;
SELECT id, (SELECT max(x) FROM u WHERE a = t.a AND b > v) AS c FROM t;
SELECT id FROM t JOIN w USING (a) WHERE (SELECT count(*) FROM u WHERE u.b < w.y) > 9;
SELECT id, (SELECT u.x AS v FROM u WHERE u.b < t.v ORDER BY u.s, u.k LIMIT 1) AS c FROM t ORDER BY v;
SELECT *, (SELECT max(t2.id) AS id FROM t t2 WHERE t2.v < t.v) AS c FROM t WHERE id > 1;
SELECT id, (SELECT u.x FROM u WHERE u.b < t.v ORDER BY u.k FETCH FIRST 1 ROW ONLY) AS c FROM t ORDER BY id FETCH NEXT 4 ROWS ONLY;
-- Common table expressions, set operations, several queries around one
WITH q AS (SELECT a, b FROM u WHERE x > 1) SELECT id, (SELECT count(*) FROM q WHERE q.b < t.v) AS c FROM t;
WITH q AS (SELECT id, (SELECT count(*) FROM u WHERE u.b < t.v) AS c FROM t) SELECT sum(c) AS s FROM q;
SELECT id, (WITH q AS (SELECT x FROM u WHERE u.a = t.a) SELECT max(x) FROM q) AS c FROM t;
SELECT id FROM t UNION ALL SELECT (SELECT count(*) FROM u WHERE u.b < t.v) FROM t;
SELECT id, (SELECT (SELECT max(w.y) FROM w WHERE w.a < u.a AND w.y > t.v) FROM u WHERE u.k = t.id + 11) AS c FROM t;
SELECT id, (SELECT count(*) FROM u WHERE u.a IN (SELECT w.a FROM w WHERE w.y > t.v)) AS c FROM t;
SELECT id, (SELECT count(*) FROM u, LATERAL (SELECT w.y FROM w WHERE w.a = u.a AND w.y > t.v) l) AS c FROM t;
SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.a = t.a AND NOT EXISTS (SELECT 1 FROM w WHERE w.a = u.a AND w.y > t.v * 10));
-- Joins
SELECT t.id FROM t RIGHT JOIN w ON t.a = w.a WHERE (SELECT count(*) FROM u WHERE u.a < w.a) > 0;
SELECT t.id, w.a FROM t FULL JOIN w ON t.a = w.a WHERE (SELECT count(*) FROM u WHERE u.a <= w.a) > 0;
SELECT t.id, (SELECT count(*) FROM u WHERE u.a = w.a) AS c FROM t LEFT JOIN w ON t.a = w.a;
SELECT id, (SELECT count(*) FROM u RIGHT JOIN w ON u.a = w.a WHERE w.y > t.v) AS c FROM t;
SELECT t.id, l.x, m.y FROM t, LATERAL (SELECT u.x FROM u WHERE u.a = t.a ORDER BY u.x LIMIT 1) l, LATERAL (SELECT w.y FROM w WHERE w.a <= l.x ORDER BY w.y DESC LIMIT 1) m;
SELECT t.id, l.x FROM t CROSS JOIN LATERAL (VALUES (t.a), (t.v)) AS l(x);
SELECT id, (SELECT min(z.b) FROM (SELECT u.b, row_number() OVER (ORDER BY u.b) AS r FROM u WHERE u.a = t.a) z WHERE z.r = 2) AS c FROM t;
SELECT id, (SELECT array_agg(u.k ORDER BY u.k) FROM u WHERE (u.a IS NOT DISTINCT FROM t.a)) AS c FROM t;
SELECT id, (SELECT string_agg(u.s, ',' ORDER BY u.k) FROM u WHERE u.b < t.v) AS c FROM t;
-- Constants and operators are written as they were
SELECT id, (SELECT count(*) FROM u WHERE u.b / 2 < t.v AND u.s LIKE 'a%' AND u.b % 5 = 0) AS c FROM t;
SELECT id, (SELECT count(*) FROM u WHERE u.b < t.v AND CAST(u.x AS TINYINT) IN (1, 5)) AS c FROM t;
SELECT id, (SELECT max(DATE '2024-01-01' + CAST(u.x AS INT)) FROM u WHERE u.b < t.v) AS c FROM t;
-- Series
SELECT g.x, (SELECT count(*) FROM u WHERE u.b > g.x) AS c FROM generate_series(1, 6) AS g(x);
SELECT x, l.y FROM range(1, 4) AS g(x) CROSS JOIN LATERAL (SELECT x * 2 AS y) l;
SELECT t.id, l.y FROM t CROSS JOIN LATERAL (SELECT g.x AS y FROM generate_series(1, 5) AS g(x) WHERE g.x <= t.a) l;
SELECT id FROM t WHERE EXISTS (SELECT 1 FROM range(3, 6) AS g(x) WHERE x < v AND x = a + 1);
