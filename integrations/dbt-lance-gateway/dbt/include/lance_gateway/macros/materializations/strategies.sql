{% macro lance_gateway__get_incremental_default_sql(arg_dict) %}
  {{ return(get_incremental_merge_sql(arg_dict) if arg_dict['unique_key'] else get_incremental_append_sql(arg_dict)) }}
{% endmacro %}


{# As dbt's own, but values are named with their source, and columns of the key, which are equal, are not set. #}
{% macro lance_gateway__get_merge_sql(target, source, unique_key, dest_columns, incremental_predicates=none) %}
  {%- if not unique_key -%}
    {{ exceptions.raise_compiler_error("the strategy 'merge' of " ~ target.render() ~ " needs a 'unique_key'; 'append' needs none") }}
  {%- endif -%}
  {%- set keys = [unique_key] if unique_key is string else unique_key -%}
  {%- set conditions = [] if incremental_predicates is none else [] + incremental_predicates -%}
  {%- for key in keys -%}
    {%- do conditions.append(equals("DBT_INTERNAL_SOURCE." ~ key, "DBT_INTERNAL_DEST." ~ key) | trim) -%}
  {%- endfor -%}
  {%- set key_names = keys | map('replace', '"', '') | map('lower') | list -%}
  {%- set set_columns = [] -%}
  {%- for column in get_merge_update_columns(
        config.get('merge_update_columns'), config.get('merge_exclude_columns'), dest_columns
      ) if (column | replace('"', '') | lower) not in key_names -%}
    {%- do set_columns.append(column ~ " = DBT_INTERNAL_SOURCE." ~ column) -%}
  {%- endfor -%}
  {{ config.get('sql_header', '') or '' }}
  merge into {{ target.render() }} as DBT_INTERNAL_DEST
  using {{ source.render() }} as DBT_INTERNAL_SOURCE
  on ({{ conditions | join(') and (') }})
  {% if set_columns -%}
  when matched then update set {{ set_columns | join(', ') }}
  {%- endif %}
  when not matched then insert ({{ get_quoted_csv(dest_columns | map(attribute='name')) }})
    values ({{ lance_gateway__source_columns(dest_columns | map(attribute='quoted')) }})
{% endmacro %}


{# Two statements: DELETE here, INSERT as the main one. #}
{% macro lance_gateway__get_delete_insert_merge_sql(target, source, unique_key, dest_columns, incremental_predicates) %}
  {%- if unique_key -%}
    {%- set keys = ([unique_key] if unique_key is string else unique_key) | join(', ') -%}
    {%- set conditions = [] if incremental_predicates is none else [] + incremental_predicates -%}
    {%- do conditions.append("(" ~ keys ~ ") in (select distinct " ~ keys ~ " from " ~ source.render() ~ ")") -%}
    {%- do run_query(
      "delete from " ~ target.render() ~ " as DBT_INTERNAL_DEST where (" ~ conditions | join(') and (') ~ ")"
    ) -%}
  {%- endif -%}
  {{ return(get_insert_into_sql(target, source, dest_columns)) }}
{% endmacro %}


{# Two statements: DELETE of the batch's time here, INSERT as the main one. #}
{% macro lance_gateway__get_incremental_microbatch_sql(arg_dict) %}
  {%- set conditions = [] + (arg_dict['incremental_predicates'] or []) -%}
  {%- set time = config.get('event_time') -%}
  {%- if model.batch and model.batch.event_time_start -%}
    {%- do conditions.append(time ~ " >= " ~ lance_gateway__batch_time(model.batch.event_time_start)) -%}
  {%- endif -%}
  {%- if model.batch and model.batch.event_time_end -%}
    {%- do conditions.append(time ~ " < " ~ lance_gateway__batch_time(model.batch.event_time_end)) -%}
  {%- endif -%}
  {%- do run_query(
    "delete from " ~ arg_dict['target_relation'].render() ~ " as DBT_INTERNAL_DEST where (" ~ conditions | join(') and (') ~ ")"
  ) -%}
  {{ return(get_insert_into_sql(arg_dict['target_relation'], arg_dict['temp_relation'], arg_dict['dest_columns'])) }}
{% endmacro %}


{# Batches begin and end at whole seconds, in UTC. #}
{% macro lance_gateway__batch_time(time) %}
  {{ return("timestamp '" ~ time.strftime('%Y-%m-%d %H:%M:%S') ~ "'") }}
{% endmacro %}


{% macro lance_gateway__source_columns(quoted_names) %}
  {%- for name in quoted_names -%}
    DBT_INTERNAL_SOURCE.{{ name }}{{ ", " if not loop.last }}
  {%- endfor -%}
{% endmacro %}
