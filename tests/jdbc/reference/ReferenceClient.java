import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.arrow.driver.jdbc.shaded.org.apache.arrow.flight.CancelFlightInfoRequest;
import org.apache.arrow.driver.jdbc.shaded.org.apache.arrow.flight.CloseSessionRequest;
import org.apache.arrow.driver.jdbc.shaded.org.apache.arrow.flight.FlightClient;
import org.apache.arrow.driver.jdbc.shaded.org.apache.arrow.flight.FlightEndpoint;
import org.apache.arrow.driver.jdbc.shaded.org.apache.arrow.flight.FlightInfo;
import org.apache.arrow.driver.jdbc.shaded.org.apache.arrow.flight.FlightRuntimeException;
import org.apache.arrow.driver.jdbc.shaded.org.apache.arrow.flight.FlightStream;
import org.apache.arrow.driver.jdbc.shaded.org.apache.arrow.flight.GetSessionOptionsRequest;
import org.apache.arrow.driver.jdbc.shaded.org.apache.arrow.flight.Location;
import org.apache.arrow.driver.jdbc.shaded.org.apache.arrow.flight.RenewFlightEndpointRequest;
import org.apache.arrow.driver.jdbc.shaded.org.apache.arrow.flight.SessionOptionValueFactory;
import org.apache.arrow.driver.jdbc.shaded.org.apache.arrow.flight.SetSessionOptionsRequest;
import org.apache.arrow.driver.jdbc.shaded.org.apache.arrow.flight.sql.FlightSqlClient;
import org.apache.arrow.driver.jdbc.shaded.org.apache.arrow.flight.sql.FlightSqlProducer.Schemas;
import org.apache.arrow.driver.jdbc.shaded.org.apache.arrow.flight.sql.util.TableRef;
import org.apache.arrow.driver.jdbc.shaded.org.apache.arrow.memory.RootAllocator;
import org.apache.arrow.driver.jdbc.shaded.org.apache.arrow.vector.types.pojo.Schema;

/** What Arrow's own Flight SQL client for Java, which the driver carries along, gets from a gateway. */
public final class ReferenceClient {
    private final FlightSqlClient client;

    private ReferenceClient(FlightSqlClient client) {
        this.client = client;
    }

    /** One call. */
    @FunctionalInterface
    private interface Call {
        Object run() throws Exception;
    }

    /** Prints a line for each call: its name, a tab, and its answer or its status. */
    public static void main(String[] arguments) throws Exception {
        Location location = Location.forGrpcInsecure("127.0.0.1", Integer.parseInt(arguments[0]));
        try (RootAllocator allocator = new RootAllocator();
                FlightSqlClient client =
                        new FlightSqlClient(FlightClient.builder(allocator, location).build())) {
            new ReferenceClient(client).all();
        }
    }

    private void all() {
        TableRef orders = TableRef.of(null, null, "orders");
        tell("GetCatalogs", () -> read(client.getCatalogs(), Schemas.GET_CATALOGS_SCHEMA));
        tell("GetDbSchemas", () -> read(client.getSchemas(null, "%"), Schemas.GET_SCHEMAS_SCHEMA));
        tell("GetTables", () ->
                read(client.getTables(null, "main", "%", null, false), Schemas.GET_TABLES_SCHEMA_NO_SCHEMA));
        tell("GetTables with schemas", () ->
                read(client.getTables(null, "main", null, List.of("TABLE"), true), Schemas.GET_TABLES_SCHEMA));
        tell("GetTableTypes", () -> read(client.getTableTypes(), Schemas.GET_TABLE_TYPES_SCHEMA));
        tell("GetPrimaryKeys", () -> read(client.getPrimaryKeys(orders), null));
        tell("GetExportedKeys", () -> read(client.getExportedKeys(orders), Schemas.GET_EXPORTED_KEYS_SCHEMA));
        tell("GetImportedKeys", () -> read(client.getImportedKeys(orders), Schemas.GET_IMPORTED_KEYS_SCHEMA));
        tell("GetCrossReference", () ->
                read(client.getCrossReference(orders, orders), Schemas.GET_CROSS_REFERENCE_SCHEMA));
        tell("GetXdbcTypeInfo", () -> read(client.getXdbcTypeInfo(3), Schemas.GET_TYPE_INFO_SCHEMA));
        tell("GetSqlInfo", () -> read(client.getSqlInfo(new int[] {0, 12345}), Schemas.GET_SQL_INFO_SCHEMA));
        tell("statement", () -> read(client.execute("SELECT id FROM orders"), null));
        tell("prepared statement", () -> {
            try (FlightSqlClient.PreparedStatement statement = client.prepare("SELECT id FROM orders")) {
                return read(statement.execute(), statement.getResultSetSchema());
            }
        });
        tell("CancelFlightInfo", () -> cancel(client.execute("SELECT 1")));
        tell("CancelFlightInfo of a listing", () -> cancel(client.getCatalogs()));
        tell("CancelQuery", () -> cancelAsBefore(client.execute("SELECT 1")));
        tell("RenewFlightEndpoint", () -> {
            FlightEndpoint endpoint = client.execute("SELECT 1").getEndpoints().get(0);
            return client.renewFlightEndpoint(new RenewFlightEndpointRequest(endpoint));
        });
        tell("a statement in a transaction", () -> {
            FlightSqlClient.Transaction transaction = client.beginTransaction();
            String rows = read(client.execute("SELECT id FROM orders", transaction), null).toString();
            client.commit(transaction);
            return rows;
        });
        tell("a statement behind its transaction", () -> {
            FlightSqlClient.Transaction transaction = client.beginTransaction();
            client.rollback(transaction);
            return client.execute("SELECT 1", transaction);
        });
        tell("BeginSavepoint", () -> client.beginSavepoint(client.beginTransaction(), "s"));
        tell("SetSessionOptions", () -> {
            var options = Map.of(
                    "consistency", SessionOptionValueFactory.makeSessionOptionValue("flushed"),
                    "colour", SessionOptionValueFactory.makeSessionOptionValue(1L),
                    "schema", SessionOptionValueFactory.makeSessionOptionValue(new String[] {"main"}),
                    "endpoints", SessionOptionValueFactory.makeSessionOptionValue(2.0));
            var errors = new TreeMap<String, Object>();
            client.setSessionOptions(new SetSessionOptionsRequest(options))
                    .getErrors()
                    .forEach((name, error) -> errors.put(name, error.value));
            return errors;
        });
        tell("GetSessionOptions", () -> new TreeMap<>(
                client.getSessionOptions(new GetSessionOptionsRequest()).getSessionOptions()).firstKey());
        tell("CloseSession", () -> client.closeSession(new CloseSessionRequest()).getStatus());
        tell("update", () -> client.executeUpdate("DELETE FROM orders"));
    }

    private Object cancel(FlightInfo info) {
        return client.cancelFlightInfo(new CancelFlightInfoRequest(info)).getStatus();
    }

    @SuppressWarnings("deprecation")
    private Object cancelAsBefore(FlightInfo info) {
        return client.cancelQuery(info);
    }

    /** Reads all endpoints; says how many rows there are, unless a schema is not what it must be. */
    private String read(FlightInfo info, Schema expected) throws Exception {
        Schema told = info.getSchemaOptional().orElseThrow();
        if (expected != null && !told.equals(expected)) {
            return "the schema is " + told + " instead of " + expected;
        }
        int rows = 0;
        for (FlightEndpoint endpoint : info.getEndpoints()) {
            try (FlightStream stream = client.getStream(endpoint.getTicket())) {
                if (!stream.getSchema().equals(told)) {
                    return "the stream has another schema";
                }
                while (stream.next()) {
                    rows += stream.getRoot().getRowCount();
                }
            }
        }
        return rows + " rows";
    }

    private static void tell(String name, Call call) {
        String answer;
        try {
            answer = String.valueOf(call.run());
        } catch (FlightRuntimeException error) {
            answer = error.status().code().name();
        } catch (Exception error) {
            answer = error.toString();
        }
        System.out.println(name + "\t" + answer);
    }
}
