{{ config(materialized=var('staging_as', 'view')) }}
select id, customer_id, amount, state, changed_at
from {{ source('raw', 'orders') }}
where state <> 'draft'
