import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

/** Statements and prepared statements, one after the other, again, in batches and side by side. */
public final class Statements implements Probes.Probe {
    @Override
    public void run(Facts facts, String[] arguments) throws Exception {
        try (Connection connection = DriverManager.getConnection(arguments[0]);
                Statement statement = connection.createStatement()) {
            facts.rows("rows", () -> statement.executeQuery("SELECT id, customer, amount FROM orders WHERE id < 4 ORDER BY id"));
            facts.of("execute", () -> List.of(statement.execute("SELECT 1"), statement.getUpdateCount()));
            facts.rows("its result", statement::getResultSet);
            facts.of("more results", statement::getMoreResults);
            facts.rows("the same statement again", () -> statement.executeQuery("SELECT count(*) FROM orders"));
            facts.rows("no rows", () -> statement.executeQuery("SELECT id FROM orders WHERE id < 0"));
            facts.rows("EXPLAIN", () -> statement.executeQuery("EXPLAIN SELECT id FROM orders WHERE id = 7"));
            facts.of("columns of one name", () -> {
                try (ResultSet result = statement.executeQuery("SELECT id, amount AS id, count(*), count(*) FROM orders WHERE id = 7 GROUP BY id, amount")) {
                    result.next();
                    List<Object> found = new java.util.ArrayList<>();
                    for (int column = 1; column <= 4; column++) {
                        found.add(result.getMetaData().getColumnLabel(column));
                        found.add(result.getObject(column));
                    }
                    return atItsEnd(result, found);
                }
            });
            facts.of("by label and name", () -> {
                try (ResultSet result = statement.executeQuery("SELECT id AS \"Nummer\", amount FROM orders WHERE id = 7")) {
                    result.next();
                    Object found = List.of(result.getLong("Nummer"), result.getDouble("AMOUNT"), result.findColumn("amount"));
                    return atItsEnd(result, found);
                }
            });
            facts.of("NULL is told", () -> {
                try (ResultSet result = statement.executeQuery("SELECT amount FROM orders WHERE id = 9")) {
                    result.next();
                    return atItsEnd(result, List.of(result.getDouble(1), result.wasNull()));
                }
            });
            facts.of("many rows", () -> {
                try (ResultSet result = statement.executeQuery("SELECT value FROM generate_series(1, 1000000)")) {
                    long rows = 0;
                    long sum = 0;
                    while (result.next()) {
                        rows++;
                        sum += result.getLong(1);
                    }
                    return List.of(rows, sum);
                }
            });
            facts.of("a wide value", () -> {
                try (ResultSet result = statement.executeQuery("SELECT repeat('x', 3000000) AS wide")) {
                    result.next();
                    return atItsEnd(result, result.getString(1).length());
                }
            });
            limits(facts, connection);
            prepared(facts, connection);
            updates(facts, connection);
            facts.of("side by side", () -> sideBySide(connection));
        }
    }

    /** Return what was found in the last row, with nothing left in flight: the driver may not free that when it is closed. */
    private static <T> T atItsEnd(ResultSet result, T found) throws Exception {
        if (result.next()) {
            throw new AssertionError("there is another row");
        }
        return found;
    }

    private void limits(Facts facts, Connection connection) throws Exception {
        try (Statement statement = connection.createStatement()) {
            statement.setMaxRows(3);
            statement.setFetchSize(2);
            facts.value("fetch size", statement.getFetchSize());
            facts.rows("at most 3 rows", () -> statement.executeQuery("SELECT id FROM orders ORDER BY id"));
        }
    }

    private void prepared(Facts facts, Connection connection) throws Exception {
        try (PreparedStatement statement = connection.prepareStatement("SELECT id FROM orders WHERE id > ? AND customer = ? ORDER BY id")) {
            facts.value("parameters", statement.getParameterMetaData().getParameterCount());
            facts.of("parameter types", () -> List.of(
                    statement.getParameterMetaData().getParameterTypeName(1), statement.getParameterMetaData().getParameterTypeName(2)));
            facts.of("columns before execution", () -> statement.getMetaData().getColumnName(1));
            for (long bound : new long[] {995, 990, 10_000}) {
                statement.setLong(1, bound);
                statement.setString(2, "customer 1");
                facts.rows("more than " + bound, statement::executeQuery);
            }
            statement.setString(2, "customer 2");
            statement.setLong(1, 990);
            facts.of("execute prepared", statement::execute);
            facts.rows("what it found", statement::getResultSet);
        }
        facts.of("closed twice", () -> {
            PreparedStatement statement = connection.prepareStatement("SELECT 1");
            statement.close();
            statement.close();
            return statement.isClosed();
        });
    }

    private void updates(Facts facts, Connection connection) throws Exception {
        try (Statement statement = connection.createStatement()) {
            facts.of("executeUpdate of a query", () -> statement.executeUpdate("SELECT 1"));
        }
        try (PreparedStatement statement = connection.prepareStatement("SELECT id FROM orders WHERE id = ?")) {
            for (long id = 1; id <= 2; id++) {
                statement.setLong(1, id);
                statement.addBatch();
            }
            facts.of("executeBatch of a query", statement::executeBatch);
        }
    }

    /** Eight threads share a connection, each with statements of its own. */
    private Object sideBySide(Connection connection) throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(8);
        List<Callable<Long>> tasks = new ArrayList<>();
        for (int place = 0; place < 32; place++) {
            long id = place;
            tasks.add(() -> {
                try (PreparedStatement statement = connection.prepareStatement("SELECT id FROM orders WHERE id = ?")) {
                    statement.setLong(1, id);
                    try (ResultSet result = statement.executeQuery()) {
                        return result.next() ? atItsEnd(result, result.getLong(1)) : -1L;
                    }
                }
            });
        }
        List<Long> found = new ArrayList<>();
        for (Future<Long> task : threads.invokeAll(tasks)) {
            found.add(task.get());
        }
        threads.shutdown();
        return found;
    }
}
