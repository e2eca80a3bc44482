import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.Statement;
import java.util.Properties;

/** The rows of one query; arguments: URL, SQL, and properties of the connection, each name=value. */
public final class Query implements Probes.Probe {
    @Override
    public void run(Facts facts, String[] arguments) throws Exception {
        Properties properties = new Properties();
        for (int place = 2; place < arguments.length; place++) {
            String[] pair = arguments[place].split("=", 2);
            properties.put(pair[0], pair[1]);
        }
        facts.step("connect", () -> {
            try (Connection connection = DriverManager.getConnection(arguments[0], properties);
                    Statement statement = connection.createStatement()) {
                facts.rows("rows", () -> statement.executeQuery(arguments[1]));
            }
        });
    }
}
