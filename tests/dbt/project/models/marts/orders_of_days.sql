{{ config(materialized=var('days_as', 'incremental'), incremental_strategy='delete+insert', unique_key=['day', 'state']) }}
select {{ dbt.date_trunc('day', 'changed_at') }} as day, state, count(*) as orders, sum(amount) as amount
from {{ ref('stg_orders') }}
group by 1, 2
