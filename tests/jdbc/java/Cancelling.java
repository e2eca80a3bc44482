import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.Statement;
import java.util.concurrent.CountDownLatch;

/** Stops statements that would not end by themselves. */
public final class Cancelling implements Probes.Probe {
    private static final String ENDLESS = "SELECT value, value * 2 AS twice FROM generate_series(1, 100000000000)";
    private static final String SILENT = "SELECT count(*) FROM generate_series(1, 100000000000) WHERE value % 2 = 3";

    @Override
    public void run(Facts facts, String[] arguments) throws Exception {
        try (Connection connection = DriverManager.getConnection(arguments[0])) {
            try (Statement statement = connection.createStatement()) {
                CountDownLatch reading = new CountDownLatch(1);
                Thread canceller = new Thread(() -> facts.step("cancel", () -> {
                    reading.await();
                    statement.cancel();
                }));
                canceller.start();
                facts.of("a stream that is cancelled", () -> read(statement, ENDLESS, reading));
                canceller.join();
            }
            try (Statement statement = connection.createStatement()) {
                facts.of("closed early", () -> {
                    try (ResultSet result = statement.executeQuery(ENDLESS)) {
                        return result.next();
                    }
                });
            }
            try (Statement statement = connection.createStatement()) {
                statement.setQueryTimeout(1);
                facts.of("a statement that times out", () -> read(statement, SILENT, new CountDownLatch(1)));
            }
            facts.rows("afterwards", () -> connection.createStatement().executeQuery("SELECT 1"));
        }
    }

    private long read(Statement statement, String sql, CountDownLatch reading) throws Exception {
        long rows = 0;
        try (ResultSet result = statement.executeQuery(sql)) {
            while (result.next()) {
                rows++;
                reading.countDown();
            }
        }
        return rows;
    }
}
