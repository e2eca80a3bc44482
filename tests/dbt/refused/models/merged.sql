{{ config(materialized='incremental', incremental_strategy='merge') }}
select 1 as id
