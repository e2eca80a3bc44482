import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.sql.Types;
import java.util.ArrayList;
import java.util.List;
import org.flywaydb.core.api.FlywayException;
import org.flywaydb.core.api.ResourceProvider;
import org.flywaydb.core.api.configuration.Configuration;
import org.flywaydb.core.internal.database.base.BaseDatabaseType;
import org.flywaydb.core.internal.database.base.Connection;
import org.flywaydb.core.internal.database.base.Database;
import org.flywaydb.core.internal.database.base.Schema;
import org.flywaydb.core.internal.database.base.Table;
import org.flywaydb.core.internal.jdbc.JdbcConnectionFactory;
import org.flywaydb.core.internal.jdbc.JdbcTemplate;
import org.flywaydb.core.internal.jdbc.StatementInterceptor;
import org.flywaydb.core.internal.parser.Parser;
import org.flywaydb.core.internal.parser.ParsingContext;

/** Lance Gateway for Flyway 13, over the Arrow Flight SQL JDBC driver: one schema, and definitions that take effect one by one. */
public class LanceGatewayDatabaseType extends BaseDatabaseType {
    private static final String URL = "jdbc:arrow-flight-sql:";

    @Override
    public String getName() {
        return "Lance Gateway";
    }

    @Override
    public int getNullType() {
        return Types.NULL;
    }

    @Override
    public boolean handlesJDBCUrl(String url) {
        return url.startsWith(URL);
    }

    @Override
    public String getDriverClass(String url, ClassLoader loader) {
        return "org.apache.arrow.driver.jdbc.ArrowFlightJdbcDriver";
    }

    @Override
    public boolean handlesDatabaseProductNameAndVersion(String name, String version, java.sql.Connection connection) {
        return name.startsWith(getName());
    }

    @Override
    public Database<?> createDatabase(
            Configuration configuration, JdbcConnectionFactory connections, StatementInterceptor interceptor) {
        return new Gateway(configuration, connections, interceptor);
    }

    @Override
    public Parser createParser(Configuration configuration, ResourceProvider resources, ParsingContext context) {
        return new Parser(configuration, context, 3) {};
    }

    /** Flyway switches the escapes of JDBC off, which the driver does not have, and refuses to be told so. */
    @Override
    public java.sql.Connection alterConnectionAsNeeded(java.sql.Connection connection, Configuration configuration) {
        return wrap(java.sql.Connection.class, connection);
    }

    private static <T> T wrap(Class<T> kind, Object wrapped) {
        return kind.cast(Proxy.newProxyInstance(kind.getClassLoader(), new Class<?>[] {kind}, (proxy, method, arguments) -> {
            if (method.getName().equals("setEscapeProcessing")) {
                return null;
            }
            try {
                Object result = method.invoke(wrapped, arguments);
                return method.getName().equals("createStatement") ? wrap(Statement.class, result) : result;
            } catch (InvocationTargetException failure) {
                throw failure.getCause();
            }
        }));
    }

    private static final class Gateway extends Database<Session> {
        Gateway(Configuration configuration, JdbcConnectionFactory connections, StatementInterceptor interceptor) {
            super(configuration, connections, interceptor);
        }

        @Override
        protected Session doGetConnection(java.sql.Connection connection) {
            return new Session(this, connection);
        }

        @Override
        public void ensureSupported(Configuration configuration) {}

        @Override
        protected String doGetCatalog() {
            return "lance";
        }

        @Override
        protected String doGetCurrentUser() throws SQLException {
            String user = getJdbcMetaData().getUserName();
            return user == null || user.isEmpty() ? "flyway" : user;
        }

        @Override
        public boolean supportsDdlTransactions() {
            return false;
        }

        @Override
        public String getBooleanTrue() {
            return "TRUE";
        }

        @Override
        public String getBooleanFalse() {
            return "FALSE";
        }

        @Override
        public boolean catalogIsSchema() {
            return false;
        }

        @Override
        public String getRawCreateScript(Table table, boolean baseline) {
            return "CREATE TABLE " + table + " (installed_rank INT PRIMARY KEY, version VARCHAR(50), "
                    + "description VARCHAR(200) NOT NULL, type VARCHAR(20) NOT NULL, script VARCHAR(1000) NOT NULL, "
                    + "checksum INT, installed_by VARCHAR(100) NOT NULL, "
                    + "installed_on TIMESTAMP(6) DEFAULT CURRENT_TIMESTAMP NOT NULL, execution_time INT NOT NULL, "
                    + "success BOOLEAN NOT NULL);\n" + (baseline ? getBaselineStatement(table) + ";\n" : "");
        }
    }

    private static final class Session extends Connection<Gateway> {
        Session(Gateway database, java.sql.Connection connection) {
            super(database, connection);
        }

        @Override
        protected String getCurrentSchemaNameOrSearchPath() {
            return "main";
        }

        @Override
        public Schema<?, ?> getSchema(String name) {
            return new Tables(jdbcTemplate, database, name);
        }
    }

    private static final class Tables extends Schema<Gateway, GatewayTable> {
        Tables(JdbcTemplate jdbc, Gateway database, String name) {
            super(jdbc, database, name);
        }

        @Override
        protected boolean doExists() {
            return name.equals("main");
        }

        @Override
        protected boolean doEmpty() throws SQLException {
            return names(null, "TABLE", "VIEW").isEmpty();
        }

        @Override
        protected void doCreate() {
            throw new FlywayException("There is one schema, 'main', and not " + name);
        }

        @Override
        protected void doDrop() throws SQLException {
            doClean();
        }

        @Override
        protected void doClean() throws SQLException {
            for (String view : names(null, "VIEW")) {
                jdbcTemplate.execute("DROP VIEW " + database.quote(name, view));
            }
            for (String table : names(null, "TABLE")) {
                jdbcTemplate.execute("DROP TABLE " + database.quote(name, table));
            }
        }

        @Override
        protected GatewayTable[] doAllTables() throws SQLException {
            return names(null, "TABLE").stream().map(this::getTable).toArray(GatewayTable[]::new);
        }

        @Override
        public GatewayTable getTable(String table) {
            return new GatewayTable(jdbcTemplate, database, this, table);
        }

        List<String> names(String pattern, String... types) throws SQLException {
            List<String> names = new ArrayList<>();
            try (ResultSet found = database.getJdbcMetaData().getTables(null, name, pattern, types)) {
                while (found.next()) {
                    names.add(found.getString("TABLE_NAME"));
                }
            }
            return names;
        }
    }

    private static final class GatewayTable extends Table<Gateway, Tables> {
        GatewayTable(JdbcTemplate jdbc, Gateway database, Tables schema, String name) {
            super(jdbc, database, schema, name);
        }

        @Override
        protected boolean doExists() throws SQLException {
            return schema.names(null, "TABLE").contains(name);
        }

        /** The lock is a row of the history, which one process alone can add; Flyway reads ranks from 0 on. */
        @Override
        protected void doLock() throws SQLException {
            String insert = "INSERT INTO " + this + " (installed_rank, description, type, script, installed_by, "
                    + "execution_time, success) VALUES (-100, 'lock', 'LOCK', '', 'flyway', 0, TRUE) ON CONFLICT DO NOTHING";
            int left = database.getConfiguration().getLockRetryCount();
            while (lockDepth == 0 && add(insert) == 0) {
                if (left-- == 0) {
                    throw new FlywayException("Another process migrates. If none does: DELETE FROM " + this
                            + " WHERE installed_rank = -100");
                }
                pause();
            }
        }

        @Override
        protected void doUnlock() throws SQLException {
            jdbcTemplate.update("DELETE FROM " + this + " WHERE installed_rank = -100");
        }

        @Override
        protected void doDrop() throws SQLException {
            jdbcTemplate.execute("DROP TABLE " + this);
        }

        private int add(String insert) throws SQLException {
            try (Statement statement = jdbcTemplate.getConnection().createStatement()) {
                return statement.executeUpdate(insert);
            }
        }

        private static void pause() {
            try {
                Thread.sleep(1000);
            } catch (InterruptedException stopped) {
                Thread.currentThread().interrupt();
                throw new FlywayException("Interrupted while another process migrates", stopped);
            }
        }
    }
}
