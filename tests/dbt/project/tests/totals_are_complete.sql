select 1 as missing
where (select sum(spent) from {{ ref('customer_totals') }}) <> (select sum(amount) from {{ ref('paid_orders') }})
