import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.DriverManager;
import java.sql.Statement;
import java.util.Properties;

/** What one user sees; arguments: URL, user, password. */
public final class Grants implements Probes.Probe {
    @Override
    public void run(Facts facts, String[] arguments) throws Exception {
        Properties properties = new Properties();
        properties.put("user", arguments[1]);
        properties.put("password", arguments[2]);
        try (Connection connection = DriverManager.getConnection(arguments[0], properties);
                Statement statement = connection.createStatement()) {
            DatabaseMetaData metadata = connection.getMetaData();
            facts.of("user", metadata::getUserName);
            facts.records("tables", () -> metadata.getTables(null, "main", "%", null));
            facts.records("columns", () -> metadata.getColumns(null, "main", "%", "%"));
            facts.rows("rows", () -> statement.executeQuery("SELECT * FROM orders WHERE id < 20 ORDER BY id"));
            facts.rows("a hidden table", () -> statement.executeQuery("SELECT * FROM types"));
        }
    }
}
