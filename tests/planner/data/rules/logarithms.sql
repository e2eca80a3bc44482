Tables: see tests/planner/sql/rules/test_rules.py.

## logarithms
SELECT log(f, 1), log(2, log(10, price)), log(f) FROM p
--
SELECT (ln(1) / ln(f)), (ln((ln(price) / ln(10))) / ln(2)), log10(f) FROM p
