import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.Statement;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.util.ArrayList;
import java.util.List;

/** What well-known tools do when they connect, browse and show a table; the first argument is the tool. */
public final class Tools implements Probes.Probe {
    private Connection connection;
    private Facts facts;

    @Override
    public void run(Facts facts, String[] arguments) throws Exception {
        this.facts = facts;
        try (Connection opened = DriverManager.getConnection(arguments[1])) {
            connection = opened;
            DatabaseMetaData metadata = connection.getMetaData();
            switch (arguments[0]) {
                case "DBeaver":
                    describe(metadata);
                    browse(metadata, null);
                    show("SELECT * FROM main.orders");
                    show("SELECT * FROM lance.main.orders");
                    show("SELECT * FROM main.orders x WHERE amount > 400 ORDER BY id DESC");
                    show("SELECT COUNT(*) FROM main.orders");
                    show("SELECT * FROM main.types");
                    break;
                case "Metabase":
                    prepareForReading(metadata);
                    browse(metadata, null);
                    probe("SELECT TRUE AS \"_\" FROM \"main\".\"orders\" WHERE 1 <> 1 LIMIT 0");
                    probe("SELECT * FROM \"main\".\"orders\" WHERE 1 <> 1 LIMIT 0");
                    show("SELECT \"main\".\"orders\".\"id\" AS \"id\", \"main\".\"orders\".\"amount\" AS \"amount\" "
                            + "FROM \"main\".\"orders\" LIMIT 2000");
                    show("SELECT DATE_TRUNC('month', \"source\".\"ts_us\") AS \"ts_us\", COUNT(*) AS \"count\" "
                            + "FROM (SELECT * FROM \"main\".\"types\") AS \"source\" "
                            + "GROUP BY DATE_TRUNC('month', \"source\".\"ts_us\") ORDER BY 1 ASC");
                    readTyped();
                    break;
                case "Tableau":
                    show("SELECT 1");
                    browse(metadata, "lance");
                    probe("SELECT * FROM \"lance\".\"main\".\"orders\" \"orders\" WHERE 1 = 0");
                    show("SELECT \"orders\".\"customer\" AS \"customer\", SUM(\"orders\".\"amount\") AS \"sum:amount:ok\" "
                            + "FROM \"lance\".\"main\".\"orders\" \"orders\" GROUP BY 1");
                    show("SELECT SUM(1) AS \"cnt:orders:ok\" FROM \"main\".\"orders\" \"orders\" HAVING (COUNT(1) > 0)");
                    show("SELECT EXTRACT(YEAR FROM \"types\".\"ts_us\") AS \"yr:ts_us:ok\", MIN(\"types\".\"f64\") AS \"min\" "
                            + "FROM \"main\".\"types\" \"types\" GROUP BY 1");
                    show("SELECT \"t0\".\"id\" FROM (SELECT * FROM \"main\".\"orders\" LIMIT 1) \"t0\"");
                    probe("CREATE LOCAL TEMPORARY TABLE \"#Tableau_1_Connect\" (\"COL\" INTEGER) ON COMMIT PRESERVE ROWS");
                    break;
                default:
                    throw new IllegalArgumentException(arguments[0]);
            }
        }
    }

    private void describe(DatabaseMetaData metadata) {
        facts.of("product", () -> metadata.getDatabaseProductName() + " " + metadata.getDatabaseProductVersion());
        facts.of("driver", () -> metadata.getDriverName() + " " + metadata.getDriverVersion());
        facts.of("quotes", metadata::getIdentifierQuoteString);
        facts.of("keywords", () -> metadata.getSQLKeywords().split(", ").length > 0);
        facts.of("functions", () -> List.of(
                metadata.getNumericFunctions(), metadata.getStringFunctions(),
                metadata.getSystemFunctions(), metadata.getTimeDateFunctions()).size());
        facts.of("escape", metadata::getSearchStringEscape);
        facts.of("terms", () -> List.of(metadata.getCatalogTerm(), metadata.getSchemaTerm(), metadata.getProcedureTerm()));
        facts.of("transactions", metadata::supportsTransactions);
        facts.of("batches", metadata::supportsBatchUpdates);
        facts.of("scrolling", () -> metadata.supportsResultSetType(ResultSet.TYPE_SCROLL_INSENSITIVE));
        facts.of("reading concurrently", () ->
                metadata.supportsResultSetConcurrency(ResultSet.TYPE_FORWARD_ONLY, ResultSet.CONCUR_READ_ONLY));
        facts.rows("type info", metadata::getTypeInfo);
        facts.of("catalog", () -> String.valueOf(connection.getCatalog()));
        facts.of("schema", () -> String.valueOf(connection.getSchema()));
        facts.of("valid", () -> connection.isValid(5));
    }

    private void prepareForReading(DatabaseMetaData metadata) {
        int[] levels = {
            Connection.TRANSACTION_READ_UNCOMMITTED, Connection.TRANSACTION_READ_COMMITTED,
            Connection.TRANSACTION_REPEATABLE_READ, Connection.TRANSACTION_SERIALIZABLE
        };
        for (int level : levels) {
            facts.of("isolation " + level, () -> metadata.supportsTransactionIsolationLevel(level));
        }
        facts.step("read only", () -> connection.setReadOnly(true));
        facts.step("auto-commit", () -> connection.setAutoCommit(true));
        facts.step("holdability", () -> connection.setHoldability(ResultSet.CLOSE_CURSORS_AT_COMMIT));
    }

    private void browse(DatabaseMetaData metadata, String catalog) {
        facts.rows("catalogs", metadata::getCatalogs);
        facts.rows("schemas", metadata::getSchemas);
        facts.rows("schemas of the catalog", () -> metadata.getSchemas(catalog, "%"));
        facts.rows("table types", metadata::getTableTypes);
        facts.rows("all tables", () -> metadata.getTables(catalog, "main", "%", null));
        facts.rows("tables and views", () -> metadata.getTables(catalog, "main", "%", new String[] {
            "TABLE", "PARTITIONED TABLE", "VIEW", "FOREIGN TABLE", "MATERIALIZED VIEW", "EXTERNAL TABLE"
        }));
        facts.rows("columns", () -> metadata.getColumns(catalog, "main", "orders", null));
        facts.rows("columns of all tables", () -> metadata.getColumns(catalog, "main", "%", "%"));
        facts.rows("primary key", () -> metadata.getPrimaryKeys(catalog, "main", "orders"));
        facts.rows("indexes", () -> metadata.getIndexInfo(catalog, "main", "orders", false, true));
        facts.rows("imported keys", () -> metadata.getImportedKeys(catalog, "main", "orders"));
        facts.rows("exported keys", () -> metadata.getExportedKeys(catalog, "main", "orders"));
        facts.rows("procedures", () -> metadata.getProcedures(catalog, "main", "%"));
    }

    /** Shows the first rows of a query, as a grid does. */
    private void show(String sql) {
        facts.of(sql, () -> {
            try (Statement statement = connection.createStatement(ResultSet.TYPE_FORWARD_ONLY, ResultSet.CONCUR_READ_ONLY)) {
                statement.setMaxRows(200);
                statement.setFetchSize(200);
                statement.setQueryTimeout(60);
                statement.execute(sql);
                try (ResultSet result = statement.getResultSet()) {
                    describe(result.getMetaData());
                    return Facts.rows(result).size();
                }
            }
        });
    }

    private static void describe(ResultSetMetaData columns) throws Exception {
        for (int column = 1; column <= columns.getColumnCount(); column++) {
            columns.getCatalogName(column);
            columns.getSchemaName(column);
            columns.getTableName(column);
            columns.getColumnLabel(column);
            columns.getColumnDisplaySize(column);
            columns.getColumnTypeName(column);
            columns.isAutoIncrement(column);
            columns.isReadOnly(column);
            columns.isSearchable(column);
        }
    }

    /** Prepares and executes a query for its columns, not its rows. */
    private void probe(String sql) {
        facts.of(sql, () -> {
            try (PreparedStatement statement = connection.prepareStatement(
                    sql, ResultSet.TYPE_FORWARD_ONLY, ResultSet.CONCUR_READ_ONLY, ResultSet.CLOSE_CURSORS_AT_COMMIT)) {
                statement.setQueryTimeout(15);
                int columns = statement.getMetaData().getColumnCount();
                statement.execute();
                return columns;
            }
        });
    }

    private void readTyped() {
        facts.of("typed values", () -> {
            List<Object> values = new ArrayList<>();
            try (Statement statement = connection.createStatement();
                    ResultSet result = statement.executeQuery("SELECT ts_us, d32, i64 FROM main.types ORDER BY id")) {
                while (result.next()) {
                    values.add(result.getObject(1, LocalDateTime.class));
                    values.add(result.getObject(2, LocalDate.class));
                    values.add(result.getObject(3, Long.class));
                }
            }
            return values;
        });
    }
}
