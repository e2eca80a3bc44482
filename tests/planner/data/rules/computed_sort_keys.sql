Tables: see tests/planner/sql/rules/test_rules.py.

## a key of several operations
SELECT id FROM p ORDER BY exp(f / 10) DESC NULLS FIRST, id
--
SELECT id FROM p ORDER BY coalesce(nullif(exp(f / 10), NULL), NULL) DESC, id

## a window
SELECT id, count(*) OVER (PARTITION BY ln(abs(n) + 1) ORDER BY -(f / 10)) FROM p
--
SELECT id, count(*) OVER (PARTITION BY coalesce(nullif(ln(abs(n) + 1), NULL), NULL) ORDER BY coalesce(nullif(-(f / 10), NULL), NULL)) FROM p

## a key that must be an output
SELECT DISTINCT f * 2 + 1 AS k FROM p ORDER BY 1
--
SELECT DISTINCT f * 2 + 1 AS k FROM p ORDER BY 1

## a column, a number, an operation
SELECT id, n FROM p ORDER BY n, 1, floor(f), CAST(f AS BIGINT), -id
--
SELECT id, n FROM p ORDER BY n, 1, floor(f), CAST(f AS BIGINT), -id

## a function of some numbers alone
SELECT id, rank() OVER (ORDER BY log2(n)) FROM p ORDER BY sqrt(f), ln(2)
--
SELECT id, rank() OVER (ORDER BY coalesce(nullif(log2(n), NULL), NULL)) FROM p ORDER BY coalesce(nullif(sqrt(f), NULL), NULL), ln(2)

## a sum with one of them
SELECT id, n, price, f FROM p ORDER BY ln(abs(n) + 1) + price, 1 - abs(f) * n
--
SELECT id, n, price, f FROM p ORDER BY coalesce(nullif(ln(abs(n) + 1) + price, NULL), NULL), 1 - abs(f) * n

## a function of a field of a column
SELECT id, count(*) OVER (PARTITION BY abs(lists.st.x), abs(lists.id)) FROM lists ORDER BY st['x']
--
SELECT id, count(*) OVER (PARTITION BY coalesce(nullif(abs(lists.st.x), NULL), NULL), abs(lists.id)) FROM lists ORDER BY st['x']

## a list among lists
SELECT id, rank() OVER (ORDER BY l IN (m)) FROM lists
--
SELECT id, rank() OVER (ORDER BY coalesce(nullif(l IN (m), NULL), NULL)) FROM lists

## a condition of rows
SELECT id, count(*) OVER (PARTITION BY CASE WHEN l = m THEN 1 ELSE 0 END) FROM lists
--
SELECT id, count(*) OVER (PARTITION BY coalesce(nullif(CASE WHEN l = m THEN 1 ELSE 0 END, NULL), NULL)) FROM lists

## a comparison of lists
SELECT id, count(*) OVER (PARTITION BY l = m) FROM lists ORDER BY l IS DISTINCT FROM [1], cardinality(l)
--
SELECT id, count(*) OVER (PARTITION BY coalesce(nullif(l = m, NULL), NULL)) FROM lists ORDER BY coalesce(nullif(l IS DISTINCT FROM [1], NULL), NULL), cardinality(l)

## what is never NULL
SELECT id, rank() OVER (ORDER BY CASE WHEN abs(f) > 1 THEN 1 ELSE 0 END, ln(f) IS NULL) AS a FROM p
--
SELECT id, rank() OVER (ORDER BY coalesce(nullif(CASE WHEN abs(f) > 1 THEN 1 ELSE 0 END, NULL), NULL), coalesce(nullif(ln(f) IS NULL, NULL), NULL)) AS a FROM p

## a decimal that is never NULL
SELECT id FROM p ORDER BY -coalesce(price, price), round(abs(price), 1)
--
SELECT id FROM p ORDER BY coalesce(nullif(-coalesce(price, price), NULL), NULL), coalesce(round(abs(price), 1), NULL)
