import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.Statement;

/** What a client is told when a statement fails, and that the connection serves on. */
public final class Failures implements Probes.Probe {
    @Override
    public void run(Facts facts, String[] arguments) throws Exception {
        try (Connection connection = DriverManager.getConnection(arguments[0]);
                Statement statement = connection.createStatement()) {
            facts.rows("syntax", () -> statement.executeQuery("SELEC 1"));
            facts.rows("unknown table", () -> statement.executeQuery("SELECT * FROM ordres"));
            facts.rows("unknown column", () -> statement.executeQuery("SELECT amout FROM orders"));
            facts.rows("unknown function", () -> statement.executeQuery("SELECT frobnicate(id) FROM orders"));
            facts.rows("division by zero", () -> statement.executeQuery("SELECT 1 / (id - id) FROM orders"));
            facts.of("division by zero in the middle", () -> {
                try (ResultSet result = statement.executeQuery(
                        "SELECT value, 1000000 / (900000 - value) FROM generate_series(1, 1000000)")) {
                    long rows = 0;
                    while (result.next()) {
                        rows++;
                    }
                    return rows;
                }
            });
            facts.rows("empty", () -> statement.executeQuery(""));
            facts.rows("two statements", () -> statement.executeQuery("SELECT 1; SELECT 2"));
            facts.of("prepare", () -> connection.prepareStatement("SELECT * FROM ordres"));
            facts.rows("afterwards", () -> statement.executeQuery("SELECT 1"));
        }
    }
}
