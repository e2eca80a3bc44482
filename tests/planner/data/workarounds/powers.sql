Statements that DataFusion answers wrongly, and the right rows.

## a power
SELECT 2 ^ 3
--
8.0
