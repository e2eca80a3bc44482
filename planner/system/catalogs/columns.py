"""The columns of the tables of catalogs: name, and behind a colon the type, where it is not text."""

from __future__ import annotations

from typing import Final

INFORMATION_COLUMNS: Final = """
information_schema_catalog_name = catalog_name
schemata = catalog_name schema_name schema_owner default_character_set_catalog default_character_set_schema
    default_character_set_name sql_path
tables = table_catalog table_schema table_name table_type self_referencing_column_name reference_generation
    user_defined_type_catalog user_defined_type_schema user_defined_type_name is_insertable_into is_typed
    commit_action
columns = table_catalog table_schema table_name column_name ordinal_position:int4 column_default is_nullable
    data_type character_maximum_length:int4 character_octet_length:int4 numeric_precision:int4
    numeric_precision_radix:int4 numeric_scale:int4 datetime_precision:int4 interval_type
    interval_precision:int4 character_set_catalog character_set_schema character_set_name collation_catalog
    collation_schema collation_name domain_catalog domain_schema domain_name udt_catalog udt_schema udt_name
    scope_catalog scope_schema scope_name maximum_cardinality:int4 dtd_identifier is_self_referencing
    is_identity identity_generation identity_start identity_increment identity_maximum identity_minimum
    identity_cycle is_generated generation_expression is_updatable
views = table_catalog table_schema table_name view_definition check_option is_updatable is_insertable_into
    is_trigger_updatable is_trigger_deletable is_trigger_insertable_into definition
table_constraints = constraint_catalog constraint_schema constraint_name table_catalog table_schema
    table_name constraint_type is_deferrable initially_deferred enforced nulls_distinct
check_constraints = constraint_catalog constraint_schema constraint_name check_clause
key_column_usage = constraint_catalog constraint_schema constraint_name table_catalog table_schema
    table_name column_name ordinal_position:int4 position_in_unique_constraint:int4
constraint_column_usage = table_catalog table_schema table_name column_name constraint_catalog
    constraint_schema constraint_name
constraint_table_usage = table_catalog table_schema table_name constraint_catalog constraint_schema
    constraint_name
referential_constraints = constraint_catalog constraint_schema constraint_name unique_constraint_catalog
    unique_constraint_schema unique_constraint_name match_option update_rule delete_rule
table_privileges = grantor grantee table_catalog table_schema table_name privilege_type is_grantable
    with_hierarchy
role_table_grants = grantor grantee table_catalog table_schema table_name privilege_type is_grantable
    with_hierarchy
column_privileges = grantor grantee table_catalog table_schema table_name column_name privilege_type
    is_grantable
enabled_roles = role_name
applicable_roles = grantee role_name is_grantable
sequences = sequence_catalog sequence_schema sequence_name data_type numeric_precision:int4
    numeric_precision_radix:int4 numeric_scale:int4 start_value minimum_value maximum_value increment
    cycle_option
triggers = trigger_catalog trigger_schema trigger_name event_manipulation event_object_catalog
    event_object_schema event_object_table action_order:int4 action_condition action_statement
    action_orientation action_timing
domains = domain_catalog domain_schema domain_name data_type domain_default
element_types = object_catalog object_schema object_name object_type collection_type_identifier data_type
user_defined_types = user_defined_type_catalog user_defined_type_schema user_defined_type_name
    user_defined_type_category is_instantiable data_type
character_sets = character_set_catalog character_set_schema character_set_name character_repertoire
    form_of_use default_collate_catalog default_collate_schema default_collate_name
collations = collation_catalog collation_schema collation_name pad_attribute
view_table_usage = view_catalog view_schema view_name table_catalog table_schema table_name
"""
PG_COLUMNS: Final = """
pg_namespace = oid:oid nspname nspowner:oid nspacl:texts
pg_class = oid:oid relname relnamespace:oid reltype:oid reloftype:oid relowner:oid relam:oid relfilenode:oid
    reltablespace:oid relpages:int4 reltuples:float4 relallvisible:int4 reltoastrelid:oid relhasindex:bool
    relisshared:bool relpersistence relkind relnatts:int2 relchecks:int2 relhasrules:bool
    relhastriggers:bool relhassubclass:bool relrowsecurity:bool relforcerowsecurity:bool relispopulated:bool
    relreplident relispartition:bool relrewrite:oid relfrozenxid:int8 relminmxid:int8 relacl:texts
    reloptions:texts relpartbound
pg_attribute = attrelid:oid attname atttypid:oid attlen:int2 attnum:int2 attcacheoff:int4 atttypmod:int4
    attndims:int2 attbyval:bool attalign attstorage attcompression attnotnull:bool atthasdef:bool
    atthasmissing:bool attidentity attgenerated attisdropped:bool attislocal:bool attinhcount:int2
    attcollation:oid attstattarget:int2 attacl:texts attoptions:texts attfdwoptions:texts attmissingval
pg_attrdef = oid:oid adrelid:oid adnum:int2 adbin
pg_type = oid:oid typname typnamespace:oid typowner:oid typlen:int2 typbyval:bool typtype typcategory
    typispreferred:bool typisdefined:bool typdelim typrelid:oid typsubscript typelem:oid typarray:oid
    typinput typoutput typreceive typsend typmodin typmodout typanalyze typalign typstorage typnotnull:bool
    typbasetype:oid typtypmod:int4 typndims:int4 typcollation:oid typdefaultbin typdefault typacl:texts
pg_constraint = oid:oid conname connamespace:oid contype condeferrable:bool condeferred:bool
    convalidated:bool conrelid:oid contypid:oid conindid:oid conparentid:oid confrelid:oid confupdtype
    confdeltype confmatchtype conislocal:bool coninhcount:int2 connoinherit:bool conkey:numbers
    confkey:numbers conpfeqop:oids conppeqop:oids conffeqop:oids confdelsetcols:numbers conexclop:oids
    conbin
pg_index = indexrelid:oid indrelid:oid indnatts:int2 indnkeyatts:int2 indisunique:bool
    indnullsnotdistinct:bool indisprimary:bool indisexclusion:bool indimmediate:bool indisclustered:bool
    indisvalid:bool indcheckxmin:bool indisready:bool indislive:bool indisreplident:bool indkey:numbers
    indcollation:oids indclass:oids indoption:numbers indexprs indpred
pg_description = objoid:oid classoid:oid objsubid:int4 description
pg_database = oid:oid datname datdba:oid encoding:int4 datlocprovider datistemplate:bool datallowconn:bool
    datconnlimit:int4 dattablespace:oid datcollate datctype datacl:texts
pg_roles = rolname rolsuper:bool rolinherit:bool rolcreaterole:bool rolcreatedb:bool rolcanlogin:bool
    rolreplication:bool rolconnlimit:int4 rolpassword rolvaliduntil rolbypassrls:bool rolconfig:texts
    oid:oid
pg_user = usename usesysid:oid usesuper:bool
pg_am = oid:oid amname amhandler amtype
pg_tables = schemaname tablename tableowner tablespace hasindexes:bool hasrules:bool hastriggers:bool
    rowsecurity:bool
pg_views = schemaname viewname viewowner definition
pg_indexes = schemaname tablename indexname tablespace indexdef
pg_settings = name setting unit category short_desc extra_desc context vartype source min_val max_val
    enumvals:texts boot_val reset_val sourcefile sourceline:int4 pending_restart:bool
pg_matviews = schemaname matviewname matviewowner definition ispopulated:bool
pg_proc = oid:oid proname pronamespace:oid proowner:oid prolang:oid prokind proretset:bool pronargs:int2
    prorettype:oid proargtypes:oids proallargtypes:oids proargmodes:texts proargnames:texts prosrc
    provolatile proisstrict:bool
pg_enum = oid:oid enumtypid:oid enumsortorder:float4 enumlabel
pg_sequence = seqrelid:oid seqtypid:oid seqstart:int8 seqincrement:int8 seqmax:int8 seqmin:int8
    seqcache:int8 seqcycle:bool
pg_sequences = schemaname sequencename sequenceowner data_type start_value:int8
pg_collation = oid:oid collname collnamespace:oid collprovider collisdeterministic:bool
pg_inherits = inhrelid:oid inhparent:oid inhseqno:int4 inhdetachpending:bool
pg_trigger = oid:oid tgrelid:oid tgparentid:oid tgname tgfoid:oid tgtype:int2 tgenabled tgisinternal:bool
pg_rewrite = oid:oid rulename ev_class:oid ev_type ev_enabled is_instead:bool
pg_depend = classid:oid objid:oid objsubid:int4 refclassid:oid refobjid:oid refobjsubid:int4 deptype
pg_tablespace = oid:oid spcname spcowner:oid spcoptions:texts
pg_extension = oid:oid extname extowner:oid extnamespace:oid extversion
pg_opclass = oid:oid opcmethod:oid opcname opcnamespace:oid opcintype:oid opcdefault:bool opckeytype:oid
pg_range = rngtypid:oid rngsubtype:oid rngcollation:oid
pg_policy = oid:oid polname polrelid:oid polcmd polpermissive:bool
pg_partitioned_table = partrelid:oid partstrat partnatts:int2
pg_foreign_table = ftrelid:oid ftserver:oid ftoptions:texts
pg_foreign_server = oid:oid srvname srvowner:oid srvfdw:oid srvoptions:texts
pg_shdescription = objoid:oid classoid:oid description
pg_auth_members = oid:oid roleid:oid member:oid grantor:oid admin_option:bool
pg_stat_user_tables = relid:oid schemaname relname n_live_tup:int8
pg_stat_activity = datid:oid datname pid:int4 usesysid:oid usename application_name client_addr
    client_hostname client_port:int4 backend_start xact_start query_start state_change wait_event_type
    wait_event state query backend_type
pg_locks = locktype database:oid relation:oid pid:int4 mode granted:bool
pg_language = oid:oid lanname lanowner:oid lanispl:bool lanpltrusted:bool
pg_cast = oid:oid castsource:oid casttarget:oid castfunc:oid castcontext castmethod
pg_operator = oid:oid oprname oprnamespace:oid oprkind oprleft:oid oprright:oid oprresult:oid oprcode
pg_policies = schemaname tablename policyname permissive roles:texts cmd qual with_check
pg_event_trigger = oid:oid evtname evtevent evtowner:oid evtfoid:oid evtenabled evttags:texts
pg_statistic_ext = oid:oid stxrelid:oid stxname stxnamespace:oid stxkeys:numbers stxkind:texts
pg_publication = oid:oid pubname pubowner:oid puballtables:bool
pg_available_extensions = name default_version installed_version comment
pg_timezone_names = name abbrev is_dst:bool
"""
