{{ config(grants={'select': ['bob']}) }}
select 1 as id
