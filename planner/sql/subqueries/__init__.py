"""Subqueries that DataFusion does not plan, as joins with the values of the rows around them.

    SELECT id, (SELECT count(*) FROM items WHERE items.n < orders.n) FROM orders
->  SELECT id, "rows#2"."item#1"
    FROM orders LEFT JOIN (
        .. SELECT count(*), "key#1" FROM (SELECT DISTINCT n AS "key#1" FROM orders) CROSS JOIN items
           WHERE items.n < "key#1" GROUP BY "key#1" ..
    ) AS "rows#2" ON "rows#2"."key#1" IS NOT DISTINCT FROM orders.n

========================  ===========================================================================
`statements`              text to tree and back
`trees`                   questions that are asked of trees, and small trees
`scopes`                  which query each column belongs to
`repeatable`              relations that give the same rows whenever they are read
`totals`                  a query with totals as one without, over a query that has nothing but them
`domains`                 a query for each of many values of the columns around it
`blocks`                  a SELECT whose relations are read again for such values
`sites`                   the subqueries of a SELECT, and which of them DataFusion plans
`expressions`             subqueries that are a value or a condition
`laterals`                relations that read the relations before them
`rewriting`               the whole statement
========================  ===========================================================================
"""
