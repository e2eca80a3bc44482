{{ config(materialized='table', contract={'enforced': true}) }}
select 'x' as id
