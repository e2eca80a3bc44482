import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.Statement;
import java.util.List;
import java.util.concurrent.CountDownLatch;

/** Stops statements that would not end by themselves; arguments: URL, and a mark by which to know them again. */
public final class Cancelling implements Probes.Probe {
    private static final long PATIENCE_NANOSECONDS = 20_000_000_000L;

    @Override
    public void run(Facts facts, String[] arguments) throws Exception {
        String mark = " -- " + arguments[1];
        String endless = "SELECT value, value * 2 AS twice FROM generate_series(1, 100000000000)" + mark;
        String silent = "SELECT count(*) FROM generate_series(1, 100000000000) WHERE value % 2 = 3" + mark;
        // Not closed: the driver may not have let go of a batch yet that arrived while its stream was cancelled.
        Connection connection = DriverManager.getConnection(arguments[0]);
        try (Statement statement = connection.createStatement()) {
            CountDownLatch reading = new CountDownLatch(1);
            Thread canceller = new Thread(() -> facts.step("cancel", () -> {
                reading.await();
                statement.cancel();
            }));
            canceller.start();
            facts.of("a stream that is cancelled", () -> read(statement, endless, reading));
            canceller.join();
        }
        try (Statement statement = connection.createStatement()) {
            facts.of("closed early", () -> {
                try (ResultSet result = statement.executeQuery(endless)) {
                    return result.next();
                }
            });
        }
        try (Statement statement = connection.createStatement()) {
            statement.setQueryTimeout(1);
            facts.of("a statement that times out", () -> read(statement, silent, new CountDownLatch(1)));
        }
        facts.rows("afterwards", () -> connection.createStatement().executeQuery("SELECT 1"));
        facts.of("what became of them", () -> ended(connection, arguments[1]));
    }

    /** How the marked statements ended, once all have. */
    private List<List<Object>> ended(Connection connection, String mark) throws Exception {
        String asked = "SELECT state FROM system.queries WHERE statement LIKE '%-- " + mark + "'";
        long deadline = System.nanoTime() + PATIENCE_NANOSECONDS;
        try (Statement statement = connection.createStatement()) {
            while (true) {
                try (ResultSet result = statement.executeQuery(asked)) {
                    List<List<Object>> states = Facts.rows(result);
                    if (!states.contains(List.<Object>of("running")) || System.nanoTime() > deadline) {
                        return states;
                    }
                }
            }
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
