{{ config(
  table_options={'region_by': 'bucket(customer_id, 2)', 'keys_never_move': true},
  indexes=[{'columns': ['name'], 'type': 'bitmap'}],
) }}
select c.id as customer_id, c.name, coalesce(sum(p.amount), 0) as spent, count(p.id) as orders,
  cast(coalesce(sum(p.amount), 0) as numeric(12, 2)) as rounded, max(p.changed_at) as last_paid
from {{ ref('customers') }} as c
left join {{ ref('paid_orders') }} as p on p.customer_id = c.id
group by c.id, c.name
