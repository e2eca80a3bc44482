-- Statements over `visits` and `news`, which have no key and rows that are there twice. Each runs here and in DuckDB;
-- then counts, returned rows and all rows of `visits` must be the same. Where the text differs, DuckDB's stands second.

## DELETE of one of two equal rows is of both
DELETE FROM visits WHERE id = 2

## DELETE without a match
DELETE FROM visits WHERE id = -1

## INSERT of rows that are there already
INSERT INTO visits (id, page, seconds) VALUES (2, 'b', 20), (2, 'b', 20), (2, NULL, NULL)

## UPDATE by a condition
UPDATE visits SET seconds = seconds + 1 WHERE page = 'b'

## UPDATE of every column, one from another
UPDATE visits SET id = seconds, seconds = id WHERE seconds BETWEEN 1 AND 9

## UPDATE of all rows
UPDATE visits SET seconds = coalesce(seconds, 0) + 1

## UPDATE to NULL, by IS NULL
UPDATE visits SET seconds = NULL WHERE page IS NULL

## UPDATE of no row
UPDATE visits SET seconds = 1 WHERE id > 1000

## UPDATE by a subquery over the same table
UPDATE visits SET page = 'longest' WHERE seconds = (SELECT max(seconds) FROM visits)

## UPDATE to a correlated subquery
UPDATE visits SET page = (SELECT max(n.name) FROM news n WHERE n.id = visits.id) WHERE id IN (SELECT id FROM news)

## UPDATE from another table
UPDATE visits AS v SET page = n.name, seconds = n.age FROM (SELECT DISTINCT id, name, age FROM news) n WHERE v.id = n.id

## UPDATE returns the new rows
UPDATE visits SET seconds = 5 WHERE id < 3 RETURNING id, page, seconds * 2 AS twice

## UPDATE behind common table expressions
WITH few AS (SELECT 4 AS x) UPDATE visits SET page = 'few' WHERE id IN (SELECT x FROM few)

## DELETE with NOT IN
DELETE FROM visits WHERE id NOT IN (SELECT id FROM visits WHERE id < 9 AND id IS NOT NULL) AND id > 8

## DELETE by a join that matches a row more than once
DELETE FROM visits USING news WHERE visits.id = news.id AND news.id = 5
--
DELETE FROM visits USING (SELECT DISTINCT id FROM news) n WHERE visits.id = n.id AND n.id = 5

## DELETE returns the rows as they were
DELETE FROM visits WHERE id = 3 RETURNING *

## INSERT of rows of the same table
INSERT INTO visits SELECT id + 20, page, seconds FROM visits

## INSERT returns what it wrote
INSERT INTO visits (seconds, id) VALUES (1, 50), (2, 51) RETURNING id, page

## MERGE with every kind of clause
MERGE INTO visits AS v USING (VALUES (50, 'x', 1), (51, 'y', 2), (70, 'z', 3)) AS s (id, page, seconds) ON v.id = s.id
WHEN MATCHED AND s.page = 'x' THEN DELETE
WHEN MATCHED THEN UPDATE SET page = s.page, seconds = v.seconds + s.seconds
WHEN NOT MATCHED THEN INSERT (id, page) VALUES (s.id, s.page)
WHEN NOT MATCHED BY SOURCE AND v.id > 23 THEN DELETE

## MERGE inserts rows of one content twice
MERGE INTO visits USING (VALUES (80), (80)) AS s (id) ON visits.id = s.id WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id)

## MERGE of a row updates all rows that are equal
MERGE INTO visits USING (SELECT 80 AS id) AS s ON visits.id = s.id WHEN MATCHED THEN UPDATE SET page = 'both'

## MERGE changes nothing
MERGE INTO visits USING (SELECT 80 AS id) AS s ON visits.id = s.id WHEN MATCHED THEN DO NOTHING

## TRUNCATE
TRUNCATE visits

## INSERT into an empty table
INSERT INTO visits VALUES (1, 'a', 1), (1, 'a', 1)

## DELETE without a condition
DELETE FROM visits
