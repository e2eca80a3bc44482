import java.net.URI;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.Statement;
import java.util.Properties;
import java.util.concurrent.Executors;
import javax.sql.ConnectionPoolDataSource;
import javax.sql.PooledConnection;

/** What pools and tools do to a connection. */
public final class Connections implements Probes.Probe {
    @Override
    public void run(Facts facts, String[] arguments) throws Exception {
        try (Connection connection = DriverManager.getConnection(arguments[0])) {
            facts.of("valid", () -> connection.isValid(5));
            facts.of("auto-commit", connection::getAutoCommit);
            facts.of("read-only", connection::isReadOnly);
            facts.of("isolation", connection::getTransactionIsolation);
            facts.of("catalog", connection::getCatalog);
            facts.of("schema", connection::getSchema);
            facts.of("warnings", connection::getWarnings);
            facts.of("holdability", connection::getHoldability);
            facts.of("client info", connection::getClientInfo);
            facts.of("type map", connection::getTypeMap);
            facts.of("network timeout", connection::getNetworkTimeout);
            facts.of("native SQL", () -> connection.nativeSQL("SELECT 1"));
            facts.step("setCatalog", () -> connection.setCatalog("lance"));
            facts.step("setSchema", () -> connection.setSchema("main"));
            facts.step("setReadOnly", () -> connection.setReadOnly(true));
            facts.step("setAutoCommit(true)", () -> connection.setAutoCommit(true));
            facts.step("setAutoCommit(false)", () -> connection.setAutoCommit(false));
            facts.step("commit", connection::commit);
            facts.step("rollback", connection::rollback);
            facts.step("setTransactionIsolation(NONE)", () -> connection.setTransactionIsolation(Connection.TRANSACTION_NONE));
            facts.step("setTransactionIsolation(SERIALIZABLE)", () ->
                    connection.setTransactionIsolation(Connection.TRANSACTION_SERIALIZABLE));
            facts.step("setSavepoint", connection::setSavepoint);
            facts.step("prepareCall", () -> connection.prepareCall("{call x()}"));
            facts.step("createBlob", connection::createBlob);
            facts.step("setClientInfo", () -> connection.setClientInfo("ApplicationName", "tests"));
            facts.step("clearWarnings", connection::clearWarnings);
            facts.step("unwrap", () -> connection.unwrap(Connection.class));
            facts.of("scrollable", () -> {
                try (Statement statement = connection.createStatement(ResultSet.TYPE_SCROLL_INSENSITIVE, ResultSet.CONCUR_READ_ONLY);
                        ResultSet result = statement.executeQuery("SELECT 1")) {
                    return result.getType();
                }
            });
            facts.rows("works on", () -> connection.createStatement().executeQuery("SELECT 1"));
        }
        try (Connection connection = DriverManager.getConnection(arguments[0]);
                Statement statement = connection.createStatement()) {
            facts.of("SET", () -> {
                boolean hasResult = statement.execute("SET consistency = 'flushed'");
                return java.util.List.of(hasResult, statement.executeUpdate("SET extra_float_digits = 3"));
            });
            facts.rows("SHOW", () -> statement.executeQuery("SHOW consistency"));
            facts.rows("who and where", () -> statement.executeQuery("SELECT current_user, current_schema()"));
        }
        facts.of("reopened", () -> {
            int opened = 0;
            for (int time = 0; time < 5; time++) {
                try (Connection connection = DriverManager.getConnection(arguments[0])) {
                    opened += connection.isValid(5) ? 1 : 0;
                }
            }
            return opened;
        });
        facts.of("closed", () -> {
            Connection connection = DriverManager.getConnection(arguments[0]);
            connection.close();
            connection.close();
            return connection.isClosed() && !connection.isValid(1);
        });
        facts.step("closed before its result", () -> {
            Connection connection = DriverManager.getConnection(arguments[0]);
            connection.createStatement().executeQuery("SELECT id FROM orders").next();
            connection.close();
        });
        facts.of("abort", () -> {
            Connection connection = DriverManager.getConnection(arguments[0]);
            connection.abort(Executors.newSingleThreadExecutor());
            return connection.isClosed();
        });
        facts.of("without parameters in the URL", () -> {
            Properties properties = new Properties();
            properties.put("useEncryption", "false");
            try (Connection connection = DriverManager.getConnection(arguments[0].split("\\?")[0], properties)) {
                return connection.isValid(5);
            }
        });
        facts.of("pooled", () -> {
            Properties properties = new Properties();
            URI address = URI.create(arguments[0].substring("jdbc:".length()));
            properties.put("host", address.getHost());
            properties.put("port", String.valueOf(address.getPort()));
            properties.put("useEncryption", "false");
            ConnectionPoolDataSource source = (ConnectionPoolDataSource)
                    Class.forName("org.apache.arrow.driver.jdbc.ArrowFlightJdbcConnectionPoolDataSource")
                            .getMethod("createNewDataSource", Properties.class)
                            .invoke(null, properties);
            int served = 0;
            PooledConnection pooled = source.getPooledConnection();
            for (int time = 0; time < 3; time++) {
                try (Connection connection = pooled.getConnection();
                        Statement statement = connection.createStatement();
                        ResultSet result = statement.executeQuery("SELECT 1")) {
                    served += result.next() && connection.isValid(5) ? 1 : 0;
                }
            }
            pooled.close();
            return served;
        });
        facts.of("nobody listens", () -> {
            try (Connection connection = DriverManager.getConnection("jdbc:arrow-flight-sql://127.0.0.1:1/?useEncryption=false")) {
                return connection.createStatement().executeQuery("SELECT 1");
            }
        });
        facts.of("encryption of a server that has none", () -> {
            try (Connection connection = DriverManager.getConnection(arguments[0].split("\\?")[0])) {
                return connection.createStatement().executeQuery("SELECT 1");
            }
        });
    }
}
