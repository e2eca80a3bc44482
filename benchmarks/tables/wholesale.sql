-- 1: what was shipped, by return flag and line status
SELECT l_returnflag, l_linestatus, sum(l_quantity) AS quantity, sum(l_extendedprice) AS base_price,
       sum(l_extendedprice * (1 - l_discount)) AS discounted,
       sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)) AS charged,
       avg(CAST(l_quantity AS DOUBLE)) AS mean_quantity, avg(CAST(l_discount AS DOUBLE)) AS mean_discount,
       count(*) AS lines
FROM lineitem
WHERE l_shipdate <= DATE '1998-12-01' - INTERVAL '90' DAY
GROUP BY l_returnflag, l_linestatus
ORDER BY l_returnflag, l_linestatus;

-- 2: the cheapest supplier of a part in a region
SELECT s_acctbal, s_name, n_name, p_partkey, p_mfgr, s_address, s_phone
FROM part, supplier, partsupp, nation, region
WHERE p_partkey = ps_partkey AND s_suppkey = ps_suppkey AND p_size < 15 AND p_type LIKE '%BRASS'
  AND s_nationkey = n_nationkey AND n_regionkey = r_regionkey AND r_name = 'EUROPE'
  AND ps_supplycost = (
    SELECT min(other.ps_supplycost)
    FROM partsupp AS other, supplier AS seller, nation AS home, region AS area
    WHERE part.p_partkey = other.ps_partkey AND seller.s_suppkey = other.ps_suppkey
      AND seller.s_nationkey = home.n_nationkey AND home.n_regionkey = area.r_regionkey
      AND area.r_name = 'EUROPE')
ORDER BY s_acctbal DESC, n_name, s_name, p_partkey
LIMIT 100;

-- 3: the most valuable orders that wait for shipment
SELECT l_orderkey, sum(l_extendedprice * (1 - l_discount)) AS revenue, o_orderdate, o_shippriority
FROM customer JOIN orders ON c_custkey = o_custkey JOIN lineitem ON l_orderkey = o_orderkey
WHERE c_mktsegment = 'BUILDING' AND o_orderdate < DATE '1995-03-15' AND l_shipdate > DATE '1995-03-15'
GROUP BY l_orderkey, o_orderdate, o_shippriority
ORDER BY revenue DESC, o_orderdate, l_orderkey
LIMIT 10;

-- 4: orders of a quarter with a line that came late, by priority
SELECT o_orderpriority, count(*) AS late_orders
FROM orders
WHERE o_orderdate >= DATE '1993-07-01' AND o_orderdate < DATE '1993-10-01'
  AND EXISTS (SELECT 1 FROM lineitem WHERE l_orderkey = o_orderkey AND l_commitdate < l_receiptdate)
GROUP BY o_orderpriority
ORDER BY o_orderpriority;

-- 5: revenue of suppliers from customers of their own nation
SELECT n_name, sum(l_extendedprice * (1 - l_discount)) AS revenue
FROM customer, orders, lineitem, supplier, nation, region
WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey AND l_suppkey = s_suppkey
  AND c_nationkey = s_nationkey AND s_nationkey = n_nationkey AND n_regionkey = r_regionkey
  AND r_name = 'ASIA' AND o_orderdate >= DATE '1994-01-01' AND o_orderdate < DATE '1996-01-01'
GROUP BY n_name
ORDER BY revenue DESC, n_name;

-- 6: what smaller discounts would have earned
SELECT sum(l_extendedprice * l_discount) AS revenue
FROM lineitem
WHERE l_shipdate >= DATE '1994-01-01' AND l_shipdate < DATE '1995-01-01'
  AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24;

-- 7: trade between two nations, by year
SELECT seller, buyer, shipped_in, sum(volume) AS revenue
FROM (
  SELECT home.n_name AS seller, away.n_name AS buyer, extract(YEAR FROM l_shipdate) AS shipped_in,
         l_extendedprice * (1 - l_discount) AS volume
  FROM supplier, lineitem, orders, customer, nation AS home, nation AS away
  WHERE s_suppkey = l_suppkey AND o_orderkey = l_orderkey AND c_custkey = o_custkey
    AND s_nationkey = home.n_nationkey AND c_nationkey = away.n_nationkey
    AND ((home.n_name = 'FRANCE' AND away.n_name = 'GERMANY')
      OR (home.n_name = 'GERMANY' AND away.n_name = 'FRANCE'))
    AND l_shipdate BETWEEN DATE '1995-01-01' AND DATE '1996-12-31') AS shipping
GROUP BY seller, buyer, shipped_in
ORDER BY seller, buyer, shipped_in;

-- 8: a nation's share of a market, by year
SELECT ordered_in, CAST(sum(CASE WHEN nation = 'BRAZIL' THEN volume ELSE 0 END) AS DOUBLE)
                   / CAST(sum(volume) AS DOUBLE) AS share
FROM (
  SELECT extract(YEAR FROM o_orderdate) AS ordered_in, l_extendedprice * (1 - l_discount) AS volume,
         home.n_name AS nation
  FROM part, supplier, lineitem, orders, customer, nation AS away, nation AS home, region
  WHERE p_partkey = l_partkey AND s_suppkey = l_suppkey AND l_orderkey = o_orderkey
    AND o_custkey = c_custkey AND c_nationkey = away.n_nationkey AND away.n_regionkey = r_regionkey
    AND r_name = 'AMERICA' AND s_nationkey = home.n_nationkey AND p_type LIKE 'ECONOMY%'
    AND o_orderdate BETWEEN DATE '1995-01-01' AND DATE '1996-12-31') AS sales
GROUP BY ordered_in
ORDER BY ordered_in;

-- 9: profit on a line of parts, by nation and year
SELECT nation, ordered_in, sum(amount) AS profit
FROM (
  SELECT n_name AS nation, extract(YEAR FROM o_orderdate) AS ordered_in,
         l_extendedprice * (1 - l_discount) - ps_supplycost * l_quantity AS amount
  FROM part, supplier, lineitem, partsupp, orders, nation
  WHERE s_suppkey = l_suppkey AND ps_suppkey = l_suppkey AND ps_partkey = l_partkey
    AND p_partkey = l_partkey AND o_orderkey = l_orderkey AND s_nationkey = n_nationkey
    AND p_name LIKE '%green%') AS profits
GROUP BY nation, ordered_in
ORDER BY nation, ordered_in DESC;

-- 10: customers who returned most
SELECT c_custkey, c_name, sum(l_extendedprice * (1 - l_discount)) AS revenue, c_acctbal, n_name, c_phone
FROM customer, orders, lineitem, nation
WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey AND c_nationkey = n_nationkey
  AND o_orderdate >= DATE '1993-10-01' AND o_orderdate < DATE '1994-01-01' AND l_returnflag = 'R'
GROUP BY c_custkey, c_name, c_acctbal, c_phone, n_name
ORDER BY revenue DESC, c_custkey
LIMIT 20;

-- 11: the stock that matters in a nation
SELECT ps_partkey, sum(ps_supplycost * ps_availqty) AS value
FROM partsupp, supplier, nation
WHERE ps_suppkey = s_suppkey AND s_nationkey = n_nationkey AND n_name IN ('GERMANY', 'JAPAN', 'PERU')
GROUP BY ps_partkey
HAVING sum(ps_supplycost * ps_availqty) > (
  SELECT sum(ps_supplycost * ps_availqty) * 0.002
  FROM partsupp, supplier, nation
  WHERE ps_suppkey = s_suppkey AND s_nationkey = n_nationkey AND n_name IN ('GERMANY', 'JAPAN', 'PERU'))
ORDER BY value DESC, ps_partkey;

-- 12: late lines by ship mode and urgency
SELECT l_shipmode,
       sum(CASE WHEN o_orderpriority IN ('1-URGENT', '2-HIGH') THEN 1 ELSE 0 END) AS urgent,
       sum(CASE WHEN o_orderpriority IN ('1-URGENT', '2-HIGH') THEN 0 ELSE 1 END) AS patient
FROM orders JOIN lineitem ON o_orderkey = l_orderkey
WHERE l_shipmode IN ('MAIL', 'SHIP') AND l_commitdate < l_receiptdate AND l_shipdate < l_commitdate
  AND l_receiptdate >= DATE '1994-01-01' AND l_receiptdate < DATE '1995-01-01'
GROUP BY l_shipmode
ORDER BY l_shipmode;

-- 13: how many orders customers place
SELECT placed, count(*) AS customers
FROM (
  SELECT c_custkey, count(o_orderkey) AS placed
  FROM customer LEFT JOIN orders ON c_custkey = o_custkey AND o_comment NOT LIKE '%special%requests%'
  GROUP BY c_custkey) AS counts
GROUP BY placed
ORDER BY customers DESC, placed DESC;

-- 14: the share of promoted parts in a month's revenue
SELECT 100.0 * CAST(sum(CASE WHEN p_type LIKE 'PROMO%' THEN l_extendedprice * (1 - l_discount) ELSE 0 END) AS DOUBLE)
       / CAST(sum(l_extendedprice * (1 - l_discount)) AS DOUBLE) AS promoted
FROM lineitem, part
WHERE l_partkey = p_partkey AND l_shipdate >= DATE '1995-09-01' AND l_shipdate < DATE '1995-10-01';

-- 15: the best supplier of a quarter
WITH revenue AS (
  SELECT l_suppkey AS supplier_no, sum(l_extendedprice * (1 - l_discount)) AS total
  FROM lineitem
  WHERE l_shipdate >= DATE '1996-01-01' AND l_shipdate < DATE '1996-04-01'
  GROUP BY l_suppkey)
SELECT s_suppkey, s_name, s_address, s_phone, total
FROM supplier JOIN revenue ON s_suppkey = supplier_no
WHERE total = (SELECT max(total) FROM revenue)
ORDER BY s_suppkey;

-- 16: suppliers of parts, without those that customers complain of
SELECT p_brand, p_type, p_size, count(DISTINCT ps_suppkey) AS suppliers
FROM partsupp JOIN part ON p_partkey = ps_partkey
WHERE p_brand <> 'Brand#45' AND p_type NOT LIKE 'MEDIUM POLISHED%' AND p_size IN (3, 9, 14, 19, 23, 36, 45, 49)
  AND ps_suppkey NOT IN (SELECT s_suppkey FROM supplier WHERE s_comment LIKE '%Customer%Complaints%')
GROUP BY p_brand, p_type, p_size
ORDER BY suppliers DESC, p_brand, p_type, p_size;

-- 17: revenue lost if small orders were refused
SELECT CAST(sum(l_extendedprice) AS DOUBLE) / 7.0 AS yearly
FROM lineitem JOIN part ON p_partkey = l_partkey
WHERE p_brand LIKE 'Brand#2%' AND p_container LIKE 'MED%'
  AND CAST(l_quantity AS DOUBLE) < (
    SELECT 0.3 * avg(CAST(inner_line.l_quantity AS DOUBLE)) FROM lineitem AS inner_line
    WHERE inner_line.l_partkey = p_partkey);

-- 18: customers of large orders
SELECT c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice, sum(l_quantity) AS quantity
FROM customer, orders, lineitem
WHERE o_orderkey IN (SELECT l_orderkey FROM lineitem GROUP BY l_orderkey HAVING sum(l_quantity) > 260)
  AND c_custkey = o_custkey AND o_orderkey = l_orderkey
GROUP BY c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice
ORDER BY o_totalprice DESC, o_orderdate, o_orderkey
LIMIT 100;

-- 19: discounted revenue of parts that are handled by hand
SELECT sum(l_extendedprice * (1 - l_discount)) AS revenue
FROM lineitem, part
WHERE p_partkey = l_partkey AND l_shipmode IN ('AIR', 'AIR REG') AND l_shipinstruct = 'DELIVER IN PERSON'
  AND ((p_brand LIKE 'Brand#1%' AND p_container IN ('SM CASE', 'SM BOX', 'SM PACK', 'SM PKG')
        AND l_quantity BETWEEN 1 AND 11 AND p_size BETWEEN 1 AND 25)
    OR (p_brand LIKE 'Brand#2%' AND p_container IN ('MED BAG', 'MED BOX', 'MED PKG', 'MED PACK')
        AND l_quantity BETWEEN 10 AND 20 AND p_size BETWEEN 1 AND 30)
    OR (p_brand LIKE 'Brand#3%' AND p_container IN ('LG CASE', 'LG BOX', 'LG PACK', 'LG PKG')
        AND l_quantity BETWEEN 20 AND 30 AND p_size BETWEEN 1 AND 35));

-- 20: suppliers with more stock than they need
SELECT s_name, s_address
FROM supplier JOIN nation ON s_nationkey = n_nationkey
WHERE n_name IN ('CANADA', 'CHINA', 'KENYA', 'PERU') AND s_suppkey IN (
  SELECT ps_suppkey FROM partsupp
  WHERE ps_partkey IN (SELECT p_partkey FROM part WHERE p_name LIKE 'forest%')
    AND CAST(ps_availqty AS DOUBLE) > (
      SELECT 0.5 * sum(CAST(l_quantity AS DOUBLE)) FROM lineitem
      WHERE l_partkey = ps_partkey AND l_suppkey = ps_suppkey
        AND l_shipdate >= DATE '1994-01-01' AND l_shipdate < DATE '1995-01-01'))
ORDER BY s_name;

-- 21: suppliers who alone kept an order waiting
SELECT s_name, count(*) AS waits
FROM supplier, lineitem AS late, orders, nation
WHERE s_suppkey = late.l_suppkey AND o_orderkey = late.l_orderkey AND o_orderstatus = 'F'
  AND late.l_receiptdate > late.l_commitdate AND s_nationkey = n_nationkey
  AND n_name IN ('SAUDI ARABIA', 'INDIA', 'FRANCE')
  AND EXISTS (SELECT 1 FROM lineitem AS other
              WHERE other.l_orderkey = late.l_orderkey AND other.l_suppkey <> late.l_suppkey)
  AND NOT EXISTS (SELECT 1 FROM lineitem AS other
                  WHERE other.l_orderkey = late.l_orderkey AND other.l_suppkey <> late.l_suppkey
                    AND other.l_receiptdate > other.l_commitdate)
GROUP BY s_name
ORDER BY waits DESC, s_name
LIMIT 100;

-- 22: rich customers without orders, by country code
SELECT country, count(*) AS customers, sum(c_acctbal) AS balance
FROM (
  SELECT substr(c_phone, 1, 2) AS country, c_acctbal
  FROM customer
  WHERE substr(c_phone, 1, 2) IN ('13', '31', '23', '29', '30', '18', '17')
    AND CAST(c_acctbal AS DOUBLE) > (
      SELECT avg(CAST(c_acctbal AS DOUBLE)) FROM customer
      WHERE c_acctbal > 0.00 AND substr(c_phone, 1, 2) IN ('13', '31', '23', '29', '30', '18', '17'))
    AND NOT EXISTS (SELECT 1 FROM orders WHERE o_custkey = c_custkey)) AS idle
GROUP BY country
ORDER BY country;
