{{ config(materialized='incremental', unique_key='id', primary_key='id', on_schema_change='append_new_columns') }}
select id, state, changed_at{% if var('with_amount', false) %}, amount{% endif %}
from {{ ref('stg_orders') }}
{% if is_incremental() %}
where changed_at > (select max(changed_at) from {{ this }})
{% endif %}
