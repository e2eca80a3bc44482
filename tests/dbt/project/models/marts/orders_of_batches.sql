{{ config(
  materialized='incremental', incremental_strategy='microbatch', event_time='changed_at', batch_size='year',
  begin='2024-01-01', lookback=1, primary_key='id',
) }}
select id, state, changed_at from {{ source('raw', 'orders') }}
