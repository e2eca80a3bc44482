-- Each statement runs here and in DuckDB; then tables, counts and returned rows must be the same. Where the text
-- differs, DuckDB's stands second.

## INSERT gives all columns by their order
INSERT INTO people VALUES (100, 'hundred', 30, 1.5), (101, NULL, -1, -0.25)

## INSERT gives some columns; the others are NULL
INSERT INTO people (age, id) VALUES (31, 102), (32, 103)

## INSERT of expressions
INSERT INTO people VALUES (100 + 4, upper('x') || 'y', 3 * 11, 1e3), (105, 'it''s', CAST('7' AS INT), NULL)

## INSERT of a typed literal, and of text as a date
INSERT INTO orders VALUES ('d', 1, 12.34, DATE '2024-02-29'), ('d', 2, 5, '2024-03-01')

## INSERT of a subquery's value
INSERT INTO people (id, age) VALUES (106, (SELECT max(age) FROM people))

## INSERT of a query's rows
INSERT INTO people (id, name) SELECT id + 200, name FROM news WHERE id < 20

## INSERT of rows of the same table
INSERT INTO people SELECT id + 300, name, age + 1, score FROM people WHERE id < 5

## INSERT with common table expressions before the query
INSERT INTO people (id, age) WITH x AS (SELECT 400 AS a), y AS (SELECT a + 1 AS a FROM x) SELECT a, 1 FROM y

## INSERT behind common table expressions
WITH x AS (SELECT 410 AS a) INSERT INTO people (id) SELECT a FROM x

## INSERT by name
INSERT INTO people BY NAME SELECT 7 AS age, 420 AS id

## INSERT returns expressions
INSERT INTO people (id, name) VALUES (430, 'r'), (431, 's') RETURNING id * 2 AS twice, name || '!' AS shout, age

## INSERT returns everything
INSERT INTO people (id, age) VALUES (432, 1) RETURNING *

## an existing key is replaced
INSERT INTO people VALUES (1, 'one', 1, 1.0)
--
INSERT OR REPLACE INTO people VALUES (1, 'one', 1, 1.0)

## INSERT OR REPLACE
INSERT OR REPLACE INTO people VALUES (2, 'two', 2, 2.0)

## ON CONFLICT DO NOTHING writes what is new
INSERT INTO people (id, name) VALUES (1, 'lost'), (440, 'won') ON CONFLICT DO NOTHING

## ON CONFLICT with the key DO NOTHING, of a query
INSERT INTO people (id, age) SELECT id, age FROM news WHERE id < 21 ON CONFLICT (id) DO NOTHING

## ON CONFLICT of a composite key
INSERT INTO orders (customer, number, total) VALUES ('a', 1, 7), ('a', 9, 7) ON CONFLICT (customer, number) DO NOTHING

## ON CONFLICT DO NOTHING returns what was written
INSERT INTO people (id, name) VALUES (1, 'lost'), (441, 'won') ON CONFLICT DO NOTHING RETURNING id

## INSERT OR IGNORE
INSERT OR IGNORE INTO people (id) VALUES (1), (442)

## ON CONFLICT DO UPDATE with both rows
INSERT INTO people AS p (id, age) VALUES (3, 100), (450, 7) ON CONFLICT (id) DO UPDATE SET age = p.age + EXCLUDED.age

## ON CONFLICT DO UPDATE with a condition
INSERT INTO people (id, name) VALUES (3, 'no'), (4, 'yes') ON CONFLICT (id) DO UPDATE SET name = excluded.name WHERE people.id > 3

## UPDATE of one key
UPDATE people SET age = age + 1 WHERE id = 5

## UPDATE of one key with a constant
UPDATE people SET name = 'x', score = NULL WHERE id = 5

## UPDATE of a few keys
UPDATE people SET score = score * 2, age = age - 1 WHERE id IN (6, 7, 9999) RETURNING id, score

## UPDATE as compare-and-set succeeds
UPDATE people SET name = 'set' WHERE id = 8 AND age = 28

## UPDATE as compare-and-set fails
UPDATE people SET name = 'set again' WHERE id = 8 AND age = 99

## UPDATE as compare-and-set of an expression
UPDATE people AS p SET age = p.age + 1, score = age WHERE p.id = 8 AND p.name LIKE 's%' AND (age > 99 OR age < 50)

## UPDATE of a key with conditions that can't be taken apart
UPDATE people SET name = 'between' WHERE id = 9 AND age BETWEEN 1 AND 100 AND score IS NOT NULL

## UPDATE of a key or of another row
UPDATE people SET name = 'either' WHERE id = 9 AND age = 0 OR id = 10

## UPDATE of a key with a subquery among the conditions
UPDATE people SET name = 'sub' WHERE id = 9 AND id IN (SELECT id + 4 FROM news) RETURNING *

## UPDATE of a composite key that is compared
UPDATE orders SET total = 5 WHERE number = 3 AND total > 1 AND customer = 'b'

## UPDATE of a composite key
UPDATE orders SET total = total + 0.5 WHERE customer = 'a' AND number = 2

## UPDATE of part of a composite key
UPDATE orders SET day = '2025-01-01' WHERE customer = 'b'

## UPDATE by a condition on any column
UPDATE people SET score = -1 WHERE age BETWEEN 22 AND 26 OR name LIKE '%9'

## UPDATE of all rows
UPDATE people SET score = coalesce(score, 0) + 1

## UPDATE under an alias
UPDATE people AS p SET age = p.age + p.id WHERE p.id = 9

## UPDATE of several columns at once
UPDATE people SET (name, age) = ('both', 1) WHERE id = 10

## UPDATE to the default, which is NULL
UPDATE people SET name = DEFAULT WHERE id = 10

## UPDATE sees the old values on both sides
UPDATE people SET age = id, score = age WHERE id = 11

## UPDATE with CASE that has FROM, WHERE and SET in texts and functions
UPDATE people SET name = CASE WHEN age > 25 THEN 'from where set' ELSE substr(name, 1, 1) END, age = extract(year FROM DATE '2024-01-01') WHERE id < 3

## UPDATE with IS DISTINCT FROM
UPDATE people SET name = 'd' WHERE id = 4 AND name IS DISTINCT FROM 'p4'

## UPDATE from another table
UPDATE people SET name = n.name FROM news n WHERE people.id = n.id AND n.id < 20

## UPDATE from two tables that are joined
UPDATE people AS p SET age = q.number FROM news n JOIN orders q ON q.number = n.id WHERE p.id = n.id AND q.customer = 'a'

## UPDATE from values
UPDATE people SET age = v.a FROM (VALUES (1, 70), (2, 71)) AS v(i, a) WHERE people.id = v.i RETURNING people.id, people.age

## UPDATE with a subquery in SET
UPDATE people SET age = (SELECT count(*) FROM orders) WHERE id = 1

## UPDATE by key, to values of two types
UPDATE people SET score = CASE WHEN age > 1000 THEN 1 ELSE 2.5 END WHERE id = 2 RETURNING id, CASE WHEN age > 1000 THEN 1 ELSE 2.5 END AS half

## INSERT .. DO UPDATE to values of two types
INSERT INTO people (id, age) VALUES (2, 1) ON CONFLICT (id) DO UPDATE SET score = CASE WHEN excluded.age > 1000 THEN 1 ELSE 3.5 END

## UPDATE by key, with a subquery in SET over all rows of the table
UPDATE people SET age = (SELECT count(*) FROM people) WHERE id = 2

## UPDATE by key, where a subquery looks at all rows of the table
UPDATE people SET name = 'many' WHERE id = 2 AND (SELECT count(*) FROM people AS all_of_them) > 1

## DELETE by key, where a subquery looks at all rows of the table
DELETE FROM people WHERE id = 420 AND (SELECT count(*) FROM people AS all_of_them) > 1

## UPDATE with a correlated subquery in SET
UPDATE people SET age = (SELECT max(n.age) FROM news n WHERE n.id = people.id) WHERE id IN (3, 5)

## UPDATE with a subquery in WHERE
UPDATE people SET name = 'listed' WHERE id IN (SELECT id FROM news)

## UPDATE behind common table expressions
WITH x AS (SELECT 6 AS a) UPDATE people SET name = 'cte' FROM x WHERE people.id = x.a

## UPDATE of nothing
UPDATE people SET name = 'nobody' WHERE id = 987654

## DELETE of one key
DELETE FROM people WHERE id = 100

## DELETE of a key that is not there
DELETE FROM people WHERE id = 100

## DELETE of a few keys
DELETE FROM people WHERE id IN (101, 102, 987654) RETURNING id, name

## DELETE of a key whose row is compared
DELETE FROM people WHERE id = 103 AND age = 32 RETURNING name, id

## DELETE of a key whose row is another now
DELETE FROM people WHERE id = 9 AND name = 'nobody'

## DELETE by a condition
DELETE FROM people WHERE id > 300 AND age < 24

## DELETE with an alias and a subquery
DELETE FROM people AS p WHERE EXISTS (SELECT 1 FROM news n WHERE n.id + 200 = p.id)

## DELETE using another table counts each row once
DELETE FROM people USING news WHERE people.id = news.id AND news.id > 10

## DELETE of part of a composite key
DELETE FROM orders WHERE customer = 'c' AND number >= 2 RETURNING *

## a deleted key can be inserted again
INSERT INTO people VALUES (100, 'again', 0, 0)

## MERGE updates and inserts
MERGE INTO people AS p USING (VALUES (1, 'm1'), (500, 'm500')) AS s(id, name) ON p.id = s.id WHEN MATCHED THEN UPDATE SET name = s.name WHEN NOT MATCHED THEN INSERT (id, name) VALUES (s.id, s.name)

## MERGE inserts columns of the source, which need no qualifier
MERGE INTO people USING (SELECT 507 AS id, 'm' AS name, 7 AS age UNION ALL SELECT 508, 'n', NULL) AS s ON people.id = s.id WHEN NOT MATCHED AND id > 507 THEN INSERT (id, name, age) VALUES (id, upper(name), CASE WHEN age IS NULL THEN id ELSE age END) WHEN NOT MATCHED THEN INSERT (id, name, age) VALUES (id, name || s.name, age)

## MERGE: the first clause that is for a row decides
MERGE INTO people USING (SELECT id FROM people WHERE id < 6) AS s ON people.id = s.id WHEN MATCHED AND people.id = 2 THEN DO NOTHING WHEN MATCHED AND people.id < 4 THEN UPDATE SET age = people.age + 1000 WHEN MATCHED AND people.id = 4 THEN DELETE

## MERGE with a condition on what is inserted
MERGE INTO people USING (SELECT 510 AS id UNION ALL SELECT 511) AS s ON people.id = s.id WHEN NOT MATCHED BY TARGET AND s.id > 510 THEN INSERT (id, age) VALUES (s.id, 7 * 6)

## MERGE of all columns
MERGE INTO people USING (SELECT 1 AS id, 'all' AS name, 5 AS age, 0.5 AS score UNION ALL SELECT 520, 'all', 6, 1.5) AS s ON people.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *

## MERGE of a table, by part of the key and a condition
MERGE INTO orders USING (SELECT DISTINCT id FROM news) AS n ON orders.number = n.id AND orders.customer = 'a' WHEN MATCHED THEN UPDATE SET total = 99.99 WHEN NOT MATCHED THEN INSERT (customer, number) VALUES ('n', n.id)

## MERGE deletes what the source has not
MERGE INTO people USING (SELECT id FROM people WHERE id < 500) AS s ON people.id = s.id WHEN NOT MATCHED BY SOURCE AND people.id > 510 THEN DELETE WHEN NOT MATCHED BY SOURCE THEN UPDATE SET name = 'lonely'

## MERGE behind common table expressions
WITH x AS (SELECT 1 AS id) MERGE INTO people USING x ON people.id = x.id WHEN MATCHED THEN UPDATE SET score = 77

## MERGE with the same key twice where only one acts
MERGE INTO people USING (VALUES (1, 1), (1, 2)) AS s(id, n) ON people.id = s.id WHEN MATCHED AND s.n = 2 THEN UPDATE SET age = s.n

## MERGE that matches nothing
MERGE INTO people USING (SELECT 530 AS id, 'never' AS name) AS s ON FALSE WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (id, name) VALUES (s.id, s.name)

## MERGE that matches nothing, of numbers, by both sides
MERGE INTO people USING (SELECT 531 AS id) AS s ON (1 = 0) WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id) WHEN NOT MATCHED BY SOURCE AND people.id < 3 THEN DELETE

## MERGE of an empty source
MERGE INTO people USING (SELECT * FROM news WHERE id < 0) AS s ON people.id = s.id WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id)

## DELETE of everything
DELETE FROM orders

## TRUNCATE
TRUNCATE TABLE people
--
DELETE FROM people

## INSERT of a whole table
INSERT INTO news TABLE news
--
INSERT INTO news SELECT * FROM news

## INSERT into a table without a key keeps what is equal
INSERT INTO news VALUES (1, 'one', 1), (1, 'one', 1)
