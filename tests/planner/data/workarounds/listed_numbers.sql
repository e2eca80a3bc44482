-- See tests/planner/workarounds.py.

## a list of decimals and one of literals
SELECT [CAST(4.44 AS DECIMAL(10, 2))] = [4.44], array_has_any([CAST(4.44 AS DECIMAL(10, 2))], [4.44]), coalesce(NULL, [4.44], [CAST(1 AS DECIMAL(10, 2))])
--
True | True | [Decimal('4.44')]

## a list of decimals and an integer
SELECT array_append([CAST(4.44 AS DECIMAL(10, 2))], 1), 1 = ANY([CAST(1 AS DECIMAL(10, 2))])
--
[Decimal('4.44'), Decimal('1.00')] | True
