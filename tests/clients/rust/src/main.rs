//! What Arrow's Flight SQL client for Rust gets from a gateway: `clients facts PORT`, or `clients login PORT USER PASSWORD`
//! or `clients login PORT TOKEN`.
//!
//! Each finding is a JSON line: {"fact": name, "value": ...} or {"fact": name, "error": text, "code": status}.
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, Int64Array, RecordBatch, StringArray};
use arrow_flight::FlightInfo;
use arrow_flight::error::{FlightError, Result};
use arrow_flight::sql::client::FlightSqlServiceClient;
use arrow_flight::sql::*;
use futures::{TryStreamExt, stream};
use serde_json::{Value, json};
use tonic::transport::{Channel, Endpoint};

type Client = FlightSqlServiceClient<Channel>;

/// Print what a call returned, or how it failed.
fn tell(fact: &str, found: Result<impl Into<Value>>) {
    let line = match found {
        Ok(value) => json!({"fact": fact, "value": value.into()}),
        Err(FlightError::Tonic(status)) => {
            json!({"fact": fact, "error": status.message(), "code": format!("{:?}", status.code())})
        }
        Err(error) => json!({"fact": fact, "error": error.to_string(), "code": "Client"}),
    };
    println!("{line}");
}

/// Read all parts of a result; a stream with another schema than the one that was told is an error.
async fn read(client: &mut Client, info: Result<FlightInfo>) -> Result<Vec<RecordBatch>> {
    let info = info?;
    let told = info.clone().try_decode_schema()?;
    let mut batches = vec![];
    for endpoint in info.endpoint {
        let ticket = endpoint.ticket.ok_or(FlightError::protocol("an endpoint without a ticket"))?;
        let mut parts = client.do_get(ticket).await?;
        while let Some(batch) = parts.try_next().await? {
            if *batch.schema() != told {
                return Err(FlightError::protocol(format!("{} instead of {told}", batch.schema())));
            }
            batches.push(batch);
        }
    }
    Ok(batches)
}

/// Return the number of rows.
async fn count(client: &mut Client, info: Result<FlightInfo>) -> Result<usize> {
    Ok(read(client, info).await?.iter().map(RecordBatch::num_rows).sum())
}

/// Return the first column, of int64, in order.
async fn ids(client: &mut Client, info: Result<FlightInfo>) -> Result<Vec<i64>> {
    let batches = read(client, info).await?;
    let columns = batches.iter().map(|batch| batch.column(0).as_primitive::<Int64Type>());
    let mut found: Vec<i64> = columns.flat_map(|column| column.values().to_vec()).collect();
    found.sort();
    Ok(found)
}

fn notes(ids: Vec<i64>) -> Result<RecordBatch> {
    let texts = StringArray::from_iter(ids.iter().map(|id| (id % 2 == 0).then(|| format!("note {id}"))));
    let key = Arc::new(Int64Array::from(ids)) as Arc<dyn Array>;
    Ok(RecordBatch::try_from_iter_with_nullable([("id", key, false), ("text", Arc::new(texts) as _, true)])?)
}

async fn queries(client: &mut Client) {
    let info = client.execute("SELECT id FROM orders".into(), None).await;
    tell("query", ids(client, info).await);
    let info = client.execute("SELECT id FROM orders WHERE id < 0".into(), None).await;
    tell("no rows", ids(client, info).await);
    tell("prepared query", prepared(client, "SELECT id FROM orders WHERE id > ?", 42).await);
    let info = client.execute("SELECT * FROM ordres".into(), None).await;
    tell("unknown table", count(client, info).await);
    let info = client.execute("SELECT 1 / (id - 42) FROM orders".into(), None).await;
    tell("fails while it is read", count(client, info).await);
    let prepared = client.prepare("SELECT id, amount FROM orders WHERE id = ?".into(), None).await;
    let columns = prepared.and_then(|one| {
        let fields = one.parameter_schema()?.fields().iter().chain(one.dataset_schema()?.fields());
        Ok(fields.map(|field| field.name().clone()).collect::<Vec<_>>())
    });
    tell("columns of a prepared query", columns);
}

async fn prepared(client: &mut Client, statement: &str, value: i64) -> Result<Vec<i64>> {
    let mut prepared = client.prepare(statement.into(), None).await?;
    prepared.set_parameters(RecordBatch::try_from_iter([("1", Arc::new(Int64Array::from(vec![value])) as _)])?)?;
    let info = prepared.execute().await;
    let found = ids(client, info).await?;
    prepared.close().await?;
    Ok(found)
}

async fn listings(client: &mut Client) {
    let listed = [
        ("GetCatalogs", client.get_catalogs().await),
        ("GetDbSchemas", client.get_db_schemas(CommandGetDbSchemas::default()).await),
        ("GetTables", client.get_tables(tables(false)).await),
        ("GetTables with schemas", client.get_tables(tables(true)).await),
        ("GetTableTypes", client.get_table_types().await),
        (
            "GetPrimaryKeys",
            client.get_primary_keys(CommandGetPrimaryKeys { table: "orders".into(), ..Default::default() }).await,
        ),
        (
            "GetExportedKeys",
            client.get_exported_keys(CommandGetExportedKeys { table: "orders".into(), ..Default::default() }).await,
        ),
        (
            "GetImportedKeys",
            client.get_imported_keys(CommandGetImportedKeys { table: "orders".into(), ..Default::default() }).await,
        ),
        (
            "GetCrossReference",
            client
                .get_cross_reference(CommandGetCrossReference {
                    pk_table: "orders".into(),
                    fk_table: "many".into(),
                    ..Default::default()
                })
                .await,
        ),
        ("GetSqlInfo", client.get_sql_info(vec![SqlInfo::FlightSqlServerName]).await),
        ("GetXdbcTypeInfo", client.get_xdbc_type_info(CommandGetXdbcTypeInfo { data_type: Some(-5) }).await),
    ];
    for (name, info) in listed {
        tell(name, count(client, info).await);
    }
}

fn tables(include_schema: bool) -> CommandGetTables {
    let types = vec!["TABLE".into()];
    let pattern = Some("orders".into());
    CommandGetTables { table_types: types, table_name_filter_pattern: pattern, include_schema, ..Default::default() }
}

async fn writes(client: &mut Client) {
    let created = "CREATE TABLE rust_notes (id BIGINT PRIMARY KEY, text VARCHAR)";
    tell("CREATE TABLE", client.execute_update(created.into(), None).await);
    tell("INSERT", client.execute_update("INSERT INTO rust_notes VALUES (1, 'a'), (2, 'b')".into(), None).await);
    tell("prepared INSERT", insert(client, "INSERT INTO rust_notes VALUES (0, 'c')", None).await);
    tell("bound INSERT", insert(client, "INSERT INTO rust_notes VALUES (?, ?)", Some(vec![3, 4, 5])).await);
    let options = TableDefinitionOptions {
        if_not_exist: TableNotExistOption::Fail.into(),
        if_exists: TableExistsOption::Append.into(),
    };
    let append = CommandStatementIngest {
        table_definition_options: Some(options),
        table: "rust_notes".into(),
        ..Default::default()
    };
    let batches = [notes(vec![6, 7]), notes(vec![8])];
    tell("ingestion", client.execute_ingest(append, stream::iter(batches)).await);
    for (fact, end) in [("rolled back", EndTransaction::Rollback), ("committed", EndTransaction::Commit)] {
        tell(fact, transaction(client, end).await);
    }
    tell("refused", client.execute_update("INSERT INTO rust_notes VALUES (NULL, 'x')".into(), None).await);
    tell("DROP TABLE", client.execute_update("DROP TABLE rust_notes".into(), None).await);
}

async fn insert(client: &mut Client, statement: &str, bound: Option<Vec<i64>>) -> Result<i64> {
    let mut prepared = client.prepare(statement.into(), None).await?;
    if let Some(ids) = bound {
        prepared.set_parameters(notes(ids)?)?;
    }
    let count = prepared.execute_update().await?;
    prepared.close().await?;
    Ok(count)
}

/// Return the ids that are there once a transaction, which deletes one of them, has ended.
async fn transaction(client: &mut Client, end: EndTransaction) -> Result<Vec<i64>> {
    let begun = client.begin_transaction().await?;
    client.execute_update("DELETE FROM rust_notes WHERE id = 1".into(), Some(begun.clone())).await?;
    client.end_transaction(begun, end).await?;
    let info = client.execute("SELECT id FROM rust_notes".into(), None).await;
    ids(client, info).await
}

/// Tell what headers do; the client sends them with each call from now on.
async fn options(client: &mut Client) {
    client.set_header("x-lance-gateway-endpoints", "4");
    let info = client.execute("SELECT id FROM many".into(), None).await;
    tell("parts", info.as_ref().map(|info| info.endpoint.len()).map_err(|_| FlightError::protocol("no parts")));
    tell("rows of the parts", count(client, info).await);
    client.set_header("x-lance-gateway-read_only", "true");
    tell("read-only", client.execute_update("CREATE TABLE rust_refused (id BIGINT PRIMARY KEY)".into(), None).await);
}

#[tokio::main]
async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let address = format!("http://127.0.0.1:{}", arguments[1]);
    let mut client = Client::new(Endpoint::from_shared(address)?.connect().await?);
    match &arguments[..] {
        [kind, _] if kind == "facts" => {
            queries(&mut client).await;
            listings(&mut client).await;
            writes(&mut client).await;
            options(&mut client).await;
        }
        [kind, _, login @ ..] if kind == "login" => {
            match login {
                [user, password] => tell("handshake", client.handshake(user, password).await.map(|_| true)),
                [token] => client.set_token(token.clone()),
                _ => {}
            }
            let info = client.execute("SELECT id FROM orders".into(), None).await;
            tell("rows", count(&mut client, info).await);
        }
        _ => return Err("usage: clients facts PORT | login PORT [USER PASSWORD | TOKEN]".into()),
    }
    Ok(())
}
