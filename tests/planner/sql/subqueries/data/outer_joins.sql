SELECT o.k, (SELECT count(*) FROM a LEFT JOIN b ON a.id = b.id AND b.y = o.k) AS n FROM o

SELECT o.k, (SELECT sum(a.id) FROM a LEFT JOIN b ON a.id = b.id AND b.y = o.k) AS n FROM o

SELECT o.k FROM o WHERE (SELECT count(*) FROM a LEFT JOIN b ON a.id = b.id AND b.y = o.k) = 3

SELECT o.k FROM o WHERE EXISTS (SELECT 1 FROM a LEFT JOIN b ON a.id = b.id AND b.y = o.k WHERE b.id IS
    NULL)

SELECT o.k FROM o WHERE NOT EXISTS (SELECT 1 FROM a LEFT JOIN b ON a.id = b.id AND b.y = o.k WHERE b.id IS
    NULL)

SELECT o.k FROM o WHERE NOT EXISTS (SELECT 1 FROM a LEFT JOIN b ON a.id = b.id AND b.y = o.k)

SELECT o.k FROM o WHERE EXISTS (SELECT 1 FROM a LEFT JOIN b ON a.id = b.id AND b.y = o.k)

SELECT o.k FROM o WHERE EXISTS (SELECT 1 FROM a LEFT JOIN (SELECT * FROM b WHERE b.y = o.k) AS b ON a.id =
    b.id)

SELECT o.k FROM o WHERE NOT EXISTS (SELECT 1 FROM a LEFT JOIN (SELECT * FROM b WHERE b.y = o.k) AS b ON
    a.id = b.id)

SELECT o.k FROM o WHERE o.k IN (SELECT a.id FROM a LEFT JOIN b ON a.id = b.id AND b.y = o.k)

SELECT o.k FROM o WHERE o.k NOT IN (SELECT a.id FROM a LEFT JOIN b ON a.id = b.id AND b.y = o.k)

SELECT o.k FROM o WHERE o.k IN (SELECT a.id FROM a LEFT JOIN (SELECT * FROM b WHERE b.y = o.k) AS b ON
    a.id = b.id)

SELECT o.k FROM o WHERE o.k NOT IN (SELECT a.id FROM a LEFT JOIN (SELECT * FROM b WHERE b.y = o.k) AS b ON
    a.id = b.id)

SELECT o.k, (SELECT count(*) FROM a LEFT JOIN (SELECT * FROM b WHERE b.y = o.k) AS b ON a.id = b.id) AS n
    FROM o

SELECT o.k, (SELECT count(*) FROM a FULL JOIN b ON a.id = b.id AND b.y = o.k) AS n FROM o

SELECT o.k, (SELECT count(*) FROM b RIGHT JOIN a ON a.id = b.id AND b.y = o.k) AS n FROM o

SELECT o.k FROM o WHERE EXISTS (SELECT 1 FROM a FULL JOIN b ON a.id = b.id AND b.y = o.k WHERE a.id IS
    NULL)

SELECT o.k FROM o WHERE NOT EXISTS (SELECT 1 FROM a FULL JOIN b ON a.id = b.id AND b.y = o.k WHERE b.id =
    2 AND a.id IS NULL)

SELECT o.k FROM o WHERE EXISTS (SELECT 1 FROM b RIGHT JOIN a ON a.id = b.id AND b.y = o.k)

SELECT o.k FROM o WHERE o.k IN (SELECT a.id FROM b RIGHT JOIN a ON a.id = b.id AND b.y = o.k)

SELECT o.k, (SELECT count(*) FROM a LEFT JOIN b ON a.id = b.id WHERE b.y = o.k) AS n FROM o

SELECT o.k, (SELECT count(*) FROM a LEFT JOIN b ON a.id = b.id WHERE a.id = o.k) AS n FROM o

SELECT o.k, (SELECT count(*) FROM (SELECT a.id FROM a LEFT JOIN b ON a.id = b.id AND b.y = o.k) AS x) AS n
    FROM o

SELECT o.k, EXISTS (SELECT 1 FROM a LEFT JOIN b ON a.id = b.id AND b.y = o.k WHERE b.y IS NOT NULL) AS e
    FROM o

SELECT o.k FROM o WHERE EXISTS (SELECT 1 FROM a LEFT JOIN (SELECT * FROM (SELECT * FROM b) AS q WHERE y =
    o.k) AS b ON a.id = b.id WHERE b.id IS NULL)

SELECT o.k FROM o WHERE EXISTS (SELECT 1 FROM (SELECT a.id AS i, b.id AS j FROM a LEFT JOIN b ON a.id =
    b.id AND b.y = o.k) AS x WHERE x.j IS NULL)

SELECT o.k FROM o WHERE EXISTS (SELECT a.id FROM a LEFT JOIN b ON a.id = b.id AND b.y = o.k UNION ALL
    SELECT id FROM a WHERE id = o.k)

SELECT o.k, (SELECT max(a.id) FROM a LEFT JOIN b ON a.id = b.id AND b.y > o.k WHERE b.id IS NULL) AS n
    FROM o

SELECT o.k, (SELECT count(*) FROM a LEFT JOIN b ON a.id = b.id AND a.id = o.k) AS n FROM o

SELECT o.k, (SELECT count(b.id) FROM a LEFT JOIN b ON o.k = 5) AS n FROM o

SELECT o.k, (SELECT count(*) FROM a LEFT JOIN b ON a.id = b.id AND b.y = o.k LEFT JOIN b AS c ON c.id =
    b.id AND c.y = o.k) AS n FROM o

SELECT o.k, (SELECT count(*) FROM a JOIN b ON a.id = b.id AND b.y = o.k) AS n FROM o

SELECT o.k FROM o WHERE EXISTS (SELECT 1 FROM a JOIN b ON a.id = b.id AND b.y = o.k)

SELECT o.k FROM o WHERE o.k = ANY (SELECT a.id FROM a LEFT JOIN b ON a.id = b.id AND b.y = o.k)

SELECT o.k FROM o WHERE o.k <> ALL (SELECT a.id FROM a LEFT JOIN b ON a.id = b.id AND b.y = o.k)

SELECT o.k FROM o WHERE NOT EXISTS (SELECT 1 FROM a WHERE EXISTS (SELECT 1 FROM b LEFT JOIN a AS c ON c.id
    = b.id AND c.id = o.k WHERE b.id = a.id))

SELECT o.k FROM o WHERE NOT EXISTS (SELECT 1 FROM a ANTI JOIN b ON a.id = b.id AND b.y = o.k)

SELECT o.k FROM o WHERE EXISTS (SELECT 1 FROM a SEMI JOIN b ON a.id = b.id AND b.y = o.k)

SELECT o.k FROM o WHERE EXISTS (SELECT 1 FROM a LEFT JOIN LATERAL (SELECT * FROM b WHERE b.y = o.k) AS b
    ON a.id = b.id WHERE b.id IS NULL)

SELECT o.k FROM o WHERE NOT EXISTS (SELECT 1 FROM a LEFT JOIN b ON a.id = b.id AND b.y IN (o.k, 5) WHERE
    b.y IS NULL)

SELECT x.k FROM o AS x JOIN a ON a.id = x.k AND EXISTS (SELECT 1 FROM a LEFT JOIN b ON a.id = b.id AND b.y
    = x.k WHERE b.id IS NULL)

WITH w AS (SELECT * FROM b) SELECT o.k, (SELECT count(*) FROM a LEFT JOIN w ON a.id = w.id AND w.y = o.k)
    AS n FROM o

SELECT o.k, (SELECT count(*) FROM a FULL JOIN (SELECT * FROM b WHERE b.y = o.k) AS b ON a.id = b.id) AS n
    FROM o

SELECT o.k, (SELECT count(*) FROM (SELECT * FROM a WHERE id = o.k) AS a FULL JOIN (SELECT * FROM b WHERE
    b.y = o.k) AS b ON a.id = b.id) AS n FROM o

SELECT o.k, (SELECT count(*) FROM (SELECT * FROM a WHERE id = o.k) AS a FULL JOIN b ON a.id = b.id) AS n
    FROM o

SELECT o.k, (SELECT count(*) FROM a FULL JOIN b ON a.id = b.id AND b.y = o.k FULL JOIN a AS c ON c.id =
    b.id AND c.id = o.k) AS n FROM o

SELECT o.k, (SELECT count(*) FROM a FULL JOIN b ON a.id = b.id AND b.y = o.k LEFT JOIN a AS c ON c.id =
    b.id AND c.id = o.k WHERE a.id IS NULL OR a.id <> o.k) AS n FROM o

SELECT o.k, (SELECT sum(coalesce(a.id, b.id)) FROM a RIGHT JOIN b ON a.id = b.id AND b.y = o.k AND a.id =
    o.k) AS n FROM o

SELECT o.k, (SELECT a.id FROM a FULL JOIN b ON a.id = b.id AND b.y = o.k ORDER BY a.id, b.id LIMIT 1) AS n
    FROM o

SELECT p.k, q.id, (SELECT count(*) FROM a FULL JOIN b ON a.id = b.id AND b.y = p.k AND q.id = a.id) AS n
    FROM o AS p, a AS q

SELECT o.k, (SELECT count(*) FROM a LEFT JOIN b ON a.id = b.id AND b.y = o.k WHERE EXISTS (SELECT 1 FROM b
    AS c LEFT JOIN a AS d ON c.id = d.id AND d.id = o.k WHERE d.id IS NULL AND c.id = a.id)) AS n FROM o

SELECT o.k, (SELECT count(*) FROM a WHERE EXISTS (SELECT 1 FROM b AS c LEFT JOIN a AS d ON c.id = d.id AND
    d.id = o.k WHERE d.id IS NULL AND c.id = a.id)) AS n FROM o

SELECT o.k FROM o WHERE (SELECT count(*) FROM a WHERE a.id NOT IN (SELECT c.id FROM b AS c LEFT JOIN a AS
    d ON c.id = d.id AND d.id = o.k WHERE c.id IS NOT NULL AND d.id IS NULL)) > 1

SELECT count(*) AS n FROM o GROUP BY EXISTS (SELECT 1 FROM a LEFT JOIN b ON a.id = b.id AND b.y = o.k
    WHERE b.id IS NULL)

SELECT o.k, (SELECT count(*) FROM b RIGHT JOIN a USING (id)) AS n FROM o

SELECT o.k, (SELECT count(*) FROM b RIGHT JOIN a USING (id) WHERE a.id = o.k) AS n FROM o

SELECT o.k, (SELECT count(*) FROM a LEFT JOIN b ON a.id = b.id AND b.y = o.k AND CAST(b.id AS TEXT) ~ '[0-9]') AS n FROM o

SELECT o.k, (SELECT count(*) FROM a LEFT JOIN b ON a.id = b.id AND b.y ^ 2 = o.k ^ 2 AND b.y & 1 = o.k & 1) AS n FROM o

SELECT o.k, (SELECT max(a.id) FROM a LEFT JOIN b ON b.y = o.k WHERE extract(doy FROM DATE '2024-02-01') = 32) AS n FROM o

SELECT o.k, (SELECT max(strpos('abc', CAST(a.id AS TEXT))) FROM a LEFT JOIN b ON b.y = o.k AND position('x' IN 'abx') = 3) AS n FROM o
