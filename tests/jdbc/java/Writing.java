import java.math.BigDecimal;
import java.sql.BatchUpdateException;
import java.sql.Connection;
import java.sql.Date;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.Statement;
import java.sql.Time;
import java.sql.Timestamp;
import java.sql.Types;
import java.util.Arrays;
import java.util.List;

/**
 * What statements that change something do: single ones, prepared ones, batches, every way to bind a value, errors.
 *
 * <p>Arguments: the URL, a table (id BIGINT, text VARCHAR, score DOUBLE), a table with a column of every type.
 */
public final class Writing implements Probes.Probe {
    private Facts facts;
    private Connection connection;
    private String url;
    private String notes;
    private String typed;
    private long next = 1000;

    /** Binds the second parameter. */
    @FunctionalInterface
    private interface Binding {
        void bind(PreparedStatement statement) throws Exception;
    }

    @Override
    public void run(Facts facts, String[] arguments) throws Exception {
        this.facts = facts;
        url = arguments[0];
        notes = arguments[1];
        typed = arguments[2];
        try (Connection opened = DriverManager.getConnection(arguments[0])) {
            connection = opened;
            statements();
            definitions();
            prepared();
            batches();
            values();
            nulls();
            transactions();
            executions();
        }
        try (Connection opened = DriverManager.getConnection(arguments[0])) {
            connection = opened;
            refused();
        }
    }

    private void statements() throws Exception {
        try (Statement statement = connection.createStatement()) {
            facts.of("INSERT", () -> statement.executeUpdate("INSERT INTO " + notes + " VALUES (1, 'a', 0.5), (2, 'b', 1.5)"));
            facts.of("UPDATE", () -> statement.executeUpdate("UPDATE " + notes + " SET score = 9 WHERE id = 2"));
            facts.of("large UPDATE", () -> statement.executeLargeUpdate("UPDATE " + notes + " SET score = score + 1 WHERE id < 3"));
            facts.of("DELETE", () -> statement.executeUpdate("DELETE FROM " + notes + " WHERE id = 1"));
            facts.of("DELETE of nothing", () -> statement.executeUpdate("DELETE FROM " + notes + " WHERE id = 1"));
            facts.rows("what they left", () -> statement.executeQuery("SELECT * FROM " + notes));
            facts.of("execute", () -> List.of(
                    statement.execute("INSERT INTO " + notes + " VALUES (3, 'c', 2.5)"),
                    statement.getUpdateCount(),
                    statement.getMoreResults(),
                    statement.getUpdateCount()));
            facts.rows("RETURNING", () -> statement.executeQuery(
                    "INSERT INTO " + notes + " VALUES (4, 'd', NULL) RETURNING id, text"));
            facts.rows("after RETURNING", () -> statement.executeQuery("SELECT count(*) FROM " + notes));
            facts.of("keys", () -> {
                statement.executeUpdate("INSERT INTO " + notes + " VALUES (5, 'e', 1)", Statement.RETURN_GENERATED_KEYS);
                return statement.getGeneratedKeys();
            });
        }
    }

    private void definitions() throws Exception {
        String table = notes + "_made";
        try (Statement statement = connection.createStatement()) {
            facts.of("CREATE TABLE", () -> statement.executeUpdate("CREATE TABLE " + table + " (id BIGINT PRIMARY KEY, v DOUBLE)"));
            facts.rows("CREATE TABLE is seen at once", () -> connection.getMetaData().getTables(null, null, table, null));
            facts.of("DROP TABLE", () -> List.of(statement.execute("DROP TABLE " + table), statement.getUpdateCount()));
        }
    }

    private void prepared() throws Exception {
        try (PreparedStatement statement = connection.prepareStatement("INSERT INTO " + notes + " (id, text) VALUES (?, ?)")) {
            facts.value("parameters", statement.getParameterMetaData().getParameterCount());
            statement.setLong(1, 10);
            statement.setString(2, "ten");
            facts.of("prepared INSERT", statement::executeUpdate);
            statement.setLong(1, 11);
            statement.setString(2, "eleven");
            facts.of("prepared INSERT again", () -> List.of(statement.execute(), statement.getUpdateCount()));
        }
        try (PreparedStatement statement = connection.prepareStatement("UPDATE " + notes + " SET text = ? WHERE id = ?")) {
            statement.setString(1, "TEN");
            statement.setLong(2, 10);
            facts.of("prepared UPDATE", statement::executeUpdate);
        }
        try (PreparedStatement statement = connection.prepareStatement("DELETE FROM " + notes + " WHERE id = 11")) {
            facts.of("prepared DELETE without parameters", statement::executeUpdate);
        }
    }

    private void batches() throws Exception {
        String insert = "INSERT INTO " + notes + " (id, text, score) VALUES (?, ?, ?)";
        try (PreparedStatement statement = connection.prepareStatement(insert)) {
            for (long id = 100; id < 103; id++) {
                add(statement, id);
            }
            facts.of("a batch", () -> Arrays.stream(statement.executeBatch()).boxed().toList());
            for (long id = 103; id < 10_103; id++) {
                add(statement, id);
            }
            facts.of("a large batch", () -> {
                int[] counts = statement.executeBatch();
                return List.of(counts.length, Arrays.stream(counts).sum());
            });
        }
        try (Statement statement = connection.createStatement()) {
            facts.rows("rows of the batches", () -> statement.executeQuery(
                    "SELECT count(*), min(text), sum(score) FROM " + notes + " WHERE id >= 100"));
            statement.addBatch("INSERT INTO " + notes + " VALUES (20, 'x', 1)");
            facts.of("a batch of statements", statement::executeBatch);
        }
        try (PreparedStatement statement = connection.prepareStatement("DELETE FROM " + notes + " WHERE id = ?")) {
            for (long id = 100; id < 103; id++) {
                statement.setLong(1, id);
                statement.addBatch();
            }
            facts.of("a batch of deletes", () -> Arrays.stream(statement.executeBatch()).boxed().toList());
        }
    }

    private static void add(PreparedStatement statement, long id) throws Exception {
        statement.setLong(1, id);
        statement.setString(2, "note " + id);
        statement.setDouble(3, 0.5);
        statement.addBatch();
    }

    private void values() {
        stored("flag", s -> s.setBoolean(2, true));
        stored("i8", s -> s.setByte(2, (byte) -8));
        stored("i16", s -> s.setShort(2, (short) -16));
        stored("i32", s -> s.setInt(2, -32));
        stored("i64", s -> s.setLong(2, -64));
        stored("u8", s -> s.setShort(2, (short) 200));
        stored("u16", s -> s.setInt(2, 60_000));
        stored("u32", s -> s.setLong(2, 4_000_000_000L));
        stored("u64", s -> s.setBigDecimal(2, new BigDecimal("18000000000000000000")));
        stored("f32", s -> s.setFloat(2, 0.5f));
        stored("f64", s -> s.setDouble(2, 0.25));
        stored("dec", s -> s.setBigDecimal(2, new BigDecimal("12.34")));
        stored("text", s -> s.setString(2, "gr\u00fcn; 'quoted'"));
        stored("ltext", s -> s.setString(2, "large"));
        stored("blob", s -> s.setBytes(2, new byte[] {0, (byte) 255, 39}));
        stored("lblob", s -> s.setBytes(2, new byte[] {1, 2}));
        byte[] sixteen = new byte[16];
        for (byte place = 0; place < sixteen.length; place++) {
            sixteen[place] = place;
        }
        stored("uuid", s -> s.setBytes(2, sixteen));
        stored("d32", s -> s.setDate(2, Date.valueOf("2026-02-28")));
        stored("d64", s -> s.setDate(2, Date.valueOf("2026-02-28")));
        for (String column : new String[] {"t32s", "t32ms", "t64us", "t64ns"}) {
            stored(column, s -> s.setTime(2, Time.valueOf("01:02:03")));
        }
        for (String kind : new String[] {"ts", "tz"}) {
            for (String unit : new String[] {"s", "ms", "us", "ns"}) {
                Timestamp moment = Timestamp.valueOf("2026-02-28 23:59:59" + (unit.equals("s") ? "" : ".123"));
                stored(kind + "_" + unit, s -> s.setTimestamp(2, moment));
            }
        }
        stored("numbers", s -> s.setArray(2, connection.createArrayOf("INTEGER", new Object[] {1, null, 3})));
        stored("words", s -> s.setArray(2, connection.createArrayOf("VARCHAR", new Object[] {"a", "b"})));
        stored("vec", s -> s.setArray(2, connection.createArrayOf("REAL", new Object[] {0.5f, 1f, 2f, 3f})));
    }

    private void nulls() {
        String[] columns = {"flag", "i8", "i32", "i64", "u8", "u64", "f64", "dec", "text", "blob", "d32", "t64us", "ts_us", "tz_us", "vec"};
        for (String column : columns) {
            long id = next++;
            facts.of("NULL " + column, () -> {
                insert(column, id, s -> s.setNull(2, Types.NULL));
                return one("SELECT count(*) FROM " + typed + " WHERE " + column + " IS NULL AND id = " + id);
            });
        }
    }

    private void transactions() throws Exception {
        facts.value("autocommit", connection.getAutoCommit());
        facts.value("transactions", connection.getMetaData().supportsTransactions());
        String row = "SELECT text FROM " + notes + " WHERE id = 90000";
        try (Statement statement = connection.createStatement();
                Connection others = DriverManager.getConnection(url);
                Statement other = others.createStatement();
                PreparedStatement prepared =
                        connection.prepareStatement("UPDATE " + notes + " SET text = ? WHERE id = 90000")) {
            facts.of("BEGIN", () -> statement.executeUpdate("BEGIN"));
            statement.executeUpdate("INSERT INTO " + notes + " (id, text) VALUES (90000, 'kept')");
            prepared.setString(1, "changed");
            facts.of("UPDATE in the transaction", prepared::executeUpdate);
            facts.rows("seen in the transaction", () -> statement.executeQuery(row));
            facts.rows("seen by others", () -> other.executeQuery(row));
            facts.of("ROLLBACK", () -> statement.execute("ROLLBACK"));
            facts.rows("after ROLLBACK", () -> statement.executeQuery(row));
            statement.execute("START TRANSACTION");
            statement.executeUpdate("INSERT INTO " + notes + " (id, text) VALUES (90000, 'again')");
            statement.executeUpdate("UPDATE " + notes + " SET text = 'once more' WHERE id = 90000");
            statement.execute("COMMIT");
            facts.rows("others after COMMIT", () -> other.executeQuery(row));
            facts.of("COMMIT of nothing", () -> statement.execute("COMMIT"));

            // Which the driver does not tell the gateway.
            connection.setAutoCommit(false);
            statement.executeUpdate("DELETE FROM " + notes + " WHERE id = 90000");
            connection.rollback();
            facts.rows("after rollback()", () -> other.executeQuery(row));
            facts.step("setAutoCommit(true)", () -> connection.setAutoCommit(true));
        }
    }

    /** How often each statement was executed, by the gateway's own account. */
    private void executions() throws Exception {
        try (Statement statement = connection.createStatement()) {
            facts.rows("executions", () -> statement.executeQuery(
                    "SELECT statement, count(*) FROM system.queries WHERE statement LIKE '%" + notes + "%'"
                    + " AND statement NOT LIKE 'SELECT%' GROUP BY statement ORDER BY statement"));
        }
    }

    private void refused() throws Exception {
        try (Statement statement = connection.createStatement()) {
            facts.of("NULL as key", () -> statement.executeUpdate("INSERT INTO " + notes + " VALUES (NULL, 'x', 1)"));
            facts.of("an unknown column", () -> statement.executeUpdate("INSERT INTO " + notes + " (nope) VALUES (1)"));
            facts.of("an unknown table", () -> statement.executeUpdate("DELETE FROM nowhere WHERE id = 1"));
            facts.of("a value of another type", () -> statement.executeUpdate("INSERT INTO " + notes + " (id) VALUES ('x')"));
            facts.of("INSERT as a query", () -> statement.executeQuery("INSERT INTO " + notes + " VALUES (30, 'x', 1)"));
            facts.of("SELECT as an update", () -> statement.executeUpdate("SELECT 1"));
        }
        try (PreparedStatement statement = connection.prepareStatement("INSERT INTO " + notes + " (id, text) VALUES (?, ?)")) {
            for (long id = 20_000; id < 20_003; id++) {
                if (id == 20_001) {
                    statement.setNull(1, Types.BIGINT);
                } else {
                    statement.setLong(1, id);
                }
                statement.setString(2, "x");
                statement.addBatch();
            }
            facts.of("a batch with a NULL as key", () -> {
                try {
                    return statement.executeBatch();
                } catch (BatchUpdateException failure) {
                    facts.value("its counts", Arrays.stream(failure.getUpdateCounts()).boxed().toList());
                    throw failure;
                }
            });
        }
        facts.of("what it left", () -> one("SELECT count(*) FROM " + notes + " WHERE id >= 20000"));
    }

    private void stored(String column, Binding binding) {
        long id = next++;
        facts.of("stored " + column, () -> {
            insert(column, id, binding);
            return one("SELECT count(*) FROM " + typed + " w JOIN types t ON w." + column + " = t." + column
                    + " WHERE t.id = 1 AND w.id = " + id);
        });
    }

    private void insert(String column, long id, Binding binding) throws Exception {
        String insert = "INSERT INTO " + typed + " (id, " + column + ") VALUES (?, ?)";
        try (PreparedStatement statement = connection.prepareStatement(insert)) {
            statement.setLong(1, id);
            binding.bind(statement);
            if (statement.executeUpdate() != 1) {
                throw new IllegalStateException("not one row");
            }
        }
    }

    private Object one(String query) throws Exception {
        try (Statement statement = connection.createStatement(); ResultSet result = statement.executeQuery(query)) {
            result.next();
            return result.getObject(1);
        }
    }
}
