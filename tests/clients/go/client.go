package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/flight"
	"github.com/apache/arrow-go/v18/arrow/flight/flightsql"
	"github.com/apache/arrow-go/v18/arrow/flight/flightsql/schema_ref"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// call is a request that is answered with a FlightInfo.
type call func() (*flight.FlightInfo, error)

// client tells what the Flight SQL client gets.
func client(ctx context.Context, address string) error {
	cookies := []flight.ClientMiddleware{flight.NewClientCookieMiddleware()}
	cl, err := flightsql.NewClient(address, nil, cookies, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer cl.Close()
	listings(ctx, cl)
	statements(ctx, cl)
	sessions(ctx, cl)
	writes(ctx, cl)
	following(ctx, cl)
	return nil
}

func listings(ctx context.Context, cl *flightsql.Client) {
	main, orders, all := "main", flightsql.TableRef{Table: "orders"}, "%"
	list := func(fact string, expected *arrow.Schema, asked call) {
		tell(fact, func() (any, error) { return read(ctx, cl, expected, asked) })
	}
	list("GetCatalogs", schema_ref.Catalogs, func() (*flight.FlightInfo, error) { return cl.GetCatalogs(ctx) })
	list("GetDbSchemas", schema_ref.DBSchemas, func() (*flight.FlightInfo, error) {
		return cl.GetDBSchemas(ctx, &flightsql.GetDBSchemasOpts{DbSchemaFilterPattern: &all})
	})
	list("GetTables", schema_ref.Tables, func() (*flight.FlightInfo, error) {
		return cl.GetTables(ctx, &flightsql.GetTablesOpts{DbSchemaFilterPattern: &main})
	})
	list("GetTables with schemas", schema_ref.TablesWithIncludedSchema, func() (*flight.FlightInfo, error) {
		return cl.GetTables(ctx, &flightsql.GetTablesOpts{TableTypes: []string{"VIEW"}, IncludeSchema: true})
	})
	list("GetTableTypes", schema_ref.TableTypes, func() (*flight.FlightInfo, error) { return cl.GetTableTypes(ctx) })
	// Its own schema of primary keys has the last two columns in another order than the protocol's text.
	list("GetPrimaryKeys", nil, func() (*flight.FlightInfo, error) { return cl.GetPrimaryKeys(ctx, orders) })
	list("GetExportedKeys", schema_ref.ExportedKeys, func() (*flight.FlightInfo, error) { return cl.GetExportedKeys(ctx, orders) })
	list("GetImportedKeys", schema_ref.ImportedKeys, func() (*flight.FlightInfo, error) { return cl.GetImportedKeys(ctx, orders) })
	list("GetCrossReference", schema_ref.CrossReference, func() (*flight.FlightInfo, error) {
		return cl.GetCrossReference(ctx, orders, orders)
	})
	list("GetXdbcTypeInfo", schema_ref.XdbcTypeInfo, func() (*flight.FlightInfo, error) { return cl.GetXdbcTypeInfo(ctx, nil) })
	list("GetSqlInfo", schema_ref.SqlInfo, func() (*flight.FlightInfo, error) { return cl.GetSqlInfo(ctx, nil) })
}

func statements(ctx context.Context, cl *flightsql.Client) {
	tell("statement", func() (any, error) {
		return read(ctx, cl, nil, func() (*flight.FlightInfo, error) { return cl.Execute(ctx, "SELECT * FROM typed") })
	})
	tell("schema of a statement", func() (any, error) {
		result, err := cl.GetExecuteSchema(ctx, "SELECT id, amount FROM orders")
		if err != nil {
			return nil, err
		}
		schema, err := flight.DeserializeSchema(result.GetSchema(), memory.DefaultAllocator)
		if err != nil {
			return nil, err
		}
		return names(schema), nil
	})
	tell("prepared statement", func() (any, error) {
		prepared, err := cl.Prepare(ctx, "SELECT id FROM orders WHERE id < ? OR customer IS NOT DISTINCT FROM ?")
		if err != nil {
			return nil, err
		}
		defer prepared.Close(ctx)
		builder := array.NewRecordBuilder(memory.DefaultAllocator, prepared.ParameterSchema())
		defer builder.Release()
		builder.Field(0).(*array.Int64Builder).Append(10)
		builder.Field(1).(*array.StringBuilder).AppendNull()
		values := builder.NewRecordBatch()
		defer values.Release()
		prepared.SetParameters(values)
		return read(ctx, cl, prepared.DatasetSchema(), func() (*flight.FlightInfo, error) { return prepared.Execute(ctx) })
	})
	tell("CancelFlightInfo", func() (any, error) {
		info, err := cl.Execute(ctx, "SELECT 1")
		if err != nil {
			return nil, err
		}
		result, err := cl.CancelFlightInfo(ctx, &flight.CancelFlightInfoRequest{Info: info})
		if err != nil {
			return nil, err
		}
		return result.GetStatus().String(), nil
	})
	tell("a ticket that was cancelled", func() (any, error) {
		info, err := cl.Execute(ctx, "SELECT 1")
		if err != nil {
			return nil, err
		}
		if _, err := cl.CancelFlightInfo(ctx, &flight.CancelFlightInfoRequest{Info: info}); err != nil {
			return nil, err
		}
		return read(ctx, cl, nil, func() (*flight.FlightInfo, error) { return info, nil })
	})
	tell("statement that fails while it is read", func() (any, error) {
		return read(ctx, cl, nil, func() (*flight.FlightInfo, error) {
			return cl.Execute(ctx, "SELECT 1000000 / (900000 - value) FROM generate_series(1, 1000000)")
		})
	})
	tell("PollFlightInfo", func() (any, error) { return cl.ExecutePoll(ctx, "SELECT 1", nil) })
	tell("BeginSavepoint", func() (any, error) {
		begun, err := cl.BeginTransaction(ctx)
		if err != nil {
			return nil, err
		}
		return begun.BeginSavepoint(ctx, "s")
	})
}

func sessions(ctx context.Context, cl *flightsql.Client) {
	set := func(options map[string]any) (any, error) {
		values, err := flight.NewSessionOptionValues(options)
		if err != nil {
			return nil, err
		}
		result, err := cl.SetSessionOptions(ctx, &flight.SetSessionOptionsRequest{SessionOptions: values})
		if err != nil {
			return nil, err
		}
		errors := map[string]string{}
		for name, failed := range result.GetErrors() {
			errors[name] = failed.GetValue().String()
		}
		return errors, nil
	}
	tell("SetSessionOptions", func() (any, error) {
		return set(map[string]any{"endpoints": int64(4), "colour": "green", "consistency": "eventual"})
	})
	tell("GetSessionOptions", func() (any, error) {
		result, err := cl.GetSessionOptions(ctx, &flight.GetSessionOptionsRequest{})
		if err != nil {
			return nil, err
		}
		return result.GetSessionOptions()["endpoints"].GetInt64Value(), nil
	})
	tell("a scan in parts", func() (any, error) {
		info, err := cl.Execute(ctx, "SELECT id FROM orders")
		if err != nil {
			return nil, err
		}
		rows, err := read(ctx, cl, nil, func() (*flight.FlightInfo, error) { return info, nil })
		return []any{len(info.GetEndpoint()), rows}, err
	})
	tell("RenewFlightEndpoint", func() (any, error) {
		info, err := cl.Execute(ctx, "SELECT id FROM orders")
		if err != nil {
			return nil, err
		}
		before := info.GetEndpoint()[0]
		renewed, err := cl.RenewFlightEndpoint(ctx, &flight.RenewFlightEndpointRequest{Endpoint: before})
		if err != nil {
			return nil, err
		}
		return !renewed.GetExpirationTime().AsTime().Before(before.GetExpirationTime().AsTime()), nil
	})
	tell("CloseSession", func() (any, error) {
		result, err := cl.CloseSession(ctx, &flight.CloseSessionRequest{})
		if err != nil {
			return nil, err
		}
		return result.GetStatus().String(), nil
	})
}

func writes(ctx context.Context, cl *flightsql.Client) {
	fields := []arrow.Field{{Name: "id", Type: arrow.PrimitiveTypes.Int64}, {Name: "text", Type: arrow.BinaryTypes.String, Nullable: true}}
	tell("ingestion", func() (any, error) {
		builder := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema(fields, nil))
		defer builder.Release()
		for id := range int64(3) {
			builder.Field(0).(*array.Int64Builder).Append(id)
			builder.Field(1).AppendNull()
		}
		batch := builder.NewRecordBatch()
		defer batch.Release()
		reader, err := array.NewRecordReader(batch.Schema(), []arrow.RecordBatch{batch, batch})
		if err != nil {
			return nil, err
		}
		defer reader.Release()
		return cl.ExecuteIngest(ctx, reader, &flightsql.ExecuteIngestOpts{
			Table: "go_ingested",
			TableDefinitionOptions: &flightsql.TableDefinitionOptions{
				IfNotExist: flightsql.TableDefinitionOptionsTableNotExistOptionCreate,
				IfExists:   flightsql.TableDefinitionOptionsTableExistsOptionFail,
			},
		})
	})
	tell("update", func() (any, error) { return cl.ExecuteUpdate(ctx, "DROP TABLE go_ingested") })
	tell("update that is refused", func() (any, error) { return cl.ExecuteUpdate(ctx, "DELETE FROM nowhere WHERE id = 1") })
}

// following reads the changes of a table while it writes it.
func following(ctx context.Context, cl *flightsql.Client) {
	tell("changes as they come", func() (any, error) {
		if _, err := cl.ExecuteUpdate(ctx, "CREATE TABLE go_followed (id BIGINT PRIMARY KEY)"); err != nil {
			return nil, err
		}
		info, err := cl.Execute(ctx, "SELECT id FROM lance_changes('go_followed', since => 1, follow => true)")
		if err != nil {
			return nil, err
		}
		endless, stop := context.WithCancel(ctx)
		defer stop()
		reader, err := cl.DoGet(endless, info.GetEndpoint()[0].GetTicket())
		if err != nil {
			return nil, err
		}
		defer reader.Release()
		seen := []int64{}
		for id := range int64(3) {
			if _, err := cl.ExecuteUpdate(ctx, fmt.Sprintf("INSERT INTO go_followed VALUES (%d)", id)); err != nil {
				return nil, err
			}
			// Batches without rows say that the stream lives.
			for int64(len(seen)) <= id && reader.Next() {
				seen = append(seen, reader.RecordBatch().Column(0).(*array.Int64).Int64Values()...)
			}
		}
		_, err = cl.ExecuteUpdate(ctx, "DROP TABLE go_followed")
		return seen, err
	})
}

// read counts the rows of all parts; a schema that is not the expected one, or changes on the way, is an error.
func read(ctx context.Context, cl *flightsql.Client, expected *arrow.Schema, asked call) (any, error) {
	info, err := asked()
	if err != nil {
		return nil, err
	}
	told, err := flight.DeserializeSchema(info.GetSchema(), cl.Alloc)
	if err != nil {
		return nil, err
	}
	if expected != nil && !told.Equal(expected) {
		return nil, fmt.Errorf("the schema is %s instead of %s", told, expected)
	}
	var count int64
	for _, endpoint := range info.GetEndpoint() {
		reader, err := cl.DoGet(ctx, endpoint.GetTicket())
		if err != nil {
			return nil, err
		}
		defer reader.Release()
		if !reader.Schema().Equal(told) {
			return nil, fmt.Errorf("the stream has the schema %s instead of %s", reader.Schema(), told)
		}
		for reader.Next() {
			count += reader.RecordBatch().NumRows()
		}
		if err := reader.Err(); err != nil && err != io.EOF {
			return nil, err
		}
	}
	return count, nil
}

func names(schema *arrow.Schema) string {
	found := []string{}
	for _, field := range schema.Fields() {
		found = append(found, field.Name)
	}
	return strings.Join(found, " ")
}
